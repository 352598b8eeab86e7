//! Reads of a transaction: one key at a time, with the locks that strict two-phase locking takes first.

use std::sync::Arc;

use namiki_platform::Stamp;

use super::{Transaction, Version};
use crate::commit::commit_path::lock_acquisition::acquire;
use crate::commit::commit_path::{self, Early, EpochEarly, Normal};
use crate::commit::held_resources::TxnResources;
use crate::commit::ticket::Ticket;
use crate::concurrency::cc::{
    Busy, CcProtocol, NoFaults, ObservedVersion, TwoPhase, read_optimistically, with_protocol,
};
use crate::concurrency::contention::policy::{READ_SPINS, READ_YIELDS};
use crate::concurrency::lock::LockMode;
use crate::error::{Conflict, Error};
use crate::protocol_spec::{ConcurrencyControl, LockRelease};
use crate::storage::record::RecordRef;
use crate::table::raw_table::RawTable;

impl Transaction {
    /// Reads the record into `self.value`, waiting for its lock for a while. Returns whether the key
    /// is there.
    #[inline(always)]
    pub(super) fn read_record(
        &mut self,
        record: RecordRef,
        locked: LockMode,
    ) -> Result<bool, Error> {
        // Only one here, so that callers stay small.
        if self.concurrency == ConcurrencyControl::TwoPhase {
            return self.read_locked(record, locked);
        }
        let read = read_optimistically(record, &mut self.value);
        self.has_read(record, read)
    }

    #[inline(never)]
    pub(super) fn read_locked(
        &mut self,
        record: RecordRef,
        locked: LockMode,
    ) -> Result<bool, Error> {
        if self.faults.checks().lock_reads {
            self.lock(record, locked)?;
        }
        let read = TwoPhase::read(record, &mut self.value);
        self.has_read(record, read)
    }

    #[inline(always)]
    pub(super) fn has_read(
        &mut self,
        record: RecordRef,
        read: Result<ObservedVersion, Busy>,
    ) -> Result<bool, Error> {
        match read {
            Ok(seen) => {
                self.access_set.read(record, seen);
                Ok(!seen.absent)
            }
            Err(Busy) => self.read_busy(record),
        }
    }

    #[cold]
    pub(super) fn read_busy(&mut self, record: RecordRef) -> Result<bool, Error> {
        for attempt in 0..READ_SPINS + READ_YIELDS {
            if !record.is_current() {
                break;
            }
            self.wait_for_lock(attempt)?;
            let read = with_protocol!(self.concurrency, P => P::read(record, &mut self.value));
            if let Ok(seen) = read {
                self.access_set.read(record, seen);
                return Ok(!seen.absent);
            }
        }
        let conflict = if record.is_current() {
            Conflict::ReadLocked
        } else {
            Conflict::ReadChanged
        };
        Err(self.doom(Error::Conflict(conflict)))
    }

    /// Called after an index look-up: fails if a key that the transaction has written may have been
    /// removed from the index concurrently, with its record. The transaction would not see its own
    /// write any more, and could not commit.
    #[inline(always)]
    pub(super) fn check_own_writes(&mut self) -> Result<(), Error> {
        if self.access_set.writes.is_empty() {
            return Ok(());
        }
        let taken_out = self.resources.engine.removed_keys.taken_out();
        if self.access_set.has_current_writes(taken_out) {
            Ok(())
        } else {
            Err(self.doom(Error::Conflict(Conflict::ReadChanged)))
        }
    }

    /// Locks a record, or a gap, where that is done before reading.
    #[inline]
    pub(super) fn lock(&mut self, record: RecordRef, wanted: LockMode) -> Result<(), Error> {
        self.acquire_permit()?;
        let TxnResources {
            engine,
            worker,
            held,
            ..
        } = &mut self.resources;
        let stream = engine.log.as_ref().map(|log| log.stream(*worker));
        let locked = acquire(
            engine,
            stream,
            &mut held.locks,
            &mut held.retry.wait_age,
            record,
            wanted,
        );
        locked.map_err(|error| self.doom(error))?;
        self.require_current(record)
    }

    /// Fails if a record that has just been locked is another key's by now. Its lock goes with the others.
    #[inline]
    fn require_current(&mut self, record: RecordRef) -> Result<(), Error> {
        if record.is_current() {
            Ok(())
        } else {
            Err(self.doom(Error::Conflict(Conflict::ReadChanged)))
        }
    }

