//! A bounded ring with one producer and one consumer.
//!
//! ```text
//!   slots   | . | . | x | x | x | . | . | . |        head: next to take, moved by the consumer
//!                     ▲           ▲                  tail: next to fill, moved by the producer
//!                    head        tail                both count up for ever; a slot is a count modulo the length
//! ```
//!
//! Each end keeps the count of the other that it saw last, and looks again only when the ring seems
//! full, or empty. So a busy ring moves a cache line between the two threads about once per lap,
//! not once per item.
//!
//! # Invariants
//! - R1. Slots from `head` up to `tail` hold an item, all others are empty; `tail - head` is at
//!   most the length.
//! - R2. Only the producer, of which there is one, writes `tail` and the slots outside of R1's
//!   range; only the consumer, of which there is one, writes `head` and takes items out of that
//!   range.
//!
//! Paper: oode §2
#![expect(unsafe_code, reason = "a slot belongs to one end at a time")]

use std::mem::MaybeUninit;

use crossbeam_utils::CachePadded;
use namiki_platform::sync::{Arc, AtomicUsize, Ordering, UnsafeCell};

/// A ring for at least `capacity` items, by its two ends.
pub(crate) fn ring<T: Send>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let length = capacity.max(1).next_power_of_two();
    let ring = Arc::new(Ring {
        head: CachePadded::new(AtomicUsize::new(0)),
        tail: CachePadded::new(AtomicUsize::new(0)),
        slots: (0..length)
            .map(|_| UnsafeCell::new(MaybeUninit::uninit()))
            .collect(),
    });
    let sender = Sender {
        ring: Arc::clone(&ring),
        tail: 0,
        head_seen: 0,
    };
    let receiver = Receiver {
        ring,
        head: 0,
        tail_seen: 0,
    };
    (sender, receiver)
}

struct Ring<T> {
    head: CachePadded<AtomicUsize>,
    tail: CachePadded<AtomicUsize>,
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: items only pass through it from one thread to another, so they must be `Send`; a slot is
// touched by one thread at a time (R2).
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    fn slot(&self, count: usize) -> &UnsafeCell<MaybeUninit<T>> {
        &self.slots[count & (self.slots.len() - 1)]
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // Both ends are gone, so everything they did is visible here.
        let tail = self.tail.load(Ordering::Relaxed);
        let mut head = self.head.load(Ordering::Relaxed);
        while head != tail {
            // SAFETY: slots from `head` up to `tail` hold items (R1), and there is no other user.
            self.slot(head)
                .with_mut(|slot| unsafe { (*slot).assume_init_drop() });
            head = head.wrapping_add(1);
        }
    }
}

/// The producer's end.
pub(crate) struct Sender<T> {
    ring: Arc<Ring<T>>,
    /// The ring's, which only this end writes.
    tail: usize,
    head_seen: usize,
}

impl<T: Send> Sender<T> {
    /// Adds an item.
    ///
    /// # Errors
    /// The item, if the ring is full.
    #[inline]
    pub(crate) fn push(&mut self, item: T) -> Result<(), T> {
        let length = self.ring.slots.len();
        if self.tail.wrapping_sub(self.head_seen) == length {
            // Acquire: pairs with the release in `pop`, after which the consumer no longer touches
            // the slot.
            self.head_seen = self.ring.head.load(Ordering::Acquire);
            if self.tail.wrapping_sub(self.head_seen) == length {
                return Err(item);
            }
        }
        self.ring.slot(self.tail).with_mut(|slot| {
            // SAFETY: fewer than `length` items lie between a past head and the tail, so the slot
            // is outside of R1's range and ours (R2); the consumer left it before the head that we
            // acquired.
            unsafe { (*slot).write(item) };
        });
        self.tail = self.tail.wrapping_add(1);
        // Release: the item is there before the tail says so; pairs with the acquire in `pop`.
        self.ring.tail.store(self.tail, Ordering::Release);
        Ok(())
    }
}

/// The consumer's end.
pub(crate) struct Receiver<T> {
    ring: Arc<Ring<T>>,
    /// The ring's, which only this end writes.
    head: usize,
    tail_seen: usize,
}

impl<T: Send> Receiver<T> {
    /// Removes and returns the oldest item; `None` if the ring is empty.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let item = self.ring.slot(self.head).with_mut(|slot| {
            // SAFETY: the tail that `is_empty` acquired is past this slot, so it holds an item
            // (R1), written before that tail; and we take it once, because the head moves on.
            unsafe { (*slot).assume_init_read() }
        });
        self.head = self.head.wrapping_add(1);
        // Release: we are done with the slot before the head says so; pairs with the acquire in
        // `push`.
        self.ring.head.store(self.head, Ordering::Release);
        Some(item)
    }

    /// Whether there is nothing to take now.
    #[inline]
    pub(crate) fn is_empty(&mut self) -> bool {
        if self.head == self.tail_seen {
            // Acquire: pairs with the release in `push`, before which the items were written.
            self.tail_seen = self.ring.tail.load(Ordering::Acquire);
        }
        self.head == self.tail_seen
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn items_come_out_in_their_order_across_threads() {
        let (mut sender, mut receiver) = ring::<Box<u64>>(8);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for number in 0..50_000 {
                    let mut item = Box::new(number);
                    while let Err(back) = sender.push(item) {
                        item = back;
                        std::hint::spin_loop();
                    }
                }
            });
            for expected in 0..50_000 {
                let item = loop {
                    match receiver.pop() {
                        Some(item) => break item,
                        None => std::hint::spin_loop(),
                    }
                };
                assert_eq!(*item, expected);
            }
        });
        assert!(receiver.pop().is_none());
    }

    #[test]
    fn a_full_ring_gives_the_item_back() {
        let (mut sender, mut receiver) = ring(3);
        assert!((0..4).all(|number| sender.push(number).is_ok()));
        assert_eq!(sender.push(4), Err(4));
        assert_eq!(receiver.pop(), Some(0));
        assert_eq!(sender.push(4), Ok(()));
        assert_eq!(sender.push(5), Err(5));
    }

    #[test]
    fn items_that_were_not_taken_are_dropped_once() {
        let item = Arc::new(());
        let (mut sender, mut receiver) = ring(8);
        for _ in 0..12 {
            sender.push(Arc::clone(&item)).unwrap();
            let _ = receiver.pop();
        }
        for _ in 0..5 {
            sender.push(Arc::clone(&item)).unwrap();
        }
        drop(sender);
        assert!(receiver.pop().is_some());
        assert_eq!(Arc::strong_count(&item), 5);
        drop(receiver);
        assert_eq!(Arc::strong_count(&item), 1);
    }
}
