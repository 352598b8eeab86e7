//! Locks, atomics and waiting of the code that a model checker runs: loom's under `--cfg loom`, else those of the
//! standard library and of `parking_lot`.
//!
//! Both offer the same names. A wait on a [`Condvar`] takes the guard by value, because both can offer that. Time stands
//! still in a model: a wait with a deadline is a plain wait, so a lost wake-up hangs, and the checker reports it.

pub use std::sync::atomic::Ordering;
use std::time::Duration;

#[cfg(loom)]
pub use model::*;
#[cfg(not(loom))]
pub use real::*;

/// One step of waiting for another thread that is about to finish: `turn` counts them.
#[cold]
pub fn wait(turn: u32) {
    if cfg!(not(loom)) && turn < 64 {
        std::hint::spin_loop();
    } else {
        // The other thread may have been preempted.
        yield_now();
    }
}

/// One step of waiting that may take long: as [`wait`], and sleeps in later turns.
pub fn pause(turn: u32) {
    if turn < 256 {
        wait(turn);
    } else {
        sleep(Duration::from_micros(50));
    }
}

/// Marks a point at which one `SeqCst` access must precede the next in the single total order.
///
/// The language guarantees that, but loom treats `SeqCst` accesses as `AcqRel` and orders only fences totally.
#[inline]
pub fn total_order() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

#[cfg(not(loom))]
mod real {
    pub use std::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicU64 as SeqCstU64, AtomicUsize,
        fence,
    };
    pub use std::sync::{Arc, RwLock, RwLockReadGuard};
    use std::thread::Thread;
    pub use std::thread::sleep;
    pub(super) use std::thread::yield_now;
    use std::time::{Duration, Instant};

    pub use parking_lot::{Mutex, MutexGuard};

    /// A condition variable of a [`Mutex`].
    #[derive(Debug, Default)]
    pub struct Condvar(parking_lot::Condvar);

    impl Condvar {
        /// Waits until notified.
        pub fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(&mut guard);
            guard
        }

        /// Waits until notified or `deadline`; the flag says whether the deadline passed.
        pub fn wait_until<'a, T>(
            &self,
            mut guard: MutexGuard<'a, T>,
            deadline: Instant,
        ) -> (MutexGuard<'a, T>, bool) {
            let passed = self.0.wait_until(&mut guard, deadline).timed_out();
            (guard, passed)
        }

        /// Wakes one waiter.
        #[inline]
        pub fn notify_one(&self) {
            self.0.notify_one();
        }

        /// Wakes all waiters.
        #[inline]
        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// A cell that other code makes exclusive. The model checker sees the accesses to it.
    #[derive(Debug)]
    pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        /// A cell with a value.
        #[inline]
        pub fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        /// Its address, to read it.
        #[inline]
        pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        /// Its address, to write it.
        #[inline]
        pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }

    /// Parks the thread that made it, and measures how long ago that was.
    #[derive(Debug)]
    pub struct Parker {
        unparker: Unparker,
        since: Instant,
    }

    impl Parker {
        /// For the current thread.
        #[expect(clippy::new_without_default, reason = "it is the current thread's")]
        #[must_use]
        pub fn new() -> Self {
            Self {
                unparker: Unparker(std::thread::current()),
                since: Instant::now(),
            }
        }

        /// Parks until unparked, at most this long. Returns at once if it was unparked since the last
        /// park. For the thread that made it.
        pub fn park(&self, longest: Duration) {
            std::thread::park_timeout(longest);
        }

        /// Unparks its thread.
        pub fn unpark(&self) {
            self.unparker.unpark();
        }

        /// The handle that unparks its thread.
        #[must_use]
        pub fn unparker(&self) -> Unparker {
            self.unparker.clone()
        }

        /// How long ago it was made.
        #[must_use]
        pub fn age(&self) -> Duration {
            self.since.elapsed()
        }
    }

    /// Unparks a [`Parker`].
    #[derive(Clone, Debug)]
    pub struct Unparker(Thread);

    impl Unparker {
        /// Ends the park of its thread, or the next one.
        pub fn unpark(&self) {
            self.0.unpark();
        }
    }
}

#[cfg(loom)]
#[expect(missing_docs, reason = "as in `real`")]
mod model {
    use std::ops::Deref;
    use std::sync::atomic::{AtomicU64 as Unwatched, Ordering};
    use std::time::{Duration, Instant};

    pub use loom::cell::UnsafeCell;
    pub use loom::sync::atomic::fence;
    pub use loom::sync::{Arc, MutexGuard, RwLock, RwLockReadGuard};
    pub(super) use loom::thread::yield_now;

    pub use crate::model_checker::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Mutex,
    };

    /// Loom treats a `SeqCst` load as `Acquire`, which may return a value that is no longer the last one in the total
    /// order of `SeqCst` accesses. A read-modify-write returns the last one.
    #[derive(Debug)]
    pub struct SeqCstU64(AtomicU64);

    impl SeqCstU64 {
        #[must_use]
        #[track_caller]
        pub fn new(value: u64) -> Self {
            Self(AtomicU64::new(value))
        }

        #[track_caller]
        pub fn load(&self, order: Ordering) -> u64 {
            match order {
                Ordering::SeqCst => self.0.fetch_or(0, Ordering::Acquire),
                _ => self.0.load(order),
            }
        }
    }

    impl Deref for SeqCstU64 {
        type Target = AtomicU64;

        fn deref(&self) -> &AtomicU64 {
            &self.0
        }
    }

    /// Other threads may run.
    pub fn sleep(_: Duration) {
        yield_now();
    }

    #[derive(Debug)]
    pub struct Condvar(loom::sync::Condvar);

    impl Default for Condvar {
        fn default() -> Self {
            Self(loom::sync::Condvar::new())
        }
    }

    impl Condvar {
        pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(guard).expect("no thread of a model panics")
        }

        pub fn wait_until<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            _deadline: Instant,
        ) -> (MutexGuard<'a, T>, bool) {
            (self.wait(guard), false)
        }

        pub fn notify_one(&self) {
            self.0.notify_one();
        }

        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// Each park takes one millisecond of the model's time, and ends with an unpark, not before.
    #[derive(Debug)]
    pub struct Parker {
        unparker: Unparker,
        parks: Unwatched,
    }

    impl Parker {
        #[expect(clippy::new_without_default, reason = "it is the current thread's")]
        #[must_use]
        pub fn new() -> Self {
            Self {
                unparker: Unparker(Arc::new((Mutex::new(false), Condvar::default()))),
                parks: Unwatched::new(0),
            }
        }

        pub fn park(&self, _longest: Duration) {
            let (notified, condvar) = &*self.unparker.0;
            let mut notified = notified.lock();
            while !*notified {
                notified = condvar.wait(notified);
            }
            *notified = false;
            self.parks.fetch_add(1, Ordering::Relaxed);
        }

        pub fn unpark(&self) {
            self.unparker.unpark();
        }

        #[must_use]
        pub fn unparker(&self) -> Unparker {
            self.unparker.clone()
        }

        #[must_use]
        pub fn age(&self) -> Duration {
            Duration::from_millis(self.parks.load(Ordering::Relaxed))
        }
    }

    #[derive(Clone, Debug)]
    pub struct Unparker(Arc<(Mutex<bool>, Condvar)>);

    impl Unparker {
        pub fn unpark(&self) {
            *self.0.0.lock() = true;
            self.0.1.notify_one();
        }
    }
}
