//! Held transactions: begun, continued and ended by separate calls of a session, for programs that
//! receive the statements of a transaction one by one.
//!
//! The session is tied to no thread. Between two calls it holds no pin, and no commit priority:
//! priority is requested at the commit, awaited as by a task, and released with the commit. So a
//! client that does not send its next statement delays no other transaction. (Under strict
//! two-phase locking, its transaction keeps its locks.)
//!
//! The session keeps the retry state ([`RetryState`]) from one transaction to the next if the first
//! one ended in a conflict: the next one is a retry of it.
//!
//! [`RetryState`]: crate::concurrency::contention::retry_state::RetryState

use std::time::Instant;

use crate::api::running_body::{RunningBody, check_not_nested};
use crate::api::session::{Failure, ROOM_MADE_MAX, Running, Session};
use crate::api::task_waits::{
    Loaded, MadeRoom, back_off, confirmed, prepare_retry, request_priority, sleep,
    yield_to_priority,
};
use crate::commit::ticket::{Acknowledged, Ticket};
use crate::concurrency::cc::NoFaults;
use crate::concurrency::contention::policy::{COMMIT_LOCK_BACKOFF, HELD_COMMIT_WAIT_MAX};
use crate::concurrency::contention::retry_state::PriorityRequest;
use crate::error::{Conflict, Error};
use crate::txn::Transaction;

/// Transactions that are held between calls.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let db = namiki::Database::in_memory()?;
/// let counters = db.table::<u64, u64>("counters")?;
/// let mut session = db.session()?;
/// session.begin()?;
/// let before = session.statement(|tx| tx.get(&counters, &1))?.unwrap_or(0);
/// // Here, the session may wait for its client, or move to another thread.
/// session.statement(|tx| tx.put(&counters, &1, &(before + 1)))?;
/// let ticket = session.commit().await?;
/// db.acknowledged(ticket).await?;
/// # assert_eq!(db.transact(|tx| tx.get(&counters, &1))?, Some(1));
/// # Ok(())
/// # })
/// # }
/// ```
impl Session {
    /// Begins a transaction, which [`Session::commit`] or [`Session::rollback`] ends. One that is
    /// running is rolled back. If the transaction before ended in a conflict, this one is a retry
    /// of it: it keeps the number of conflicts in a row, and its wait age. Until it ends, the
    /// database does not remove deleted keys in the background, so that the transaction meets no
    /// conflict if no other one commits.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Forked`], [`Error::LogFailed`]; [`Error::NestedTransaction`].
    pub fn begin(&mut self) -> Result<(), Error> {
        check_not_nested(self.transaction().engine().owner)?;
        self.rollback();
        self.count_attempt();
        let transaction = self.transaction_mut();
        transaction.restart()?;
        transaction.hold();
        transaction.inject_faults::<NoFaults>();
        transaction.retry_state().run_in_task(true);
        self.held.is_running = true;
        Ok(())
    }

