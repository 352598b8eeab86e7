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
    /// Weight of the items that were put with one.
    weight: usize,
    closed: bool,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                items: VecDeque::new(),
                weight: 0,
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

    /// Adds an item unless the items with a weight would weigh more than `weight_max` together; a
    /// lone one may. Returns whether it was added.
    pub(crate) fn put_within(&self, item: T, weight: usize, weight_max: usize) -> bool {
        let mut state = self.state.lock();
        if state.closed || state.weight > 0 && state.weight + weight > weight_max {
            return false;
        }
        let was_empty = state.items.is_empty();
        state.weight += weight;
        state.items.push_back(item);
        drop(state);
        if was_empty {
            self.filled.notify_one();
        }
        true
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
        state.weight = 0;
        Some(std::mem::take(&mut state.items))
    }

    /// Waits until there is an item or the mailbox is closed, without taking an item. Returns false after a timeout.
    pub(crate) fn wait(&self, longest: Duration) -> bool {
        let mut state = self.state.lock();
        let is_quiet = |it: &mut State<T>| it.items.is_empty() && !it.closed;
        let waited = self.filled.wait_while_for(&mut state, is_quiet, longest);
        !waited.timed_out()
    }

    /// Number of items.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn len(&self) -> usize {
        self.state.lock().items.len()
    }

    /// Whether it is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Closes the mailbox: drops its items, and ignores new ones.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.items = VecDeque::new();
        state.weight = 0;
        drop(state);
        self.filled.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weighed_items_are_limited_until_they_are_taken() {
        let mailbox = Mailbox::default();
        assert!(mailbox.put_within(1, 100, 10), "a lone one may be heavy");
        assert!(!mailbox.put_within(2, 1, 10));
        mailbox.put(3);
        assert_eq!(mailbox.take_all(None).unwrap(), [1, 3]);
        assert!(mailbox.put_within(4, 5, 10) && mailbox.put_within(5, 5, 10));
        assert!(!mailbox.put_within(6, 1, 10));
        assert_eq!(mailbox.take_all(None).unwrap(), [4, 5]);
    }

    #[test]
    fn an_item_or_the_end_ends_a_wait_and_stays() {
        let mailbox = Mailbox::default();
        assert!(!mailbox.wait(Duration::from_millis(1)));
        mailbox.put(1);
        let watchdog = Duration::from_secs(10);
        assert!(mailbox.wait(watchdog));
        assert_eq!(mailbox.take_all(None).unwrap(), [1]);
        mailbox.close();
        assert!(mailbox.wait(watchdog));
    }
}
