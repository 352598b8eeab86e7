//! Installing the after-images of committed groups.
//!
//! The keys of a group that another node has executed are looked up: the misses of sixteen keys
//! overlap, and then those of all records. A group of this node has its records in its locks. All
//! changes are checked before the first is installed. What a view may see of the rows is kept before.
//!
//! Paper: raft-pwal §3.3, algorithm 3

use std::collections::BTreeMap;
use std::sync::Arc;

use namiki_index::{IndexError, Lookup};
use namiki_platform::{Epoch, Stamp};

use super::changes::{Run, Runs};
use super::error::ReplicaError;
use super::held_locks::{HeldLocks, PREFETCHED};
use super::row_lock::{self, REMOVER};
use super::{RESERVED, Replica};
use crate::commit::views::{Overwritten, SeenViews};
use crate::storage::arena::LockedWord;
use crate::storage::record::RecordRef;
use crate::table::raw_table::{BATCH_KEYS_MAX, RawTable, Resolved, TableId};

/// The numbers of changes that a group has applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// The number of rows that they change, without those of tables that were dropped before.
    pub rows: usize,
}

/// What the applier keeps from one group to the next.
#[derive(Default)]
pub(super) struct Applier {
    /// The tables of the catalogue.
    pub(super) tables: BTreeMap<TableId, Arc<RawTable>>,
    /// No table has had this number or a larger one.
    pub(super) next_table: TableId,
    /// The records of the group that is applied.
    records: Vec<RecordRef>,
    lookups: Vec<Lookup>,
    pub(super) seen_views: SeenViews,
}

/// Table, key, new value, and the key's record.
pub(super) type ChangedRow<'r> = (TableId, &'r [u8], Option<&'r [u8]>, RecordRef);

/// The numbers of rows in a group's changes.
struct Counted {
    rows: usize,
    /// Those of tables that were dropped.
    dropped: usize,
}

impl Replica {
    /// Installs a group's changes as the versions of this stamp: the LSN of the group. Groups come in the order of their
    /// stamps. Locks are neither asked for nor changed: the caller applies committed groups only, and no group that has rows of
    /// theirs locked will ever be committed. (The groups of this node are applied by [`HeldLocks::install`].)
    ///
    /// A key is in the changes of a group once. If it is there twice, the first counts.
    ///
    /// # Errors
    /// [`ReplicaError`]. Nothing was changed.
    pub fn apply(&self, stamp: Stamp, changes: &[u8]) -> Result<Applied, ReplicaError> {
        let applier = &mut *self.applier.lock();
        self.check_stamp(stamp)?;
        let counted = applier.check(changes)?;
        applier.records.clear();
        for run in Runs::new(changes) {
            let run = run?;
            if let Some(raw_table) = applier.tables.get(&run.shape.table) {
                resolve(raw_table, &run, &mut applier.lookups, &mut applier.records)
                    .map_err(|_| ReplicaError::TableFull(run.shape.table))?;
            }
        }
        let records = std::mem::take(&mut applier.records);
        self.install(applier, stamp, changes, &records, |_| {});
        applier.records = records;
        Ok(Applied {
            rows: counted.rows - counted.dropped,
        })
    }

    /// The entries through this one have no changes, or were applied otherwise: views show them from now on.
    ///
    /// # Errors
    /// [`ReplicaError::NotInOrder`], [`ReplicaError::StampTooLarge`].
    pub fn pass(&self, stamp: Stamp) -> Result<(), ReplicaError> {
        let _applier = self.applier.lock();
        self.check_stamp(stamp)?;
        *self.installed().write() = stamp;
        Ok(())
    }

    fn check_stamp(&self, stamp: Stamp) -> Result<(), ReplicaError> {
        if stamp > Stamp::MAX {
            return Err(ReplicaError::StampTooLarge(stamp));
        }
        let applied = self.applied_through();
        if stamp <= applied {
            return Err(ReplicaError::NotInOrder { stamp, applied });
        }
        Ok(())
    }

