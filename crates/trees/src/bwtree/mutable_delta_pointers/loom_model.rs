//! Loom model: every interleaving of writers and readers on chains of a few nodes. A node's content
//! is a set of bits; nodes are numbered places of an arena that outlives the threads, so a chain
//! freed too soon shows as nodes owned twice at the end, and not as a crash.

#![expect(unsafe_code, reason = "nodes are shared through raw pointers")]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use namiki_platform::model_checker::{AtomicPtr, explore};
use std::sync::atomic::Ordering;

use super::{Chained, Link, Updates, worth_cutting};

struct Node {
    number: u8,
    /// Not atomic: loom reports a reader that has not synchronised with the writer.
    bits: UnsafeCell<u64>,
    next: Link<Node>,
    updates: Updates<Node>,
}

fn node(number: u8, bits: u64, below: *const Node) -> *mut Node {
    Box::into_raw(Box::new(Node {
        number,
        bits: UnsafeCell::new(bits),
        next: Link::new(below),
        updates: Updates::none(),
    }))
}

#[derive(Clone, Copy, PartialEq)]
struct At(*mut Node);

// SAFETY: nodes live until all threads of the model have ended.
unsafe impl Send for At {}

impl At {
    fn get(&self) -> &Node {
        // SAFETY: nodes live until all threads of the model have ended.
        unsafe { &*self.0 }
    }

    fn bits(self) -> u64 {
        // SAFETY: never written again; that this synchronises with the writer is what loom checks.
        self.get().bits.with(|bits| unsafe { *bits })
    }

    /// The content that a walk down from here finds, and the number of deltas on the way.
    fn content(self) -> (u64, usize) {
        let (mut node, mut all, mut deltas) = (self, self.bits(), 0);
        while let Some(below) = node.below() {
            (node, deltas) = (below, deltas + 1);
            all |= node.bits();
        }
        (all, deltas)
    }

    /// Frees a chain as the collector does, and returns its numbers.
    fn free(self, freed: &mut Vec<u8>) {
        let mut at = self.0;
        while !at.is_null() {
            // SAFETY: all threads have ended, and a node found twice would be seen in `freed`.
            let node = unsafe { Box::from_raw(at) };
            freed.push(node.number);
            at = node.next.below();
        }
    }
}

impl Chained for At {
    fn below(self) -> Option<Self> {
        let below = self.get().next.below();
        (!below.is_null()).then_some(Self(below))
    }

    fn number(self) -> u8 {
        self.get().number
    }
}

const EVERY: u8 = 2;

/// As `consolidate_below`. Returns what was cut out, and how many deltas that replaced.
fn cut(seam: At) -> Option<(At, usize)> {
    if !worth_cutting(seam, EVERY) {
        return None;
    }
    let below = seam.below()?;
    let (bits, deltas) = below.content();
    let base = node(0, bits, std::ptr::null());
    assert!(seam.get().next.cut(below.0, base), "it cannot fail (L1)");
    Some((below, deltas))
}

#[test]
fn writers_of_two_segments_and_a_reader_agree() {
    explore(3, || {
        let mut chain = At(node(0, 1, std::ptr::null()));
        let mut deltas = Vec::new();
        for number in 1..=4 {
            chain = At(node(number, 1 << number, chain.0));
            deltas.push(chain);
        }
        let (lower, head) = (deltas[1], chain);
        let first = thread::spawn(move || cut(lower));
        let reader = thread::spawn(move || head.content().0);
        let second = cut(head);
        let first = first.join().unwrap();
        assert_eq!(
            reader.join().unwrap(),
            0b11111,
            "a reader saw half a change"
        );
        assert_eq!(head.content().0, 0b11111);
        // Each delta went into one new base node: 1 into that of writer 2, and 3 and 2 into that of
        // writer 4, if it did not leave them to writer 6.
        assert_eq!(first.map(|(_, deltas)| deltas), Some(1));
        assert!(second.is_none_or(|(_, deltas)| deltas == 2), "done twice");
        let mut freed = Vec::new();
        for (old, _) in [first, second].into_iter().flatten() {
            old.free(&mut freed);
        }
        head.free(&mut freed);
        freed.sort_unstable();
        let bases = 1 + usize::from(first.is_some()) + usize::from(second.is_some());
        let all = [vec![0; bases], vec![1, 2, 3, 4]].concat();
        assert_eq!(freed, all, "every node is freed, and once");
    });
}