    /// Before each lock: the first one waits for a permit to hold locks, if these are limited, and for the
    /// transaction with commit priority.
    ///
    /// # Errors
    /// The error with which the transaction failed before: its locks are released, and it gets no
    /// more.
    #[inline]
    pub(super) fn acquire_permit(&mut self) -> Result<(), Error> {
        self.doom.check()?;
        if !std::mem::replace(&mut self.asked_for_permit, true) {
            let TxnResources { engine, held, .. } = &mut self.resources;
            if held.retry.yields_to(&engine.priority) {
                engine.priority.wait();
            }
            if engine.admission.is_limited() {
                held.permit = Some(engine.admission.acquire());
            }
            if self.logs_reads {
                self.log_begin()?;
            }
        }
        Ok(())
    }

    /// The same without waiting; returns whether the transaction has the lock now.
    pub(super) fn try_lock(&mut self, record: RecordRef, wanted: LockMode) -> Result<bool, Error> {
        self.acquire_permit()?;
        let is_locked = self.resources.held.locks.try_acquire(record, wanted);
        if is_locked {
            self.require_current(record)?;
        }
        Ok(is_locked)
    }

    /// The transaction has failed with this, and must not commit, whatever its code makes of the error.
    #[cold]
    pub(super) fn doom(&mut self, error: Error) -> Error {
        if let Error::Conflict(conflict) = &error
            && self.doom.conflict().is_none()
        {
            let TxnResources { engine, slot, .. } = &self.resources;
            engine.epochs.count(*slot, conflict.into());
        }
        // No other transaction needs to wait for it any more.
        self.end();
        self.doom.keep_first(error)
    }

    /// Ends the transaction, and says when its own failure may be told: what it has read, and decided by, must have been
    /// there at one moment, and must not be lost in a crash. So the ticket is to be acknowledged first.
    ///
    /// # Errors
    /// [`Error::Conflict`] if it was not there at one moment.
    pub(crate) fn confirm_reads(&mut self) -> Result<Ticket, Error> {
        if let Some(conflict) = self.doom.conflict() {
            self.end();
            return Err(conflict);
        }
        let ticket = self.validate_reads();
        // While it waits for the device, no other transaction needs to wait for it. (If it has met a conflict, it is
        // retried.)
        self.end();
        let ticket = ticket?;
        self.release_priority();
        Ok(ticket)
    }

    /// Confirms a statement of a transaction that runs on: everything that the transaction has read
    /// so far is valid at one moment, now. When the ticket is
    /// [acknowledged](crate::Database::acknowledged), which it often is at once, all of it is durable,
    /// too, and the results of the statement may be shown. Without this, they may be inconsistent,
    /// or lost in a crash, until the transaction has committed.
    ///
    /// All reads are validated, those of earlier statements too, because results that were shown
    /// together have to be of one moment. The time grows with [`Transaction::read_count`]: some
    /// nanoseconds for each, or a cache miss. So n statements that each read a row and end so take
    /// a time that grows with n²: limit the number of reads of a client's transaction. Under strict
    /// two-phase locking, nothing needs to be validated.
    ///
    /// # Errors
    /// [`Error::Conflict`]: the transaction cannot commit any more. The error of an earlier call, if it
    /// cannot for that reason; [`Error::TableDropped`]; [`Error::Closed`], [`Error::LogFailed`],
    /// [`Error::Forked`].
    pub fn end_statement(&mut self) -> Result<Ticket, Error> {
        self.doom.check()?;
        self.resources.engine.check_open()?;
        let ticket = self.validate_reads();
        ticket.map_err(|error| self.doom(error))
    }

    /// Whether all versions that were read are valid at one moment; the ticket is acknowledged when they are durable.
    pub(super) fn validate_versions(&self) -> Result<Ticket, Error> {
        let engine = &*self.resources.engine;
        let access_set = &self.access_set;
        let confirmed = with_protocol!(self.concurrency, P => match engine.spec.release {
            LockRelease::Normal => commit_path::commit_read_only::<P, Normal, NoFaults>(engine, access_set),
            LockRelease::Early => commit_path::commit_read_only::<P, Early, NoFaults>(engine, access_set),
            LockRelease::EpochEarly => commit_path::commit_read_only::<P, EpochEarly, NoFaults>(engine, access_set),
        });
        confirmed.map(|confirmed| self.ticket(confirmed))
    }

