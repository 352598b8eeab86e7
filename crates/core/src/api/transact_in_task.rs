//! Transactions of tasks: the waits of [`Database::transact`] as futures.
//!
//! A transaction waits for five things between the beginning of its first attempt and its end: for
//! a while after a conflict, for commit priority after many, for a table that is being loaded, for
//! room on a full disk, and for its log. A thread sleeps, parks, or flushes; a task is woken: for
//! the first two waits by the database's timer (`task_timer.rs`), for the last by the log, and for
//! the others by the thread that loads tables or makes room.
//!
//! An attempt does not yield: the body and the locks of its commit.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::api::database::Database;
use crate::api::running_body::check_not_nested;
use crate::api::session::{Ended, Failure, ROOM_MADE_MAX, Session, conflict_in};
use crate::api::table::Table;
use crate::commit::engine::Engine;
use crate::commit::room_requests::RoomRequest;
use crate::commit::ticket::Acknowledged;
use crate::concurrency::cc::NoFaults;
use crate::concurrency::contention::policy::PRIORITY_RECHECK_AFTER;
use crate::concurrency::contention::priority::PriorityTicket;
use crate::concurrency::contention::retry_state::Backoff;
use crate::concurrency::contention::task_timer::TimerEntry;
use crate::concurrency::contention::wait_list::RequestId;
use crate::error::{Conflict, Error};
use crate::table::raw_table::RawTable;
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
            let Ended { failure, reads } = match done {
                Ok(done) => break done,
                Err(ended) => ended,
            };
            let failure = match reads {
                Some(reads) => match Acknowledged::new(Arc::clone(engine), *reads).await {
                    Ok(()) => failure,
                    Err(error) => Failure::Engine(error),
                },
                None => failure,
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
            if let Err(failure) = pooled.session().check_retry(failure) {
                return Err(failure.into_error());
            }
            let request = suspend_priority(engine, pooled.session());
            back_off(engine, pooled.session()).await;
            request_priority(engine, pooled.session(), request).await;
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

/// Waits while another transaction has exclusive commit priority, for a bounded time.
async fn yield_to_priority(engine: &Engine, session: &mut Session) {
    let token = &engine.priority;
    if !session.transaction_mut().retry_state().should_yield(token) {
        return;
    }
    let number = token.number();
    let until = Instant::now() + token.holder_wait_max();
    while token.is_taken() {
        if Instant::now() >= until {
            return token.note_overtaken(number);
        }
        sleep(engine, PRIORITY_RECHECK_AFTER).await;
    }
}

/// Waits longer after each conflict, as a session does.
async fn back_off(engine: &Engine, session: &mut Session) {
    match session.transaction_mut().backoff() {
        Backoff::Nothing => {}
        Backoff::Yield => Yield(false).await,
        Backoff::Sleep(longest) => {
            // The lock may be held by a group that no session is about to flush. Where a session
            // would flush here, a task leaves that to the log's thread.
            let part = session.part_of(longest);
            if engine.log.as_ref().is_some_and(|log| !log.has_flusher()) {
                let _ = session.transaction_mut().flush_all();
            }
            sleep(engine, part).await;
        }
    }
}

/// Why a task asks for priority before its next attempt.
#[derive(Clone, Copy)]
enum Request {
    None,
    New,
    /// It had it in the attempt before.
    Again,
}

/// A task holds the priority token during an attempt only: all others wait for its holder, and nothing says when a task is
/// polled again.
fn suspend_priority(engine: &Engine, session: &mut Session) -> Request {
    let transaction = session.transaction_mut();
    if !transaction.may_request_priority() {
        return Request::None;
    }
    let retry = transaction.retry_state();
    let is_new = retry.wants_priority(&engine.priority);
    if retry.suspend_priority(&engine.priority) {
        Request::Again
    } else if is_new {
        Request::New
    } else {
        Request::None
    }
}

async fn request_priority(engine: &Engine, session: &mut Session, request: Request) {
    if matches!(request, Request::None) {
        return;
    }
    let retry = session.transaction_mut().retry_state();
    let granted = Priority::new(engine, retry.priority_ticket()).await;
    match request {
        Request::Again => retry.priority_resumed(granted),
        Request::New | Request::None => retry.priority_requested(granted),
    }
}

async fn sleep(engine: &Engine, time: Duration) {
    let until = Instant::now() + time;
    Sleep {
        engine,
        until,
        entry: None,
    }
    .await;
}

/// Ends when the time has come.
struct Sleep<'a> {
    engine: &'a Engine,
    until: Instant,
    entry: Option<TimerEntry>,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let left = self.until.saturating_duration_since(Instant::now());
        // A forked child has no timer; the next step reports that.
        if left.is_zero() || !self.engine.is_own() {
            return Poll::Ready(());
        }
        match &self.entry {
            Some(entry) => entry.update(context.waker()),
            None => match self.engine.task_timer.register(self.until, context.waker()) {
                Some(entry) => self.entry = Some(entry),
                None => {
                    std::thread::sleep(left);
                    return Poll::Ready(());
                }
            },
        }
        Poll::Pending
    }
}

