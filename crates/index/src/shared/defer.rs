//! Epoch-deferred destruction: by the collector, but in a model within the run of the model.
//!
//! The collector frees at any time, in any thread: in another run of the model too, or in that of another
//! model, where atomics of one run are invalid. A function that touches none may be given to the collector
//! as it is.
#![expect(unsafe_code, reason = "hands on what is deferred")]

use crossbeam_epoch::Guard;

/// Runs `free` once all threads that are pinned now have unpinned; in a model, when its run ends.
///
/// # Safety
/// As for [`Guard::defer_unchecked`].
#[inline]
pub unsafe fn defer(guard: &Guard, free: impl FnOnce() + 'static) {
    #[cfg(loom)]
    {
        let _ = guard;
        end_of_run::put(free);
    }
    #[cfg(not(loom))]
    // SAFETY: the caller's promise.
    unsafe {
        guard.defer_unchecked(free);
    }
}

#[cfg(loom)]
pub mod end_of_run {
    use std::cell::RefCell;
    use std::mem::ManuallyDrop;

    /// Not dropped with the thread: after a run that failed nothing can be done about it.
    type Deferred = ManuallyDrop<Box<dyn FnOnce()>>;

    thread_local! {
        /// All threads of a model are one to the system.
        static DEFERRED: RefCell<Vec<Deferred>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn put(free: impl FnOnce() + 'static) {
        DEFERRED.with_borrow_mut(|all| all.push(ManuallyDrop::new(Box::new(free))));
    }

    /// Forgets what a model before this one has left, which failed.
    #[cfg(feature = "contract")]
    pub fn begin() {
        DEFERRED.take();
    }

    /// Does all that was deferred, in the order in which it was. For the last thread of a run.
    #[cfg(feature = "contract")]
    pub fn reach() {
        for free in DEFERRED.take() {
            ManuallyDrop::into_inner(free)();
        }
    }
}
