//! Replay where operations are logged one by one: ARIES.
//!
//! The streams are merged by log sequence number, and history is repeated: every change is redone,
//! including those of transactions that were rolled back, and their compensations. The transaction
//! table follows it, as it did when the log was written; at the end of the log it holds the
//! *losers*, those that had neither committed nor been rolled back. Their changes are undone, the
//! last one first.
//!
//! - Analysis is a part of the redo pass: there are no pages on disk that could tell it where to begin, so both
//!   read the same log from its beginning.
//! - Undo writes no log. A generation of the log that was read is sealed, so its losers stay
//!   losers, and every recovery undoes them in memory before the next generation is replayed. A
//!   crash in the middle of a recovery leaves no state that the next one needs.
//! - A loser's change is undone only if the loser was the last to change the record. A later writer
//!   had its lock, so the loser had been rolled back by then, and never came back; under normal
//!   release, or when the disk was full, its compensations may be missing. So only the last change
//!   of each record has to be known, and transactions that ended long ago are not examined again.
//!
//! Where there is an image, or a backup ends at a stamp, none of this is needed: see `winners.rs`.
//!
//! Paper: pwal §4.3.3, §5.3, §5.6, Algorithm 4

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use namiki_log::{CutRule, GenerationInfo, LogRecord, Merge, MergeEnd};
use namiki_platform::{Generation, Lsn, Stamp};

use super::apply::Tables;
use super::replay_context::{Last, Outcome, Replay, outcome};
use crate::error::OpenError;
use crate::storage::record::{AddressHasher, RecordRef};
use crate::table::raw_table::TableId;
use crate::wal_format::aries_operation::{Image, Operation};
use crate::wal_format::restore_point::RestorePoint;
use crate::wal_format::transaction_table::{Followed, TransactionTable};

impl Replay<'_, '_> {
    /// Replays a generation of operations.
    pub(in crate::recovery) fn operations(
        &self,
        info: &GenerationInfo,
    ) -> Result<Outcome, OpenError> {
        // Commits beyond a backup's last stamp have no order in which they could be undone. An
        // image with no commit may have freed the log of transactions that were rolled back before
        // the first commit.
        let is_recycled = info.complete_from > Lsn(0);
        if self.image_stamp > Stamp(0) || is_recycled || info.last_stamp.is_some() {
            return self.winners(info);
        }
        let mut history = History {
            tables: self.tables,
            generation: info.generation,
            table: TransactionTable::default(),
            owners: HashMap::default(),
        };
        let end = self.merge_operations(info, |record| history.redo(record))?;
        let outcome = operations_outcome(info, end, 0);
        let undone = history.undo();
        Ok(Outcome { undone, ..outcome })
    }

