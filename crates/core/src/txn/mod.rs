//! A transaction: reads, writes, savepoints, and its end.
//!
//! Under optimistic concurrency control, nothing is locked while a transaction's own code runs.
//! Reads copy the current version and note it in the read set; writes are buffered until the
//! commit. So a transaction that is dropped, or that panics in its code, needs no undo, and an idle
//! one blocks no other. Under strict two-phase locking, reads lock first. Where operations are
//! logged one by one, writes are made immediately, too (`in_place.rs`).
//!
//! This module works on bytes; `api::table` and `api::transaction` are the typed interface. Keys
//! that are looked up together are in `batched_lookup.rs`, deferred writes, which wait for such a
//! look-up, in `deferred_writes.rs`, changes that the commit makes in `late_change.rs`, commutative
//! increments among them in `increment.rs`, ranges of keys in `scan.rs`, and keys that are not there
//! in `gap_locks.rs`. Reads and writes of one key are in `read.rs` and `write.rs`. Which values are
//! refused is in `stage_value.rs`, which of their checks tests turn off in `fault_injection.rs`.
//! Tables that are not loaded yet are in `unloaded_tables.rs`, and why a transaction must not commit
//! in `doom.rs`.

mod batched_lookup;
mod deferred_writes;
mod doom;
mod fault_injection;
mod gap_locks;
mod in_place;
mod increment;
mod late_change;
mod read;
mod scan;
pub(crate) mod stage_value;
mod unloaded_tables;
mod write;

use namiki_data::ValueBytes;

use crate::commit::access_set::{AccessSet, Mark};
use crate::commit::commit_path::{self, Committed, Early, EpochEarly, Normal};
use crate::commit::engine::Engine;
use crate::commit::epoch::{Count, SlotId};
use crate::commit::held_resources::TxnResources;
use crate::commit::ticket::{self, Ticket};
use crate::concurrency::cc::{CcProtocol, Checks, NoFaults, with_protocol};
use crate::concurrency::contention::retry_state::{Backoff, PriorityRequest, RetryState};
use crate::error::Error;
use crate::protocol_spec::{ConcurrencyControl, LockRelease, WaitPolicy};
use crate::storage::free_large_buffers::{
    LARGE_BYTES, LARGE_WHILE_IDLE_BYTES, Sizes, free_if_large,
};
#[cfg(test)]
use crate::storage::record::RecordRef;
use crate::table::lookup_cache::LookupCache;
use crate::table::raw_table::RawTable;
use namiki_index::Lookup;
use namiki_platform::{Stamp, WorkerId};
use std::sync::Arc;

use self::doom::Doom;
use self::fault_injection::FaultInjection;
use self::unloaded_tables::UnloadedTables;

/// A running transaction.
///
/// [`Database::transact`](crate::Database::transact) passes one to a closure and ends it;
/// [`Database::begin`](crate::Database::begin) returns one that its owner ends. It is not bound to
/// a thread.
pub struct Transaction {
    resources: TxnResources,
    concurrency: ConcurrencyControl,
    access_set: AccessSet,
    /// The payload that was read last.
    value: Vec<u8>,
    /// The value that is being written.
    encoded: ValueBytes,
    /// The longest value that the log, or a record, can hold.
    value_bytes_max: usize,
    /// The results of a batched look-up in the index.
    lookups: Vec<Lookup>,
    /// The bytes of keys that are looked up together.
    key_bytes: Vec<u8>,
    lookup_cache: LookupCache,
    /// Records are changed before the commit.
    in_place: bool,
    /// It is logged even if it only reads.
    logs_reads: bool,
    /// Admission and commit priority were checked before the first lock.
    asked_for_permit: bool,
    doom: Doom,
    unloaded_tables: UnloadedTables,
    /// The commit has failed because of what the transaction has read: the failure may be told when this is
    /// acknowledged.
    failed_reads: Option<Ticket>,
    faults: FaultInjection,
}

/// A point in a transaction to which it can be rolled back, see [`Transaction::savepoint`].
#[derive(Debug)]
pub struct Savepoint(Mark);

/// A version, as [`Transaction::version`] reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The stamp of the commit that wrote it; 0 if the key was never written, or its deletion is no
    /// longer remembered.
    pub stamp: Stamp,
    /// Whether the key existed in it.
    pub present: bool,
}

