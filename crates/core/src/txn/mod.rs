//! A transaction: reads, writes, savepoints, and its end.
//!
//! Under optimistic concurrency control, nothing is locked while a transaction's own code runs. Reads copy the
//! current version and remember it; writes are kept apart until the commit. So a transaction that is dropped, or that
//! panics in its code, has nothing to undo, and an idle one blocks no other. Under strict two-phase locking, reads
//! lock first. Where operations are logged one by one, writes are made immediately, too (`in_place.rs`).
//!
//! This module works on bytes; `table` adds the typed face of it. Keys that are looked up together are in
//! `batch.rs`, writes that wait to be looked up so in `deferred.rs`, amounts that are added in `adding.rs`, ranges
//! of keys in `scan.rs`, and keys that are not there in `gap_locks.rs`. Which values are refused is in `stage.rs`.

mod batch;
mod deferred;
mod gap_locks;
mod in_place;
mod increment;
mod scan;
pub(crate) mod stage;

use std::ops::Range;
use std::sync::Arc;

use namiki_index::Lookup;
use namiki_log::Stream;
use namiki_platform::{Stamp, WorkerId};

use crate::commit::access_set::{AccessSet, Mark};
use crate::commit::acquire::acquire;
use crate::commit::commit_path::{self, Committed, Early, EpochEarly, Normal};
use crate::commit::engine::{Engine, GroupLocks};
use crate::commit::epoch::{Count, SlotId};
use crate::commit::ticket::{self, Ticket};
use crate::concurrency::cc::{
    Busy, CcProtocol, Checks, NoFaults, ObservedVersion, TicToc, with_protocol,
};
use crate::concurrency::lock::LockMode;
use crate::error::{Conflict, Error};
use crate::spec::{ConcurrencyControl, LockRelease, LogStyle, WaitPolicy};
use crate::storage::record::RecordRef;
use crate::storage::scratch::{Sizes, free_if_large};
use crate::table::lookup_cache::LookupCache;
use crate::table::raw_table::{Insertion, RawTable, Resolved};

/// How often a reader looks at a locked record again before the conflict is reported: first
/// without, then with giving up the processor in between.
const READ_SPINS: u32 = 64;
const READ_YIELDS: u32 = 64;
/// How many attempts one has priority for: if that does not help, the others go on for a while.
const PRIORITY_ATTEMPTS: u32 = 32;

/// A running transaction.
///
/// [`Database::transact`](crate::Database::transact) hands one to a closure and takes care of its
/// end; [`Database::begin`](crate::Database::begin) gives one away. It is tied to no thread.
pub struct Transaction {
    engine: Arc<Engine>,
    concurrency: ConcurrencyControl,
    worker: WorkerId,
    slot: SlotId,
    access_set: AccessSet,
    /// The payload that was read last.
    value: Vec<u8>,
    /// The value that is being written.
    encoded: Vec<u8>,
    /// The longest value that the log, or a record, can hold.
    value_bytes_max: usize,
    /// What the index said of keys that were looked up together.
    lookups: Vec<Lookup>,
    /// The bytes of keys that are looked up together.
    key_bytes: Vec<u8>,
    lookup_cache: LookupCache,
    /// Records are changed before the commit.
    in_place: bool,
    /// How often it has failed with priority.
    priority_attempts: u32,
    /// It has waited for whatever one waits for before the first lock.
    asked_for_permit: bool,
    /// A call failed with this and left a gap in what the transaction has read or is to write: it must not
    /// commit, whatever its code makes of the error.
    doomed: Option<Error>,
    faults: FaultInjection,
}

/// Checks of its reads that only tests turn off.
#[derive(Clone, Copy)]
struct FaultInjection {
    /// Deadlock rule 2, see `wait_for_lock`.
    flush_on_read_wait: bool,
    lock_reads: bool,
    lock_gaps: bool,
    add_locked: bool,
}

