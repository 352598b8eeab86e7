//! Commits that were refused because the disk is full, and the thread that makes room for them.
//!
//! A transaction that was refused waits here without locks, and is run again if room was made: so a commit fails for want of
//! room only where a checkpoint could make none. Where nothing makes room, none waits.

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
    /// A thread makes room.
    is_served: bool,
    asked: u64,
    answered: u64,
    /// Whether room was made for those that were answered last.
    has_made: bool,
}

impl RoomRequests {
    /// Waits until room was made, or none could be: says which.
    pub(crate) fn ask(&self) -> bool {
        let mut state = self.state.lock();
        if !state.is_served {
            return false;
        }
        state.asked += 1;
        let number = state.asked;
        self.changed.notify_all();
        while state.answered < number && state.is_served {
            self.changed.wait(&mut state);
        }
        state.answered >= number && state.has_made
    }

    /// Whether there is a thread, from now on, that makes room. If not, none waits any more.
    pub(crate) fn set_served(&self, is_served: bool) {
        self.state.lock().is_served = is_served;
        self.changed.notify_all();
    }

    /// The requests that are to be answered, up to this one.
    pub(crate) fn pending(&self) -> Option<u64> {
        let state = self.state.lock();
        (state.asked > state.answered).then_some(state.asked)
    }

    /// Answers the requests up to this one.
    pub(crate) fn answer(&self, through: u64, has_made: bool) {
        let mut state = self.state.lock();
        state.answered = state.answered.max(through);
        state.has_made = has_made;
        self.changed.notify_all();
    }

    /// For the thread: waits so long, or until there is a request, or until it is `over`, which [`RoomRequests::wake`]
    /// announces.
    pub(crate) fn wait_for_one(&self, longest: Duration, over: impl Fn() -> bool) {
        let until = Instant::now() + longest;
        let mut state = self.state.lock();
        while !over() && state.asked == state.answered {
            if self.changed.wait_until(&mut state, until).timed_out() {
                return;
            }
        }
    }

    /// The thread is to look whether it is over.
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
}