    /// Installs checked changes in the records of the tables that are there.
    fn install(
        &self,
        applier: &mut Applier,
        stamp: Stamp,
        changes: &[u8],
        records: &[RecordRef],
        installed: impl Fn(RecordRef),
    ) {
        for record in records.iter().take(PREFETCHED) {
            record.prefetch_value(size_of::<u64>());
        }
        let (tables, seen) = (&applier.tables, &mut applier.seen_views);
        let rows = || rows_with_records(tables, changes, records);
        let mut through = self.installed().write();
        let mut ahead = records.iter().skip(PREFETCHED);
        let deleted = self.install_rows(seen, stamp, records, rows, |record| {
            if let Some(ahead) = ahead.next() {
                ahead.prefetch_value(size_of::<u64>());
            }
            installed(record);
        });
        *through = stamp;
        drop(through);
        if deleted {
            self.note_deleted(stamp, rows());
        }
        self.engine().views.enforce_limit(&self.engine().epochs);
    }

    /// Installs versions of this stamp in the records of these rows, and keeps for views what they overwrite. The caller has
    /// [`Replica::installed`] locked for writing. Returns whether keys are deleted, which it
    /// [notes](Self::note_deleted) then.
    pub(super) fn install_rows<'r, I: Iterator<Item = ChangedRow<'r>>>(
        &self,
        seen_views: &mut SeenViews,
        stamp: Stamp,
        records: &[RecordRef],
        rows: impl Fn() -> I,
        mut installed: impl FnMut(RecordRef),
    ) -> bool {
        let engine = self.engine();
        let (views, epochs, epoch) = (&engine.views, &engine.epochs, Epoch(stamp.0));
        let mut ahead = records.iter().skip(PREFETCHED);
        let with_prefetch = records.iter().map(|record| {
            if let Some(ahead) = ahead.next() {
                ahead.prefetch_value(size_of::<u64>());
            }
            *record
        });
        // Most groups overwrite nothing that a view sees: their rows need not be read for that.
        if views.may_see_any(epochs, epoch, with_prefetch, seen_views) {
            let overwritten =
                rows().map(|(table, key, _, record)| Overwritten { record, table, key });
            // The applier is the one committer.
            views.keep_overwritten(epochs, (0, epoch), overwritten, seen_views);
        }
        let mut deleted = false;
        for (_, _, value, record) in rows() {
            record.install_newer(value, stamp);
            deleted |= value.is_none();
            installed(record);
        }
        deleted
    }

    /// Those of these rows that have no value may leave the index.
    pub(super) fn note_deleted<'r>(
        &self,
        stamp: Stamp,
        rows: impl Iterator<Item = ChangedRow<'r>>,
    ) {
        let deleted = rows.filter(|(_, _, value, _)| value.is_none());
        let deleted = deleted.map(|(table, key, _, record)| (table, record, stamp, key));
        self.engine().removed_keys.note(Epoch(stamp.0), deleted);
    }
}

impl HeldLocks {
    /// Does what [`Replica::apply`] does, for the group that holds these locks, and releases them.
    /// No index look-up is needed: the locks know the records.
    ///
    /// # Errors
    /// [`ReplicaError`]. Nothing was changed, and the locks are released.
    pub fn install(mut self, stamp: Stamp, changes: &[u8]) -> Result<Applied, ReplicaError> {
        let replica = Arc::clone(&self.replica);
        let applier = &mut *replica.applier.lock();
        replica.check_stamp(stamp)?;
        let Counted { rows, dropped } = applier.check(changes)?;
        if rows != self.changed {
            return Err(ReplicaError::OtherGroup {
                changes: rows,
                locked: self.changed,
            });
        }
        if dropped > 0 {
            self.set_dropped_apart(&applier.tables, changes)?;
        }
        let rows = rows - dropped;
        // The group is committed, so its rows are released one by one.
        let records = &self.records[..rows];
        replica.install(applier, stamp, changes, records, row_lock::unlock);
        self.released = rows;
        Ok(Applied { rows })
    }

