//! A node's latch, which writers take and readers do not: one word that also counts changes.
//!
//! Lehman and Yao read a page in one atomic step. In memory a reader instead reads the word before
//! and after the node; if the word is the same, everything read in between belongs to one instant.
//! Readers may pass a latched node: they wait only while the writer *changes* it, that is for some
//! stores and never for another latch.
//!
//! ```text
//!  63                          3      2        1          0
//! | how often the node changed | dead | latched | changing |
//! ```
//!
//! # Invariants
//! - L1. Only the thread that set `latched` changes the word until it clears the bit.
//! - L2. The node's content changes only between `changing` set and the next count.
//! - L3. No thread waits for a latch while it has set `changing` anywhere.
//! - L4. A dead node does not change again.
//!
//! Paper: bwtree §2.2 (a writer latches single nodes, a reader latches none)

use std::sync::atomic::Ordering;

use namiki_platform::sync::{AtomicU64, fence, wait};

const CHANGING: u64 = 1;
const LATCHED: u64 = 1 << 1;
const DEAD: u64 = 1 << 2;
const ONE_CHANGE: u64 = 1 << 3;

/// The word of one node.
#[derive(Debug)]
pub(super) struct Latch(AtomicU64);

/// The state that a reader found a node in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seen(u64);

impl Seen {
    /// The node is no longer part of the tree; its right link leads to the node that has its keys.
    #[inline]
    pub(super) fn is_dead(self) -> bool {
        self.0 & DEAD != 0
    }
}

impl Latch {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Begins a read of the node.
    #[inline(always)]
    pub(super) fn begin(&self) -> Seen {
        // `Acquire` pairs with the `Release` that ended the latest change: its stores are seen.
        let word = self.0.load(Ordering::Acquire);
        if word & CHANGING == 0 {
            return Seen(word & !LATCHED);
        }
        self.begin_later()
    }

    #[cold]
    fn begin_later(&self) -> Seen {
        let mut turn = 0;
        loop {
            turn += 1;
            wait(turn);
            let word = self.0.load(Ordering::Acquire);
            if word & CHANGING == 0 {
                return Seen(word & !LATCHED);
            }
        }
    }

    /// Whether everything read since `begin` was of one instant.
    #[inline(always)]
    pub(super) fn unchanged(&self, seen: Seen) -> bool {
        // The fence pairs with the one in `set_changing`: had we read a store of a change that came
        // after `seen`, we would now read its `changing` bit, or a later word.
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) & !LATCHED == seen.0
    }

    /// Takes the latch and begins a change, if the node is still as it was seen and not latched.
    #[inline]
    pub(super) fn change_if(&self, seen: Seen) -> bool {
        let changing = seen.0 | LATCHED | CHANGING;
        // `Acquire` pairs with the `Release` of the last holder.
        let exchange =
            self.0
                .compare_exchange(seen.0, changing, Ordering::Acquire, Ordering::Relaxed);
        // Pairs with the fence in `unchanged`, as in `set_changing`.
        fence(Ordering::Release);
        exchange.is_ok()
    }

    /// Waits until the latch is free; it may be taken again immediately.
    pub(super) fn wait_for_writers(&self) {
        let mut turn = 0;
        while self.0.load(Ordering::Relaxed) & LATCHED != 0 {
            turn += 1;
            wait(turn);
        }
    }

    /// Takes the latch. Readers pass.
    pub(super) fn latch(&self) -> Seen {
        let mut turn = 0;
        loop {
            let word = self.0.load(Ordering::Relaxed);
            // `Acquire` pairs with the `Release` of the last holder.
            if word & LATCHED == 0
                && self
                    .0
                    .compare_exchange_weak(
                        word,
                        word | LATCHED,
                        Ordering::Acquire,
                        Ordering::Relaxed,
                    )
                    .is_ok()
            {
                return Seen(word);
            }
            turn += 1;
            wait(turn);
        }
    }

    /// Begins a change; the caller holds the latch. Readers wait from here on.
    #[inline]
    pub(super) fn set_changing(&self) {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert!(word & (LATCHED | CHANGING | DEAD) == LATCHED);
        self.0.store(word | CHANGING, Ordering::Relaxed);
        // The stores of the change come after that of the bit, for every thread that sees one of them and
        // has passed the fence in `unchanged`.
        fence(Ordering::Release);
    }

    /// Ends a change and keeps the latch. Readers pass again.
    #[inline]
    pub(super) fn end_change(&self) {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert!(word & (LATCHED | CHANGING) == LATCHED | CHANGING);
        self.0
            .store((word & !CHANGING) + ONE_CHANGE, Ordering::Release);
    }

    /// Releases the latch; ends a change if there was one.
    #[inline]
    pub(super) fn unlatch(&self) {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert!(word & LATCHED != 0);
        let changed = if word & CHANGING == 0 { 0 } else { ONE_CHANGE };
        self.0
            .store((word & !(CHANGING | LATCHED)) + changed, Ordering::Release);
    }

    /// Marks the node dead: ends its last change and releases the latch.
    #[inline]
    pub(super) fn unlatch_dead(&self) {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert!(word & (LATCHED | CHANGING) == LATCHED | CHANGING);
        let word = (word & !(CHANGING | LATCHED)) + ONE_CHANGE;
        self.0.store(word | DEAD, Ordering::Release);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn a_reader_passes_a_latch_and_notices_a_change() {
        let latch = Latch::new();
        let seen = latch.begin();
        latch.latch();
        assert!(latch.unchanged(seen) && latch.begin() == seen);
        assert!(!latch.change_if(seen), "the latch is taken");
        latch.set_changing();
        assert!(!latch.unchanged(seen));
        latch.end_change();
        let later = latch.begin();
        assert!(later != seen && !latch.unchanged(seen) && latch.unchanged(later));
        latch.unlatch();
        assert!(latch.unchanged(later), "giving it back changes nothing");
        assert!(latch.change_if(later) && !latch.change_if(later));
        latch.unlatch_dead();
        assert!(latch.begin().is_dead() && !latch.unchanged(later));
    }
}