/// A page with a head that may be a split delta, and the nodes taken out of it.
struct Page {
    slot: AtomicPtr<Node>,
    retired: loom::sync::Mutex<Vec<At>>,
}

const SPLIT: u8 = 100;

impl Page {
    fn head(&self) -> At {
        loom::sync::atomic::fence(Ordering::SeqCst);
        At(self.slot.load(Ordering::SeqCst))
    }

    /// As `Mapping::load`.
    fn load(&self) -> (At, At) {
        let head = self.head();
        let newest = head.get().updates.newest();
        let state = if head.number() != SPLIT || newest.is_null() {
            head
        } else {
            At(newest)
        };
        (head, state)
    }

    /// As `Mapping::replace`: by a base node with the content of `state`.
    fn consolidate(&self) {
        let (split, state) = self.load();
        if split.number() != SPLIT {
            return;
        }
        let newest = if state == split {
            std::ptr::null_mut()
        } else {
            state.0
        };
        let base = node(0, state.content().0, std::ptr::null());
        let replaced = split.get().updates.freeze(newest)
            && self
                .slot
                .compare_exchange(split.0, base, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok();
        let out = if replaced { split } else { At(base) };
        self.retired.lock().unwrap().push(out);
    }

    /// As `put_key`: helps the thread that froze the updates.
    fn put(&self, bit: u64) {
        loop {
            let (head, state) = self.load();
            let done = if head.number() == SPLIT {
                let below = if state == head {
                    head.get().next.below()
                } else {
                    state.0
                };
                let newest = if state == head {
                    std::ptr::null_mut()
                } else {
                    state.0
                };
                let delta = node(1, bit, below);
                head.get().updates.push(newest, delta)
            } else {
                let delta = node(1, bit, state.0);
                self.slot
                    .compare_exchange(state.0, delta, Ordering::SeqCst, Ordering::SeqCst)
                    .is_ok()
            };
            if done {
                return;
            }
            if self.head() == head && head.number() == SPLIT && head.get().updates.is_frozen() {
                self.consolidate();
            }
        }
    }
}

fn freeze_against(updates: &'static [u64], read: bool) {
    explore(3, move || {
        let base = node(0, 1, std::ptr::null());
        let page = Arc::new(Page {
            slot: AtomicPtr::new(node(SPLIT, 0, base)),
            retired: loom::sync::Mutex::new(Vec::new()),
        });
        let consolidator = thread::spawn({
            let page = page.clone();
            move || page.consolidate()
        });
        let reader = read.then(|| {
            let page = page.clone();
            thread::spawn(move || (page.load().1.content().0, page.load().1.content().0))
        });
        let mut all = 1;
        for bit in updates {
            page.put(*bit);
            all |= bit;
            assert_eq!(page.load().1.content().0, all, "an update was lost");
        }
        consolidator.join().unwrap();
        assert_eq!(page.load().1.content().0, all, "an update was lost");
        if let Some(reader) = reader {
            let (before, after) = reader.join().unwrap();
            assert_eq!(before | after, after, "an update was seen and then not");
        }
    });
}

#[test]
fn no_update_goes_below_a_split_delta_that_is_replaced() {
    freeze_against(&[2, 4], false);
}

#[test]
fn a_reader_never_goes_back_during_a_delta_replacement() {
    freeze_against(&[2], true);
}
