//! Installing the after-images of committed groups.
//!
//! The keys of a group that another node has executed are looked up: the misses of sixteen keys
//! overlap, and then those of all records. A group of this node has its records in its locks. All
//! changes are checked before the first is installed.
//!
//! Paper: raft-pwal §3.3, algorithm 3

use std::sync::Arc;

use namiki_index::{IndexError, Lookup};
use namiki_platform::Stamp;

use super::changes::{Run, Runs};
use super::error::ReplicaError;
use super::held_locks::{HeldLocks, PREFETCHED};
use super::row_lock::{self, FREE};
use super::{Replica, Tables};
use crate::storage::arena::LockedWord;
use crate::storage::record::RecordRef;
use crate::table::raw_table::{BATCH_KEYS_MAX, RawTable, Resolved};

/// The numbers of changes that a group has applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// The number of rows that they change.
    pub rows: usize,
}

/// The applied position of the log; and buffers.
#[derive(Default)]
pub(super) struct ApplyState {
    /// The stamp of the last group.
    pub(super) through: Stamp,
    /// The records of the group that is applied.
    records: Vec<RecordRef>,
    lookups: Vec<Lookup>,
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
        let mut state = self.applied.write();
        state.check(stamp)?;
        let tables = self.tables.read();
        let rows = check(&tables, changes)?;
        let ApplyState {
            records, lookups, ..
        } = &mut *state;
        records.clear();
        for run in Runs::new(changes) {
            let run = run?;
            resolve(table_of(&tables, &run)?, &run, lookups, records)
                .map_err(|_| ReplicaError::TableFull(run.shape.table))?;
        }
        install(stamp, changes, records, |_| {})?;
        state.through = stamp;
        Ok(Applied { rows })
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
        let mut state = replica.applied.write();
        state.check(stamp)?;
        let rows = check(&replica.tables.read(), changes)?;
        if rows != self.changed {
            return Err(ReplicaError::OtherGroup {
                changes: rows,
                locked: self.changed,
            });
        }
        // The group is committed, so its rows are released one by one.
        install(stamp, changes, &self.records[..rows], row_lock::unlock)?;
        self.released = rows;
        state.through = stamp;
        Ok(Applied { rows })
    }
}

impl ApplyState {
    fn check(&self, stamp: Stamp) -> Result<(), ReplicaError> {
        if stamp > Stamp::MAX {
            return Err(ReplicaError::StampTooLarge(stamp));
        }
        if stamp <= self.through {
            return Err(ReplicaError::NotInOrder {
                stamp,
                applied: self.through,
            });
        }
        Ok(())
    }
}

/// Checks a group's changes for every error except a full table; returns the number of rows.
fn check(tables: &Tables, changes: &[u8]) -> Result<usize, ReplicaError> {
    let mut rows = 0;
    for run in Runs::new(changes) {
        let run = run?;
        let (key, _) = run.rows().next().unwrap_or_default();
        if table_of(tables, &run)?.check_key(key).is_err() {
            let why = "a key does not fit its table";
            return Err(ReplicaError::Undecodable { at: run.at, why });
        }
        rows += run.rows;
    }
    Ok(rows)
}

fn table_of<'a>(tables: &'a Tables, run: &Run<'_>) -> Result<&'a RawTable, ReplicaError> {
    let id = run.shape.table;
    let table = tables.get(&id).ok_or(ReplicaError::NoSuchTable(id))?;
    Ok(table)
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
                Err(_) => match raw_table.create_record(key, LockedWord::unused(FREE))? {
                    Resolved::Found(record) | Resolved::New { record, .. } => record,
                },
            };
            records.push(record);
        }
    }
}

/// Installs checked changes in their records.
fn install(
    stamp: Stamp,
    changes: &[u8],
    records: &[RecordRef],
    installed: impl Fn(RecordRef),
) -> Result<(), ReplicaError> {
    for record in records.iter().take(PREFETCHED) {
        record.prefetch_value(size_of::<u64>());
    }
    let mut ahead = records.iter().skip(PREFETCHED);
    let mut records = records.iter();
    for run in Runs::new(changes) {
        let run = run?;
        for ((_, value), record) in run.rows().zip(records.by_ref()) {
            if let Some(ahead) = ahead.next() {
                ahead.prefetch_value(size_of::<u64>());
            }
            record.install_newer(value, stamp);
            installed(*record);
        }
    }
    Ok(())
}
