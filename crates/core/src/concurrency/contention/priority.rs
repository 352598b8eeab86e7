//! Starvation avoidance: a transaction that was aborted repeatedly gets exclusive commit priority.
//!
//! An optimistic transaction that reads much can be overtaken again and again by short ones that write. After some
//! conflicts in a row its session requests the priority token, of which there is one. Requests queue while the token
//! is held, in the order in which they were first made (ageing), interrupted by retries. While it is held, all other
//! transactions wait before they lock the writes of a commit, and under [`NoWait`](crate::WaitPolicy::NoWait) before
//! their first lock.
//!
//! That wait is bounded, because the holder may itself wait for another transaction (a body that runs a transaction
//! of another session, say). A bound that is shorter than the holder's transaction would not help it. So each time
//! that the holder fails although another transaction timed out waiting for it, the bound is doubled.
//!
//! Priority is a hint, on which nothing else relies.

use std::time::Duration;

use crossbeam_utils::CachePadded;
use namiki_platform::sync::{
    AtomicBool, AtomicUsize, Ordering, Parker, SeqCstU64 as AtomicU64, sleep,
};

use super::policy::{
    PRIORITY_RECHECK_AFTER, PRIORITY_WAIT_MAX, PRIORITY_WAIT_SHIFT_MAX, PRIORITY_YIELDS,
};
use super::task_timer::TimerHandle;
use super::wait_list::{RequestId, WaitList};

/// The priority token of a database.
pub(crate) struct PriorityToken {
    /// A copy of [`TokenState::taken`] that is read without the mutex.
    taken: CachePadded<AtomicBool>,
    /// How many holders there were.
    number: AtomicU64,
    /// How often the bound has been doubled for the current holder.
    backoff_shift: AtomicUsize,
    /// The number of the last holder that a wait timed out on.
    overtaken: AtomicU64,
    wait_max: Duration,
    queue: WaitList<PriorityTicket, TokenState>,
}

#[derive(Default)]
struct TokenState {
    taken: bool,
    /// How many transactions ever asked.
    issued: u64,
}

/// A transaction's position in the queue, which it keeps until it has committed, or until the token
/// has not helped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PriorityTicket(u64);

impl PriorityToken {
    /// A free token.
    pub(crate) fn new() -> Self {
        Self::with_wait_max(PRIORITY_WAIT_MAX)
    }

    /// A free token, for which no wait takes longer than this.
    pub(super) fn with_wait_max(wait_max: Duration) -> Self {
        Self {
            taken: CachePadded::new(AtomicBool::new(false)),
            number: AtomicU64::new(0),
            backoff_shift: AtomicUsize::new(0),
            overtaken: AtomicU64::new(0),
            wait_max,
            queue: WaitList::new(TokenState::default()),
        }
    }

    /// Acquires the token, or queues for it for a bounded time. Returns whether the caller holds it; if not, it may
    /// run and request it again, with the position that it got the first time.
    pub(crate) fn request(&self, ticket: &mut Option<PriorityTicket>) -> bool {
        let mut wait = BoundedWait::new(self);
        let mut queue = self.queue.lock();
        let Some(ticket) = self.acquire(&mut queue.state, ticket) else {
            return true;
        };
        let request = queue.enter(&wait.parker, ticket);
        loop {
            let left = wait.left();
            queue = self.queue.park(queue, &wait.parker, left);
            if !queue.is_waiting(request) {
                return true;
            }
            if wait.left().is_zero() {
                queue.withdraw(request);
                wait.expire();
                return false;
            }
        }
    }

    /// Acquires the token for a task, or queues: then the handle is fired when the token may be free, and the task asks
    /// again. It is not handed over, for nothing says when the task will be polled.
    pub(crate) fn enter_task(
        &self,
        ticket: &mut Option<PriorityTicket>,
        handle: TimerHandle,
    ) -> Option<RequestId> {
        let mut queue = self.queue.lock();
        let ticket = self.acquire(&mut queue.state, ticket)?;
        Some(queue.enter_task(handle, ticket))
    }

    /// Acquires the token if it is free; otherwise gives the position of the request, issued if it is the first one.
    fn acquire(
        &self,
        state: &mut TokenState,
        ticket: &mut Option<PriorityTicket>,
    ) -> Option<PriorityTicket> {
        let ticket = *ticket.get_or_insert_with(|| {
            state.issued += 1;
            PriorityTicket(state.issued)
        });
        if state.taken {
            return Some(ticket);
        }
        state.taken = true;
        self.begin();
        None
    }

    /// Withdraws a task's request, if it is still queued.
    pub(crate) fn withdraw_task(&self, request: RequestId) {
        self.queue.lock().withdraw(request);
    }

    /// A transaction has waited for this holder as long as it may.
    pub(crate) fn note_overtaken(&self, number: u64) {
        self.overtaken.store(number, Ordering::Relaxed);
    }

    /// The longest wait for the present holder.
    pub(crate) fn holder_wait_max(&self) -> Duration {
        self.wait_max_at(self.backoff_shift.load(Ordering::Relaxed))
    }

    fn wait_max_at(&self, backoff_shift: usize) -> Duration {
        self.wait_max.saturating_mul(1 << backoff_shift)
    }

    fn begin(&self) {
        self.backoff_shift.store(0, Ordering::Relaxed);
        self.number.fetch_add(1, Ordering::Relaxed);
        self.taken.store(true, Ordering::Relaxed);
    }

    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// The holder was aborted nevertheless.
    pub(crate) fn extend_grace(&self) {
        if self.overtaken.swap(0, Ordering::Relaxed) == self.number() {
            let backoff_shift = self.backoff_shift.load(Ordering::Relaxed) + 1;
            self.backoff_shift.store(
                backoff_shift.min(PRIORITY_WAIT_SHIFT_MAX),
                Ordering::Relaxed,
            );
        }
    }

