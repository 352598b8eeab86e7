//! Running transactions one after the other: retries, waiting, and tickets.

use std::sync::Arc;
use std::time::{Duration, Instant};

use namiki_data::{AsKey, Key};
use namiki_platform::WorkerId;
use namiki_platform::seeded_random::Random;

use crate::api::running_body::RunningBody;
use crate::api::table::Table;
use crate::commit::ticket::{self, Ticket};
use crate::concurrency::cc::{Checks, NoFaults};
use crate::concurrency::contention::retry_state::{Backoff, PriorityRequest};
use crate::error::{Conflict, Error};
use crate::events;
use crate::table::raw_table::RawTable;
use crate::txn::Transaction;

/// How often a transaction is retried after log space was freed for it.
pub(crate) const ROOM_MADE_MAX: u32 = 8;

/// Runs transactions on one log stream.
///
/// [`Database::transact`](crate::Database::transact) takes a session from a pool each time; a
/// thread that runs many transactions keeps its own. Dropping a session makes its group durable.
#[derive(Debug)]
pub struct Session {
    transaction: Transaction,
    random: Random,
    attempts: u64,
    /// How often room was made for the transaction since its first attempt.
    room_made: u32,
    /// A transaction that was begun, and is ended by its owner (`held_session.rs`).
    pub(super) held: HeldTransaction,
}

/// The state of the transaction that a session holds for its owner.
#[derive(Debug, Default)]
pub(super) struct HeldTransaction {
    pub(super) is_running: bool,
    /// The request for priority that its commit makes.
    pub(super) priority: PriorityRequest,
}

impl Session {
    pub(crate) fn new(mut transaction: Transaction, seed: u64) -> Self {
        transaction.end_attempts_on_unloaded_tables();
        Self {
            transaction,
            random: Random::seeded(seed),
            attempts: 0,
            room_made: 0,
            held: HeldTransaction::default(),
        }
    }

    /// The log stream of this session's commits.
    #[must_use]
    pub fn worker(&self) -> WorkerId {
        self.transaction.worker()
    }

    pub(crate) fn transaction(&self) -> &Transaction {
        &self.transaction
    }

    /// How often a transaction of this session was run, retries included.
    #[must_use]
    pub fn attempts(&self) -> u64 {
        self.attempts
    }

    /// Runs a transaction until it commits, and returns when it is durable. See
    /// [`Database::transact`](crate::Database::transact).
    ///
    /// # Errors
    /// What `body` returns, other than a conflict; [`Error::TooManyConflicts`]; [`Error::NestedTransaction`]; and the errors of
    /// [`Transaction::commit`].
    pub fn transact<T>(
        &mut self,
        body: impl FnMut(&mut Transaction) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let began = self.clock();
        let (value, ticket) = self.transact_async(body)?;
        self.wait(&ticket)?;
        self.record_latency(began);
        Ok(value)
    }

    /// [`Session::transact`] for a body that refuses with an error of its own. See
    /// [`Database::transact_with`](crate::Database::transact_with).
    ///
    /// # Errors
    /// What `body` returns, unless a conflict was met; and the errors of [`Session::transact`], as an `E`.
    pub fn transact_with<T, E: From<Error>>(
        &mut self,
        body: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let began = self.clock();
        let (value, ticket) = self.transact_async_with(body)?;
        self.wait(&ticket)?;
        self.record_latency(began);
        Ok(value)
    }

    /// Now, if commits are logged. In memory, looking at the clock would take a good part of a transaction's time.
    #[inline]
    fn clock(&self) -> Option<Instant> {
        self.transaction.engine().log.is_some().then(Instant::now)
    }

    #[inline]
    fn record_latency(&self, began: Option<Instant>) {
        if let Some(began) = began {
            self.transaction.engine().latencies.record(began.elapsed());
        }
    }

