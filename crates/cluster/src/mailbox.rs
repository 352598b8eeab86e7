//! A queue between two parts of a node.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// A FIFO queue with many producers and one consumer.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    closed: bool,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                items: VecDeque::new(),
                closed: false,
            }),
            filled: Condvar::new(),
        }
    }
}

impl<T> Mailbox<T> {
    /// Adds an item. Has no effect once the mailbox is closed.
    pub(crate) fn put(&self, item: T) {
        self.put_all([item]);
    }

    /// Adds items in their order.
    pub(crate) fn put_all(&self, items: impl IntoIterator<Item = T>) {
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        let was_empty = state.items.is_empty();
        state.items.extend(items);
        let wakes = was_empty && !state.items.is_empty();
        drop(state);
        if wakes {
            self.filled.notify_one();
        }
    }

    /// Takes all items; waits at most `longest` if the mailbox is empty. `None` once the mailbox is
    /// closed.
    pub(crate) fn take_all(&self, longest: Option<Duration>) -> Option<VecDeque<T>> {
        let mut state = self.state.lock();
        if state.items.is_empty() && !state.closed {
            match longest {
                Some(longest) if longest.is_zero() => {}
                Some(longest) => {
                    self.filled.wait_for(&mut state, longest);
                }
                None => self
                    .filled
                    .wait_while(&mut state, |it| it.items.is_empty() && !it.closed),
            }
        }
        if state.closed {
            return None;
        }
        Some(std::mem::take(&mut state.items))
    }

    /// Number of items.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn len(&self) -> usize {
        self.state.lock().items.len()
    }

    /// Closes the mailbox: drops its items, and ignores new ones.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.items.clear();
        drop(state);
        self.filled.notify_all();
    }
}
