//! Copy of a base node with a few changes: the common case of consolidation.
//!
//! The position of each changed key in the old node is known from the delta, if its writer recorded
//! it (`Spot`), or is searched for once. The entries between two changes are copied unchanged, at
//! most a cache line at a time, as the places of entries in their blocks shift against one another.
//!
//! For variable keys this is done only if the changes move no entry; otherwise the node is built
//! anew from a list of its entries, which needs no key comparisons.
//!
//! The invariants are those of `base.rs` and `node.rs`.
#![expect(unsafe_code, reason = "reads and writes the blocks behind the headers")]

use std::ops::Range;
use std::sync::atomic;

use namiki_index::key::Key;
use namiki_index::shared::cache_line_search::{BLOCK, FILLER};

use super::build;
use super::layout::{Entry, Parts};
use crate::bwtree::node::{BaseHeader, Header, Kind, NodeRef, OwnedNode, Spot};
use crate::bwtree::variant::Variant;

/// The fate of one key: its new value, or its removal.
#[derive(Clone, Copy)]
pub(in crate::bwtree) struct Fate<'g, K: Key> {
    pub(in crate::bwtree) key: K::Ref<'g>,
    pub(in crate::bwtree) value: Option<u64>,
    /// Where the key is in the base node.
    pub(in crate::bwtree) spot: Spot,
}

impl<K: Key> Fate<'_, K> {
    /// A placeholder that concerns no key.
    pub(in crate::bwtree) fn none() -> Self {
        Self {
            key: K::min(),
            value: None,
            spot: Spot::UNKNOWN,
        }
    }

    /// Whether the key is present, and stays.
    fn is_update(&self) -> bool {
        self.value.is_some() && self.spot.found()
    }
}

