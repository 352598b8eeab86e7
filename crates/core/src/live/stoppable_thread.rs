//! A thread that works in intervals, until it is stopped. It does not keep the database open: the last handle stops it.
//!
//! If the system allows no further thread, none is started.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use namiki_platform::threads;
use parking_lot::{Condvar, Mutex};

/// The thread.
pub(crate) struct StoppableThread {
    stop: Arc<Stop>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Wakes the thread from a wait for another event.
    wake: Option<Box<dyn Fn() + Send + Sync>>,
}

/// The stop flag, which the thread checks between two pieces of work.
#[derive(Default)]
pub(crate) struct Stop {
    is_wanted: Mutex<bool>,
    changed: Condvar,
}

impl StoppableThread {
    pub(crate) fn start(name: &'static str, body: impl FnOnce(&Stop) + Send + 'static) -> Self {
        let stop = Arc::<Stop>::default();
        let asked = Arc::clone(&stop);
        let thread = threads::start(name, move || body(&asked));
        Self {
            stop,
            thread: Mutex::new(thread.ok()),
            wake: None,
        }
    }

    /// Registers a function that also wakes the thread when it has to stop.
    pub(crate) fn when_stopped(mut self, wake: impl Fn() + Send + Sync + 'static) -> Self {
        self.wake = Some(Box::new(wake));
        self
    }

    /// Stops the thread, after the present piece of work.
    pub(crate) fn stop(&self) {
        *self.stop.is_wanted.lock() = true;
        self.stop.changed.notify_all();
        if let Some(wake) = &self.wake {
            wake();
        }
        if let Some(thread) = self.thread.lock().take() {
            // A panic of the thread is ignored.
            let _ = thread.join();
        }
    }
}

impl Stop {
    /// Whether the thread has to stop.
    pub(crate) fn is_wanted(&self) -> bool {
        *self.is_wanted.lock()
    }

    /// Waits for `longest`, or until the thread has to stop. Returns whether it has to.
    pub(crate) fn wait(&self, longest: Duration) -> bool {
        let mut is_wanted = self.is_wanted.lock();
        if !*is_wanted {
            self.changed.wait_for(&mut is_wanted, longest);
        }
        *is_wanted
    }
}