    /// Releases the token: it goes to the next one in the queue, and is free if that is a task.
    pub(crate) fn release(&self) {
        let mut queue = self.queue.lock();
        match queue.take_first(|_, ticket| *ticket) {
            // Which learns it under the mutex, after this.
            Some((_, false)) => self.begin(),
            // A task finds it free, if no other is faster.
            Some((_, true)) | None => {
                queue.state.taken = false;
                self.taken.store(false, Ordering::Relaxed);
            }
        }
    }

    /// Whether the token is held.
    #[inline]
    pub(crate) fn is_taken(&self) -> bool {
        // Relaxed: nothing depends on it but the order of commits.
        self.taken.load(Ordering::Relaxed)
    }

    /// Waits until the token is free, for a bounded time.
    pub(crate) fn wait(&self) {
        let mut wait = BoundedWait::new(self);
        for round in 0.. {
            if round < PRIORITY_YIELDS {
                std::thread::yield_now();
            } else {
                sleep(PRIORITY_RECHECK_AFTER);
            }
            if !self.is_taken() {
                return;
            }
            if wait.left().is_zero() {
                return wait.expire();
            }
        }
    }
}

/// Waiting for the release of a token, and of those after it.
struct BoundedWait<'a> {
    token: &'a PriorityToken,
    parker: Parker,
    /// The token that is waited for, and since when.
    number: u64,
    since: Duration,
}

impl<'a> BoundedWait<'a> {
    fn new(token: &'a PriorityToken) -> Self {
        Self {
            token,
            parker: Parker::new(),
            number: token.number(),
            since: Duration::ZERO,
        }
    }

    /// The time left: each token is waited for anew, within a total bound.
    fn left(&mut self) -> Duration {
        let (now, age) = (self.token.number(), self.parker.age());
        if now != self.number {
            (self.number, self.since) = (now, age);
        }
        let for_this = self.token.holder_wait_max();
        let for_all = self.token.wait_max_at(PRIORITY_WAIT_SHIFT_MAX);
        let waited = age.saturating_sub(self.since);
        for_this
            .saturating_sub(waited)
            .min(for_all.saturating_sub(age))
    }

    /// The wait timed out.
    fn expire(&self) {
        self.token.note_overtaken(self.number);
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;
    use loom::thread;
    use namiki_platform::model_checker::explore;

    use super::*;

    /// A token that is released while others queue for it has exactly one next holder.
    #[test]
    fn one_transaction_has_priority_and_it_is_not_lost() {
        explore(3, || {
            let token = Arc::new(PriorityToken::with_wait_max(Duration::MAX));
            let inside = Arc::new(AtomicUsize::new(0));
            let visit = {
                let (token, inside) = (Arc::clone(&token), Arc::clone(&inside));
                move || {
                    let mut ticket = None;
                    while !token.request(&mut ticket) {}
                    assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                    assert!(token.is_taken());
                    inside.fetch_sub(1, Ordering::Relaxed);
                    token.release();
                }
            };
            let others = [(); 2].map(|()| thread::spawn(visit.clone()));
            visit();
            for other in others {
                other.join().unwrap();
            }
            let queue = token.queue.lock();
            assert!(!queue.state.taken && queue.len() == 0 && !token.is_taken());
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::thread;

    use super::*;
    use namiki_platform::sync::Mutex;

    #[test]
    fn the_token_goes_to_the_first_request() {
        let token = PriorityToken::with_wait_max(Duration::MAX);
        assert!(token.request(&mut None));
        // As if it had requested priority before, and made an attempt since.
        let oldest = Some(PriorityTicket(0));
        let order = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for mut ticket in [None, None, oldest] {
                let (token, order) = (&token, &order);
                let before = token.queue.lock().len();
                scope.spawn(move || {
                    assert!(token.request(&mut ticket));
                    order.lock().push(ticket);
                    token.release();
                });
                while token.queue.lock().len() == before {
                    thread::yield_now();
                }
            }
            token.release();
        });
        let order = order.into_inner();
        assert!(order.is_sorted(), "{order:?}");
        assert_eq!(order[0], oldest);
        assert!(!token.is_taken());
    }

    #[test]
    fn a_timed_out_request_keeps_its_position() {
        let token = PriorityToken::with_wait_max(Duration::ZERO);
        assert!(token.request(&mut None));
        let mut ticket = None;
        assert!(!token.request(&mut ticket));
        let kept = ticket;
        assert!(kept.is_some() && !token.request(&mut ticket));
        assert_eq!(ticket, kept);
        assert_eq!(token.queue.lock().len(), 0);
    }

    #[test]
    fn waits_double_only_after_an_expired_wait() {
        let token = PriorityToken::with_wait_max(Duration::ZERO);
        let backoff_shift = || token.backoff_shift.load(Ordering::Relaxed);
        assert!(token.request(&mut None));
        token.extend_grace();
        assert_eq!(backoff_shift(), 0, "no wait timed out");
        token.wait();
        assert_eq!(backoff_shift(), 0, "it has not failed");
        token.extend_grace();
        token.extend_grace();
        assert_eq!(backoff_shift(), 1, "for each that passed");
        for _ in 0..2 * PRIORITY_WAIT_SHIFT_MAX {
            assert!(!token.request(&mut None));
            token.extend_grace();
        }
        assert_eq!(backoff_shift(), PRIORITY_WAIT_SHIFT_MAX);
        token.wait();
        token.release();
        assert!(token.request(&mut None));
        token.extend_grace();
        assert_eq!(
            backoff_shift(),
            0,
            "another holder, for which no wait timed out"
        );
    }
}