impl<'g, K: Key, V: Variant> NodeRef<'g, K, V> {
    /// Finds the positions in this base node of the keys of `changes`, which ascend. Returns the
    /// number of entries that it would have with the changes.
    pub(in crate::bwtree) fn len_with(self, changes: &mut [Fate<'_, K>]) -> usize {
        let mut len = self.len();
        for fate in changes {
            if !fate.spot.is_known() {
                fate.spot = self.spot_of(fate.key);
            }
            debug_assert_eq!(fate.spot, self.spot_of(fate.key));
            match (fate.spot.found(), fate.value.is_some()) {
                (true, false) => len -= 1,
                (false, true) => len += 1,
                _ => {}
            }
        }
        len
    }

    /// The position at which the key is, or would be.
    fn spot_of(self, key: K::Ref<'_>) -> Spot {
        if !K::INLINE {
            let (at, found) = self.place_of(key);
            return Spot::new(at, found);
        }
        let head = K::head(key, 0);
        let at = self.rank_of::<false>(head);
        Spot::new(at, at < self.len() && self.head_at(at) == head)
    }

    /// A copy of this base node with `changes`, in ascending key order. `len` is what `len_with` returns
    /// for them. `header` has this node's fences.
    pub(in crate::bwtree) fn copy_with(
        self,
        header: &BaseHeader<'_, K>,
        changes: &[Fate<'g, K>],
        len: usize,
    ) -> OwnedNode<K, V> {
        assert_eq!(self.kind(), Kind::Base);
        if self.level() == 0 && changes.iter().all(Fate::is_update) {
            return self.copy_with_payloads(header, changes);
        }
        if K::INLINE {
            self.copy_in_runs(header, changes, len)
        } else {
            build(header, &self.entries_with(changes, len))
        }
    }

    /// A copy of this base leaf with other payloads.
    fn copy_with_payloads(
        self,
        header: &BaseHeader<'_, K>,
        changes: &[Fate<'g, K>],
    ) -> OwnedNode<K, V> {
        let (len, parts) = (self.len(), self.parts());
        let mut node = OwnedNode::base(header, len, self.bytes());
        let to = Target {
            start: node.start(),
            parts,
        };
        let begin = size_of::<Header<K>>();
        // SAFETY: both nodes have as many bytes; a leaf does not change (N1), and the copy is ours alone.
        unsafe {
            to.start
                .add(begin)
                .copy_from_nonoverlapping(self.part(begin), self.bytes() - begin);
        }
        self.copy_fences(&mut node);
        for fate in changes {
            if let Some(value) = fate.value {
                assert!(fate.spot.i() < len);
                to.put_value(fate.spot.i(), value);
            }
        }
        node
    }

    /// The entries of this base node with `changes`.
    fn entries_with(self, changes: &[Fate<'g, K>], len: usize) -> Vec<Entry<'g, K>> {
        let mut entries = Vec::with_capacity(len);
        let entry = |i| (self.key_at(i), self.value_at(i));
        let mut from = 0;
        for fate in changes {
            let until = fate.spot.i();
            entries.extend((from..until).map(entry));
            from = until + usize::from(fate.spot.found());
            entries.extend(fate.value.map(|value| (fate.key, value)));
        }
        entries.extend((from..self.len()).map(entry));
        entries
    }

    fn copy_in_runs(
        self,
        header: &BaseHeader<'_, K>,
        changes: &[Fate<'g, K>],
        len: usize,
    ) -> OwnedNode<K, V> {
        let parts = Parts::of::<K>(len);
        let mut node = OwnedNode::base(header, len, parts.strings);
        let to = Target {
            start: node.start(),
            parts,
        };
        let (mut from, mut at) = (0, 0);
        for fate in changes {
            let until = fate.spot.i();
            at = self.copy_run(from..until, &to, at);
            from = until + usize::from(fate.spot.found());
            if let Some(value) = fate.value {
                to.put(at, K::head(fate.key, 0), value);
                at += 1;
            }
        }
        at = self.copy_run(from..self.len(), &to, at);
        assert_eq!(at, len, "as `len_with` counted");
        to.finish(len);
        node
    }

    /// Copies some entries to place `at` and following of another node; returns the place after.
    fn copy_run(self, run: Range<usize>, to: &Target, mut at: usize) -> usize {
        let (mut from, end) = (run.start, run.end);
        assert!(from <= end && end <= self.len());
        let parts = self.parts();
        while from < end {
            // As far as both stay within a block.
            let some = (end - from)
                .min(BLOCK - from % BLOCK)
                .min(BLOCK - at % BLOCK);
            let (heads, values) = to.run(at, some);
            // SAFETY: these entries are in bounds and in one block, so their heads follow one another, and
            // so do their values. Those of a leaf do not change (N1); those of an inner node are
            // atomics (B3): relaxed, as the child never changes and any hint will do.
            unsafe {
                let from_heads = self.part(parts.head(from)).cast::<u64>();
                for i in 0..some {
                    heads.add(i).write(from_heads.add(i).read());
                }
                if self.level() == 0 {
                    let from_values = self.part(parts.value(from)).cast::<u64>();
                    for i in 0..some {
                        values.add(i).write(from_values.add(i).read());
                    }
                } else {
                    for i in 0..some {
                        let cell = self.cell_at(from + i);
                        values.add(i).write(cell.load(atomic::Ordering::Relaxed));
                    }
                }
            }
            (from, at) = (from + some, at + some);
        }
        at
    }
}

/// A base node that is being filled, ours alone (N1).
struct Target {
    start: *mut u8,
    parts: Parts,
}

impl Target {
    /// Where heads and values of some entries of one block are to be.
    #[inline]
    fn run(&self, i: usize, some: usize) -> (*mut u64, *mut u64) {
        assert!(i % BLOCK + some <= BLOCK);
        let (head_at, value_at) = (self.parts.head(i), self.parts.value(i));
        assert!(value_at < self.parts.strings);
        // SAFETY: within the blocks, see above, which end at `strings`, and the node does not end before.
        unsafe {
            (
                self.start.add(head_at).cast(),
                self.start.add(value_at).cast(),
            )
        }
    }

    /// Writes an entry.
    #[inline]
    fn put(&self, i: usize, head: u64, value: u64) {
        let (head_at, value_at) = self.run(i, 1);
        // SAFETY: `run` checked that this entry is in the node.
        unsafe {
            head_at.write(head);
            value_at.write(value);
        }
    }

    /// Writes the value of an entry.
    #[inline]
    fn put_value(&self, i: usize, value: u64) {
        let (_, value_at) = self.run(i, 1);
        // SAFETY: `run` checked that this entry is in the node.
        unsafe { value_at.write(value) };
    }

    /// Fills the last block up and writes the separators.
    fn finish(&self, len: usize) {
        for i in len..len.next_multiple_of(BLOCK) {
            self.put(i, FILLER, 0);
        }
        let blocks = len.div_ceil(BLOCK);
        for i in 0..(self.parts.blocks - self.parts.separators) / size_of::<u64>() {
            let block = i + 1;
            // SAFETY: the separators' lines are within the node; the first head of a block that
            // there is has been written.
            unsafe {
                let first = if block < blocks {
                    self.start.add(self.parts.block(block)).cast::<u64>().read()
                } else {
                    FILLER
                };
                let separators = self.start.add(self.parts.separators).cast::<u64>();
                separators.add(i).write(first);
            }
        }
    }
}
