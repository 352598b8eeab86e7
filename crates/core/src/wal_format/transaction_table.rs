//! The transaction table of ARIES, as it follows a log from its beginning: transactions that have
//! begun and not ended, and their changes that are not undone. A reader of operations in the order
//! of their LSNs passes them to the table, which checks whether each follows from those before it.
//!
//! Paper: pwal §5.3, §5.6

use std::collections::HashMap;

use namiki_platform::Lsn;

use crate::wal_format::aries_operation::Operation;

/// The result of following an operation. `T` is the reader's own state of a change.
#[derive(Debug)]
pub enum Followed<T> {
    /// A transaction has begun.
    Begun,
    /// A change, which was kept.
    Changed,
    /// This change was undone.
    Undone(T),
    /// A transaction has committed, with these changes, the oldest first.
    Committed(Vec<T>),
    /// A transaction has ended that had undone all its changes.
    RolledBack,
    /// It is of a transaction that began before the log does.
    BegunBefore,
}

/// The transactions that have begun and not ended.
#[derive(Debug)]
pub struct TransactionTable<T> {
    /// By their numbers: their changes that are not undone, with their LSNs, the oldest first.
    live: HashMap<Lsn, Vec<(Lsn, T)>>,
    /// Transactions with smaller numbers may have begun in a part of the log that was recycled.
    complete_from: Lsn,
}

impl<T> Default for TransactionTable<T> {
    fn default() -> Self {
        Self {
            live: HashMap::new(),
            complete_from: Lsn(0),
        }
    }
}

impl<T> TransactionTable<T> {
    /// An empty table for a log from which records with LSNs below `complete_from` may be gone.
    #[must_use]
    pub fn of_log_from(complete_from: Lsn) -> Self {
        Self {
            complete_from,
            ..Self::default()
        }
    }

    /// Follows the operation with this LSN; `change` is kept if it is an update.
    ///
    /// # Errors
    /// Why it does not follow from those before it.
    pub fn follow(
        &mut self,
        lsn: Lsn,
        operation: &Operation<'_>,
        change: impl FnOnce() -> T,
    ) -> Result<Followed<T>, String> {
        if let Some(xid) = operation.xid()
            && xid < self.complete_from
            && !self.live.contains_key(&xid)
        {
            return Ok(Followed::BegunBefore);
        }
        let unknown = |xid: &Lsn| format!("its transaction, {xid}, has not begun");
        match operation {
            Operation::Begin => {
                self.live.insert(lsn, Vec::new());
                Ok(Followed::Begun)
            }
            Operation::Update { xid, undo_next, .. } => {
                let changes = self.live.get_mut(xid).ok_or_else(|| unknown(xid))?;
                let before = last(changes);
                if before != *undo_next {
                    return Err(format!(
                        "it follows {undo_next}, and the one before it is {before}"
                    ));
                }
                changes.push((lsn, change()));
                Ok(Followed::Changed)
            }
            Operation::Compensation { xid, undo_next, .. } => {
                let changes = self.live.get_mut(xid).ok_or_else(|| unknown(xid))?;
                let undone = changes.pop();
                match (undone, last(changes)) {
                    (Some((_, undone)), left) if left == *undo_next => Ok(Followed::Undone(undone)),
                    (_, left) => Err(format!(
                        "it leaves {undo_next} to be undone next, and that is {left}"
                    )),
                }
            }
            Operation::End { xid } => {
                let changes = self.live.remove(xid).ok_or_else(|| unknown(xid))?;
                let changes = changes.into_iter().map(|(_, change)| change);
                Ok(Followed::Committed(changes.collect()))
            }
            Operation::Abort { xid } => {
                let changes = self.live.remove(xid).ok_or_else(|| unknown(xid))?;
                if changes.is_empty() {
                    Ok(Followed::RolledBack)
                } else {
                    Err(format!("{} is not undone", last(&changes)))
                }
            }
        }
    }

    /// How many transactions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether all have ended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// All changes that have to be undone, the last one first, with the number of the transaction
    /// that made it.
    pub(crate) fn into_losses(self) -> impl Iterator<Item = (Lsn, T)> {
        let losers = self.live.into_iter();
        let mut changes: Vec<_> = losers
            .flat_map(|(xid, changes)| changes.into_iter().map(move |(lsn, it)| (lsn, xid, it)))
            .collect();
        changes.sort_unstable_by_key(|(lsn, ..)| std::cmp::Reverse(*lsn));
        changes.into_iter().map(|(_, xid, change)| (xid, change))
    }
}