    /// Runs a transaction until it commits, and returns without waiting for it to be durable.
    ///
    /// # Errors
    /// As [`Session::transact`].
    #[inline]
    pub fn transact_async<T>(
        &mut self,
        mut body: impl FnMut(&mut Transaction) -> Result<T, Error>,
    ) -> Result<(T, Ticket), Error> {
        self.retry(|session| session.attempt::<NoFaults, _, _>(&mut body, conflict_in))
    }

    /// [`Session::transact_async`] for a body that refuses with an error of its own.
    ///
    /// # Errors
    /// As [`Session::transact_with`].
    #[inline]
    pub fn transact_async_with<T, E: From<Error>>(
        &mut self,
        mut body: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<(T, Ticket), E> {
        self.retry(|session| session.attempt::<NoFaults, _, _>(&mut body, |_| None))
    }

    /// Retries until an attempt ends without a conflict.
    #[inline]
    fn retry<T, E: From<Error>>(
        &mut self,
        mut make_attempt: impl FnMut(&mut Self) -> Result<T, Failure<E>>,
    ) -> Result<T, E> {
        loop {
            match make_attempt(self) {
                Ok(done) => {
                    self.end_attempts();
                    return Ok(done);
                }
                Err(failure) => {
                    if let Err(failure) = self.prepare_retry(failure) {
                        self.end_attempts();
                        return Err(failure.into_error());
                    }
                }
            }
        }
    }

    /// After a failed attempt that is worth a retry: waits for its backoff.
    #[inline(never)]
    fn prepare_retry<E>(&mut self, failure: Failure<E>) -> Result<(), Failure<E>> {
        if let Failure::Unloaded(raw_table) = failure {
            return raw_table.load_state.wait().map_err(Failure::Engine);
        }
        if failure.is_for_want_of_room() {
            return self.wait_for_room(failure);
        }
        self.check_retry(failure)?;
        self.sleep_before_retry();
        self.transaction.request_priority();
        Ok(())
    }

    /// After an attempt that was refused because the disk is full: waits until room was made, if some can be.
    #[cold]
    fn wait_for_room<E>(&mut self, failure: Failure<E>) -> Result<(), Failure<E>> {
        // Other transactions may take it.
        if self.room_made == ROOM_MADE_MAX || !self.transaction.engine().room_requests.ask() {
            return Err(failure);
        }
        self.room_made += 1;
        Ok(())
    }

    /// Whether an attempt that failed is worth another one.
    pub(crate) fn check_retry<E>(&mut self, failure: Failure<E>) -> Result<(), Failure<E>> {
        let Failure::Conflict(last) = failure else {
            return Err(failure);
        };
        let attempts = self.transaction.note_conflict();
        if attempts >= self.transaction.engine().attempts_max {
            events::gave_up(attempts, &last);
            return Err(Failure::Engine(Error::TooManyConflicts { attempts, last }));
        }
        Ok(())
    }

    /// Ends the state that is kept between attempts, after the last one. Large buffers are freed
    /// only here, because each further attempt would need them again.
    #[inline(always)]
    pub(crate) fn end_attempts(&mut self) {
        self.room_made = 0;
        self.transaction.start_afresh();
        self.transaction.free_large_buffers();
    }

    /// Runs a transaction once, and returns without waiting for it to be durable.
    ///
    /// # Errors
    /// As [`Session::transact`], [`Error::Conflict`], and [`Error::TableLoading`].
    pub fn try_transact_async<T>(
        &mut self,
        body: impl FnOnce(&mut Transaction) -> Result<T, Error>,
    ) -> Result<(T, Ticket), Error> {
        let done = self.attempt::<NoFaults, _, _>(body, conflict_in);
        self.transaction.free_large_buffers();
        done.map_err(Failure::of_only_attempt)
    }

    /// [`Session::try_transact_async`] for a body that refuses with an error of its own.
    ///
    /// # Errors
    /// As [`Session::transact_with`]; and [`Error::Conflict`], as an `E`, if the transaction met one, or
    /// [`Error::TableLoading`], whatever `body` returned.
    pub fn try_transact_async_with<T, E: From<Error>>(
        &mut self,
        body: impl FnOnce(&mut Transaction) -> Result<T, E>,
    ) -> Result<(T, Ticket), E> {
        let done = self.attempt::<NoFaults, _, _>(body, |_| None);
        self.transaction.free_large_buffers();
        done.map_err(Failure::of_only_attempt)
    }

    /// [`Session::try_transact_async`] with an injected fault, to test that it is detected. Faults
    /// in the operations of a body need the feature `fault-injection`, and do not compile without
    /// it. Calls may be nested, so that one thread controls the interleaving of transactions.
    #[doc(hidden)]
    pub fn try_faulty<C: Checks, T>(
        &mut self,
        body: impl FnOnce(&mut Transaction) -> Result<T, Error>,
    ) -> Result<(T, Ticket), Error> {
        let done = self.attempt_guarded_by::<C, _, _>(None, body, conflict_in);
        let done = done.map_err(|ended| ended.confirm(&self.transaction));
        self.transaction.free_large_buffers();
        done.map_err(Failure::of_only_attempt)
    }

    #[inline]
    fn attempt<C: Checks, T, E>(
        &mut self,
        body: impl FnOnce(&mut Transaction) -> Result<T, E>,
        conflict_in: impl FnOnce(&E) -> Option<Conflict>,
    ) -> Result<(T, Ticket), Failure<E>> {
        let done = self.attempt_unconfirmed::<C, T, E>(body, conflict_in);
        done.map_err(|ended| ended.confirm(&self.transaction))
    }

    /// Runs a transaction once. If it fails, its failure must not be returned before the versions
    /// that it has read are durable.
    #[inline]
    pub(crate) fn attempt_unconfirmed<C: Checks, T, E>(
        &mut self,
        body: impl FnOnce(&mut Transaction) -> Result<T, E>,
        conflict_in: impl FnOnce(&E) -> Option<Conflict>,
    ) -> Result<(T, Ticket), Ended<E>> {
        // Checked first: the beginning of the attempt may wait for a transaction that this thread
        // is running.
        let guard = RunningBody::begin(self.transaction.engine().owner)?;
        self.attempt_guarded_by::<C, T, E>(Some(guard), body, conflict_in)
    }

    /// The same, with what says that a body runs, as long as it does.
    #[inline]
    fn attempt_guarded_by<C: Checks, T, E>(
        &mut self,
        guard: Option<RunningBody>,
        body: impl FnOnce(&mut Transaction) -> Result<T, E>,
        conflict_in: impl FnOnce(&E) -> Option<Conflict>,
    ) -> Result<(T, Ticket), Ended<E>> {
        if self.held.is_running {
            self.rollback();
        }
        self.count_attempt();
        self.held = HeldTransaction::default();
        let running = Running(&mut self.transaction);
        let done = attempt::<C, T, E>(running.0, guard, body, conflict_in);
        running.ended();
        done
    }

    pub(super) fn count_attempt(&mut self) {
        self.attempts += 1;
    }

    /// The transaction that it runs, for what comes between the attempts.
    pub(crate) fn transaction_mut(&mut self) -> &mut Transaction {
        &mut self.transaction
    }

    /// A random part of this.
    pub(crate) fn part_of(&mut self, longest: Duration) -> Duration {
        longest.mul_f64(self.random.unit())
    }

    /// Prefetches what transactions on these keys will read, see [`Transaction::prefetch`]. Useful
    /// for a caller with several transactions ready to run, such as a server that received a
    /// pipeline of statements: a transaction of one key has no other cache misses with which to
    /// overlap its own, but the next ones have.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let db = namiki::Database::open(&dir.path().join("data"))?;
    /// let counters = db.table::<u64, u64>("counters")?;
    /// let mut session = db.session()?;
    /// let received = [3, 1, 4, 1, 5];
    /// session.prefetch(&counters, received);
    /// for key in received {
    ///     session.transact(|tx| {
    ///         let count = tx.get(&counters, &key)?.unwrap_or(0);
    ///         tx.put(&counters, &key, &(count + 1))
    ///     })?;
    /// }
    /// # assert_eq!(db.transact(|tx| tx.get(&counters, &1))?, Some(2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn prefetch<K: Key + ?Sized, V: ?Sized, Q: AsKey<K>>(
        &mut self,
        table: &Table<K, V>,
        keys: impl IntoIterator<Item = Q>,
    ) {
        self.transaction.prefetch(table, keys);
    }