impl Transaction {
    /// One on a stream of the log.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Forked`], [`Error::LogFailed`], [`Error::TooManySessions`]; [`Error::ReadOnly`] in a
    /// replica, whose records have other locks.
    pub(crate) fn begin(engine: &Arc<Engine>, worker: WorkerId) -> Result<Self, Error> {
        engine.check_open()?;
        if engine.installed.is_some() {
            return Err(Error::ReadOnly);
        }
        let slot = engine.epochs.acquire().ok_or(Error::TooManySessions)?;
        Ok(Self::new(Arc::clone(engine), worker, slot))
    }

    /// Holds the transaction, which has just begun: its caller would have to repeat it after a conflict. Until its end, no
    /// deleted keys are removed in the background.
    pub(crate) fn hold(&mut self) {
        self.resources.pause_removal();
    }

    fn new(engine: Arc<Engine>, worker: WorkerId, slot: SlotId) -> Self {
        let mut access_set = AccessSet::default();
        access_set.begin(engine.drops.count());
        Self {
            value_bytes_max: engine.value_bytes_max(worker),
            concurrency: engine.spec.concurrency,
            in_place: engine.spec.logs_operations(),
            logs_reads: engine.spec.logs_reads(),
            resources: TxnResources::new(engine, worker, slot),
            access_set,
            value: Vec::new(),
            encoded: ValueBytes::new(),
            lookups: Vec::new(),
            key_bytes: Vec::new(),
            lookup_cache: LookupCache::default(),
            asked_for_permit: false,
            doom: Doom::default(),
            unloaded_tables: UnloadedTables::default(),
            failed_reads: None,
            faults: FaultInjection::of::<NoFaults>(),
        }
    }

    /// Injects the fault of `C` into this transaction and those that reuse it.
    pub(crate) fn inject_faults<C: Checks>(&mut self) {
        self.faults = FaultInjection::of::<C>();
    }

    /// Notes that the transaction uses a table from now on: it is loaded then.
    ///
    /// # Errors
    /// [`Error::ForeignTable`], [`Error::TableDropped`], [`Error::TableLoading`], [`Error::TableNotLoaded`].
    #[inline(always)]
    pub(crate) fn use_table(&mut self, raw_table: &Arc<RawTable>) -> Result<(), Error> {
        if self.access_set.uses_again(raw_table) {
            // If it was dropped since the transaction began, the commit finds out.
            Ok(())
        } else {
            self.begin_to_use(raw_table)
        }
    }

    #[inline(never)]
    fn begin_to_use(&mut self, raw_table: &Arc<RawTable>) -> Result<(), Error> {
        self.resources.engine.check_table(raw_table)?;
        if !raw_table.is_loaded() {
            self.await_loaded(raw_table)?;
        }
        self.access_set.use_table(raw_table);
        Ok(())
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.resources.engine
    }

    /// The engine, for callers that outlive a borrow of the transaction.
    pub(crate) fn shared_engine(&self) -> Arc<Engine> {
        Arc::clone(&self.resources.engine)
    }

    /// Whether it is to write anything.
    pub(crate) fn has_writes(&self) -> bool {
        !self.access_set.writes.is_empty() || !self.access_set.deferred.is_empty()
    }

    /// Whether it has met a conflict.
    pub(crate) fn has_conflict(&self) -> bool {
        self.doom.conflict().is_some()
    }

    /// Whether a version that it has read is known to be no longer valid.
    pub(crate) fn has_dead_reads(&self) -> bool {
        let mut reads = self.access_set.reads.iter();
        with_protocol!(self.concurrency, P => reads.any(|read| P::is_dead(read.record, read.seen)))
    }

    /// The records of the writes so far, in any of their incarnations.
    #[cfg(test)]
    pub(crate) fn written_records(&self) -> Vec<RecordRef> {
        let writes = self.access_set.writes.iter();
        writes.map(|write| write.record.as_it_is()).collect()
    }