fn last<T>(changes: &[(Lsn, T)]) -> Lsn {
    changes.last().map_or(Lsn(0), |(lsn, _)| *lsn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::raw_table::TableId;

    /// Follows operations with the LSNs from 1 on, until one does not follow. Returns what is left to be undone.
    fn follow(operations: &[Operation<'_>]) -> Result<Vec<u64>, String> {
        follow_from(0, operations)
    }

    /// The same where the log is complete only from an LSN on.
    fn follow_from(from: u64, operations: &[Operation<'_>]) -> Result<Vec<u64>, String> {
        let mut table = TransactionTable::of_log_from(Lsn(from));
        for (lsn, operation) in (1..).zip(operations) {
            table.follow(Lsn(lsn), operation, || lsn)?;
        }
        Ok(table.into_losses().map(|(_, lsn)| lsn).collect())
    }

    fn update(xid: u64, undo_next: u64) -> Operation<'static> {
        Operation::Update {
            xid: Lsn(xid),
            undo_next: Lsn(undo_next),
            table: TableId(0),
            key: b"k",
            before: None,
            after: Some(b"v"),
        }
    }

    fn compensation(xid: u64, undo_next: u64) -> Operation<'static> {
        Operation::Compensation {
            xid: Lsn(xid),
            undo_next: Lsn(undo_next),
            table: TableId(0),
            key: b"k",
            after: None,
        }
    }

    const END: Operation<'_> = Operation::End { xid: Lsn(1) };
    const ABORT: Operation<'_> = Operation::Abort { xid: Lsn(1) };
    const BEGIN: Operation<'_> = Operation::Begin;

    #[test]
    fn operations_to_undo_come_newest_first() {
        let told: [(&[Operation<'_>], &[u64]); 7] = [
            (&[], &[]),
            (&[BEGIN], &[]),
            (&[BEGIN, update(1, 0), update(1, 2), END], &[]),
            (&[BEGIN, update(1, 0), update(1, 2)], &[3, 2]),
            (
                &[BEGIN, update(1, 0), compensation(1, 0), update(1, 0)],
                &[4],
            ),
            (&[BEGIN, update(1, 0), compensation(1, 0), ABORT], &[]),
            (
                &[BEGIN, BEGIN, update(2, 0), update(1, 0), update(2, 3), END],
                &[5, 3],
            ),
        ];
        for (operations, left) in told {
            assert_eq!(follow(operations).unwrap(), left, "{operations:?}");
        }
    }

    #[test]
    fn transactions_from_before_the_log_are_passed_over() {
        // The log lacks the beginning of transaction 1; transaction 2 has the LSN 1 here.
        let operations = [BEGIN, update(1, 0), END];
        assert_eq!(follow_from(2, &operations[..2]).unwrap(), [2]);
        assert!(follow_from(2, &operations).unwrap().is_empty());
        for gone in [update(1, 7), compensation(1, 7), END, ABORT] {
            assert!(follow_from(2, &[gone]).unwrap().is_empty());
            assert!(follow_from(1, &[gone]).is_err());
        }
    }

    #[test]
    fn what_does_not_follow_is_told_with_a_reason() {
        let refused: [(&[Operation<'_>], &str); 9] = [
            (&[update(1, 0)], "has not begun"),
            (&[END], "has not begun"),
            (&[ABORT], "has not begun"),
            (&[BEGIN, END, update(1, 0)], "has not begun"),
            (&[BEGIN, update(1, 9)], "it follows"),
            (&[BEGIN, update(1, 0), update(1, 0)], "it follows"),
            (&[BEGIN, compensation(1, 0)], "undone next"),
            (
                &[BEGIN, update(1, 0), update(1, 2), compensation(1, 0)],
                "undone next",
            ),
            (&[BEGIN, update(1, 0), ABORT], "is not undone"),
        ];
        for (operations, why) in refused {
            let told = follow(operations).unwrap_err();
            assert!(told.contains(why), "{operations:?}: {told}");
        }
    }
}
