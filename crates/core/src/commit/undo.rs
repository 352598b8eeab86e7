//! The in-place changes of a transaction, and their rollback.
//!
//! This is the transaction's row in the transaction table of ARIES: its number, the operation that it has logged
//! last, and the one that is to be undone next, with all that undoing needs; so a rollback reads nothing back from
//! the disk.
//!
//! # Invariants
//! - U1. The owner of this list holds the exclusive lock of each record in it, until the transaction has ended or
//!   undone it.
//! - U2. A change is in the log's buffer before it is in the record (write-ahead). The record keeps its creation
//!   stamp until the commit gives it that of the transaction, marked as not committed; and its version is where views
//!   look for it before it is changed (`views/uncommitted.rs`).
//! - U3. A rollback restores every record, whatever the state of the log. If the log failed or has
//!   no room, the missing log records of the rollback are harmless: the next change of the record
//!   logs its image, and recovery undoes no change that was overwritten since
//!   (`recovery/replay/aries.rs`).
//! - U4. A change is made only if the compensation for it is not too long for the buffer: a rollback to a savepoint
//!   does owe the log what it undoes.
//!
//! Paper: pwal §5.3, §5.5

use std::ops::Range;
use std::sync::Arc;

use namiki_log::{GroupResource, LogError};
use namiki_platform::Lsn;

use crate::commit::live_operations::{LiveOperations, OperationMark};
use crate::commit::views::uncommitted::Uncommitted;
use crate::storage::free_large_buffers::{Sizes, free_if_large};
use crate::storage::record::RecordRef;
use crate::table::raw_table::TableId;
use crate::wal_format::aries_operation::{Image, Operation, OperationLog};
use crate::wal_format::encoding_primitives::RecordFormat;

/// One change.
struct Step {
    record: RecordRef,
    table: TableId,
    key: Range<usize>,
    before: Option<Range<usize>>,
    /// It was the transaction's first of the record: `before` is that of the record's version.
    is_first: bool,
    lsn: Lsn,
}

/// The changes of a transaction that are to be undone unless it commits.
#[derive(Default)]
pub(crate) struct UndoList {
    /// The transaction's number, when it has logged something.
    xid: Option<Lsn>,
    /// Announces it to checkpoints. Created for the first transaction that needs it, and kept for
    /// later ones.
    mark: Option<Arc<OperationMark>>,
    steps: Vec<Step>,
    /// Keys and images.
    bytes: Vec<u8>,
    /// The payload that was read last.
    value: Vec<u8>,
    /// An undone change could not be logged. Later states would not follow from the log, so no more
    /// is logged: recovery takes the transaction for a running one.
    is_cut: bool,
}

