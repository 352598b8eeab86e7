//! The atomics and the sleep of protocols that a model checker runs: its own under `--cfg loom`.

pub(crate) use std::sync::atomic::Ordering;

#[cfg(not(loom))]
mod real {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, fence};
    use std::thread::Thread;
    pub(crate) use std::thread::sleep;
    use std::time::{Duration, Instant};

    pub(crate) use parking_lot::{Mutex, MutexGuard};

    /// Parks the current thread, and measures how long ago it was made.
    pub(crate) struct Parker {
        since: Instant,
    }

    impl Parker {
        pub(crate) fn new() -> Self {
            Self {
                since: Instant::now(),
            }
        }

        /// The handle that unparks this thread.
        pub(crate) fn unparker(&self) -> Unparker {
            Unparker(std::thread::current())
        }

        /// Parks until unparked, or returns immediately if it was since the last park; no longer than this.
        pub(crate) fn park(&self, longest: Duration) {
            std::thread::park_timeout(longest);
        }

        /// How long ago it was made.
        pub(crate) fn age(&self) -> Duration {
            self.since.elapsed()
        }
    }

    pub(crate) struct Unparker(Thread);

    impl Unparker {
        pub(crate) fn unpark(&self) {
            self.0.unpark();
        }
    }
}

#[cfg(loom)]
mod model {
    use std::cell::Cell;
    use std::ops::Deref;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    pub(crate) use loom::sync::MutexGuard;
    pub(crate) use loom::sync::atomic::fence;
    use loom::sync::{Arc, Condvar};
    use namiki_platform::model_checker;
    pub(crate) use namiki_platform::model_checker::{AtomicBool, AtomicUsize, Mutex};

    /// The checker takes a `SeqCst` load for an `Acquire` one, which may return what is no longer the last value in
    /// the one order of all such accesses. A read-modify-write does not.
    #[derive(Debug)]
    pub(crate) struct AtomicU64(model_checker::AtomicU64);

    impl AtomicU64 {
        #[track_caller]
        pub(crate) fn new(value: u64) -> Self {
            Self(model_checker::AtomicU64::new(value))
        }

        #[track_caller]
        pub(crate) fn load(&self, order: Ordering) -> u64 {
            match order {
                Ordering::SeqCst => self.0.fetch_or(0, Ordering::Acquire),
                _ => self.0.load(order),
            }
        }
    }

    impl Deref for AtomicU64 {
        type Target = model_checker::AtomicU64;

        fn deref(&self) -> &model_checker::AtomicU64 {
            &self.0
        }
    }

    /// Other threads may run during the sleep.
    pub(crate) fn sleep(_: Duration) {
        loom::thread::yield_now();
    }

    /// No time passes but one millisecond with each park, which ends with an unpark and not before: a lost wake-up
    /// hangs, and the checker reports it.
    pub(crate) struct Parker {
        notified: Arc<(Mutex<bool>, Condvar)>,
        parks: Cell<u64>,
    }

    impl Parker {
        pub(crate) fn new() -> Self {
            Self {
                notified: Arc::new((Mutex::new(false), Condvar::new())),
                parks: Cell::new(0),
            }
        }

        pub(crate) fn unparker(&self) -> Unparker {
            Unparker(Arc::clone(&self.notified))
        }

        pub(crate) fn park(&self, _longest: Duration) {
            let (notified, condvar) = &*self.notified;
            let mut notified = notified.lock();
            while !*notified {
                notified = condvar.wait(notified).expect("no thread of a model panics");
            }
            *notified = false;
            self.parks.set(self.parks.get() + 1);
        }

        pub(crate) fn age(&self) -> Duration {
            Duration::from_millis(self.parks.get())
        }
    }

    pub(crate) struct Unparker(Arc<(Mutex<bool>, Condvar)>);

    impl Unparker {
        pub(crate) fn unpark(&self) {
            *self.0.0.lock() = true;
            self.0.1.notify_one();
        }
    }
}

#[cfg(loom)]
pub(crate) use model::*;
#[cfg(not(loom))]
pub(crate) use real::*;
