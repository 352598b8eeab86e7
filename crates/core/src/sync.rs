//! The atomics and the sleep of protocols that a model checker runs: its own under `--cfg loom`.

pub(crate) use std::sync::atomic::Ordering;

#[cfg(not(loom))]
mod real {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, fence};
    use std::thread::Thread;
    pub(crate) use std::thread::sleep;
    use std::time::{Duration, Instant};

    pub(crate) use parking_lot::Mutex;

    /// Parks the current thread, and measures how long ago it was made.
    pub(crate) struct Bed {
        since: Instant,
    }

    impl Bed {
        pub(crate) fn new() -> Self {
            Self {
                since: Instant::now(),
            }
        }

        /// The handle that unparks this thread.
        pub(crate) fn bell(&self) -> Bell {
            Bell(std::thread::current())
        }

        /// Parks until unparked, or returns immediately if it was since the last park; no longer than this.
        pub(crate) fn sleep(&self, longest: Duration) {
            std::thread::park_timeout(longest);
        }

        /// How long ago the bed was made.
        pub(crate) fn age(&self) -> Duration {
            self.since.elapsed()
        }
    }

    pub(crate) struct Bell(Thread);

    impl Bell {
        pub(crate) fn ring(&self) {
            self.0.unpark();
        }
    }

    /// A lock behind which something is that all of the process share.
    macro_rules! shared {
        ($name:ident: Mutex<$of:ty> = $value:expr) => {
            static $name: Mutex<$of> = Mutex::new($value);
        };
    }
    pub(crate) use shared;
}

#[cfg(loom)]
mod model {
    use std::cell::Cell;
    use std::ops::Deref;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    pub(crate) use loom::sync::atomic::fence;
    use loom::sync::{Arc, Condvar};
    use namiki_platform::model;
    pub(crate) use namiki_platform::model::{AtomicBool, AtomicUsize, Mutex};

    /// The checker takes a `SeqCst` load for an `Acquire` one, which may return what is no longer the last value in
    /// the one order of all such accesses. A read-modify-write does not.
    #[derive(Debug)]
    pub(crate) struct AtomicU64(model::AtomicU64);

    impl AtomicU64 {
        #[track_caller]
        pub(crate) fn new(value: u64) -> Self {
            Self(model::AtomicU64::new(value))
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
        type Target = model::AtomicU64;

        fn deref(&self) -> &model::AtomicU64 {
            &self.0
        }
    }

    /// Others may go on meanwhile.
    pub(crate) fn sleep(_: Duration) {
        loom::thread::yield_now();
    }

    /// No time passes but one millisecond with each park, which ends with an unpark and not before: a lost wake-up
    /// hangs, and the checker reports it.
    pub(crate) struct Bed {
        rung: Arc<(Mutex<bool>, Condvar)>,
        sleeps: Cell<u64>,
    }

    impl Bed {
        pub(crate) fn new() -> Self {
            Self {
                rung: Arc::new((Mutex::new(false), Condvar::new())),
                sleeps: Cell::new(0),
            }
        }

        pub(crate) fn bell(&self) -> Bell {
            Bell(Arc::clone(&self.rung))
        }

        pub(crate) fn sleep(&self, _longest: Duration) {
            let (rung, ringing) = &*self.rung;
            let mut rung = rung.lock();
            while !*rung {
                rung = ringing.wait(rung).expect("no thread of a model panics");
            }
            *rung = false;
            self.sleeps.set(self.sleeps.get() + 1);
        }

        pub(crate) fn age(&self) -> Duration {
            Duration::from_millis(self.sleeps.get())
        }
    }

    pub(crate) struct Bell(Arc<(Mutex<bool>, Condvar)>);

    impl Bell {
        pub(crate) fn ring(&self) {
            *self.0.0.lock() = true;
            self.0.1.notify_one();
        }
    }

    macro_rules! shared {
        ($name:ident: Mutex<$of:ty> = $value:expr) => {
            loom::lazy_static! {
                static ref $name: Mutex<$of> = Mutex::new($value);
            }
        };
    }
    pub(crate) use shared;
}

#[cfg(loom)]
pub(crate) use model::*;
#[cfg(not(loom))]
pub(crate) use real::*;
