//! Sleep flags, by which a thread sleeps and others wake it.
//!
//! A thread that finds nothing to do says that it is about to sleep, *then* looks once more, and
//! only then parks. A giver hands the work over first, and *then* asks whether the thread sleeps.
//! One of the two sees the other.

use std::sync::OnceLock;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use namiki_platform::sync::{AtomicBool, Ordering, Parker, fence};

/// The flag of one thread. It exists before the thread, so that the thread's first sleep does not
/// miss earlier work.
#[derive(Debug)]
pub(crate) struct SleepFlag {
    sleeps: CachePadded<AtomicBool>,
    /// Set by the thread before it first sleeps.
    parker: OnceLock<Parker>,
}

impl SleepFlag {
    /// The flag of a thread that will be the only one to sleep by it.
    pub(crate) fn new() -> Self {
        Self {
            sleeps: CachePadded::new(AtomicBool::new(false)),
            parker: OnceLock::new(),
        }
    }

    /// Sleeps until [`SleepFlag::wake`], or for `longest`, unless `has_work` finds something. For
    /// the flag's own thread.
    pub(crate) fn sleep_unless(&self, longest: Duration, has_work: impl FnOnce() -> bool) {
        let parker = self.parker.get_or_init(Parker::new);
        // Release: the parker is there before the flag says that it is needed; pairs with the
        // acquire in `wake`.
        self.sleeps.store(true, Ordering::Release);
        // Pairs with the fence in `wake`: if `has_work` does not see what was given, `wake` sees
        // the flag.
        fence(Ordering::SeqCst);
        if !has_work() {
            parker.park(longest);
        }
        self.sleeps.store(false, Ordering::Relaxed);
    }

    /// Wakes the thread, if it sleeps. Must be called after it was given something.
    pub(crate) fn wake(&self) {
        // Pairs with the fence in `sleep_unless`.
        fence(Ordering::SeqCst);
        // Acquire: pairs with the release in `sleep_unless`.
        if self.sleeps.load(Ordering::Acquire)
            && let Some(parker) = self.parker.get()
        {
            parker.unpark();
        }
    }
}