    /// Returns when the transaction is durable, and everything it depends on.
    ///
    /// # Errors
    /// As [`Database::wait`](crate::Database::wait).
    pub fn wait(&self, ticket: &Ticket) -> Result<(), Error> {
        ticket::wait(self.transaction.engine(), ticket)
    }

    /// Whether the transaction is durable, and everything it depends on.
    #[must_use]
    pub fn is_acknowledged(&self, ticket: &Ticket) -> bool {
        ticket::is_acknowledged(self.transaction.engine(), ticket)
    }

    /// Makes the group that is being gathered durable now. A thread that stops committing for a
    /// while does this, or leaves it to the log's own time limit.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`] if the log fails.
    pub fn flush(&self) -> Result<(), Error> {
        self.transaction.flush_group()
    }

    /// Back-off: waits longer after each conflict, and for a randomised time, so that two transactions that
    /// conflicted do not meet again.
    fn sleep_before_retry(&mut self) {
        match self.transaction.backoff() {
            Backoff::Nothing => {}
            Backoff::Yield => std::thread::yield_now(),
            Backoff::Sleep(longest) => {
                // The conflicting lock may be held by a group of any stream that no thread is about
                // to flush, or by one with a slow flush. The next attempt reports a failure.
                let _ = self.transaction.flush_all();
                let part = self.part_of(longest);
                std::thread::sleep(part);
            }
        }
    }
}

