//! Base nodes: sorted entries in blocks, and the search in them.
//!
//! ```text
//!  | header | separators: first heads of blocks 1, 2, …, in whole lines | block 0 | block 1 | …
//!  block:     | head u64 × 8 | value u64 × 8 |            a cache line each
//! ```
//! A search counts separators, which are few and close to the header, and then heads in one line,
//! and takes the value from the next line. So it needs four lines of a leaf, and a search that can
//! guess the block prefetches all of them at once (`base/child_prefetch_hint.rs`). The rest of a
//! line or block beyond the last entry is filled with the largest head.
//!
//! Values are payloads in a leaf and children in an inner node. The bytes of variable keys follow the
//! blocks (`base/variable_keys.rs`); `head` is then the eight bytes after a prefix that all keys of the node
//! share (all but the first, of an inner node), so that keys with a long common prefix still differ in
//! their heads.
//!
//! # Invariants
//! - B1. Keys ascend strictly, `low <= key < high`. In an inner node the first key is `low`, so
//!   every search in range finds a child (trap "leftmost child": it has an entry like any other).
//! - B2. For variable keys, `bounds` and the bytes between them are as `base/variable_keys.rs`
//!   defines.
//! - B3. Only the hint in an inner node's values changes after publication, as an atomic.
//!
//! Paper: bwtree §3
#![expect(
    unsafe_code,
    reason = "entries lie in trailing arrays behind the header"
)]

use std::cmp::Ordering;
use std::ops::{ControlFlow, Range};
use std::slice;
use std::sync::atomic::{self, AtomicU64};

use namiki_index::key::Key;
use namiki_index::shared::cache_line_search::{BLOCK, FILLER, LINE, count, count_lines};
use namiki_platform::prefetch;

use super::node::{BaseHeader, Kind, NodeRef, OwnedNode, Spot};
use super::variant::Variant;

pub(super) mod child_prefetch_hint;
mod copy_with_changes;
mod layout;
mod variable_keys;

use self::child_prefetch_hint::DescentPath;
pub(super) use self::copy_with_changes::Fate;
pub(super) use self::layout::{Entry, Parts};
use self::variable_keys::Strings;

