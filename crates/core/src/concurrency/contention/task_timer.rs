//! A timer for tasks: one thread for each database that has a task which sleeps, started by the first.
//!
//! A waiting thread sleeps, or parks. A task must not block its thread: it registers its waker
//! here, with the time at which to wake it. The event for which it waits may happen earlier: then
//! its entry is *fired*, and its waker is called at once.
//!
//! # Invariants
//! - T1. Wakers are foreign code. They are cloned, called and dropped without the timer's lock, and called by the
//!   timer's thread alone: so whatever fires an entry may hold locks of its own. Their panics go no further.
//! - T2. An entry is in the list from its registration until it is due, fired or cancelled. A task that is polled again
//!   looks at what it waits for, not at the timer: a wake-up too many does no harm.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::thread;
use std::time::Instant;

use namiki_platform::ProcessToken;
use parking_lot::{Condvar, Mutex};

/// The timer of a database.
#[derive(Default)]
pub(crate) struct TaskTimer(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// By when they are due; numbers tell those of one moment apart.
    entries: BTreeMap<(Instant, u64), Waker>,
    number: u64,
    /// A thread runs. It ends with the timer.
    running: bool,
    ended: bool,
}

/// An entry of a timer. Dropped, it is cancelled.
pub(crate) struct TimerEntry {
    timer: Weak<Inner>,
    process: ProcessToken,
    key: (Instant, u64),
}

/// A handle that fires an entry.
#[derive(Clone)]
pub(crate) struct TimerHandle {
    timer: Weak<Inner>,
    number: u64,
    due: Instant,
}

impl TaskTimer {
    /// Wakes the task at `due`, or when its entry is fired. `None` if the system allows no thread
    /// for the timer.
    pub(crate) fn register(&self, due: Instant, waker: &Waker) -> Option<TimerEntry> {
        let waker = waker.clone();
        let mut state = self.0.state.lock();
        if !state.running {
            let inner = Arc::clone(&self.0);
            let name = "namiki-timer".to_owned();
            thread::Builder::new()
                .name(name)
                .spawn(move || inner.run())
                .ok()?;
            state.running = true;
        }
        state.number += 1;
        let key = (due, state.number);
        let is_first = state
            .entries
            .first_key_value()
            .is_none_or(|(first, _)| key < *first);
        let replaced = state.entries.insert(key, waker);
        debug_assert!(replaced.is_none(), "each entry has a number of its own");
        drop(state);
        if is_first {
            self.0.changed.notify_one();
        }
        Some(TimerEntry {
            timer: Arc::downgrade(&self.0),
            process: ProcessToken::current(),
            key,
        })
    }
}

impl TimerEntry {
    /// Another waker for the same task.
    pub(crate) fn update(&self, waker: &Waker) {
        let Some(timer) = self.timer.upgrade() else {
            return;
        };
        let waker = waker.clone();
        let replaced = match timer.state.lock().entries.get_mut(&self.key) {
            Some(old) => std::mem::replace(old, waker),
            None => waker,
        };
        drop(replaced);
    }

    pub(crate) fn handle(&self) -> TimerHandle {
        TimerHandle {
            timer: Weak::clone(&self.timer),
            number: self.key.1,
            due: self.key.0,
        }
    }
}

impl Drop for TimerEntry {
    fn drop(&mut self) {
        // In a forked child, a thread that does not exist there may hold the list's lock.
        if !self.process.is_current() {
            return;
        }
        let waker = self
            .timer
            .upgrade()
            .and_then(|timer| timer.state.lock().entries.remove(&self.key));
        drop(waker);
    }
}

impl TimerHandle {
    /// Wakes the task at once.
    pub(crate) fn fire(&self) {
        let Some(timer) = self.timer.upgrade() else {
            return;
        };
        let mut state = timer.state.lock();
        if let Some(waker) = state.entries.remove(&(self.due, self.number)) {
            // Due now, whenever the thread looks.
            state.entries.insert((Instant::now(), self.number), waker);
            drop(state);
            timer.changed.notify_one();
        }
    }
}

impl Inner {
    fn run(&self) {
        let mut state = self.state.lock();
        while !state.ended {
            let Some((&(due, number), _)) = state.entries.first_key_value() else {
                self.changed.wait(&mut state);
                continue;
            };
            if Instant::now() < due {
                self.changed.wait_until(&mut state, due);
                continue;
            }
            if let Some(waker) = state.entries.remove(&(due, number)) {
                parking_lot::MutexGuard::unlocked(&mut state, || {
                    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
                });
            }
        }
        // Tasks that still wait learn when they are polled that the database is closed.
        let left = std::mem::take(&mut state.entries);
        drop(state);
        for waker in left.into_values() {
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }
}

impl Drop for TaskTimer {
    fn drop(&mut self) {
        // Not waited for: the last handle may be dropped by a waker that the thread calls.
        self.0.state.lock().ended = true;
        self.0.changed.notify_one();
    }
}
