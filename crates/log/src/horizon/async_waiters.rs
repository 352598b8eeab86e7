//! Tasks that wait for a stream without a thread of their own.
//!
//! # Invariants
//! - W1. A task enters the list first and then looks at what it waits for; a thread that brings
//!   that about makes it visible first and then looks at the list. Each with a fence in between, so
//!   that one of the two sees the other.
//! - W2. Wakers are foreign code. They are cloned, called and dropped without any lock of the log:
//!   called at the end of the call that brought about what they wait for. Their panics go no
//!   further.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use namiki_platform::sync::{AtomicBool, Mutex, Ordering, fence};

/// The tasks that wait for a stream.
pub(crate) struct AckWaiters {
    has_waiters: AtomicBool,
    /// There are some to wake, and the thread that noticed has not done so yet.
    to_wake: AtomicBool,
    list: Mutex<List>,
}

struct List {
    /// The number of times that the list was emptied.
    round: u64,
    /// None: the task has left.
    wakers: Vec<Option<Waker>>,
}

/// A task's place in a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    round: u64,
    index: usize,
}

/// A task's place among those that wait for a log: kept from one question of the task to the next,
/// and given up with [`Log::leave`](crate::Log::leave).
#[derive(Debug, Default)]
pub struct AckWaiter {
    pub(crate) entry: Option<(usize, Key)>,
    /// The number of times that the flusher had found no room for an epoch marker when the task
    /// asked first.
    pub(crate) refusals: Option<u64>,
}

impl AckWaiters {
    pub(crate) fn new() -> Self {
        Self {
            has_waiters: AtomicBool::new(false),
            to_wake: AtomicBool::new(false),
            list: Mutex::new(List {
                round: 0,
                wakers: Vec::new(),
            }),
        }
    }

    /// Enters a task, in its old place if it still has one there, to be woken once. To be called
    /// before the task's last look at what it waits for.
    pub(crate) fn enter(&self, waker: &Waker, old: Option<Key>) -> Key {
        let mut waker = Some(waker.clone());
        let mut list = self.list.lock();
        let round = list.round;
        let key = match old {
            Some(key) if key.round == round => {
                std::mem::swap(&mut list.wakers[key.index], &mut waker);
                key
            }
            _ => {
                list.wakers.push(waker.take());
                let index = list.wakers.len() - 1;
                Key { round, index }
            }
        };
        self.has_waiters.store(true, Ordering::Relaxed);
        drop(list);
        // W1.
        fence(Ordering::SeqCst);
        key
    }

    /// The task need not be woken any more.
    pub(crate) fn leave(&self, key: Key) {
        let mut list = self.list.lock();
        if key.round != list.round {
            return;
        }
        let waker = list.wakers[key.index].take();
        while let Some(None) = list.wakers.last() {
            list.wakers.pop();
        }
        drop(list);
        drop(waker);
    }

    /// Progress that tasks may wait for has become visible: they are woken at the end of this call
    /// of the log (see [`AckWaiters::at_the_end`]).
    pub(crate) fn announce(&self) {
        // W1.
        fence(Ordering::SeqCst);
        if self.has_waiters.load(Ordering::Relaxed) {
            // Release pairs with the acquire in `WakeOnDrop`: a thread that takes this over finds
            // all those in the list that we would have found. Without it the list might be emptied
            // by that thread before they entered it, with this value read from our later store. No
            // processor stores before it knows a condition, and loom lets no thread load what is
            // stored later, so no model fails; the language alone would allow it.
            self.to_wake.store(true, Ordering::Release);
        }
    }

    /// When this is dropped, the tasks are woken that wait for what was announced. To be declared
    /// before any lock is taken, so that it is dropped after that.
    pub(crate) fn at_the_end(&self) -> WakeOnDrop<'_> {
        WakeOnDrop(self)
    }

    /// Wakes all, after what they may wait for has become visible. The caller holds no lock (W2).
    pub(crate) fn wake(&self) {
        let wakers = {
            let mut list = self.list.lock();
            self.has_waiters.store(false, Ordering::Relaxed);
            list.round += 1;
            std::mem::take(&mut list.wakers)
        };
        for waker in wakers.into_iter().flatten() {
            // W2: those behind it are woken all the same.
            drop(catch_unwind(AssertUnwindSafe(|| waker.wake())));
        }
    }
}

/// See [`AckWaiters::at_the_end`].
#[must_use = "tasks are woken when it is dropped"]
pub(crate) struct WakeOnDrop<'a>(&'a AckWaiters);

impl Drop for WakeOnDrop<'_> {
    fn drop(&mut self) {
        let to_wake = &self.0.to_wake;
        // One load on the path of every commit. The announcing thread sees its own store; Acquire,
        // see there.
        if to_wake.load(Ordering::Relaxed) && to_wake.swap(false, Ordering::Acquire) {
            self.0.wake();
        }
    }
}
