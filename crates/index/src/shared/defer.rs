//! Epoch-deferred destruction: by the collector, but under loom at the end of the model's run.
//!
//! The collector frees at any time, in any thread: even in another run of the model, or in a run of
//! another model, where the atomics of this run are invalid. A function that touches no atomics may
//! be given to the collector directly.
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

    /// Discards the deferred functions that an earlier, failed model has left.
    #[cfg(feature = "contract")]
    pub fn begin() {
        DEFERRED.take();
    }

    /// Runs all deferred functions in the order in which they were deferred, and then those that
    /// they defer. For the last thread of a run.
    #[cfg(feature = "contract")]
    pub fn reach() {
        loop {
            let deferred = DEFERRED.take();
            if deferred.is_empty() {
                return;
            }
            for free in deferred {
                ManuallyDrop::into_inner(free)();
            }
        }
    }
}
