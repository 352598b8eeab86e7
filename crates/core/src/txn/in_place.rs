//! In-place changes: where operations are logged one by one, a write is locked, logged and made in
//! the record at once, and undone if the transaction does not commit.
//!
//! Paper: pwal §5.3, §5.5, §6.3.1

use super::Transaction;
use crate::commit::commit_path::not_appended;
use crate::concurrency::lock::LockMode;
use crate::error::Error;
use crate::storage::record::RecordRef;
use crate::wal_format::commit_changes::Change;

impl Transaction {
    /// Applies the last write of the write set to its record, if records are changed in place.
    ///
    /// # Errors
    /// Those of the lock and of the log. The transaction cannot commit then.
    #[inline(always)]
    pub(super) fn perform(&mut self, record: RecordRef) -> Result<(), Error> {
        if self.in_place {
            self.change_in_place(record)
        } else {
            Ok(())
        }
    }

    #[inline(never)]
    fn change_in_place(&mut self, record: RecordRef) -> Result<(), Error> {
        self.lock(record, LockMode::EXCLUSIVE)?;
        // A late change of the present value is evaluated now.
        let Some(at) = self.own_write(record)? else {
            return Ok(());
        };
        let Some((log, uncommitted, undo_list)) = self.resources.operation_log() else {
            return Ok(());
        };
        let write = &self.access_set.writes[at];
        let Change { table, key, value } = self.access_set.change(write);
        let changed = undo_list.change(&log, uncommitted, write.record, table, key, value);
        changed.map_err(|error| self.doom(not_appended(error)))
    }

    /// Logs that the transaction begins, before its first lock: it is logged even if it only reads.
    ///
    /// # Errors
    /// Those of the log. The transaction cannot commit then.
    #[cold]
    pub(super) fn log_begin(&mut self) -> Result<(), Error> {
        let Some((log, _, undo_list)) = self.resources.operation_log() else {
            return Ok(());
        };
        let begun = undo_list.begin(&log);
        begun
            .map(drop)
            .map_err(|error| self.doom(not_appended(error)))
    }

    /// Undoes all but the first `kept` changes.
    ///
    /// # Errors
    /// Those of the log. The transaction cannot commit then.
    pub(super) fn undo_to(&mut self, kept: usize) -> Result<(), Error> {
        if self.resources.held.undo_list.len() <= kept {
            return Ok(());
        }
        let Some((log, uncommitted, undo_list)) = self.resources.operation_log() else {
            return Ok(());
        };
        let undone = undo_list.undo_to(&log, uncommitted, kept);
        undone.map_err(|error| self.doom(not_appended(error)))
    }
}