/// An attempt that did not commit.
pub(crate) struct Ended<E> {
    pub(crate) failure: Failure<E>,
    /// The commits that have to be acknowledged before the failure is returned.
    pub(crate) reads: Option<Box<Ticket>>,
}

impl<E> Ended<E> {
    /// Waits until the failure may be returned.
    fn confirm(self, transaction: &Transaction) -> Failure<E> {
        let Some(reads) = self.reads else {
            return self.failure;
        };
        match ticket::wait(transaction.engine(), &reads) {
            Ok(()) => self.failure,
            Err(error) => error.into(),
        }
    }
}

impl<E> From<Error> for Ended<E> {
    fn from(error: Error) -> Self {
        Self {
            failure: error.into(),
            reads: None,
        }
    }
}

/// How an attempt ended that did not commit.
pub(crate) enum Failure<E> {
    /// In a conflict, which the transaction recorded or its commit met: it is worth another attempt.
    Conflict(Conflict),
    /// In an error of the body, which is valid: the versions that the body had read are current and
    /// durable.
    Body(E),
    /// In an error of the engine.
    Engine(Error),
    /// In an error of the body, and the log had no room for its changes.
    NoRoom(E),
    /// At a table that is not loaded yet: it is worth another attempt when it is.
    Unloaded(Arc<RawTable>),
}

impl<E> From<Error> for Failure<E> {
    fn from(error: Error) -> Self {
        match error {
            Error::Conflict(conflict) => Self::Conflict(conflict),
            error => Self::Engine(error),
        }
    }
}

impl<E> Failure<E> {
    /// Whether the attempt is worth a retry once room was made.
    pub(crate) fn is_for_want_of_room(&self) -> bool {
        matches!(self, Self::Engine(Error::DiskFull(_)) | Self::NoRoom(_))
    }
}