    /// Passes the operations to `redo`, in the order of their LSNs, which returns whether a transaction was replayed with
    /// this one.
    pub(in crate::recovery) fn merge_operations(
        &self,
        info: &GenerationInfo,
        mut redo: impl FnMut(&LogRecord<'_>) -> Result<bool, OpenError>,
    ) -> Result<MergeEnd, OpenError> {
        let streams = self.open_all(info)?;
        let sealed = info.seal.as_ref().map(|seal| seal.last_lsn);
        let mut merge = match info.cut {
            CutRule::Lsn => Merge::by_lsn(streams, info.complete_lsn(), sealed),
            CutRule::Stamp | CutRule::Epoch => Merge::by_lsn_with_gaps(streams),
        };
        while let Some(record) = merge.next_record().map_err(OpenError::Log)? {
            let is_replayed = redo(&record)?;
            self.advance(record.payload.len() as u64, is_replayed.into())?;
        }
        merge.finish_with::<OpenError>(|bytes| self.advance(bytes, 0))
    }
}

/// The outcome of a generation of operations, without the undone ones.
pub(in crate::recovery) fn operations_outcome(
    info: &GenerationInfo,
    end: MergeEnd,
    in_image: u64,
) -> Outcome {
    let last = match info.cut {
        CutRule::Lsn => Last {
            lsn: end.last_lsn,
            ..Last::default()
        },
        CutRule::Stamp | CutRule::Epoch => Last::default(),
    };
    outcome(info, last, (end.dropped, in_image), end.streams)
}

/// A redone change, which may have to be undone.
struct Step {
    /// `None` if its table was dropped later.
    record: Option<RecordRef>,
    before: Option<Box<[u8]>>,
}

/// History while it is repeated.
struct History<'a, 't> {
    tables: &'a Tables<'t>,
    generation: Generation,
    table: TransactionTable<Step>,
    /// The last transaction that changed a record, if it has not committed: a loser unless a commit follows.
    owners: HashMap<RecordRef, Lsn, BuildHasherDefault<AddressHasher>>,
}

impl History<'_, '_> {
    /// Redoes one logged operation. Returns whether a transaction with changes has committed.
    fn redo(&mut self, log_record: &LogRecord<'_>) -> Result<bool, OpenError> {
        if RestorePoint::decode(log_record.payload).is_some() {
            return Ok(false);
        }
        let (generation, lsn) = (self.generation, log_record.lsn);
        let broken = |why: String| OpenError::BrokenTransaction {
            generation,
            lsn,
            why,
        };
        let decoded = Operation::decode(log_record.payload);
        let operation = decoded.map_err(|error| broken(error.to_string()))?;
        let mut step = None;
        match operation {
            Operation::Update {
                xid,
                table,
                key,
                before,
                after,
                ..
            } => {
                step = Some(Step {
                    record: self.change(xid, table, key, after).map_err(broken)?,
                    before: before.map(Into::into),
                });
            }
            Operation::Compensation {
                xid,
                table,
                key,
                after,
                ..
            } => {
                self.change(xid, table, key, after).map_err(broken)?;
            }
            Operation::Begin | Operation::End { .. } | Operation::Abort { .. } => {}
        }
        let kept = || match step {
            Some(step) => step,
            None => unreachable!("it is asked for of updates, which have one"),
        };
        match self.table.follow(lsn, &operation, kept).map_err(broken)? {
            Followed::Committed(steps) => {
                // A logged transaction that only read has none.
                let has_changed = !steps.is_empty();
                for record in steps.into_iter().filter_map(|step| step.record) {
                    self.tables.stamp(record, log_record.stamp);
                    // It had the lock until now, so it is the owner, and earlier changes are never
                    // undone.
                    self.owners.remove(&record);
                }
                Ok(has_changed)
            }
            _ => Ok(false),
        }
    }

    /// Redoes transaction `xid`'s change of a key. Does nothing if its table was dropped later.
    fn change(
        &mut self,
        xid: Lsn,
        table: TableId,
        key: &[u8],
        value: Image<'_>,
    ) -> Result<Option<RecordRef>, String> {
        let record = self.tables.record(table, key)?;
        if let Some(record) = record {
            self.owners.insert(record, xid);
            self.tables.overwrite(record, value);
        }
        Ok(record)
    }

