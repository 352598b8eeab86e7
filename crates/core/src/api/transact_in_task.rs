//! Transactions of tasks: the waits of [`Database::transact`] as futures.
//!
//! A transaction waits for five things between the beginning of its first attempt and its end: for
//! a while after a conflict, for commit priority after many, for a table that is being loaded, for
//! room on a full disk, and for its log. A thread sleeps, parks, or flushes; a task is woken: for
//! the first two waits by the database's timer (`task_timer.rs`), for the last by the log, and for
//! the others by the thread that loads tables or makes room (`task_waits.rs`).
//!
//! An attempt does not yield: the body and the locks of its commit.

use std::sync::Arc;
use std::time::Instant;

use crate::api::database::Database;
use crate::api::running_body::check_not_nested;
use crate::api::session::{Failure, ROOM_MADE_MAX, Session, conflict_in};
use crate::api::table::Table;
use crate::api::task_waits::{Loaded, MadeRoom, confirmed, prepare_retry, yield_to_priority};
use crate::commit::ticket::Acknowledged;
use crate::concurrency::cc::NoFaults;
use crate::error::{Conflict, Error};
use crate::txn::Transaction;

/// Transactions of tasks.
impl Database {
    /// [`Database::transact`] for a task: a future that ends when the transaction is durable. It needs no particular
    /// runtime. Its waits are those of [`Database::transact`], retries and starvation avoidance included, and none of
    /// them takes the thread that polls it: a timer's thread of the database wakes the task, or the log's.
    ///
    /// A poll runs the whole body, which should be short; it does not wait for the disk. If the
    /// future is dropped before its end, the transaction may or may not have committed: only the
    /// output says which.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// let db = namiki::Database::in_memory()?;
    /// let counters = db.table::<u64, u64>("counters")?;
    /// let before = db
    ///     .transact_in_task(move |tx| {
    ///         let before = tx.get(&counters, &1)?.unwrap_or(0);
    ///         tx.put(&counters, &1, &(before + 1))?;
    ///         Ok(before)
    ///     })
    ///     .await?;
    /// assert_eq!(before, 0);
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    ///
    /// # What still blocks the thread
    ///
    /// - Under strict two-phase locking (`S2PL`), a lock that another transaction holds is waited for in the middle of the
    ///   body. A program that uses it from tasks calls [`Database::transact`] on a thread where that does no harm
    ///   (tokio's `spawn_blocking`).
    /// - Under normal lock release (`NLR`), a read or a commit that meets a lock of a group makes that group durable, as
    ///   long as one write to the device takes.
    /// - A transaction that finds the log's buffer full waits until one is written: the device is slower than what is
    ///   committed. One that is longer than a buffer waits for its own write.
    /// - Where the system allows no thread for the timer or the log, their waits are made by the poll.
    ///
    /// The default protocol, Silo with release by epochs, has only the last two.
    ///
    /// # Errors
    /// As [`Database::transact`].
    pub async fn transact_in_task<T>(
        &self,
        mut body: impl FnMut(&mut Transaction) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.run_in_task(&mut body, conflict_in).await
    }

    /// [`Database::transact_in_task`] for a body that refuses with an error of its own, as
    /// [`Database::transact_with`] does.
    ///
    /// # Errors
    /// As [`Database::transact_with`].
    pub async fn transact_in_task_with<T, E: From<Error>>(
        &self,
        mut body: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run_in_task(&mut body, |_| None).await
    }

    /// Ends when a table is loaded. After an opening, tables are loaded in the background, and a
    /// transaction of a [session](crate::Session) that uses one that is not loaded yet ends with
    /// [`Error::TableLoading`].
    ///
    /// # Errors
    /// [`Error::TableNotLoaded`], [`Error::TableDropped`], [`Error::ForeignTable`], [`Error::Forked`].
    pub async fn table_loaded<K: ?Sized, V: ?Sized>(
        &self,
        table: &Table<K, V>,
    ) -> Result<(), Error> {
        let raw_table = table.raw_table();
        self.shared.engine.check_process()?;
        self.shared.engine.check_table(raw_table)?;
        if raw_table.is_loaded() {
            return Ok(());
        }
        Loaded(raw_table).await
    }

