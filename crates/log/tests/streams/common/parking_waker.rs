//! A task on a thread that parks until the task is woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;
use std::thread::{self, Thread};

/// Wakes a thread that runs tasks.
pub(crate) struct ParkedTask(Thread, AtomicBool);

impl ParkedTask {
    pub(crate) fn here() -> Arc<Self> {
        Arc::new(Self(thread::current(), AtomicBool::new(false)))
    }

    pub(crate) fn sleep(&self) {
        while !self.1.swap(false, Ordering::SeqCst) {
            thread::park();
        }
    }
}

impl Wake for ParkedTask {
    fn wake(self: Arc<Self>) {
        self.1.store(true, Ordering::SeqCst);
        self.0.unpark();
    }
}