    /// Undoes the losers' changes, the last one first. Returns the number of losers.
    fn undo(self) -> u64 {
        let losers = self.table.len() as u64;
        for (xid, step) in self.table.into_losses() {
            if let Some(record) = step.record
                && self.owners.get(&record) == Some(&xid)
            {
                self.tables.overwrite(record, step.before.as_deref());
            }
        }
        losers
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::protocol_spec::ConcurrencyControl;
    use crate::storage::index::IndexKind;
    use crate::table::raw_table::{Owner, RawTable, TableInfo};
    use crate::wal_format::encoding_primitives::RecordFormat;

    /// Repeats operations, with the LSNs from 1 on.
    struct Story<'a, 't> {
        history: History<'a, 't>,
        lsn: u64,
        /// The LSN of each transaction's last change. No transaction rolls back.
        last: HashMap<Lsn, Lsn>,
    }

    impl Story<'_, '_> {
        fn tell(&mut self, operation: Operation<'_>) -> Lsn {
            self.lsn += 1;
            let (stamp, lsn) = (Stamp(self.lsn), Lsn(self.lsn));
            let mut payload = vec![0; operation.encoded_bytes(RecordFormat::Compact)];
            operation.encode(&mut payload);
            let payload = &payload[..];
            let log_record = LogRecord {
                stamp,
                lsn,
                payload,
            };
            self.history.redo(&log_record).unwrap();
            lsn
        }

        fn begin(&mut self) -> Lsn {
            self.tell(Operation::Begin)
        }

        fn update(&mut self, xid: Lsn, key: u64, before: Image<'_>, after: Image<'_>) {
            let undo_next = self.last.get(&xid).copied().unwrap_or(Lsn(0));
            let lsn = self.tell(Operation::Update {
                xid,
                undo_next,
                table: TableId(0),
                key: &key.to_be_bytes(),
                before,
                after,
            });
            self.last.insert(xid, lsn);
        }
    }

    /// A large transaction was rolled back when the log had no room for that, and all that it had changed was
    /// changed by other transactions then, some of which were rolled back, too.
    #[test]
    fn only_the_last_loser_of_a_key_is_undone() {
        const KEYS: u64 = 500;
        let info = TableInfo {
            id: TableId(0),
            name: "t".to_owned(),
            key_type: "u64".to_owned(),
            value_type: "bytes".to_owned(),
            fixed_keys: true,
            inline_bytes: 16,
            layout: None,
        };
        let raw_table = RawTable::new(info, IndexKind::default(), Owner::new()).unwrap();
        let raw_tables = [(TableId(0), Arc::new(raw_table))].into();
        let tables = Tables::new(&raw_tables, TableId(1), ConcurrencyControl::TwoPhase);
        let mut story = Story {
            history: History {
                tables: &tables,
                generation: Generation(1),
                table: TransactionTable::default(),
                owners: HashMap::default(),
            },
            lsn: 0,
            last: HashMap::new(),
        };
        let rolled_back = story.begin();
        for key in 0..KEYS {
            story.update(rolled_back, key, None, Some(b"lost"));
            story.update(rolled_back, key, Some(b"lost"), Some(b"lost again"));
        }
        // The last third stays as it was before.
        for key in 0..KEYS * 2 / 3 {
            let xid = story.begin();
            story.update(xid, key, None, Some(b"first"));
            if key < KEYS / 3 {
                story.tell(Operation::End { xid });
                let loser = story.begin();
                story.update(loser, key, Some(b"first"), Some(b"lost"));
            }
        }
        assert_eq!(story.history.undo(), 1 + KEYS * 2 / 3);
        for key in 0..KEYS {
            let mut value = Vec::new();
            let record = tables.record(TableId(0), &key.to_be_bytes()).unwrap();
            let record = record.unwrap();
            let seen = record.copy_if(&mut value, |_| true).unwrap();
            let found = (!seen.absent).then_some(&value[..]);
            let committed = (key < KEYS / 3).then_some(&b"first"[..]);
            assert_eq!(found, committed, "{key}");
        }
    }

    #[test]
    fn an_operation_that_cannot_replay_is_named() {
        let raw_tables = BTreeMap::new();
        let tables = Tables::new(&raw_tables, TableId(0), ConcurrencyControl::TwoPhase);
        let mut history = History {
            tables: &tables,
            generation: Generation(3),
            table: TransactionTable::default(),
            owners: HashMap::default(),
        };
        let mut redo = |lsn, payload: &[u8]| {
            let (stamp, lsn) = (Stamp(0), Lsn(lsn));
            history.redo(&LogRecord {
                stamp,
                lsn,
                payload,
            })
        };
        let encoded = |operation: Operation<'_>| {
            let mut payload = vec![0; operation.encoded_bytes(RecordFormat::Compact)];
            operation.encode(&mut payload);
            payload
        };
        assert!(!redo(1, &encoded(Operation::Begin)).unwrap());
        let nowhere = encoded(Operation::Update {
            xid: Lsn(1),
            undo_next: Lsn(0),
            table: TableId(7),
            key: b"k",
            before: None,
            after: None,
        });
        let unknown = encoded(Operation::End { xid: Lsn(9) });
        for (payload, why) in [
            (&nowhere[..], "table 7"),
            (&unknown, "lsn 9, has not begun"),
            (&[77], "unknown kind 77"),
        ] {
            let told = redo(5, payload).unwrap_err().to_string();
            assert!(told.contains(why) && told.contains("lsn 5"), "{told}");
        }
        // It has changed nothing.
        assert!(!redo(6, &encoded(Operation::End { xid: Lsn(1) })).unwrap());
    }
}