    /// How many versions, gaps and rows that have to be there the transaction remembers, to be
    /// validated at its commit. Each takes some dozens of bytes: a scan adds one for each row and
    /// each leaf.
    #[must_use]
    pub fn read_count(&self) -> usize {
        let access_set = &self.access_set;
        access_set.reads.len() + access_set.gap_count() + access_set.presence_count()
    }

    /// The bytes of the keys and values that the transaction holds to be written.
    #[must_use]
    pub fn written_bytes(&self) -> usize {
        self.access_set.bytes()
    }

    /// Whether records are locked before they are read.
    pub(crate) fn locks_reads(&self) -> bool {
        with_protocol!(self.concurrency, P => P::LOCKS_READS)
    }

    /// Prepares for the next transaction.
    pub(crate) fn restart(&mut self) -> Result<(), Error> {
        self.resources.release();
        self.access_set.clear();
        self.access_set.begin(self.resources.engine.drops.count());
        self.lookup_cache.clear();
        self.asked_for_permit = false;
        self.doom = Doom::default();
        self.failed_reads = None;
        if self.locks_reads() {
            self.resources.engine.wait_while_slowed();
        }
        self.resources.engine.check_open()
    }

    /// Ends the transaction with an error that says `why`; it is rolled back. Meant for `return
    /// tx.abort("…")`. A body with an error type of its own is run by
    /// [`Database::transact_with`](crate::Database::transact_with).
    ///
    /// # Errors
    /// Always [`Error::Aborted`].
    pub fn abort<T>(&mut self, why: impl Into<String>) -> Result<T, Error> {
        Err(Error::Aborted(why.into()))
    }

    /// Notes a place to return to with [`Transaction::rollback_to`].
    pub fn savepoint(&mut self) -> Savepoint {
        // If a write cannot be resolved, the next call reports it.
        let _ = self.resolve_deferred_writes();
        let changes = self.resources.held.undo_list.len();
        Savepoint(self.access_set.mark(changes))
    }

