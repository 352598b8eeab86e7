//! Tasks that wait for a stream without a thread of their own.
//!
//! # Invariants
//! - W1. A task enters the list first and then looks at what it waits for; whoever brings that about
//!   makes it visible first and then looks at the list. Each with a fence in between, so that one of
//!   the two sees the other.
//! - W2. Wakers are called without any lock of the log.

use std::task::Waker;

use crate::sync::{AtomicBool, Mutex, Ordering, fence};

/// The tasks that wait for a stream.
pub(crate) struct Watchers {
    is_anybody: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl Watchers {
    pub(crate) fn new() -> Self {
        Self {
            is_anybody: AtomicBool::new(false),
            wakers: Mutex::new(Vec::new()),
        }
    }

    /// Wakes the task once, before it looks for the last time. (A task that asks again before it was
    /// woken is in the list twice.)
    pub(crate) fn watch(&self, waker: &Waker) {
        let mut wakers = self.wakers.lock();
        wakers.push(waker.clone());
        self.is_anybody.store(true, Ordering::Relaxed);
        drop(wakers);
        // W1.
        fence(Ordering::SeqCst);
    }

    /// Whether there is anybody to wake, after what they may wait for has become visible.
    pub(crate) fn is_anybody(&self) -> bool {
        // W1.
        fence(Ordering::SeqCst);
        self.is_anybody.load(Ordering::Relaxed)
    }

    /// Wakes all, after what they may wait for has become visible. The caller holds no lock (W2).
    pub(crate) fn wake(&self) {
        if !self.is_anybody() {
            return;
        }
        let wakers = {
            let mut wakers = self.wakers.lock();
            self.is_anybody.store(false, Ordering::Relaxed);
            std::mem::take(&mut *wakers)
        };
        for waker in wakers {
            waker.wake();
        }
    }
}