impl UndoList {
    /// How many changes there are to be undone.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// The log record of the commit; `None` if the transaction has logged no operation.
    pub(crate) fn end(&self) -> Option<Operation<'static>> {
        self.xid.map(|xid| Operation::End { xid })
    }

    /// The transaction has committed.
    pub(crate) fn clear(&mut self) {
        if self.xid.take().is_some()
            && let Some(mark) = &self.mark
        {
            mark.end();
        }
        self.is_cut = false;
        self.steps.clear();
        self.bytes.clear();
    }

    /// The sizes of the buffers that are kept.
    #[inline(always)]
    pub(crate) fn sizes(&self) -> Sizes {
        let sizes = Sizes::default().with(&self.steps).with(&self.bytes);
        sizes.with(&self.value)
    }

    /// Frees the buffers that have become large. The list is empty.
    pub(crate) fn free_large_buffers(&mut self, large_bytes: usize) {
        free_if_large(&mut self.steps, large_bytes);
        free_if_large(&mut self.bytes, large_bytes);
        free_if_large(&mut self.value, large_bytes);
    }

    /// Whether a record had a value before the transaction changed it; `None` if it has not changed
    /// it.
    pub(crate) fn was_present(&self, record: RecordRef) -> Option<bool> {
        let first = self.steps.iter().find(|step| step.record == record);
        first.map(|step| step.before.is_some())
    }

    fn last(&self) -> Lsn {
        self.steps.last().map_or(Lsn(0), |step| step.lsn)
    }

    fn store(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// Has the transactions of this list marked among the live ones.
    pub(crate) fn mark_in(&mut self, live: &LiveOperations) {
        if self.mark.is_none() {
            self.mark = Some(live.mark());
        }
    }

    /// Logs that the transaction begins. It has logged nothing so far.
    ///
    /// # Errors
    /// Those of the log.
    pub(crate) fn begin<H: GroupResource>(
        &mut self,
        log: &OperationLog<'_, H>,
    ) -> Result<Lsn, LogError> {
        if let Some(mark) = &self.mark {
            mark.begin(log.lower_bound());
        }
        let begun = log.append(&Operation::Begin);
        match (&begun, &self.mark) {
            (Ok(xid), _) => self.xid = Some(*xid),
            (Err(_), Some(mark)) => mark.end(),
            (Err(_), None) => {}
        }
        begun
    }

    /// Changes a record, which is locked (U1).
    ///
    /// # Errors
    /// Those of the log; nothing is changed then.
    pub(crate) fn change<H: GroupResource>(
        &mut self,
        log: &OperationLog<'_, H>,
        uncommitted: &Uncommitted,
        record: RecordRef,
        table: TableId,
        key: &[u8],
        after: Image<'_>,
    ) -> Result<(), LogError> {
        let xid = match self.xid {
            Some(xid) => xid,
            None => self.begin(log)?,
        };
        let mut value = std::mem::take(&mut self.value);
        let Some(present) = record.copy_if(&mut value, |_| true) else {
            unreachable!("the record is locked, so it does not change");
        };
        let before = (!present.absent).then_some(&value[..]);
        let undo_next = self.last();
        // U4. It says less than the change, but in records of a fixed length it may take one more: what is left of the
        // last one is nothing, or long enough for the header of a padding (`encoding_primitives.rs`).
        let may_be_undone = match log.format {
            RecordFormat::Compact => Ok(()),
            RecordFormat::Fixed(_) => log.check(&Operation::Compensation {
                xid,
                undo_next,
                table,
                key,
                after: before,
            }),
        };
        let update = Operation::Update {
            xid,
            undo_next,
            table,
            key,
            before,
            after,
        };
        let logged = may_be_undone.and_then(|()| log.append(&update));
        if let Ok(lsn) = logged {
            let key = self.store(key);
            let is_first = !record.is_uncommitted();
            if is_first {
                uncommitted.put(record, present.creation, before);
            }
            let before = before.map(|before| self.store(before));
            self.steps.push(Step {
                record,
                table,
                key,
                before,
                is_first,
                lsn,
            });
            record.install_uncommitted(after);
        }
        self.value = value;
        logged.map(drop)
    }

    /// Undoes all but the first `kept` changes, the last one first.
    ///
    /// # Errors
    /// Those of the log. All changes are undone nevertheless (U3), but the transaction must not
    /// commit, because the log lacks the rollback.
    pub(crate) fn undo_to<H: GroupResource>(
        &mut self,
        log: &OperationLog<'_, H>,
        uncommitted: &Uncommitted,
        kept: usize,
    ) -> Result<(), LogError> {
        let mut logged = Ok(());
        while self.steps.len() > kept {
            let (Some(step), Some(xid)) = (self.steps.pop(), self.xid) else {
                break;
            };
            let after = step.before.map(|range| &self.bytes[range]);
            // First, in case that a disk panics in a flush that makes room for the compensation.
            step.record.roll_back(after, step.is_first);
            if step.is_first {
                uncommitted.remove(step.record);
            }
            let compensation = Operation::Compensation {
                xid,
                undo_next: self.last(),
                table: step.table,
                key: &self.bytes[step.key.clone()],
                after,
            };
            if !self.is_cut
                && let Err(error) = log.append(&compensation)
            {
                self.is_cut = true;
                logged = Err(error);
            }
            self.bytes.truncate(step.key.start);
        }
        logged
    }

    /// Undoes everything: the transaction has failed. The list is empty then.
    pub(crate) fn roll_back<H: GroupResource>(
        &mut self,
        log: &OperationLog<'_, H>,
        uncommitted: &Uncommitted,
    ) {
        // If it cannot be logged, recovery finds the same (U3).
        let _ = self.undo_to(log, uncommitted, 0);
        if let (false, Some(xid)) = (self.is_cut, self.xid) {
            let _ = log.append(&Operation::Abort { xid });
        }
        self.clear();
    }
}