/// Ends when a table is loaded, or cannot be.
struct Loaded<'a>(&'a RawTable);

impl Future for Loaded<'_> {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.0.load_state.poll(context.waker()) {
            Some(outcome) => Poll::Ready(outcome),
            None => Poll::Pending,
        }
    }
}

/// Ends when room was made on the disk, or could not be made; returns which.
struct MadeRoom<'a> {
    engine: &'a Engine,
    request: Option<RoomRequest>,
}

impl<'a> MadeRoom<'a> {
    fn new(engine: &'a Engine) -> Self {
        Self {
            engine,
            request: None,
        }
    }
}

impl Future for MadeRoom<'_> {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        // In a forked child, no thread makes room.
        if !self.engine.is_own() {
            return Poll::Ready(false);
        }
        let requests = &self.engine.room_requests;
        let request = match self.request.take() {
            Some(request) => request,
            None => match requests.begin() {
                Some(request) => request,
                None => return Poll::Ready(false),
            },
        };
        match requests.poll(&request, context.waker()) {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                self.request = Some(request);
                Poll::Pending
            }
        }
    }
}

/// Ends at its second poll, for which it asks at once.
struct Yield(bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Ends when the task has the token, or with false after the longest wait for it. The attempt follows at once.
struct Priority<'a> {
    engine: &'a Engine,
    ticket: &'a mut Option<PriorityTicket>,
    until: Option<Instant>,
    /// Its request in the queue, and the timer entry that is fired when the request is granted.
    waiting: Option<(RequestId, TimerEntry)>,
}

impl Future for Priority<'_> {
    type Output = bool;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        let this = self.get_mut();
        if !this.engine.is_own() {
            return Poll::Ready(false);
        }
        let token = &this.engine.priority;
        this.leave();
        let now = Instant::now();
        let until = *this
            .until
            .get_or_insert_with(|| now + token.holder_wait_max());
        let number = token.number();
        // First the timer, then the queue: the release of the token fires the entry in the queue.
        let Some(entry) = this.engine.task_timer.register(until, context.waker()) else {
            return Poll::Ready(token.request(this.ticket));
        };
        match token.enter_task(this.ticket, entry.handle()) {
            None => Poll::Ready(true),
            Some(request) if now < until => {
                this.waiting = Some((request, entry));
                Poll::Pending
            }
            Some(request) => {
                token.withdraw_task(request);
                token.note_overtaken(number);
                Poll::Ready(false)
            }
        }
    }
}

impl<'a> Priority<'a> {
    fn new(engine: &'a Engine, ticket: &'a mut Option<PriorityTicket>) -> Self {
        Self {
            engine,
            ticket,
            until: None,
            waiting: None,
        }
    }

    /// Leaves the queue. (A task that was told that the token is free, and is dropped, leaves it free.)
    fn leave(&mut self) {
        if let Some((request, entry)) = self.waiting.take() {
            self.engine.priority.withdraw_task(request);
            drop(entry);
        }
    }
}