/// Builds a base node from entries in ascending order.
pub(super) fn build<K: Key, V: Variant>(
    header: &BaseHeader<'_, K>,
    entries: &[Entry<'_, K>],
) -> OwnedNode<K, V> {
    debug_assert!(
        entries
            .windows(2)
            .all(|pair| K::cmp(pair[0].0, pair[1].0) == Ordering::Less)
    );
    let len = entries.len();
    let parts = Parts::of::<K>(len);
    let strings = Strings::of(header, entries, parts);
    let mut node = OwnedNode::base(header, len, strings.end());
    let start = node.start();
    // SAFETY: the node was allocated with at least `parts.strings` bytes, and the offsets below are
    // less; it is ours alone (`node.rs`, N1). It is aligned to a line, and all parts are multiples
    // of a line.
    unsafe {
        let separators = start.add(parts.separators).cast::<u64>();
        for i in 0..(parts.blocks - parts.separators) / size_of::<u64>() {
            let first = entries.get((i + 1) * BLOCK);
            separators
                .add(i)
                .write(first.map_or(FILLER, |(key, _)| strings.head::<K>((i + 1) * BLOCK, *key)));
        }
        for i in 0..len.next_multiple_of(BLOCK) {
            let (head, value) = match entries.get(i) {
                Some((key, value)) => (strings.head::<K>(i, *key), *value),
                None => (FILLER, 0),
            };
            start.add(parts.head(i)).cast::<u64>().write(head);
            start.add(parts.value(i)).cast::<u64>().write(value);
        }
    }
    strings.write(&mut node, header, entries);
    node
}

impl<'g, K: Key, V: Variant> NodeRef<'g, K, V> {
    /// An address in this base node.
    #[inline]
    fn part(self, offset: usize) -> *const u8 {
        debug_assert!(self.kind() == Kind::Base && offset <= self.bytes());
        // SAFETY: within the node or at its end: `offset` comes from the `Parts` of its length.
        unsafe { self.as_ptr().cast::<u8>().cast_const().add(offset) }
    }

    fn parts(self) -> Parts {
        Parts::of::<K>(self.len())
    }

    /// The separators, in whole lines.
    #[inline]
    fn separators(self) -> &'g [[u64; BLOCK]] {
        let parts = self.parts();
        let lines = (parts.blocks - parts.separators) / LINE;
        // SAFETY: `build` wrote that many lines of separators, alive during `'g` (N4).
        unsafe { slice::from_raw_parts(self.part(parts.separators).cast(), lines) }
    }

    /// The block in which a search for `probe` ends, its heads, and how many of them are less
    /// than `probe` (`OR_EQUAL`: not greater). Nothing in an empty node.
    #[inline(always)]
    fn seek<const OR_EQUAL: bool>(self, probe: u64) -> Option<(usize, &'g [u64; BLOCK], usize)> {
        let last = self.len().div_ceil(BLOCK).checked_sub(1)?;
        let block = count_lines::<OR_EQUAL>(self.separators(), probe).min(last);
        let heads = self.part(self.parts().block(block));
        // The value's line is prefetched together with that of the heads, which select the value.
        prefetch(heads.wrapping_add(LINE));
        // SAFETY: `block` is one of this node's, and `build` wrote all of its heads.
        let heads = unsafe { &*heads.cast::<[u64; BLOCK]>() };
        Some((block, heads, count::<OR_EQUAL>(heads, probe)))
    }

    /// Number of heads that are less than `probe` (`OR_EQUAL`: not greater).
    #[inline]
    fn rank_of<const OR_EQUAL: bool>(self, probe: u64) -> usize {
        match self.seek::<OR_EQUAL>(probe) {
            Some((block, _, within)) => (block * BLOCK + within).min(self.len()),
            None => 0,
        }
    }

    /// Head number `i`.
    #[inline]
    fn head_at(self, i: usize) -> u64 {
        assert!(i < self.len());
        // SAFETY: `i` is in bounds.
        unsafe { self.part(self.parts().head(i)).cast::<u64>().read() }
    }

    /// Calls `visit` with some entries of a base leaf in ascending order, line by line.
    pub(super) fn each_payload(
        self,
        some: Range<usize>,
        mut visit: impl FnMut(Entry<'g, K>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        assert!(some.end <= self.len() && self.level() == 0);
        let parts = self.parts();
        let mut i = some.start;
        while i < some.end {
            let until = (i / BLOCK + 1).saturating_mul(BLOCK).min(some.end);
            // SAFETY: the block has entry `i`, so it is one of this node's, and `build` wrote all of its
            // heads and values; a leaf's do not change (N1).
            let (heads, values) = unsafe {
                let heads = self.part(parts.block(i / BLOCK)).cast::<[u64; BLOCK]>();
                (&*heads, &*heads.add(1))
            };
            let within = i % BLOCK..i % BLOCK + (until - i);
            for (head, value) in heads[within.clone()].iter().zip(&values[within]) {
                visit((K::from_parts(*head, self.tail_at(i)), *value))?;
                i += 1;
            }
        }
        ControlFlow::Continue(())
    }

    /// Payload number `i` of a base leaf.
    #[inline]
    fn payload_at(self, i: usize) -> u64 {
        assert!(i < self.len() && self.level() == 0);
        // SAFETY: `i` is in bounds; a leaf's values do not change (N1).
        unsafe { self.part(self.parts().value(i)).cast::<u64>().read() }
    }

    /// Child number `i` of an inner base node, with its hint.
    #[inline]
    fn cell_at(self, i: usize) -> &'g AtomicU64 {
        assert!(i < self.len() && self.level() > 0);
        let cell = self.part(self.parts().value(i)).cast_mut().cast();
        // SAFETY: `i` is in bounds, the value is aligned, alive during `'g` (N4), and once the node
        // is published it is used as an atomic only (B3).
        unsafe { AtomicU64::from_ptr(cell) }
    }

    /// The path from an inner base node to the child that covers the point at `key`, or (not `OR_EQUAL`)
    /// just below it.
    #[inline(always)]
    pub(super) fn path_to<const OR_EQUAL: bool>(self, key: K::Ref<'_>) -> DescentPath<'g> {
        if !K::INLINE {
            let i = self.rank::<OR_EQUAL>(key).saturating_sub(1);
            return self.path_at(i, K::head(key, self.prefix()));
        }
        // The same, inlined with the values at hand, as every look-up comes through here.
        let probe = K::head(key, 0);
        let Some((block, heads, within)) = self.seek::<OR_EQUAL>(probe) else {
            unreachable!("an inner node has entries")
        };
        let within = within.saturating_sub(1);
        let i = block * BLOCK + within;
        if i >= self.len() || within + 1 == BLOCK {
            return self.path_at(i.min(self.len() - 1), probe);
        }
        let next = if i + 1 < self.len() {
            Some(heads[within + 1])
        } else {
            self.high().map(|high| K::head(high, 0))
        };
        DescentPath::new(self.cell_at(i), self.level(), probe, heads[within], next)
    }

    /// The path to child number `i`, for a search for the head `probe`.
    #[inline(never)]
    pub(super) fn path_at(self, i: usize, probe: u64) -> DescentPath<'g> {
        let next = if i + 1 < self.len() {
            Some(self.head_at(i + 1))
        } else {
            self.high().map(|high| K::head(high, self.prefix()))
        };
        DescentPath::new(self.cell_at(i), self.level(), probe, self.head_at(i), next)
    }

    /// Payload, or child with its hint, number `i`.
    pub(super) fn value_at(self, i: usize) -> u64 {
        if self.level() == 0 {
            self.payload_at(i)
        } else {
            // Relaxed: the child never changes, and any hint will do.
            self.cell_at(i).load(atomic::Ordering::Relaxed)
        }
    }

    /// Key number `i` of a base node.
    #[inline]
    pub(super) fn key_at(self, i: usize) -> K::Ref<'g> {
        K::from_parts(self.head_at(i), self.tail_at(i))
    }

    /// Number of keys of a base node that are less than `key` (`OR_EQUAL`: not greater). The key is
    /// in the page's range, or is its upper fence.
    #[inline]
    pub(super) fn rank<const OR_EQUAL: bool>(self, key: K::Ref<'_>) -> usize {
        if K::INLINE {
            return self.rank_of::<OR_EQUAL>(K::head(key, 0));
        }
        let (at, found) = self.place_of(key);
        at + usize::from(OR_EQUAL && found)
    }

    /// The payload of `key` in a base leaf.
    #[inline]
    pub(super) fn base_get(self, key: K::Ref<'_>) -> Option<u64> {
        if K::INLINE {
            let probe = K::head(key, 0);
            let (block, heads, within) = self.seek::<true>(probe)?;
            let i = block * BLOCK + within.checked_sub(1)?;
            // The filler of a block is the largest head, which may also be a key.
            let i = i.min(self.len() - 1);
            return (heads[i % BLOCK] == probe).then(|| self.payload_at(i));
        }
        let (at, found) = self.place_of(key);
        found.then(|| self.payload_at(at))
    }

    /// The same, with the position at which the key is or would be.
    #[inline]
    pub(super) fn base_find(self, key: K::Ref<'_>) -> (Option<u64>, Spot) {
        if !K::INLINE {
            return (self.base_get(key), Spot::UNKNOWN);
        }
        let probe = K::head(key, 0);
        let Some((block, heads, within)) = self.seek::<true>(probe) else {
            return (None, Spot::new(0, false));
        };
        let until = (block * BLOCK + within).min(self.len());
        match until.checked_sub(1) {
            Some(i) if heads[i % BLOCK] == probe => (Some(self.payload_at(i)), Spot::new(i, true)),
            _ => (None, Spot::new(until, false)),
        }
    }
}
