//! Commits that were refused because the disk is full, and the thread that makes room for them.
//!
//! A refused transaction waits here without locks, and is retried if room was made: so a commit
//! fails for lack of room only if a checkpoint could not make any. Without such a thread, no
//! transaction waits. Nor does a transaction in a callback of a backup: the checkpoint would wait
//! for the backup.

use std::task::Waker;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// The requests.
#[derive(Default)]
pub(crate) struct RoomRequests {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Whether a thread makes room.
    is_served: bool,
    asked: u64,
    answered: u64,
    /// Room was made for those up to this one.
    made_through: u64,
    /// Of tasks that wait.
    wakers: Vec<Waker>,
    /// Threads that delay the thread that makes room: none of them waits.
    never_wait: Vec<ThreadId>,
}

impl State {
    /// Requests room, unless the request is certain to fail.
    fn ask(&mut self) -> Option<RoomRequest> {
        if !self.is_served || self.never_wait.contains(&thread::current().id()) {
            return None;
        }
        self.asked += 1;
        Some(RoomRequest(self.asked))
    }

    /// Whether room was made, if that is known.
    fn outcome(&self, request: &RoomRequest) -> Option<bool> {
        let is_answered = self.answered >= request.0;
        (is_answered || !self.is_served).then_some(self.made_through >= request.0)
    }
}

/// A task's request.
#[derive(Debug)]
pub(crate) struct RoomRequest(u64);

/// The thread waits for no room until this is dropped, by the same thread.
pub(crate) struct NeverWaits<'a>(&'a RoomRequests);

impl Drop for NeverWaits<'_> {
    fn drop(&mut self) {
        let threads = &mut self.0.state.lock().never_wait;
        let here = thread::current().id();
        if let Some(at) = threads.iter().position(|thread| *thread == here) {
            threads.swap_remove(at);
        }
    }
}

impl RoomRequests {
    /// Waits until room was made, or could not be made; returns which.
    pub(crate) fn ask(&self) -> bool {
        let mut state = self.state.lock();
        let Some(request) = state.ask() else {
            return false;
        };
        self.changed.notify_all();
        loop {
            if let Some(outcome) = state.outcome(&request) {
                return outcome;
            }
            self.changed.wait(&mut state);
        }
    }

    /// [`RoomRequests::ask`] for a task: to be [polled](RoomRequests::poll). `None` if no room is
    /// going to be made.
    pub(crate) fn begin(&self) -> Option<RoomRequest> {
        let request = self.state.lock().ask();
        self.changed.notify_all();
        request
    }

    /// Whether room was made, if that is known by now. If not, the task is woken.
    pub(crate) fn poll(&self, request: &RoomRequest, waker: &Waker) -> Option<bool> {
        // Wakers are foreign code, so they are called without the lock.
        let waker = waker.clone();
        let mut state = self.state.lock();
        let outcome = state.outcome(request);
        if outcome.is_none() && !state.wakers.iter().any(|it| it.will_wake(&waker)) {
            state.wakers.push(waker);
        }
        outcome
    }

    /// This thread waits for no room until what is returned is dropped.
    pub(crate) fn never_wait_here(&self) -> NeverWaits<'_> {
        self.state.lock().never_wait.push(thread::current().id());
        NeverWaits(self)
    }

    /// Whether there is a thread, from now on, that makes room. If not, none waits any more.
    pub(crate) fn set_served(&self, is_served: bool) {
        self.change(|state| state.is_served = is_served);
    }

    /// The requests that are to be answered, up to this one.
    pub(crate) fn pending(&self) -> Option<u64> {
        let state = self.state.lock();
        (state.asked > state.answered).then_some(state.asked)
    }

    /// Answers the requests up to this one.
    pub(crate) fn answer(&self, through: u64, has_made: bool) {
        self.change(|state| {
            state.answered = state.answered.max(through);
            if has_made {
                state.made_through = state.made_through.max(through);
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let wakers = {
            let mut state = self.state.lock();
            change(&mut state);
            std::mem::take(&mut state.wakers)
        };
        self.changed.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// For the thread: waits for `longest`, or until a request arrives, or until `over` is true,
    /// which [`RoomRequests::wake`] announces.
    pub(crate) fn wait_for_one(&self, longest: Duration, over: impl Fn() -> bool) {
        let until = Instant::now() + longest;
        let mut state = self.state.lock();
        while !over() && state.asked == state.answered {
            if self.changed.wait_until(&mut state, until).timed_out() {
                return;
            }
        }
    }

    /// Wakes the thread, so that it checks `over`.
    pub(crate) fn wake(&self) {
        drop(self.state.lock());
        self.changed.notify_all();
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn a_request_is_answered_or_never_waits() {
        let requests = Arc::new(RoomRequests::default());
        assert!(!requests.ask(), "no thread makes room");
        requests.set_served(true);
        for has_made in [true, false] {
            let asking = Arc::clone(&requests);
            let asking = thread::spawn(move || asking.ask());
            requests.wait_for_one(Duration::MAX / 4, || false);
            let through = requests.pending().unwrap();
            requests.answer(through, has_made);
            assert_eq!(asking.join().unwrap(), has_made);
            assert_eq!(requests.pending(), None);
        }
        let asking = Arc::clone(&requests);
        let asking = thread::spawn(move || asking.ask());
        requests.wait_for_one(Duration::MAX / 4, || false);
        requests.set_served(false);
        assert!(!asking.join().unwrap());
    }

    /// A task may look late.
    #[test]
    fn an_answer_stays_what_it_was() {
        let requests = RoomRequests::default();
        requests.set_served(true);
        let (first, second) = (requests.begin().unwrap(), requests.begin().unwrap());
        requests.answer(first.0, true);
        requests.answer(second.0, false);
        assert_eq!(requests.poll(&first, Waker::noop()), Some(true));
        assert_eq!(requests.poll(&second, Waker::noop()), Some(false));
    }

    #[test]
    fn a_thread_that_holds_up_a_checkpoint_never_waits() {
        let requests = RoomRequests::default();
        requests.set_served(true);
        let never_waits = requests.never_wait_here();
        assert!(!requests.ask() && requests.begin().is_none());
        assert_eq!(requests.pending(), None);
        drop(never_waits);
        assert!(requests.begin().is_some());
    }
}