#[cfg(test)]
#[cfg(loom)]
mod loom_model {
    //! Every interleaving, with at most two preemptions, of a reader and of writers of a node that is no more than a latch and two words,
    //! which each change makes one more.

    use loom::sync::Arc;
    use loom::thread;
    use namiki_platform::model_checker::explore;

    use super::*;

    struct Node {
        latch: Latch,
        words: [AtomicU64; 2],
    }

    impl Node {
        fn words(&self) -> [u64; 2] {
            [0, 1].map(|i| self.words[i].load(Ordering::Relaxed))
        }

        fn change(&self) {
            for word in &self.words {
                word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
        }

        fn read(&self) {
            let seen = self.latch.begin();
            let [first, second] = self.words();
            assert!(!self.latch.unchanged(seen) || first == second);
        }

        fn change_latched(&self) {
            self.latch.latch();
            self.latch.set_changing();
            self.change();
            self.latch.unlatch();
        }

        fn change_and_keep(&self) {
            self.latch.latch();
            self.latch.set_changing();
            self.change();
            self.latch.end_change();
            self.latch.unlatch();
        }

        fn change_last(&self) {
            self.latch.latch();
            self.latch.set_changing();
            self.change();
            self.latch.unlatch_dead();
        }

        fn change_seen(&self) {
            while !self.latch.change_if(self.latch.begin()) {
                self.latch.wait_for_writers();
            }
            self.change();
            self.latch.unlatch();
        }
    }

    /// Runs both concurrently, and asserts the number of changes.
    fn explore_beside(one: fn(&Node), other: fn(&Node), changes: u64) {
        explore(2, move || {
            let node = Arc::new(Node {
                latch: Latch::new(),
                words: [0, 0].map(AtomicU64::new),
            });
            let beside = thread::spawn({
                let node = Arc::clone(&node);
                move || one(&node)
            });
            other(&node);
            beside.join().unwrap();
            assert_eq!(node.words(), [changes; 2]);
        });
    }

    #[test]
    fn what_a_reader_finds_unchanged_is_of_one_instant() {
        let writers: [fn(&Node); 4] = [
            Node::change_latched,
            Node::change_and_keep,
            Node::change_last,
            Node::change_seen,
        ];
        for write in writers {
            explore_beside(write, Node::read, 1);
        }
    }

    #[test]
    fn a_writer_has_what_the_last_one_wrote() {
        let writers: [fn(&Node); 3] = [
            Node::change_latched,
            Node::change_and_keep,
            Node::change_seen,
        ];
        for one in writers {
            for other in writers {
                explore_beside(one, other, 2);
            }
        }
    }
}
