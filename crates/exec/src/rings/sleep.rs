//! Whether a thread sleeps, and waking it.
//!
//! A thread that finds nothing to do says that it is about to sleep, *then* looks once more, and only then parks.
//! A giver hands the work over first, and *then* asks whether the thread sleeps. One of the two sees the other.

use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicBool, Ordering, Parker, fence};

/// One thread's. Made by the thread itself.
#[derive(Debug)]
pub(crate) struct SleepFlag {
    sleeps: CachePadded<AtomicBool>,
    parker: Parker,
}

impl SleepFlag {
    /// The flag of this thread.
    pub(crate) fn of_this_thread() -> Self {
        Self {
            sleeps: CachePadded::new(AtomicBool::new(false)),
            parker: Parker::of_this_thread(),
        }
    }

    /// Sleeps until [`SleepFlag::wake`], or for `longest`, unless `has_work` finds something. For the flag's own
    /// thread.
    pub(crate) fn sleep_unless(&self, longest: Duration, has_work: impl FnOnce() -> bool) {
        self.sleeps.store(true, Ordering::Relaxed);
        // Pairs with the fence in `wake`: if `has_work` does not see what was given, `wake` sees the flag.
        fence(Ordering::SeqCst);
        if !has_work() {
            self.parker.park(longest);
        }
        self.sleeps.store(false, Ordering::Relaxed);
    }

    /// Wakes the thread, if it sleeps. To be called after it was given something.
    pub(crate) fn wake(&self) {
        // Pairs with the fence in `sleep_unless`.
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed) {
            self.parker.unpark();
        }
    }
}