impl FaultInjection {
    fn of<C: Checks>() -> Self {
        Self {
            flush_on_read_wait: C::FLUSH_ON_READ_WAIT,
            lock_reads: C::LOCK_READS,
            lock_gaps: C::LOCK_GAPS,
            add_locked: C::ADD_LOCKED,
        }
    }
}

/// A place in a transaction to return to, see [`Transaction::savepoint`].
#[derive(Debug)]
pub struct Savepoint(Mark);

/// A version, as [`Transaction::version`] reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The stamp of the commit that wrote it; 0 if the key was never written.
    pub stamp: Stamp,
    /// Whether it says that the key is there.
    pub present: bool,
}

impl Transaction {
    pub(crate) fn new(engine: Arc<Engine>, worker: WorkerId, slot: SlotId) -> Self {
        Self {
            value_bytes_max: stage::value_bytes_max(&engine, worker),
            concurrency: engine.spec.concurrency,
            in_place: engine.spec.style() == Some(LogStyle::Operations),
            engine,
            worker,
            slot,
            access_set: AccessSet::default(),
            value: Vec::new(),
            encoded: Vec::new(),
            lookups: Vec::new(),
            key_bytes: Vec::new(),
            lookup_cache: LookupCache::default(),
            priority_attempts: 0,
            asked_for_permit: false,
            doomed: None,
            faults: FaultInjection::of::<NoFaults>(),
        }
    }

    /// Plants the bug of `C` in the reads of this transaction and of those that reuse it.
    pub(crate) fn inject_faults<C: Checks>(&mut self) {
        self.faults = FaultInjection::of::<C>();
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    fn stream(&self) -> Option<&Stream<GroupLocks>> {
        self.engine.log.as_ref().map(|log| log.stream(self.worker))
    }

    /// Whether records are locked before they are read.
    pub(crate) fn locks_reads(&self) -> bool {
        with_protocol!(self.concurrency, P => P::LOCKS_READS)
    }

    /// Makes ready for the next transaction.
    pub(crate) fn restart(&mut self) -> Result<(), Error> {
        self.access_set.clear();
        self.lookup_cache.clear();
        self.asked_for_permit = false;
        self.doomed = None;
        self.engine.check_open()
    }

    /// Ends the transaction with an error that says `why`; nothing of it will have happened.
    /// Meant for `return tx.abort("…")`. A body with an error type of its own is run by
    /// [`Database::transact_with`](crate::Database::transact_with).
    ///
    /// # Errors
    /// Always [`Error::Aborted`].
    pub fn abort<T>(&mut self, why: impl Into<String>) -> Result<T, Error> {
        Err(Error::Aborted(why.into()))
    }

    /// Notes a place to return to with [`Transaction::rollback_to`].
    pub fn savepoint(&mut self) -> Savepoint {
        // If a write could not be placed, whatever comes next tells so.
        let _ = self.resolve_deferred_writes();
        Savepoint(self.access_set.mark())
    }

    /// Takes back what was written since the savepoint, and the savepoints made since. What was read
    /// since then still has to be current when the transaction commits.
    ///
    /// # Errors
    /// [`Error::StaleSavepoint`] if the savepoint is not this transaction's, or was taken back
    /// itself. Nothing is taken back then, and the transaction can go on. Under
    /// [`LogStyle::Operations`], those of the log; the transaction cannot commit then.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<(), Error> {
        match self.access_set.return_to(savepoint.0) {
            true => self.undo_to(savepoint.0.changes),
            false => Err(Error::StaleSavepoint),
        }
    }

    /// Commits, and returns as soon as the transaction is sure to be ordered; it is durable, and
    /// may be reported as done, only when its ticket is acknowledged.
    ///
    /// # Errors
    /// [`Error::Conflict`] and others under which nothing was changed; [`Error::OutcomeUnknown`].
    pub fn commit_async(mut self) -> Result<Ticket, Error> {
        self.finish::<NoFaults>()
    }