impl<E: From<Error>> Failure<E> {
    pub(crate) fn into_error(self) -> E {
        match self {
            Self::Conflict(conflict) => Error::Conflict(conflict).into(),
            Self::Body(error) | Self::NoRoom(error) => error,
            Self::Engine(error) => error.into(),
            Self::Unloaded(raw_table) => {
                let table = raw_table.name();
                Error::TableLoading { table }.into()
            }
        }
    }

    /// The error of the last attempt. If a table was not loaded, it is loaded when this returns.
    fn of_only_attempt(self) -> E {
        match &self {
            Self::Unloaded(raw_table) => match raw_table.load_state.wait() {
                Ok(()) => self.into_error(),
                Err(error) => error.into(),
            },
            _ => self.into_error(),
        }
    }
}

/// The conflict that a body's error passes on, its own transaction's or that of one that it has begun inside.
pub(crate) fn conflict_in(error: &Error) -> Option<Conflict> {
    match error {
        Error::Conflict(conflict) => Some(*conflict),
        _ => None,
    }
}

/// Runs a transaction once. A conflict that the transaction has recorded ends the attempt, whatever `body` returns;
/// so does one that `conflict_in` finds in the body's error.
#[inline]
fn attempt<C: Checks, T, E>(
    transaction: &mut Transaction,
    guard: Option<RunningBody>,
    body: impl FnOnce(&mut Transaction) -> Result<T, E>,
    conflict_in: impl FnOnce(&E) -> Option<Conflict>,
) -> Result<(T, Ticket), Ended<E>> {
    transaction.restart()?;
    transaction.inject_faults::<C>();
    // Each access to an index pins the thread against reclamation, which costs a memory fence: no
    // access could begin before the previous one had finished all its cache misses. Inside a pin of
    // the whole body, they cost nothing. But one that waits for locks may park for long, and
    // nothing is reclaimed while any thread is pinned.
    let pinned = (!transaction.locks_reads()).then(crossbeam_epoch::pin);
    let result = match body(transaction) {
        Ok(value) => match transaction.resolve_writes() {
            Ok(()) => Ok(value),
            Err(error) => Err(Failure::from(error)),
        },
        Err(error) => Err(match conflict_in(&error) {
            Some(conflict) => Failure::Conflict(conflict),
            None => Failure::Body(error),
        }),
    };
    // The code below may wait for the disk.
    drop(pinned);
    drop(guard);
    let value = match result {
        Ok(value) => value,
        Err(failure) => {
            let failure = match transaction.take_unloaded_table() {
                Some(raw_table) => Failure::Unloaded(raw_table),
                None => failure,
            };
            if let Failure::Conflict(_) | Failure::Unloaded(_) = failure {
                transaction.end();
                return Err(Ended {
                    failure,
                    reads: None,
                });
            }
            let reads = Some(Box::new(transaction.confirm_reads()?));
            let failure = match failure {
                Failure::Body(error) if transaction.found_no_room() => {
                    transaction.end();
                    Failure::NoRoom(error)
                }
                failure => failure,
            };
            return Err(Ended { failure, reads });
        }
    };
    let finished = transaction.finish::<C>();
    let ticket = finished.map_err(|error| Ended {
        failure: error.into(),
        reads: transaction.take_failed_reads().map(Box::new),
    })?;
    Ok((value, ticket))
}

/// Undoes the transaction and releases its locks and its priority if its code panics, or a disk does at its commit.
pub(super) struct Running<'a>(pub(super) &'a mut Transaction);

impl Running<'_> {
    pub(super) fn ended(self) {
        std::mem::forget(self);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.end();
        self.0.start_afresh();
        self.0.retry_state().run_in_task(false);
        self.0.free_large_buffers();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // No caller is left to report a failure to; tickets of these commits report it.
        let _ = self.flush();
    }
}
