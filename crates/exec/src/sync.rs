//! The atomics and the sleep of what a model checker runs: its own under `--cfg loom`.

pub(crate) use std::sync::atomic::Ordering;

#[cfg(not(loom))]
mod real {
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

    /// Unparks the thread that made it.
    #[derive(Debug)]
    pub(crate) struct Unparker(std::thread::Thread);

    impl Unparker {
        pub(crate) fn of_this_thread() -> Self {
            Self(std::thread::current())
        }

        pub(crate) fn unpark(&self) {
            self.0.unpark();
        }
    }

    /// Parks this thread until it is unparked, or for `longest`.
    pub(crate) fn park(longest: Duration) {
        std::thread::park_timeout(longest);
    }
}

#[cfg(loom)]
mod model {
    use std::time::Duration;

    pub(crate) use loom::sync::atomic::fence;
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

    #[derive(Debug)]
    pub(crate) struct Unparker(loom::thread::Thread);

    impl Unparker {
        pub(crate) fn of_this_thread() -> Self {
            Self(loom::thread::current())
        }

        pub(crate) fn unpark(&self) {
            self.0.unpark();
        }
    }

    /// Time stands still in a model: a thread that is not unparked never goes on.
    pub(crate) fn park(_longest: Duration) {
        loom::thread::park();
    }
}

#[cfg(loom)]
pub(crate) use model::*;
#[cfg(not(loom))]
pub(crate) use real::*;