    /// Commits, and returns when the transaction is durable.
    ///
    /// # Errors
    /// As [`Transaction::commit_async`].
    pub fn commit(mut self) -> Result<Stamp, Error> {
        let ticket = self.finish::<NoFaults>()?;
        ticket::wait(&self.engine, &ticket)?;
        Ok(ticket.stamp)
    }

    /// Ends the transaction without a trace. Dropping it does the same.
    pub fn rollback(self) {}

    /// Makes all that is to be written known by its records, unless the transaction must not commit.
    ///
    /// # Errors
    /// What it failed with before; [`Error::TableFull`].
    pub(crate) fn resolve_writes(&mut self) -> Result<(), Error> {
        match &self.doomed {
            None => self.resolve_deferred_writes(),
            Some(error) => Err(error.clone()),
        }
    }

    /// Commits what is in the sets. Tests plant bugs here, through `C`.
    pub(crate) fn finish<C: Checks>(&mut self) -> Result<Ticket, Error> {
        match self.locks_reads() {
            false => self.try_finish::<C>(),
            true => self.finish_locked::<C>(),
        }
    }

    /// The same where there are locks to be released, however it ends.
    #[inline(never)]
    fn finish_locked<C: Checks>(&mut self) -> Result<Ticket, Error> {
        let finished = self.try_finish::<C>();
        self.end();
        if finished.is_ok() {
            self.start_afresh();
        }
        finished
    }

    fn try_finish<C: Checks>(&mut self) -> Result<Ticket, Error> {
        self.engine.check_open()?;
        self.resolve_writes()?;
        let engine = &*self.engine;
        let stream = engine.log.as_ref().map(|log| log.stream(self.worker));
        let (slot, access_set) = (self.slot, &mut self.access_set);
        let committed = with_protocol!(self.concurrency, P => match engine.spec.release {
            LockRelease::Normal => commit_path::commit::<P, Normal, C>(engine, stream, slot, access_set),
            LockRelease::Early => commit_path::commit::<P, Early, C>(engine, stream, slot, access_set),
            LockRelease::EpochEarly => commit_path::commit::<P, EpochEarly, C>(engine, stream, slot, access_set),
        });
        match &committed {
            Ok(_) if self.access_set.writes.is_empty() => {
                engine.epochs.count(self.slot, Count::ReadOnly)
            }
            Ok(_) => engine.epochs.count(self.slot, Count::Committed),
            Err(Error::Conflict(conflict)) => engine.epochs.count(self.slot, conflict.into()),
            Err(_) => {}
        }
        if let Err(error @ (Error::Overflow { .. } | Error::Undecodable { .. })) = committed {
            // What it found may not be durable yet.
            self.confirm_reads()?;
            return Err(error);
        }
        committed.map(|committed| self.ticket(committed))
    }

    /// Before one more attempt: requests commit priority, for this transaction and its retries. Returns false if it
    /// has had priority for long enough, without success. (Transactions that wait for locks have their own order.)
    pub(crate) fn request_priority(&mut self) -> bool {
        if self.locks_reads() && self.engine.waits.policy == WaitPolicy::WoundWait {
            return true;
        }
        if !self.access_set.has_priority {
            self.access_set.has_priority = self
                .engine
                .priority
                .request(&mut self.access_set.priority_ticket);
            self.priority_attempts = 0;
            return true;
        }
        self.engine.priority.extend_grace();
        self.priority_attempts += 1;
        if self.priority_attempts < PRIORITY_ATTEMPTS {
            return true;
        }
        self.release_priority();
        self.access_set.priority_ticket = None;
        false
    }

    /// What runs next is not this transaction again: it has not waited for anything yet.
    pub(crate) fn start_afresh(&mut self) {
        self.access_set.locks.start_afresh();
        self.access_set.priority_ticket = None;
    }

