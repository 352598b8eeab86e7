//! Replay where operations are logged one by one: ARIES.
//!
//! The streams are merged by log sequence number, and history is repeated: every change is made again, those of
//! transactions that were rolled back too, and their compensations. The transaction table follows it, as it did when
//! the log was written; at the end of the log it holds the *losers*, those that had neither committed nor been rolled
//! back. Their changes are undone, the last one first.
//!
//! - Analysis is a part of the redo pass: there are no pages on disk that could tell it where to begin, so both read
//!   the same log from its beginning.
//! - Undoing writes nothing. A generation of the log that was read is sealed, so its losers are losers for ever, and
//!   every recovery undoes them in memory before the next generation is replayed. A crash in the middle of a recovery
//!   leaves nothing that the next one would have to know.
//! - A loser's change is undone only if nobody has changed the record since. Whoever did had its lock, so the loser had
//!   been rolled back by then; under normal release, or when the disk was full, its compensations may be missing.
//!
//! Paper: pwal §4.3.3, §5.3, §5.6, Algorithm 4

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use namiki_log::{CutRule, GenerationInfo, LogRecord, Merge};
use namiki_platform::{Generation, Lsn};

use super::apply::Tables;
use super::{Last, Outcome, Replay, outcome};
use crate::error::OpenError;
use crate::operation::{Image, Operation};
use crate::record::{AddressHasher, RecordRef};
use crate::space::TableId;

impl Replay<'_, '_> {
    /// Replays a generation of operations.
    pub(super) fn operations(&self, info: &GenerationInfo) -> Result<Outcome, OpenError> {
        let streams = self.open_all(info)?;
        let sealed = info.seal.as_ref().map(|seal| seal.last_lsn);
        let mut merge = match info.cut {
            CutRule::Lsn => Merge::by_lsn(streams, info.first_lsn, sealed),
            CutRule::Stamp | CutRule::Epoch => Merge::by_lsn_with_gaps(streams),
        };
        let mut table = TransactionTable {
            tables: self.tables,
            generation: info.generation,
            live: HashMap::new(),
            owners: HashMap::default(),
        };
        while let Some(record) = merge.next_record().map_err(OpenError::Log)? {
            let committed = table.redo(&record)?;
            self.advance(record.payload.len() as u64, committed.into())?;
        }
        let end = merge.finish_with::<OpenError>(|bytes| self.advance(bytes, 0))?;
        let undone = table.undo();
        let last = match info.cut {
            CutRule::Lsn => Last {
                lsn: end.last_lsn,
                ..Last::default()
            },
            CutRule::Stamp | CutRule::Epoch => Last::default(),
        };
        Ok(Outcome {
            undone,
            ..outcome(info, last, end.dropped, end.streams)
        })
    }
}

/// A change that was made again, and may have to be undone.
struct Step {
    lsn: Lsn,
    record: RecordRef,
    before: Option<Box<[u8]>>,
    /// Another transaction has changed the record since: this one was rolled back before.
    is_past: bool,
}

/// The transactions that have begun and not ended, and what they have changed.
struct TransactionTable<'a, 't> {
    tables: &'a Tables<'t>,
    generation: Generation,
    /// By their numbers: their changes that are not undone, the oldest first.
    live: HashMap<Lsn, Vec<Step>>,
    /// Who changed a record last, and may have ended since.
    owners: HashMap<RecordRef, Lsn, BuildHasherDefault<AddressHasher>>,
}

impl TransactionTable<'_, '_> {
    /// Does again what was done. Returns whether a transaction has committed.
    fn redo(&mut self, record: &LogRecord<'_>) -> Result<bool, OpenError> {
        let generation = self.generation;
        let broken = |why: String| OpenError::BrokenTransaction {
            generation,
            lsn: record.lsn,
            why,
        };
        let operation =
            Operation::decode(record.payload).map_err(|error| broken(error.to_string()))?;
        let unknown = |xid| broken(format!("its transaction, {xid}, has not begun"));
        match operation {
            Operation::Begin => {
                self.live.insert(record.lsn, Vec::new());
            }
            Operation::Update {
                xid,
                undo_next,
                table,
                key,
                before,
                after,
            } => {
                let target = self.change(xid, table, key, after).map_err(broken)?;
                let steps = self.live.get_mut(&xid).ok_or_else(|| unknown(xid))?;
                if last(steps) != undo_next {
                    return Err(broken(format!(
                        "it follows {undo_next}, and the one before it is {}",
                        last(steps)
                    )));
                }
                steps.push(Step {
                    lsn: record.lsn,
                    record: target,
                    before: before.map(Into::into),
                    is_past: false,
                });
            }
            Operation::Compensation {
                xid,
                undo_next,
                table,
                key,
                after,
            } => {
                self.change(xid, table, key, after).map_err(broken)?;
                let steps = self.live.get_mut(&xid).ok_or_else(|| unknown(xid))?;
                let undone = steps.pop();
                if undone.is_none() || last(steps) != undo_next {
                    return Err(broken(format!(
                        "it leaves {undo_next} to be undone next, and that is {}",
                        last(steps)
                    )));
                }
            }
            Operation::End { xid } => {
                let steps = self.live.remove(&xid).ok_or_else(|| unknown(xid))?;
                for step in steps {
                    self.tables.stamp(step.record, record.stamp);
                    self.owners.remove(&step.record);
                }
                return Ok(true);
            }
            Operation::Abort { xid } => {
                let steps = self.live.remove(&xid).ok_or_else(|| unknown(xid))?;
                if !steps.is_empty() {
                    return Err(broken(format!("{} is not undone", last(&steps))));
                }
            }
        }
        Ok(false)
    }

