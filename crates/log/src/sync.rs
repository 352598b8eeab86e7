//! The locks and atomics of this crate, so that the same code runs for real and under the model
//! checker (`--cfg loom`).
//!
//! Waiting takes the guard by value in both, because that is the shape both can offer.

#[cfg(not(loom))]
mod real {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
    use std::time::Instant;

    pub(crate) use parking_lot::{Mutex, MutexGuard};

    /// Waits a little for another thread, longer in later rounds.
    pub(crate) fn pause(round: u32) {
        match round {
            0..64 => std::hint::spin_loop(),
            64..256 => std::thread::yield_now(),
            _ => std::thread::sleep(std::time::Duration::from_micros(50)),
        }
    }

    #[derive(Default)]
    pub(crate) struct Condvar(parking_lot::Condvar);

    impl Condvar {
        pub(crate) fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(&mut guard);
            guard
        }

        /// Waits until notified or `deadline`; the flag says whether the deadline passed.
        pub(crate) fn wait_until<'a, T>(
            &self,
            mut guard: MutexGuard<'a, T>,
            deadline: Instant,
        ) -> (MutexGuard<'a, T>, bool) {
            let passed = self.0.wait_until(&mut guard, deadline).timed_out();
            (guard, passed)
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

#[cfg(loom)]
mod model {
    use std::time::Instant;

    pub(crate) use loom::sync::MutexGuard;
    pub(crate) use loom::sync::atomic::{Ordering, fence};
    pub(crate) use namiki_platform::model_checker::{AtomicBool, AtomicU64, Mutex};

    /// Lets another thread run.
    pub(crate) fn pause(_round: u32) {
        loom::thread::yield_now();
    }

    pub(crate) struct Condvar(loom::sync::Condvar);

    impl Default for Condvar {
        fn default() -> Self {
            Self(loom::sync::Condvar::new())
        }
    }

    impl Condvar {
        pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(guard).expect("no thread of a model panics")
        }

        /// Time stands still in a model: this is a plain wait.
        pub(crate) fn wait_until<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            _deadline: Instant,
        ) -> (MutexGuard<'a, T>, bool) {
            (self.wait(guard), false)
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

#[cfg(loom)]
pub(crate) use model::*;
#[cfg(not(loom))]
pub(crate) use real::*;