impl Drop for Priority<'_> {
    fn drop(&mut self) {
        if self.engine.is_own() {
            self.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use namiki_platform::disk::SimDisk;

    use super::*;
    use crate::concurrency::contention::policy::PRIORITY_AFTER;

    /// Counts how often it was called.
    #[derive(Default)]
    struct Calls(AtomicUsize);

    impl Wake for Calls {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Calls {
        /// Waits for the next call: a timer that calls none makes the test hang.
        fn wait(&self) {
            while self.0.swap(0, Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn a_released_token_goes_to_the_task_that_waits() {
        let db = Database::in_memory().unwrap();
        let engine = &db.shared.engine;
        let calls = Arc::new(Calls::default());
        let waker = Arc::clone(&calls).into();
        let context = &mut Context::from_waker(&waker);
        assert!(engine.priority.request(&mut None));
        let mut ticket = None;
        let mut waits = pin!(Priority::new(engine, &mut ticket));
        assert!(waits.as_mut().poll(context).is_pending());
        engine.priority.release();
        calls.wait();
        assert_eq!(waits.as_mut().poll(context), Poll::Ready(true));
        assert!(engine.priority.is_taken());
        engine.priority.release();
        assert!(!engine.priority.is_taken());
    }

    #[test]
    fn a_dropped_task_leaves_the_token_to_others() {
        let db = Database::in_memory().unwrap();
        let engine = &db.shared.engine;
        let waker = Arc::new(Calls::default()).into();
        let context = &mut Context::from_waker(&waker);
        for granted_before in [false, true] {
            assert!(engine.priority.request(&mut None));
            let mut ticket = None;
            let mut waits = Box::pin(Priority::new(engine, &mut ticket));
            assert!(waits.as_mut().poll(context).is_pending());
            if granted_before {
                engine.priority.release();
            }
            drop(waits);
            if !granted_before {
                engine.priority.release();
            }
            assert!(
                !engine.priority.is_taken(),
                "granted before: {granted_before}"
            );
        }
    }

    #[test]
    fn a_task_that_waits_too_long_goes_on_without_priority() {
        let db = Database::in_memory().unwrap();
        let engine = &db.shared.engine;
        let calls = Arc::new(Calls::default());
        let waker = Arc::clone(&calls).into();
        let context = &mut Context::from_waker(&waker);
        assert!(engine.priority.request(&mut None));
        let mut ticket = None;
        let mut waits = pin!(Priority::new(engine, &mut ticket));
        assert!(waits.as_mut().poll(context).is_pending());
        calls.wait();
        assert_eq!(waits.as_mut().poll(context), Poll::Ready(false));
        // The same before an attempt: other transactions are delayed no longer than that.
        let mut session = db.session().unwrap();
        let mut waits = pin!(yield_to_priority(engine, &mut session));
        while waits.as_mut().poll(context).is_pending() {
            calls.wait();
        }
        assert!(engine.priority.is_taken());
        engine.priority.release();
    }

    #[test]
    fn sleeps_end_in_their_order() {
        let db = Database::in_memory().unwrap();
        let engine = &db.shared.engine;
        let calls = [(); 3].map(|()| Arc::new(Calls::default()));
        let mut sleeps: Vec<_> = (calls.iter().zip([30, 1, 15]))
            .map(|(calls, ms)| {
                let waker = Arc::clone(calls).into();
                let mut sleep = Box::pin(sleep(engine, Duration::from_millis(ms)));
                let polled = sleep.as_mut().poll(&mut Context::from_waker(&waker));
                assert!(polled.is_pending());
                (sleep, waker)
            })
            .collect();
        for at in [1, 2, 0] {
            calls[at].wait();
            let (sleep, waker) = &mut sleeps[at];
            let polled = sleep.as_mut().poll(&mut Context::from_waker(waker));
            assert!(polled.is_ready(), "sleep {at}");
        }
    }

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