    /// Gives a key its value, as transaction `xid` did.
    fn change(
        &mut self,
        xid: Lsn,
        table: TableId,
        key: &[u8],
        value: Image<'_>,
    ) -> Result<RecordRef, String> {
        let record = self.tables.record(table, key)?;
        if let Some(before) = self.owners.insert(record, xid)
            && before != xid
            && let Some(steps) = self.live.get_mut(&before)
        {
            let of_this = steps.iter_mut().filter(|step| step.record == record);
            of_this.for_each(|step| step.is_past = true);
        }
        self.tables.overwrite(record, value);
        Ok(record)
    }

    /// Undoes what the losers did, the last change first. Returns how many they were.
    fn undo(self) -> u64 {
        let losers = self.live.len() as u64;
        let mut steps: Vec<_> = self.live.into_values().flatten().collect();
        steps.sort_unstable_by_key(|step| std::cmp::Reverse(step.lsn));
        for step in steps.into_iter().filter(|step| !step.is_past) {
            self.tables.overwrite(step.record, step.before.as_deref());
        }
        losers
    }
}

fn last(steps: &[Step]) -> Lsn {
    steps.last().map_or(Lsn(0), |step| step.lsn)
}

#[cfg(test)]
mod tests {
    use namiki_index::{IndexKind, TreeKind};
    use namiki_platform::Stamp;
    use std::sync::Arc;

    use super::*;
    use crate::format::RecordFormat;
    use crate::space::{Owner, Space, TableInfo};
    use crate::spec::ConcurrencyControl;

    const TABLE: TableId = TableId(0);

    /// Replays operations with the LSNs from 1 on, until one is refused.
    fn replay(operations: &[Operation<'_>]) -> Result<u64, OpenError> {
        let info = TableInfo {
            id: TABLE,
            name: "t".to_owned(),
            key_type: String::new(),
            value_type: String::new(),
            fixed_keys: false,
            inline_bytes: 8,
        };
        let index = IndexKind::Ordered(TreeKind::default());
        let spaces = [Arc::new(Space::new(info, index, Owner::new()))];
        let tables = Tables::new(&spaces, ConcurrencyControl::TwoPhase);
        let mut table = TransactionTable {
            tables: &tables,
            generation: Generation(1),
            live: HashMap::new(),
            owners: HashMap::default(),
        };
        for (lsn, operation) in (1..).map(Lsn).zip(operations) {
            let mut payload = vec![0; operation.encoded_bytes(RecordFormat::Compact)];
            operation.encode(&mut payload);
            let stamp = Stamp(lsn.0);
            table.redo(&LogRecord {
                stamp,
                lsn,
                payload: &payload,
            })?;
        }
        Ok(table.undo())
    }

    fn update(xid: u64, undo_next: u64) -> Operation<'static> {
        Operation::Update {
            xid: Lsn(xid),
            undo_next: Lsn(undo_next),
            table: TABLE,
            key: b"k",
            before: None,
            after: Some(b"v"),
        }
    }

    fn compensation(xid: u64, undo_next: u64) -> Operation<'static> {
        Operation::Compensation {
            xid: Lsn(xid),
            undo_next: Lsn(undo_next),
            table: TABLE,
            key: b"k",
            after: None,
        }
    }

    #[test]
    fn operations_that_follow_from_each_other_are_replayed() {
        use Operation::{Abort, Begin, End};
        let (end, abort) = (End { xid: Lsn(1) }, Abort { xid: Lsn(1) });
        let told: [(&[Operation<'_>], u64); 6] = [
            (&[], 0),
            (&[Begin], 1),
            (&[Begin, update(1, 0), update(1, 2), end], 0),
            (
                &[Begin, update(1, 0), compensation(1, 0), update(1, 0), end],
                0,
            ),
            (
                &[
                    Begin,
                    update(1, 0),
                    update(1, 2),
                    compensation(1, 2),
                    compensation(1, 0),
                    abort,
                ],
                0,
            ),
            (&[Begin, update(1, 0), update(1, 2), compensation(1, 2)], 1),
        ];
        for (operations, losers) in told {
            assert_eq!(replay(operations).unwrap(), losers, "{operations:?}");
        }
    }

    #[test]
    fn operations_that_do_not_are_refused_with_a_reason() {
        use Operation::{Abort, Begin, End};
        let (end, abort) = (End { xid: Lsn(1) }, Abort { xid: Lsn(1) });
        let elsewhere = Operation::Update {
            xid: Lsn(1),
            undo_next: Lsn(0),
            table: TableId(7),
            key: b"k",
            before: None,
            after: None,
        };
        let refused: [(&[Operation<'_>], &str); 9] = [
            (&[update(1, 0)], "has not begun"),
            (&[end], "has not begun"),
            (&[abort], "has not begun"),
            (&[Begin, end, update(1, 0)], "has not begun"),
            (&[Begin, update(1, 9)], "it follows"),
            (&[Begin, update(1, 0), update(1, 0)], "it follows"),
            (&[Begin, compensation(1, 0)], "undone next"),
            (
                &[Begin, update(1, 0), update(1, 2), compensation(1, 0)],
                "undone next",
            ),
            (&[Begin, elsewhere], "table 7"),
        ];
        for (operations, why) in refused {
            let error = replay(operations).unwrap_err();
            assert!(matches!(error, OpenError::BrokenTransaction { .. }));
            assert!(error.to_string().contains(why), "{operations:?}: {error}");
        }
        let unfinished = replay(&[Begin, update(1, 0), abort]).unwrap_err();
        assert!(unfinished.to_string().contains("is not undone"));
    }
}
