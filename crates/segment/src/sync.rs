//! The lock, the atomic and the cell of this crate, so that the same code runs for real and under
//! the model checker (`--cfg loom`).

#[cfg(not(loom))]
mod real {
    pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

    pub(crate) use parking_lot::Mutex;

    /// A cell whose accesses the model checker sees.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline]
        pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        #[inline]
        pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }
}

#[cfg(loom)]
mod model {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic::Ordering;
    pub(crate) use namiki_platform::model_checker::{AtomicU64, Mutex};
}

#[cfg(loom)]
pub(crate) use model::*;
#[cfg(not(loom))]
pub(crate) use real::*;