    /// Moves the records of dropped tables behind those that are installed.
    fn set_dropped_apart(
        &mut self,
        tables: &BTreeMap<TableId, Arc<RawTable>>,
        changes: &[u8],
    ) -> Result<(), ReplicaError> {
        let mut records = std::mem::take(&mut self.records).into_iter();
        let (mut kept, mut dropped) = (Vec::with_capacity(records.len()), Vec::new());
        let mut outcome = Ok(());
        for run in Runs::new(changes) {
            match run {
                Ok(run) if tables.contains_key(&run.shape.table) => {
                    kept.extend(records.by_ref().take(run.rows));
                }
                Ok(run) => dropped.extend(records.by_ref().take(run.rows)),
                Err(error) => outcome = Err(error),
            }
        }
        kept.append(&mut dropped);
        kept.extend(records);
        self.records = kept;
        outcome
    }
}

impl Applier {
    /// Checks a group's changes for every error except a full table, and counts their rows.
    fn check(&self, changes: &[u8]) -> Result<Counted, ReplicaError> {
        let mut counted = Counted {
            rows: 0,
            dropped: 0,
        };
        for run in Runs::new(changes) {
            let run = run?;
            let id = run.shape.table;
            match self.tables.get(&id) {
                Some(table) if id != RESERVED => {
                    let (key, _) = run.rows().next().unwrap_or_default();
                    if table.check_key(key).is_err() {
                        let why = "a key does not fit its table";
                        return Err(ReplicaError::Undecodable { at: run.at, why });
                    }
                }
                None if id < self.next_table => counted.dropped += run.rows,
                _ => return Err(ReplicaError::NoSuchTable(id)),
            }
            counted.rows += run.rows;
        }
        Ok(counted)
    }
}

/// The rows of the tables that are there, in the order of the changes.
fn rows_with_records<'c>(
    tables: &BTreeMap<TableId, Arc<RawTable>>,
    changes: &'c [u8],
    records: &[RecordRef],
) -> impl Iterator<Item = ChangedRow<'c>> {
    // They were checked.
    let runs = Runs::new(changes).map_while(Result::ok);
    let runs = runs.filter(|run| tables.contains_key(&run.shape.table));
    let rows = runs.flat_map(|run| {
        let table = run.shape.table;
        run.rows().map(move |(key, value)| (table, key, value))
    });
    rows.zip(records)
        .map(|((table, key, value), record)| (table, key, value, *record))
}

/// Appends the records of a run's keys; creates missing ones, absent and not locked.
fn resolve(
    raw_table: &RawTable,
    run: &Run<'_>,
    lookups: &mut Vec<Lookup>,
    records: &mut Vec<RecordRef>,
) -> Result<(), IndexError> {
    let mut rows = run.rows();
    loop {
        let mut keys: [&[u8]; BATCH_KEYS_MAX] = [&[]; BATCH_KEYS_MAX];
        let mut count = 0;
        for (place, (key, _)) in keys.iter_mut().zip(rows.by_ref().take(BATCH_KEYS_MAX)) {
            *place = key;
            count += 1;
        }
        let keys = &keys[..count];
        if keys.is_empty() {
            return Ok(());
        }
        raw_table.find_all(keys, lookups)?;
        for (key, lookup) in keys.iter().zip(&*lookups) {
            let record = match RawTable::found(*lookup) {
                Ok(record) => record,
                Err(_) => create(raw_table, key)?,
            };
            records.push(record);
        }
    }
}

/// A record for a key that was not there a moment ago: absent, and not locked when this returns.
pub(super) fn create(raw_table: &RawTable, key: &[u8]) -> Result<RecordRef, IndexError> {
    // It enters the index locked, as those that groups make do: the arena may take back what another thread was faster with.
    let locked = LockedWord::unused(row_lock::locked(REMOVER, 0));
    Ok(match raw_table.create_record(key, locked)? {
        Resolved::Found(record) => record,
        Resolved::New { record, .. } => {
            row_lock::unlock(record);
            record
        }
    })
}