    /// Deadlock rule 2 of `tictoc-pwal` §3.2.2: a reader that waits for a locked record frees the locks of its own
    /// group first. Otherwise two workers could each wait for a record that the other's group holds.
    pub(super) fn wait_for_lock(&self, attempt: u32) -> Result<(), Error> {
        let engine = &self.resources.engine;
        if let Some(stream) = self.resources.stream()
            && self.faults.checks().flush_on_read_wait
            && engine.groups_hold_locks()
            && stream.has_pending()
        {
            return stream.flush().map_err(Error::LogFailed);
        }
        if attempt < READ_SPINS {
            std::hint::spin_loop();
            return Ok(());
        }
        engine.check_open()?;
        engine.yield_to_locks()
    }

    /// The key's record; or nothing, with the gap noted. `locked` is what will be locked of the record, where reads are.
    pub(super) fn find(
        &mut self,
        raw_table: &Arc<RawTable>,
        key: &[u8],
        locked: LockMode,
    ) -> Result<Option<RecordRef>, Error> {
        self.resolve_deferred_writes()?;
        let found = raw_table
            .find(key)
            .map_err(|error| Error::from_index(&error, &raw_table.name()))?;
        self.check_own_writes()?;
        match found {
            Ok(record) => {
                self.lookup_cache.note(raw_table.id, key, record);
                Ok(Some(record))
            }
            Err(leaf) => self.read_absent(raw_table, key, leaf, locked),
        }
    }

    /// The key's value as this transaction sees it, its own writes included. `locked` is what is locked of its record,
    /// where reads are.
    pub(crate) fn get_bytes(
        &mut self,
        raw_table: &Arc<RawTable>,
        key: &[u8],
        locked: LockMode,
    ) -> Result<Option<&[u8]>, Error> {
        match self.find(raw_table, key, locked)? {
            Some(record) => self.value_of(record, locked),
            None => Ok(None),
        }
    }

    #[inline(always)]
    pub(super) fn value_of(
        &mut self,
        record: RecordRef,
        locked: LockMode,
    ) -> Result<Option<&[u8]>, Error> {
        if let Some(at) = self.own_write(record)? {
            return Ok(self.access_set.value(&self.access_set.writes[at]));
        }
        let present = self.read_record(record, locked)?;
        Ok(present.then_some(&self.value[..]))
    }

    /// The transaction's write of a record. If it is a late change, the record is read now, and it is the value.
    #[inline(always)]
    pub(super) fn own_write(&mut self, record: RecordRef) -> Result<Option<usize>, Error> {
        match self.access_set.write_of(record) {
            Some(at) if self.access_set.is_late_at(at) => self.evaluate_now(record, at).map(Some),
            written => Ok(written),
        }
    }

    /// The version of a key that this transaction reads, for histories that are checked for
    /// cycles. It counts as a read.
    pub(crate) fn version_bytes(
        &mut self,
        raw_table: &Arc<RawTable>,
        key: &[u8],
    ) -> Result<Version, Error> {
        loop {
            let removed = raw_table.removed_version(key);
            let mut version = match self.find(raw_table, key, LockMode::SHARED)? {
                Some(record) => self.version_of(record)?,
                None => Version {
                    stamp: Stamp(0),
                    present: false,
                },
            };
            if version.stamp != Stamp(0) {
                return Ok(version);
            }
            // An absent key was deleted, or never existed. (If it was deleted once more
            // concurrently, look again.)
            if raw_table.removed_version(key) == removed {
                version.stamp = removed;
                return Ok(version);
            }
        }
    }

    pub(super) fn version_of(&mut self, record: RecordRef) -> Result<Version, Error> {
        let present = self.read_record(record, LockMode::SHARED)?;
        // The version is that of the last commit, whatever the transaction has made of it since.
        let undo_list = &self.resources.held.undo_list;
        let present = undo_list.was_present(record).unwrap_or(present);
        let read = self.access_set.reads.last().expect("it has just been read");
        Ok(Version {
            stamp: read.seen.creation,
            present,
        })
    }
}
