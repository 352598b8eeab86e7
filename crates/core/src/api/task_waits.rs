//! The waits of a transaction that is run by a task: each is a future, and takes no thread.
//!
//! A task is woken for backoff and commit priority by the database's timer (`task_timer.rs`), and for a table that is
//! loaded, or room on a full disk, by the thread that loads tables or makes room.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::api::session::{Ended, Failure, Session};
use crate::commit::engine::Engine;
use crate::commit::room_requests::RoomRequest;
use crate::commit::ticket::Acknowledged;
use crate::concurrency::contention::policy::PRIORITY_RECHECK_AFTER;
use crate::concurrency::contention::priority::PriorityTicket;
use crate::concurrency::contention::retry_state::{Backoff, PriorityRequest};
use crate::concurrency::contention::task_timer::TimerEntry;
use crate::concurrency::contention::wait_list::RequestId;
use crate::error::Error;
use crate::table::raw_table::RawTable;

/// Waits while another transaction has exclusive commit priority, for a bounded time.
pub(super) async fn yield_to_priority(engine: &Engine, session: &mut Session) {
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
pub(super) async fn back_off(engine: &Engine, session: &mut Session) {
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

/// Waits until the failure of an attempt may be returned, or acted upon: until the versions that it has read are durable.
pub(super) async fn confirmed<E>(engine: &Arc<Engine>, ended: Ended<E>) -> Failure<E> {
    let Ended { failure, reads } = ended;
    let Some(reads) = reads else {
        return failure;
    };
    match Acknowledged::new(Arc::clone(engine), *reads).await {
        Ok(()) => failure,
        Err(error) => Failure::Engine(error),
    }
}

/// After an attempt that ended in a conflict: waits for its backoff, and for priority if it is time to request it.
///
/// A task holds the priority token during an attempt only: all others wait for its holder, and nothing says when a task is
/// polled again.
pub(super) async fn prepare_retry<E>(
    engine: &Engine,
    session: &mut Session,
    failure: Failure<E>,
) -> Result<(), Failure<E>> {
    session.check_retry(failure)?;
    let request = session.transaction_mut().suspend_priority();
    back_off(engine, session).await;
    request_priority(engine, session, request).await;
    Ok(())
}

/// Waits for priority, as requested. The attempt, or the commit, follows at once.
pub(super) async fn request_priority(
    engine: &Engine,
    session: &mut Session,
    request: PriorityRequest,
) {
    if request == PriorityRequest::None {
        return;
    }
    let retry = session.transaction_mut().retry_state();
    let granted = Priority::new(engine, retry.priority_ticket()).await;
    match request {
        PriorityRequest::Again => retry.priority_resumed(granted),
        PriorityRequest::New | PriorityRequest::None => retry.priority_requested(granted),
    }
}

pub(super) async fn sleep(engine: &Engine, time: Duration) {
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
pub(super) struct Loaded<'a>(pub(super) &'a RawTable);

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
pub(super) struct MadeRoom<'a> {
    engine: &'a Engine,
    request: Option<RoomRequest>,
}

impl<'a> MadeRoom<'a> {
    pub(super) fn new(engine: &'a Engine) -> Self {
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
pub(super) mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;
    use crate::api::database::Database;

    /// Counts how often it was called.
    #[derive(Default)]
    pub(crate) struct Calls(AtomicUsize);

    impl Wake for Calls {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Calls {
        /// Waits for the next call: a timer that calls none makes the test hang.
        pub(crate) fn wait(&self) {
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
}
