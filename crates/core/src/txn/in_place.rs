//! Changes that are made at once: where operations are logged one by one, what is written is locked, logged and
//! changed in the record, and undone if the transaction does not commit.
//!
//! Paper: pwal §5.3, §5.5

use super::Transaction;
use crate::commit::commit_path::not_appended;
use crate::concurrency::lock::LockMode;
use crate::error::Error;
use crate::storage::record::RecordRef;
use crate::wal_format::operation::OperationLog;

impl Transaction {
    /// Changes a record as the write set has just been told, if records are changed at once.
    ///
    /// # Errors
    /// Those of the lock and of the log. The transaction cannot commit then.
    #[inline(always)]
    pub(super) fn perform(&mut self, record: RecordRef) -> Result<(), Error> {
        match self.in_place {
            false => Ok(()),
            true => self.change_in_place(record),
        }
    }

    #[inline(never)]
    fn change_in_place(&mut self, record: RecordRef) -> Result<(), Error> {
        self.lock(record, LockMode::EXCLUSIVE)?;
        // An amount that is to be added to what is there is added now.
        let Some(at) = self.own_write(record)? else {
            return Ok(());
        };
        let Some(log) = &self.engine.log else {
            return Ok(());
        };
        let log = OperationLog {
            stream: log.stream(self.worker),
            format: self.engine.format,
        };
        let changed = self.access_set.change_in_place(&log, at);
        changed.map_err(|error| self.doom(not_appended(error)))
    }

    /// Undoes all but the first `kept` changes.
    ///
    /// # Errors
    /// Those of the log. The transaction cannot commit then.
    pub(super) fn undo_to(&mut self, kept: usize) -> Result<(), Error> {
        if self.access_set.undo_list.len() <= kept {
            return Ok(());
        }
        let Some(log) = &self.engine.log else {
            return Ok(());
        };
        let log = OperationLog {
            stream: log.stream(self.worker),
            format: self.engine.format,
        };
        let undone = self.access_set.undo_list.undo_to(&log, kept);
        undone.map_err(|error| self.doom(not_appended(error)))
    }

    /// Undoes everything: the transaction ends without a commit.
    #[inline(never)]
    pub(super) fn roll_back_changes(&mut self) {
        if self.access_set.undo_list.end().is_none() {
            return;
        }
        if let Some(log) = &self.engine.log {
            self.access_set.undo_list.roll_back(&OperationLog {
                stream: log.stream(self.worker),
                format: self.engine.format,
            });
        }
    }
}