    async fn run_in_task<T, E: From<Error>>(
        &self,
        body: &mut impl FnMut(&mut Transaction) -> Result<T, E>,
        conflict_in: fn(&E) -> Option<Conflict>,
    ) -> Result<T, E> {
        let began = Instant::now();
        let engine = &self.shared.engine;
        // It might wait for the outer transaction.
        check_not_nested(engine.owner)?;
        let mut pooled = self.take_for_task()?;
        let mut room_made = 0;
        let (value, ticket) = loop {
            yield_to_priority(engine, pooled.session()).await;
            let done = pooled
                .session()
                .attempt_unconfirmed::<NoFaults, T, E>(&mut *body, conflict_in);
            let failure = match done {
                Ok(done) => break done,
                Err(ended) => confirmed(engine, ended).await,
            };
            if let Failure::Unloaded(raw_table) = failure {
                // Another transaction may use the session while this one waits.
                drop(pooled);
                Loaded(&raw_table).await?;
                pooled = self.take_for_task()?;
                continue;
            }
            if failure.is_for_want_of_room() {
                drop(pooled);
                // Other transactions may take it.
                if room_made == ROOM_MADE_MAX || !MadeRoom::new(engine).await {
                    return Err(failure.into_error());
                }
                room_made += 1;
                pooled = self.take_for_task()?;
                continue;
            }
            if let Err(failure) = prepare_retry(engine, pooled.session(), failure).await {
                return Err(failure.into_error());
            }
        };
        // Another transaction may use the session while this one waits for the log.
        drop(pooled);
        Acknowledged::new(Arc::clone(engine), ticket).await?;
        if engine.log.is_some() {
            engine.latencies.record(began.elapsed());
        }
        Ok(value)
    }

    fn take_for_task(&self) -> Result<Pooled<'_>, Error> {
        let mut session = self.pooled_session()?;
        session.transaction_mut().retry_state().run_in_task(true);
        Ok(Pooled {
            db: self,
            session: Some(session),
        })
    }
}

/// A session of the pool, which gets it back, also if the future is dropped.
struct Pooled<'a> {
    db: &'a Database,
    session: Option<Session>,
}

impl Pooled<'_> {
    fn session(&mut self) -> &mut Session {
        self.session.as_mut().expect("it is there until the drop")
    }
}

impl Drop for Pooled<'_> {
    fn drop(&mut self) {
        if let Some(mut session) = self.session.take() {
            // A panic in the middle of a commit has left the session unusable; in a forked child,
            // it is not touched.
            if std::thread::panicking() {
                return;
            }
            if !self.db.shared.engine.is_own() {
                return std::mem::forget(session);
            }
            session.end_attempts();
            session.transaction_mut().retry_state().run_in_task(false);
            self.db.return_session(session);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll};

    use namiki_platform::disk::SimDisk;

    use super::*;
    use crate::api::task_waits::tests::Calls;
    use crate::concurrency::contention::policy::PRIORITY_AFTER;

    /// The body conflicts until commit priority is requested and granted.
    #[test]
    fn an_attempt_that_conflicts_often_gets_priority() {
        let db = Database::builder()
            .disk(Arc::new(SimDisk::new()))
            .open("/db")
            .unwrap();
        let calls = Arc::new(Calls::default());
        let waker = Arc::clone(&calls).into();
        let context = &mut Context::from_waker(&waker);
        let token = &db.shared.engine.priority;
        let mut attempts = 0;
        let mut had_priority = 0;
        {
            let mut task = pin!(db.transact_in_task(|_| {
                attempts += 1;
                had_priority += u32::from(token.is_taken());
                if attempts > PRIORITY_AFTER + 5 {
                    Ok(7)
                } else {
                    Err(Error::Conflict(Conflict::ReadChanged))
                }
            }));
            let done = loop {
                match task.as_mut().poll(context) {
                    Poll::Ready(done) => break done,
                    Poll::Pending => {
                        assert!(!token.is_taken(), "a task that is not polled has it");
                        calls.wait();
                    }
                }
            };
            assert_eq!(done.unwrap(), 7);
        }
        assert!(!token.is_taken());
        assert_eq!((attempts, had_priority), (PRIORITY_AFTER + 6, 6));
    }
}
