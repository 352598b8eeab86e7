//! Atomics and parking, replaced by the model checker's under `--cfg loom`.

pub(crate) use std::sync::atomic::Ordering;

#[cfg(not(loom))]
mod real {
    pub(crate) use std::sync::Arc;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, fence};
    use std::time::Duration;

    /// A cell that other code makes exclusive.
    #[derive(Debug)]
    pub(crate) struct Cell<T>(std::cell::UnsafeCell<T>);

    impl<T> Cell<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        /// The address, for `access`.
        #[inline]
        pub(crate) fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
            access(self.0.get())
        }
    }

    /// Parks the thread that made it, which others unpark.
    #[derive(Debug)]
    pub(crate) struct Parker(std::thread::Thread);

    impl Parker {
        pub(crate) fn of_this_thread() -> Self {
            Self(std::thread::current())
        }

        /// Parks until unparked, at most this long. Returns at once if it was unparked since the
        /// last park.
        pub(crate) fn park(&self, longest: Duration) {
            std::thread::park_timeout(longest);
        }

        pub(crate) fn unpark(&self) {
            self.0.unpark();
        }
    }
}

#[cfg(loom)]
mod model {
    use std::time::Duration;

    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::atomic::fence;
    use namiki_platform::model_checker::Mutex;
    pub(crate) use namiki_platform::model_checker::{AtomicBool, AtomicUsize};

    /// A cell; the model checker watches the accesses to it.
    #[derive(Debug)]
    pub(crate) struct Cell<T>(loom::cell::UnsafeCell<T>);

    impl<T> Cell<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::cell::UnsafeCell::new(value))
        }

        pub(crate) fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
            self.0.with_mut(access)
        }
    }

    /// Time stands still in a model: a thread that is not unparked hangs, and the checker reports
    /// it.
    #[derive(Debug)]
    pub(crate) struct Parker {
        notified: Mutex<bool>,
        condvar: loom::sync::Condvar,
    }

    impl Parker {
        pub(crate) fn of_this_thread() -> Self {
            Self {
                notified: Mutex::new(false),
                condvar: loom::sync::Condvar::new(),
            }
        }

        pub(crate) fn park(&self, _longest: Duration) {
            let mut notified = self.notified.lock();
            while !*notified {
                notified = self
                    .condvar
                    .wait(notified)
                    .expect("no thread of a model panics");
            }
            *notified = false;
        }

        pub(crate) fn unpark(&self) {
            *self.notified.lock() = true;
            self.condvar.notify_one();
        }
    }
}

#[cfg(loom)]
pub(crate) use model::*;
#[cfg(not(loom))]
pub(crate) use real::*;
