//! Late changes: writes that the commit evaluates, under the locks of their records
//! (`commit_path/mod.rs`). A transaction that accesses such a key earlier reads it, and evaluates
//! the change then.
//!
//! A row program needs its row. So the transaction makes an *existence read*: it notes that the record has a value, not
//! which one. Any later version satisfies it, and only a deletion is a conflict. Where reads are locked, the row is
//! locked for writing instead, and changed at once.

use std::sync::Arc;

use super::Transaction;
use crate::commit::late_changes::{CALLS_BYTES_MAX, LateError, RowProgram, call_bytes};
use crate::commit::ticket::Ticket;
use crate::concurrency::cc::{Busy, CcProtocol, ObservedVersion, with_protocol};
use crate::concurrency::contention::policy::{READ_SPINS, READ_YIELDS};
use crate::concurrency::lock::LockMode;
use crate::error::{Conflict, Error};
use crate::storage::record::RecordRef;
use crate::table::raw_table::RawTable;

impl Transaction {
    /// Has the commit change a row by a program; returns whether the key is there.
    pub(crate) fn change_bytes_later(
        &mut self,
        raw_table: &Arc<RawTable>,
        key: &[u8],
        program: RowProgram,
        argument: &[u8],
    ) -> Result<bool, Error> {
        if self.locks_reads() {
            return self.change_bytes_now(raw_table, key, program, argument);
        }
        let Some(record) = self.find(raw_table, key, LockMode::SHARED)? else {
            return Ok(false);
        };
        let call = call_bytes(argument.len());
        let calls = match self.access_set.write_of(record) {
            None => 0,
            Some(at) => match self.access_set.calls_at(at) {
                Some(calls) if calls.len().saturating_add(call) <= CALLS_BYTES_MAX => calls.len(),
                _ => return self.change_bytes_now(raw_table, key, program, argument),
            },
        };
        self.check_fits(raw_table, key, call.saturating_add(calls))?;
        if calls == 0 {
            // A record that another commit has locked is not waited for: a row that is there, whatever its version, is
            // all that is asked for, and the commit validates it.
            if !record.has_value_now() {
                let seen = self.observe(record)?;
                if seen.absent {
                    self.access_set.read(record, seen);
                    return Ok(false);
                }
            }
            self.access_set.note_presence(raw_table, record);
        }
        let call = (program, argument);
        (self.access_set).write_change(record, raw_table.id, key, call);
        if !self.faults.checks().add_locked {
            self.evaluate_unlocked(record)?;
        }
        Ok(true)
    }

    /// The same for a row that the transaction has written itself, locks, or has changed often.
    fn change_bytes_now(
        &mut self,
        raw_table: &Arc<RawTable>,
        key: &[u8],
        program: RowProgram,
        argument: &[u8],
    ) -> Result<bool, Error> {
        self.update_bytes(raw_table, key, |old, new| {
            let changed = program(old, argument, new);
            changed.map_err(|refused| Error::ChangeRefused {
                table: raw_table.name(),
                code: refused.0,
            })
        })
    }

    /// The record's version, which is not noted. Waits for its lock for a while.
    fn observe(&mut self, record: RecordRef) -> Result<ObservedVersion, Error> {
        for attempt in 0..READ_SPINS + READ_YIELDS {
            let read = with_protocol!(self.concurrency, P => P::read(record, &mut self.value));
            match read {
                Ok(seen) => return Ok(seen),
                Err(Busy) if record.is_current() => self.wait_for_lock(attempt)?,
                Err(Busy) => return Err(self.doom(Error::Conflict(Conflict::ReadChanged))),
            }
        }
        Err(self.doom(Error::Conflict(Conflict::ReadLocked)))
    }

    /// Whether all that was read is valid at one moment, the existence of rows included.
    pub(super) fn validate_reads(&mut self) -> Result<Ticket, Error> {
        if self.access_set.presence_count() == 0 {
            return self.validate_versions();
        }
        let noted = self.access_set.reads.len();
        for attempt in 0..READ_SPINS + READ_YIELDS {
            let read = self.read_presences();
            let validated = read.and_then(|()| self.validate_versions());
            self.access_set.reads.truncate(noted);
            match validated {
                // Another transaction has replaced a row that only has to be there, or holds its lock.
                Err(Error::Conflict(Conflict::ReadChanged))
                    if !self.has_conflict() && !self.has_dead_reads() =>
                {
                    self.wait_for_lock(attempt)?;
                }
                validated => return validated,
            }
        }
        Err(Error::Conflict(Conflict::ReadLocked))
    }

    /// Reads the present versions of the records that have to have a value.
    fn read_presences(&mut self) -> Result<(), Error> {
        for at in 0..self.access_set.presence_count() {
            let (record, _) = self.access_set.presence(at);
            let seen = self.observe(record)?;
            if seen.absent {
                return Err(self.doom(Error::Conflict(Conflict::ReadChanged)));
            }
            let (_, raw_table) = self.access_set.presence(at);
            // After the version.
            let is_known_durable = self.resources.engine.has_durable_presence(raw_table);
            (self.access_set).read_presence(record, seen, false, is_known_durable);
        }
        Ok(())
    }

    /// Reads the record of a late change, and turns it into a write of the value.
    #[cold]
    pub(super) fn evaluate_now(&mut self, record: RecordRef, at: usize) -> Result<usize, Error> {
        let present = self.read_record(record, LockMode::EXCLUSIVE)?;
        let present = present.then_some(&self.value[..]);
        let evaluated = (self.access_set).evaluate(at, present, self.value_bytes_max);
        evaluated.map_err(|error| self.not_evaluated(at, error))?;
        Ok(at)
    }

    /// A late change has no value. The transaction can go on: the change stays what it was, so the commit fails, unless
    /// the transaction is rolled back to before the change.
    #[cold]
    fn not_evaluated(&mut self, at: usize, error: LateError) -> Error {
        let table = self.access_set.writes[at].table;
        let is_conflict = error == LateError::Absent;
        let error = self.resources.engine.not_evaluated(table, error);
        // Where a write is made at once, it is in the write set without being made.
        if is_conflict || self.in_place {
            return self.doom(error);
        }
        error
    }

    /// Before an amount is added to a row with many calls of programs: they are evaluated.
    #[inline]
    pub(super) fn evaluate_many_calls(&mut self, record: RecordRef) -> Result<(), Error> {
        match self.access_set.write_with_many_calls(record) {
            Some(at) => self.evaluate_now(record, at).map(drop),
            None => Ok(()),
        }
    }

    /// The fault of [`ADD_LOCKED`](crate::concurrency::cc::Checks::ADD_LOCKED).
    #[cold]
    pub(super) fn evaluate_unlocked(&mut self, record: RecordRef) -> Result<(), Error> {
        let Some(at) = self.access_set.write_of(record) else {
            return Ok(());
        };
        let found = record.copy_if(&mut self.value, |_| true);
        let present = found.filter(|version| !version.absent);
        let present = present.map(|_| &self.value[..]);
        let evaluated = (self.access_set).evaluate(at, present, self.value_bytes_max);
        let table = self.access_set.writes[at].table;
        evaluated.map_err(|error| self.resources.engine.not_evaluated(table, error))
    }
}