    /// Releases the priority token.
    pub(crate) fn release_priority(&mut self) {
        if std::mem::take(&mut self.access_set.has_priority) {
            self.engine.priority.release();
        }
    }

    /// Undoes what has not been committed, and releases all locks: the transaction has ended, or will not go on.
    pub(crate) fn end(&mut self) {
        if self.access_set.is_logged.get() {
            with_protocol!(self.concurrency, P => commit_path::forget_what_is_logged::<P>(&mut self.access_set));
        }
        self.roll_back_changes();
        self.access_set.release_locks();
    }

    /// Frees the buffers that have become large (`scratch.rs`). The transaction has ended.
    #[inline(always)]
    pub(crate) fn free_large_buffers(&mut self) {
        let sizes = Sizes::default().with(&self.value).with(&self.encoded);
        if sizes.and(self.access_set.sizes()).is_large() {
            self.free_each_large_buffer();
        }
    }

    #[cold]
    fn free_each_large_buffer(&mut self) {
        self.end();
        self.access_set.free_large_buffers();
        free_if_large(&mut self.value);
        free_if_large(&mut self.encoded);
    }

    /// Reads the record into `self.value`, waiting for its lock for a while. Returns whether the key
    /// is there.
    #[inline(always)]
    fn read_record(&mut self, record: RecordRef, locked: LockMode) -> Result<bool, Error> {
        // Only this one here, so that callers stay small.
        if self.concurrency != ConcurrencyControl::TicToc {
            return self.read_otherwise(record, locked);
        }
        let read = TicToc::read(record, &mut self.value);
        self.has_read(record, read)
    }

    #[inline(never)]
    fn read_otherwise(&mut self, record: RecordRef, locked: LockMode) -> Result<bool, Error> {
        if self.locks_reads() && self.faults.lock_reads {
            self.lock(record, locked)?;
        }
        let read = with_protocol!(self.concurrency, P => P::read(record, &mut self.value));
        self.has_read(record, read)
    }