    /// Rolls back the writes since the savepoint, and the savepoints made since. Reads since then
    /// still have to be current when the transaction commits.
    ///
    /// # Errors
    /// [`Error::StaleSavepoint`] if the savepoint is not this transaction's, or was rolled back
    /// itself. No write is rolled back then, and the transaction can continue. Under
    /// [`LogStyle::Operations`](crate::LogStyle::Operations), the errors of the log; the transaction cannot commit then.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<(), Error> {
        if self.access_set.return_to(savepoint.0) {
            self.undo_to(savepoint.0.changes)
        } else {
            Err(Error::StaleSavepoint)
        }
    }

    /// Commits, and returns as soon as the transaction is sure to be ordered; it is durable, and
    /// may be reported as done, only when its ticket is acknowledged.
    ///
    /// # Errors
    /// [`Error::Conflict`] and others under which nothing was changed; [`Error::OutcomeUnknown`].
    pub fn commit_async(mut self) -> Result<Ticket, Error> {
        self.finish_confirmed()
    }

    /// Commits, and returns when the transaction is durable.
    ///
    /// # Errors
    /// As [`Transaction::commit_async`].
    pub fn commit(mut self) -> Result<Stamp, Error> {
        let ticket = self.finish_confirmed()?;
        ticket::wait(&self.resources.engine, &ticket)?;
        Ok(ticket.stamp)
    }

    /// Commits; a failure is returned when it may be told.
    fn finish_confirmed(&mut self) -> Result<Ticket, Error> {
        let finished = self.finish::<NoFaults>();
        if let Some(reads) = self.take_failed_reads() {
            ticket::wait(&self.resources.engine, &reads)?;
        }
        finished
    }

    /// Ends the transaction without a trace. Dropping it does the same.
    pub fn rollback(self) {}

    /// Whether a change that is logged at once was refused because the disk is full.
    pub(crate) fn found_no_room(&self) -> bool {
        self.doom.is_for_want_of_room()
    }

    /// Resolves every deferred write to its record, unless the transaction must not commit.
    ///
    /// # Errors
    /// What it failed with before; [`Error::TableFull`].
    pub(crate) fn resolve_writes(&mut self) -> Result<(), Error> {
        self.doom.check()?;
        self.resolve_deferred_writes()
    }

    /// The commits that have to be acknowledged before the failure of the transaction's own commit is
    /// told. The caller of [`Transaction::finish`] waits for them.
    pub(crate) fn take_failed_reads(&mut self) -> Option<Ticket> {
        self.failed_reads.take()
    }

    /// Commits what is in the sets. Tests plant bugs here, through `C`.
    pub(crate) fn finish<C: Checks>(&mut self) -> Result<Ticket, Error> {
        if self.locks_reads() {
            self.finish_locked::<C>()
        } else {
            self.try_finish::<C>()
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
        self.resources.engine.check_open()?;
        self.resolve_writes()?;
        if self.access_set.writes.is_empty() && self.access_set.presence_count() > 0 {
            // Its late changes were rolled back.
            let ticket = self.validate_reads();
            let ticket = ticket.map_err(|error| self.doom(error))?;
            let TxnResources { engine, slot, .. } = &self.resources;
            engine.epochs.count(*slot, Count::ReadOnly);
            return Ok(ticket);
        }
        let locks_reads = self.locks_reads();
        let TxnResources {
            engine,
            worker,
            slot,
            held,
        } = &mut self.resources;
        let (engine, slot, access_set) = (&**engine, *slot, &mut self.access_set);
        let stream = engine.log.as_ref().map(|log| log.stream(*worker));
        // A transaction that holds locks has waited before it took them.
        if stream.is_some() && !locks_reads && !access_set.writes.is_empty() {
            engine.wait_while_slowed();
        }
        let committed = with_protocol!(self.concurrency, P => match engine.spec.release {
            LockRelease::Normal => commit_path::commit::<P, Normal, C>(engine, stream, slot, access_set, held),
            LockRelease::Early => commit_path::commit::<P, Early, C>(engine, stream, slot, access_set, held),
            LockRelease::EpochEarly => commit_path::commit::<P, EpochEarly, C>(engine, stream, slot, access_set, held),
        });
        let is_64th = match &committed {
            Ok(_) if self.access_set.writes.is_empty() => {
                engine.epochs.count(slot, Count::ReadOnly)
            }
            Ok(_) => {
                if stream.is_some() {
                    let changed_bytes = self.access_set.changed_bytes();
                    engine.epochs.add(slot, Count::ChangedBytes, changed_bytes);
                }
                engine.epochs.count(slot, Count::Committed)
            }
            Err(Error::Conflict(conflict)) => engine.epochs.count(slot, conflict.into()),
            Err(_) => false,
        };
        if let Err(
            error @ (Error::Overflow { .. }
            | Error::Undecodable { .. }
            | Error::ChangeRefused { .. }
            | Error::ValueTooLong { .. }
            | Error::TransactionTooLarge { .. }),
        ) = committed
        {
            // The versions that it read may not be durable yet.
            self.failed_reads = Some(self.confirm_reads()?);
            return Err(error);
        }
        let committed = committed?;
        if self.access_set.has_deletions() || !self.resources.held.new_records.is_empty() {
            self.resources
                .leave_removed_keys(&self.access_set, committed.stamp);
        }
        if is_64th {
            self.resources.engine.take_out_overdue();
        }
        Ok(self.ticket(committed))
    }

    /// An attempt ended in a conflict. Returns how many did, in a row.
    pub(crate) fn note_conflict(&mut self) -> u32 {
        self.resources.held.retry.note_conflict()
    }

    /// How many attempts in a row ended in a conflict.
    pub(crate) fn conflicts_in_a_row(&self) -> u32 {
        self.resources.held.retry.conflicts_in_a_row()
    }

    /// What to do before the next attempt.
    pub(crate) fn backoff(&self) -> Backoff {
        self.resources.held.retry.backoff()
    }

    /// Before one more attempt: requests commit priority if it is time to. (Transactions that wait for locks have their
    /// own order.)
    pub(crate) fn request_priority(&mut self) {
        if self.may_request_priority() {
            let TxnResources { engine, held, .. } = &mut self.resources;
            held.retry.request_priority(&engine.priority);
        }
    }

    /// After a conflict of a task: releases the priority token until the task requests it next. Returns that request.
    pub(crate) fn suspend_priority(&mut self) -> PriorityRequest {
        if !self.may_request_priority() {
            return PriorityRequest::None;
        }
        let TxnResources { engine, held, .. } = &mut self.resources;
        held.retry.suspend_priority(&engine.priority)
    }

    /// Whether commit priority is of use to it.
    pub(crate) fn may_request_priority(&self) -> bool {
        !self.locks_reads() || self.resources.engine.waits.policy == WaitPolicy::NoWait
    }

    /// The next transaction is not a retry of this one: it has no wait age and no priority.
    pub(crate) fn start_afresh(&mut self) {
        let TxnResources { engine, held, .. } = &mut self.resources;
        held.retry.start_afresh(&engine.priority);
    }

    /// The state that is carried over its attempts.
    pub(crate) fn retry_state(&mut self) -> &mut RetryState {
        &mut self.resources.held.retry
    }

    /// Releases the priority token.
    pub(crate) fn release_priority(&mut self) {
        self.resources.release_priority();
    }

    /// See [`TxnResources::release`].
    pub(crate) fn end(&mut self) {
        self.resources.release();
    }

    /// Frees the buffers that have become large (`free_large_buffers.rs`). The transaction has ended.
    #[inline(always)]
    pub(crate) fn free_large_buffers(&mut self) {
        if self.has_large_buffers() {
            self.free_each_large_buffer(LARGE_BYTES);
        }
    }

    /// The same where the transaction is one of thousands that wait for clients: only small buffers stay.
    pub(crate) fn free_buffers_while_idle(&mut self) {
        if self.kept_buffers_reach(LARGE_WHILE_IDLE_BYTES) {
            self.free_each_large_buffer(LARGE_WHILE_IDLE_BYTES);
            free_if_large(&mut self.key_bytes, LARGE_WHILE_IDLE_BYTES);
            free_if_large(&mut self.lookups, LARGE_WHILE_IDLE_BYTES);
        }
    }

    /// Whether one of all buffers has this size, a power of two.
    pub(crate) fn kept_buffers_reach(&self, large_bytes: usize) -> bool {
        let sizes = self.sizes().with(&self.key_bytes).with(&self.lookups);
        let sizes = sizes.and(self.resources.held.sizes());
        sizes.reach(large_bytes)
    }

    /// Whether one of the buffers has become large.
    #[inline(always)]
    pub(crate) fn has_large_buffers(&self) -> bool {
        let held = &self.resources.held;
        self.sizes().reach(LARGE_BYTES) || self.locks_reads() && held.sizes().reach(LARGE_BYTES)
    }

    #[inline(always)]
    fn sizes(&self) -> Sizes {
        let sizes = Sizes::default().with(&self.value).with(&self.encoded);
        sizes.and(self.access_set.sizes())
    }

    #[cold]
    fn free_each_large_buffer(&mut self, large_bytes: usize) {
        self.end();
        self.access_set.free_large_buffers(large_bytes);
        self.resources.held.free_large_buffers(large_bytes);
        free_if_large(&mut self.value, large_bytes);
        free_if_large(&mut self.encoded, large_bytes);
    }

    fn ticket(&self, Committed { stamp, awaits }: Committed) -> Ticket {
        Ticket {
            owner: self.resources.engine.owner,
            stamp,
            awaits,
        }
    }

    /// Makes the group durable that this worker's commits are in, and frees its locks: what a
    /// worker does before it rests.
    pub(crate) fn flush_group(&self) -> Result<(), Error> {
        match self.resources.stream() {
            Some(stream) if stream.has_pending() => {
                stream.flush().map_err(ticket::not_acknowledged)
            }
            _ => Ok(()),
        }
    }

    /// Makes all groups durable that hold locks, and frees those.
    pub(crate) fn flush_all(&self) -> Result<(), Error> {
        let engine = &self.resources.engine;
        match &engine.log {
            // Under early release, groups hold no locks.
            Some(log) if engine.groups_hold_locks() => {
                log.flush_all().map_err(ticket::not_acknowledged)
            }
            _ => self.flush_group(),
        }
    }

    pub(crate) fn worker(&self) -> WorkerId {
        self.resources.worker
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction")
            .field("worker", &self.resources.worker)
            .field("reads", &self.access_set.reads.len())
            .field("writes", &self.access_set.writes.len())
            .finish_non_exhaustive()
    }
}
