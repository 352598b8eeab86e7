//! Epoch-deferred destruction: by the collector, but under loom at the end of the model's run.
//!
//! The collector frees at any time, in any thread: even in another run of the model, or in a run of
//! another model, where the atomics of this run are invalid. A function that touches no atomics may
//! be given to the collector directly.
#![expect(unsafe_code, reason = "hands on what is deferred")]

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use crossbeam_epoch::{self as epoch, Guard};

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

type Waiting = ManuallyDrop<Vec<Box<dyn FnOnce(&Guard)>>>;

thread_local! {
    /// What waits for the pin of a deferred function that this thread runs now; `None` if it runs
    /// none that needs a pin. Without a destructor, so that an ending thread still has it.
    static WAITING: RefCell<Option<Waiting>> = const { RefCell::new(None) };
}

/// Pins for a deferred function, which may need it to defer again, and calls `then`: now, or where
/// the collector calls deferred functions within each other, in the outermost one.
///
/// A thread that ends frees memory after its own part of the collector is gone. Each pin then
/// registers the thread anew, and a new participant begins by collecting: it would call deferred
/// functions within deferred functions, as deep as there is retired memory.
pub fn pin_in_deferred(then: impl FnOnce(&Guard) + 'static) {
    let then = WAITING.with_borrow_mut(|waiting| match waiting {
        Some(waiting) => {
            waiting.push(Box::new(then));
            None
        }
        None => {
            *waiting = Some(ManuallyDrop::new(Vec::new()));
            Some(then)
        }
    });
    let Some(then) = then else { return };
    let guard = &epoch::pin();
    then(guard);
    while let Some(next) = WAITING.with_borrow_mut(|waiting| waiting.as_mut()?.pop()) {
        next(guard);
    }
    WAITING.take().map(ManuallyDrop::into_inner);
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

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    /// Some hundred times more than what fits into the stack below one upon the other.
    const DEFERRED: u32 = 128 * 1024;

    /// What it has retired may be much, and may defer again.
    #[test]
    fn an_ending_thread_frees_without_recursion() {
        let freed = Arc::new(AtomicU32::new(0));
        let (retired, all_retired) = channel();
        let (release, released) = channel::<()>();
        let nothing_is_freed = epoch::pin();
        let thread = thread::Builder::new().stack_size(256 << 10).spawn({
            let freed = Arc::clone(&freed);
            move || {
                // The collector works at each 128th pin of a thread, so at the one with which this ends.
                for _ in 0..DEFERRED {
                    let freed = Arc::clone(&freed);
                    epoch::pin().defer(move || {
                        pin_in_deferred(move |guard| {
                            guard.defer(move || freed.fetch_add(1, Ordering::Relaxed));
                        });
                    });
                }
                retired.send(()).ok();
                released.recv().ok();
            }
        });
        assert_eq!(all_retired.recv(), Ok(()));
        drop(nothing_is_freed);
        // Twice two epochs pass.
        for _ in 0..5 {
            epoch::pin().flush();
        }
        drop(release);
        assert!(thread.is_ok_and(|thread| thread.join().is_ok()));
        while freed.load(Ordering::Relaxed) < DEFERRED {
            epoch::pin().flush();
        }
    }
}