    #[inline(always)]
    fn has_read(
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
    fn read_busy(&mut self, record: RecordRef) -> Result<bool, Error> {
        for attempt in 0..READ_SPINS + READ_YIELDS {
            self.wait_for_lock(attempt)?;
            let read = with_protocol!(self.concurrency, P => P::read(record, &mut self.value));
            if let Ok(seen) = read {
                self.access_set.read(record, seen);
                return Ok(!seen.absent);
            }
        }
        Err(self.doom(Error::Conflict(Conflict::ReadLocked)))
    }

    /// Locks a record, or a gap, where that is done before reading.
    #[inline]
    fn lock(&mut self, record: RecordRef, wanted: LockMode) -> Result<(), Error> {
        self.acquire_permit()?;
        let stream = self.engine.log.as_ref().map(|log| log.stream(self.worker));
        let locked = acquire(
            &self.engine,
            stream,
            &mut self.access_set.locks,
            record,
            wanted,
        );
        locked.map_err(|error| self.doom(error))
    }

    /// Before each lock: the first one waits for a permit to hold locks, if these are limited, and for the
    /// transaction with commit priority.
    ///
    /// # Errors
    /// What the transaction failed with before: its locks are gone, and it gets no more.
    #[inline]
    fn acquire_permit(&mut self) -> Result<(), Error> {
        if let Some(doomed) = &self.doomed {
            return Err(doomed.clone());
        }
        if !std::mem::replace(&mut self.asked_for_permit, true) {
            if self.access_set.yields_to_priority(&self.engine.priority) {
                self.engine.priority.wait();
            }
            if self.engine.admission.is_limited() {
                self.access_set.permit = Some(self.engine.admission.acquire());
            }
        }
        Ok(())
    }

    /// The same without waiting; returns whether the transaction has the lock now.
    fn try_lock(&mut self, record: RecordRef, wanted: LockMode) -> Result<bool, Error> {
        self.acquire_permit()?;
        Ok(self.access_set.locks.try_acquire(record, wanted))
    }

    /// The transaction has failed with this, and must not commit, whatever its code makes of the error.
    #[cold]
    fn doom(&mut self, error: Error) -> Error {
        if let Error::Conflict(conflict) = &error {
            self.engine.epochs.count(self.slot, conflict.into());
        }
        // No other transaction needs to wait for it any more.
        self.end();
        self.doomed.get_or_insert(error).clone()
    }

    /// Ends the transaction, and returns when its own failure may be told: what it has read, and decided by, must
    /// have been there at one moment, and must not be lost in a crash.
    ///
    /// # Errors
    /// [`Error::Conflict`] if not; those of waiting for what was read.
    pub(crate) fn confirm_reads(&mut self) -> Result<(), Error> {
        if let Some(conflict @ Error::Conflict(_)) = &self.doomed {
            let conflict = conflict.clone();
            self.end();
            return Err(conflict);
        }
        let engine = &*self.engine;
        let access_set = &self.access_set;
        let confirmed = with_protocol!(self.concurrency, P => match engine.spec.release {
            LockRelease::Normal => commit_path::commit_read_only::<P, Normal, NoFaults>(engine, access_set),
            LockRelease::Early => commit_path::commit_read_only::<P, Early, NoFaults>(engine, access_set),
            LockRelease::EpochEarly => commit_path::commit_read_only::<P, EpochEarly, NoFaults>(engine, access_set),
        });
        let ticket = confirmed.map(|confirmed| self.ticket(confirmed));
        // While it waits for the device, no other transaction needs to wait for it. (If it has met a conflict, it is
        // retried.)
        self.end();
        let ticket = ticket?;
        self.release_priority();
        ticket::wait(&self.engine, &ticket)
    }

    fn ticket(&self, Committed { stamp, awaits }: Committed) -> Ticket {
        Ticket {
            owner: self.engine.owner,
            stamp,
            awaits,
        }
    }

    /// Deadlock rule 2 of `tictoc-pwal` §3.2.2: a reader that waits for a locked record frees the locks of its own
    /// group first. Otherwise two workers could each wait for a record that the other's group holds.
    fn wait_for_lock(&self, attempt: u32) -> Result<(), Error> {
        if let Some(stream) = self.stream()
            && self.faults.flush_on_read_wait
            && self.engine.groups_hold_locks()
            && stream.has_pending()
        {
            return stream.flush().map_err(Error::LogFailed);
        }
        if attempt < READ_SPINS {
            std::hint::spin_loop();
            return Ok(());
        }
        self.engine.check_open()?;
        self.engine.yield_to_locks()
    }

    /// The key's record; or nothing, with the gap noted. `locked` is what will be locked of the record, where reads are.
    fn find(
        &mut self,
        raw_table: &Arc<RawTable>,
        key: &[u8],
        locked: LockMode,
    ) -> Result<Option<RecordRef>, Error> {
        self.resolve_deferred_writes()?;
        match raw_table
            .find(key)
            .map_err(|error| Error::from_index(&error, &raw_table.info.name))?
        {
            Ok(record) => {
                self.lookup_cache.note(raw_table.info.id, key, record);
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
    fn value_of(&mut self, record: RecordRef, locked: LockMode) -> Result<Option<&[u8]>, Error> {
        if let Some(at) = self.own_write(record)? {
            return Ok(self.access_set.value(&self.access_set.writes[at]));
        }
        let present = self.read_record(record, locked)?;
        Ok(present.then_some(&self.value[..]))
    }

    /// The transaction's write of a record. If it was to add an amount, the record is read now, and it is the sum.
    #[inline(always)]
    fn own_write(&mut self, record: RecordRef) -> Result<Option<usize>, Error> {
        match self.access_set.write_of(record) {
            Some(at) if self.access_set.adds_at(at) => {
                self.apply_increment_now(record, at).map(Some)
            }
            written => Ok(written),
        }
    }

    /// The key's record, made if there is none.
    fn find_or_create_record(
        &mut self,
        raw_table: &Arc<RawTable>,
        key: &[u8],
    ) -> Result<RecordRef, Error> {
        if let Some(record) = self.lookup_cache.find(raw_table.info.id, key) {
            return Ok(record);
        }
        if self.locks_reads() {
            return Ok(self
                .resolve_in_locked_gap(raw_table, key, LockMode::EXCLUSIVE)?
                .record);
        }
        let locked = with_protocol!(self.concurrency, P => P::NEW_LOCKED);
        let resolved = raw_table
            .find_or_create_record(key, locked)
            .map_err(|error| Error::from_index(&error, &raw_table.info.name))?;
        Ok(self.admit_resolved(resolved, |access_set, inserted| {
            access_set.own_insert(raw_table, inserted)
        }))
    }

    /// Admits a new record. `own_insert` says whether the transaction had read the gap it is in.
    fn admit_resolved(
        &mut self,
        resolved: Resolved,
        own_insert: impl FnOnce(&mut AccessSet, &Insertion) -> bool,
    ) -> RecordRef {
        match resolved {
            Resolved::Found(record) => record,
            Resolved::New {
                record,
                inserted,
                rts,
            } => {
                let seen = with_protocol!(self.concurrency, P => P::admit(record, rts));
                if own_insert(&mut self.access_set, &inserted) {
                    // The gap that was read answers no longer for this key: from now on, others
                    // find its record, and change that and not the leaf.
                    self.access_set.read(record, seen);
                }
                record
            }
        }
    }

    /// Writes a value, whether the key is there or not, without reading it. Where the key's record
    /// has not just been read, it is looked up later, together with those of other writes.
    pub(crate) fn put_bytes(
        &mut self,
        raw_table: &Arc<RawTable>,
        key: &[u8],
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Error> {
        raw_table
            .check_key(key)
            .map_err(|error| Error::from_index(&error, &raw_table.info.name))?;
        let value = self.stage(raw_table, key, encode)?;
        match self.record_of_blind(raw_table, key, &value)? {
            Some(record) => {
                self.access_set
                    .write(record, raw_table.info.id, key, Some(value));
                self.perform(record)
            }
            None => {
                self.access_set.defer_write(raw_table, key, value, None);
                Ok(())
            }
        }
    }

    /// The record of a blind write, if it is known, or needed at once: because it is changed at once, or because a
    /// savepoint goes by positions in the write set, so that a write has to have one.
    #[inline(always)]
    fn record_of_blind(
        &mut self,
        raw_table: &Arc<RawTable>,
        key: &[u8],
        staged: &Range<u32>,
    ) -> Result<Option<RecordRef>, Error> {
        match self.lookup_cache.find(raw_table.info.id, key) {
            None if self.in_place || self.access_set.has_marks() || !self.faults.add_locked => {
                self.resolve_staged(raw_table, key, staged).map(Some)
            }
            cached => Ok(cached),
        }
    }

    /// Writes a value where there is none; returns whether there was none.
    pub(crate) fn insert_bytes(
        &mut self,
        raw_table: &Arc<RawTable>,
        key: &[u8],
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<bool, Error> {
        self.resolve_deferred_writes()?;
        let value = self.stage(raw_table, key, encode)?;
        let record = self.resolve_staged(raw_table, key, &value)?;
        if self.value_of(record, LockMode::EXCLUSIVE)?.is_some() {
            self.access_set.unstage(&value);
            return Ok(false);
        }
        self.access_set
            .write(record, raw_table.info.id, key, Some(value));
        self.perform(record)?;
        Ok(true)
    }

    /// Replaces a value by what `change` makes of it; returns whether there was one.
    pub(crate) fn update_bytes(
        &mut self,
        raw_table: &Arc<RawTable>,
        key: &[u8],
        change: impl FnOnce(&[u8], &mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        match self.find(raw_table, key, LockMode::EXCLUSIVE)? {
            Some(record) => self.update_record(raw_table, key, record, change),
            None => Ok(false),
        }
    }

    #[inline]
    fn update_record(
        &mut self,
        raw_table: &RawTable,
        key: &[u8],
        record: RecordRef,
        change: impl FnOnce(&[u8], &mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let written = self.own_write(record)?;
        self.encoded.clear();
        let present = match written {
            Some(at) => match self.access_set.value(&self.access_set.writes[at]) {
                Some(old) => {
                    change(old, &mut self.encoded)?;
                    true
                }
                None => false,
            },
            None => {
                let present = self.read_record(record, LockMode::EXCLUSIVE)?;
                if present {
                    change(&self.value, &mut self.encoded)?;
                }
                present
            }
        };
        if !present {
            return Ok(false);
        }
        let value = self.stage_encoded(raw_table, key)?;
        match written {
            Some(at) => self.access_set.set_value(at, Some(value)),
            None => self
                .access_set
                .write_what_was_read(raw_table.info.id, key, Some(value)),
        }
        self.perform(record)?;
        Ok(true)
    }

    /// Removes a key; returns whether it was there.
    pub(crate) fn delete_bytes(
        &mut self,
        raw_table: &Arc<RawTable>,
        key: &[u8],
    ) -> Result<bool, Error> {
        let Some(record) = self.find(raw_table, key, LockMode::EXCLUSIVE)? else {
            return Ok(false);
        };
        if self.value_of(record, LockMode::EXCLUSIVE)?.is_none() {
            return Ok(false);
        }
        self.encoded.clear();
        self.stage_encoded(raw_table, key)?;
        self.access_set.write(record, raw_table.info.id, key, None);
        self.perform(record)?;
        Ok(true)
    }

    /// The version of a key that this transaction reads, for histories that are checked for
    /// cycles. It counts as a read.
    pub(crate) fn version_bytes(
        &mut self,
        raw_table: &Arc<RawTable>,
        key: &[u8],
    ) -> Result<Version, Error> {
        let never = Version {
            stamp: Stamp(0),
            present: false,
        };
        let Some(record) = self.find(raw_table, key, LockMode::SHARED)? else {
            return Ok(never);
        };
        self.version_of(record)
    }

    fn version_of(&mut self, record: RecordRef) -> Result<Version, Error> {
        let present = self.read_record(record, LockMode::SHARED)?;
        // The version is that of the last commit, whatever the transaction has made of it since.
        let present = self
            .access_set
            .undo_list
            .was_present(record)
            .unwrap_or(present);
        let read = self.access_set.reads.last().expect("it has just been read");
        Ok(Version {
            stamp: read.seen.creation,
            present,
        })
    }

    /// Makes the group durable that this worker's commits are in, and frees its locks: what a
    /// worker does before it rests.
    pub(crate) fn flush_group(&self) -> Result<(), Error> {
        match self.stream() {
            Some(stream) if stream.has_pending() => stream.flush().map_err(Error::OutcomeUnknown),
            _ => Ok(()),
        }
    }

    /// Makes all groups durable that hold locks, and frees those.
    pub(crate) fn flush_all(&self) -> Result<(), Error> {
        match &self.engine.log {
            // Under early release, groups hold no locks.
            Some(log) if self.engine.groups_hold_locks() => {
                log.flush_all().map_err(Error::OutcomeUnknown)
            }
            _ => self.flush_group(),
        }
    }

    pub(crate) fn worker(&self) -> WorkerId {
        self.worker
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // While the engine, and so the records, are there.
        if self.engine.is_own() {
            self.end();
            self.release_priority();
            self.engine.epochs.release(self.slot);
        }
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction")
            .field("worker", &self.worker)
            .field("reads", &self.access_set.reads.len())
            .field("writes", &self.access_set.writes.len())
            .finish_non_exhaustive()
    }
}