    /// Whether a transaction was begun and not ended. One that has met a conflict runs until it is
    /// ended: its commit fails.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.held.is_running
    }

    /// How many transactions in a row have ended in a conflict, up to the last one.
    #[must_use]
    pub fn conflicts_in_a_row(&self) -> u32 {
        self.transaction().conflicts_in_a_row()
    }

    /// Runs a part of the transaction that was begun. It does not wait: it should be short, as the
    /// body of [`Database::transact_in_task`](crate::Database::transact_in_task).
    ///
    /// The reads of `body` may be inconsistent, and may be lost in a crash, until
    /// [`Transaction::end_statement`] or the commit confirms them. If it returns an error, the
    /// transaction runs on; whether it can commit depends on the error. If it panics, the
    /// transaction is rolled back.
    ///
    /// # Errors
    /// What `body` returns; [`Error::NoTransaction`]; [`Error::NestedTransaction`].
    pub fn statement<T, E: From<Error>>(
        &mut self,
        body: impl FnOnce(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        if !self.held.is_running {
            return Err(Error::NoTransaction.into());
        }
        let guard = RunningBody::begin(self.transaction().engine().owner)?;
        // After a panic, none runs.
        self.held.is_running = false;
        let running = Running(self.transaction_mut());
        // As in an attempt: accesses to indexes are cheaper inside of one pin.
        let pinned = (!running.0.locks_reads()).then(crossbeam_epoch::pin);
        let result = body(running.0);
        drop(pinned);
        drop(guard);
        running.ended();
        self.held.is_running = true;
        result
    }

    /// Commits the transaction that was begun, and ends when it is sure to be ordered. It is
    /// durable, and may be reported as done, only when its ticket is
    /// [acknowledged](crate::Database::acknowledged). Whatever the result, the transaction has ended
    /// (but for [`Error::NestedTransaction`], with which nothing has begun to end).
    ///
    /// Waits for the transaction with commit priority, if there is one, and after 64 conflicts in a
    /// row for priority of its own, as [`Database::transact`](crate::Database::transact) does; none
    /// of these waits takes the thread that polls. The same waits block as in
    /// [`Database::transact_in_task`](crate::Database::transact_in_task).
    ///
    /// If the future is dropped before its end, the transaction is rolled back.
    ///
    /// # Errors
    /// [`Error::Conflict`]: nothing was changed, and the next transaction of the session is a retry.
    /// The other errors of [`Transaction::commit_async`]; [`Error::NoTransaction`];
    /// [`Error::NestedTransaction`].
    pub async fn commit(&mut self) -> Result<Ticket, Error> {
        if !self.held.is_running {
            return Err(Error::NoTransaction);
        }
        // It might wait for the outer transaction.
        check_not_nested(self.transaction().engine().owner)?;
        let mut ending = Ending(self);
        ending.await_priority().await;
        let finished = ending.finish().await;
        let transaction = ending.0.transaction_mut();
        if let Some(reads) = transaction.take_failed_reads() {
            let engine = transaction.shared_engine();
            Acknowledged::new(engine, reads).await?;
        }
        ending.end(matches!(finished, Err(Error::Conflict(_))));
        finished
    }

    /// Ends the transaction that was begun without a trace, if one runs.
    pub fn rollback(&mut self) {
        if self.held.is_running {
            let has_conflict = self.transaction().has_conflict();
            self.end_held(has_conflict);
        }
    }

    /// The next transaction is no retry. One that runs is rolled back.
    pub fn start_afresh(&mut self) {
        self.rollback();
        self.end_held(false);
    }

    /// Waits before a retry: after the second conflict in a row, it lets other tasks run, and from
    /// the ninth on it takes a random time that grows to a millisecond.
    pub async fn back_off(&mut self) {
        let engine = self.transaction().shared_engine();
        back_off(&engine, self).await;
    }

    /// Runs a transaction until it commits, as
    /// [`Database::transact_in_task_with`](crate::Database::transact_in_task_with) does, on the
    /// stream of this session, and ends before the transaction is durable: see [`Session::commit`].
    /// A transaction that was begun is rolled back first.
    ///
    /// # Errors
    /// As [`Session::transact_with`].
    pub async fn run<T, E: From<Error>>(
        &mut self,
        mut body: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<(T, Ticket), E> {
        let engine = self.transaction().shared_engine();
        check_not_nested(engine.owner)?;
        self.rollback();
        self.transaction_mut().retry_state().run_in_task(true);
        let ending = Ending(self);
        let session = &mut *ending.0;
        let mut room_made = 0;
        loop {
            yield_to_priority(&engine, session).await;
            let done = session.attempt_unconfirmed::<NoFaults, T, E>(&mut body, |_| None);
            let failure = match done {
                Ok(done) => return Ok(done),
                Err(ended) => confirmed(&engine, ended).await,
            };
            if matches!(failure, Failure::Unloaded(_)) || failure.is_for_want_of_room() {
                // All other commits would wait for as long as this one does.
                session.transaction_mut().release_priority();
            }
            if let Failure::Unloaded(raw_table) = failure {
                Loaded(&raw_table).await?;
                continue;
            }
            if failure.is_for_want_of_room() {
                // Other transactions may take it.
                if room_made == ROOM_MADE_MAX || !MadeRoom::new(&engine).await {
                    return Err(failure.into_error());
                }
                room_made += 1;
                continue;
            }
            if let Err(failure) = prepare_retry(&engine, session, failure).await {
                return Err(failure.into_error());
            }
        }
    }

    /// Ends the transaction that was begun, and what it holds. After a conflict, the retry state
    /// stays.
    fn end_held(&mut self, has_conflict: bool) {
        self.held.is_running = false;
        let transaction = self.transaction_mut();
        transaction.end();
        drop(transaction.take_unloaded_table());
        let priority = if has_conflict {
            transaction.note_conflict();
            transaction.suspend_priority()
        } else {
            transaction.start_afresh();
            PriorityRequest::None
        };
        transaction.retry_state().run_in_task(false);
        transaction.free_buffers_while_idle();
        self.held.priority = priority;
    }
}

/// A transaction of a task that is about to end. If its future is dropped before, it is rolled back, and releases all that
/// it holds.
struct Ending<'a>(&'a mut Session);

impl Ending<'_> {
    /// Waits for the transaction with commit priority, or for priority of its own.
    async fn await_priority(&mut self) {
        let session = &mut *self.0;
        let request = std::mem::take(&mut session.held.priority);
        let transaction = session.transaction_mut();
        // Priority is of no use to a transaction that only reads, nor to one that waited for its locks.
        if !transaction.has_writes() || transaction.locks_reads() {
            return;
        }
        let token = &transaction.engine().priority;
        if request == PriorityRequest::None && !token.is_taken() {
            return;
        }
        let engine = transaction.shared_engine();
        match request {
            PriorityRequest::None => yield_to_priority(&engine, session).await,
            request => request_priority(&engine, session, request).await,
        }
    }

    /// Commits. A lock of another commit is waited for as long as the reads may still be valid, since a client that is
    /// told of a conflict has to run its transaction again.
    async fn finish(&mut self) -> Result<Ticket, Error> {
        let transaction = self.0.transaction_mut();
        let finished = transaction.finish::<NoFaults>();
        if !waits_for_locks(transaction, &finished) {
            return finished;
        }
        let engine = transaction.shared_engine();
        let until = Instant::now() + HELD_COMMIT_WAIT_MAX;
        loop {
            sleep(&engine, COMMIT_LOCK_BACKOFF).await;
            let finished = transaction.finish::<NoFaults>();
            if !waits_for_locks(transaction, &finished) || Instant::now() >= until {
                return finished;
            }
        }
    }

    /// The transaction has ended.
    fn end(self, has_conflict: bool) {
        self.0.end_held(has_conflict);
        std::mem::forget(self);
    }
}

/// Whether a commit has failed only because a record to be written stayed locked for a while.
fn waits_for_locks(transaction: &Transaction, finished: &Result<Ticket, Error>) -> bool {
    let is_locked = matches!(finished, Err(Error::Conflict(Conflict::WriteLocked)));
    is_locked && !transaction.locks_reads() && !transaction.has_dead_reads()
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        // In a forked child, it is not touched.
        if self.0.transaction().engine().is_own() {
            self.0.end_held(false);
        }
    }
}
