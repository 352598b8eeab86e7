//! Prefetch hints: the path from an inner node to a child, and the lines of the child that a search
//! will read.
//!
//! The mapping table costs a search one more miss on every level, and the search in the child that it
//! leads to would wait for one line after another. So an inner node keeps a *hint* with the number
//! of each child: the last seen address of the child's base node, and its number of entries. From
//! the hint and the separators around the child, a search prefetches the header, the separators and
//! the block where it expects its key, all while it waits for the mapping table.
//!
//! ```text
//!  63    58 57                       28 27         0
//! | len    | address / 128, low 30 bits | page id   |     0 in the upper 36 bits: nothing known
//! ```
//! Of an inner child, `len` is a quarter of it.
//!
//! A hint is advice. It may be out of date, or point to memory that was freed long ago: it is only
//! ever prefetched, never dereferenced. Readers correct it when they find another base node. So its
//! atomics are those of the standard library, which loom does not see.

use std::sync::atomic::{AtomicU64, Ordering};

use namiki_index::key::Key;
use namiki_index::shared::cache_line_search::{BLOCK, LINE, WHOLE, share_of};
use namiki_platform::prefetch;

use super::layout::Parts;
use super::variable_keys::{bound_at, end_of_bounds};
use crate::bwtree::node::{BASE_ALIGN, Header, NodeRef, slot_bytes};
use crate::bwtree::page_id::PageId;
use crate::bwtree::variant::Variant;

const PLACE_BITS: u32 = 30;
const PLACE_SHIFT: u32 = PageId::BITS;
const LEN_SHIFT: u32 = PLACE_SHIFT + PLACE_BITS;
const LEN_MAX: u64 = u64::MAX >> LEN_SHIFT;

/// The lengths of inner children are known in multiples of this.
const INNER_UNIT: usize = 4;

/// The path from an inner node to one of its children.
#[derive(Clone, Copy)]
pub(in crate::bwtree) struct DescentPath<'g> {
    pub(in crate::bwtree) child: PageId,
    /// The place of the hint. Children that a delta leads to have none.
    cell: Option<&'g AtomicU64>,
    /// The value read from there.
    value: u64,
    to_leaf: bool,
    /// The position in the child's range of keys at which the search will end, in shares of
    /// [`WHOLE`].
    share: usize,
}

/// Low bits of a node's address in units of its alignment.
#[inline]
fn place(node: *const u8) -> u64 {
    (node.addr() / BASE_ALIGN) as u64 & ((1 << PLACE_BITS) - 1)
}

/// Distance of the nearest address with these low bits from another, in units of the alignment.
#[inline]
fn steps(from: u64, to: u64) -> isize {
    let shift = u64::BITS - PLACE_BITS;
    ((to.wrapping_sub(from) << shift) as i64 >> shift) as isize
}

impl<'g> DescentPath<'g> {
    /// The path to a child that no base entry leads to.
    pub(in crate::bwtree) fn unknown(child: PageId) -> Self {
        Self {
            child,
            cell: None,
            value: 0,
            to_leaf: false,
            share: 0,
        }
    }

    /// The path to the child in `cell` of a node on `level`. Its keys begin with the head `low` and end
    /// before `high`, or at an unknown key; the search is for `probe`.
    #[inline(always)]
    pub(in crate::bwtree) fn new(
        cell: &'g AtomicU64,
        level: u8,
        probe: u64,
        low: u64,
        high: Option<u64>,
    ) -> Self {
        // Relaxed: the child never changes, and any hint will do.
        let value = cell.load(Ordering::Relaxed);
        let width = high.map_or(0, |high| high.wrapping_sub(low));
        Self {
            child: PageId::of_entry(value),
            cell: Some(cell),
            value,
            to_leaf: level == 1,
            share: share_of(probe.wrapping_sub(low), width),
        }
    }

    /// Prefetches the lines of the child that the search will need, as far as they can be guessed.
    /// `near` is the present or former address of a base node of the tree.
    #[inline(always)]
    pub(in crate::bwtree) fn prefetch<K: Key, V: Variant>(&self, near: *const u8) {
        let value = self.value;
        let Some(start) = self.base(near) else { return };
        let line = |at: usize| prefetch(start.wrapping_add(at));
        if V::SLAB && self.to_leaf {
            prefetch(start.wrapping_sub(LINE));
        }
        let len = (value >> LEN_SHIFT) as usize * if self.to_leaf { 1 } else { INNER_UNIT };
        let parts = Parts::of::<K>(len);
        line(0);
        if size_of::<Header<K>>() > LINE {
            line(LINE);
        }
        // One line of separators in a leaf, four in an inner node: as many as they usually have.
        line(parts.separators);
        if !self.to_leaf {
            line(parts.separators + LINE);
            line(parts.separators + 2 * LINE);
            line(parts.separators + 3 * LINE);
        }
        let expected = self.share * len / WHOLE;
        let block = parts.block(expected / BLOCK);
        line(block);
        line(block + LINE);
        if !K::INLINE && self.to_leaf {
            line(bound_at(parts, expected));
        }
    }

    /// The same for a search that will put a delta on the child without reading its contents:
    /// prefetches only the slab's claims, if there are slabs, and the upper fence, if it is not in
    /// the headers.
    #[inline(always)]
    pub(in crate::bwtree) fn prefetch_slab<K: Key, V: Variant>(&self, near: *const u8) {
        if (V::SLAB || !K::INLINE)
            && let Some(start) = self.base(near)
        {
            if V::SLAB {
                prefetch(start.wrapping_sub(LINE));
            }
            if !K::INLINE {
                prefetch(start.wrapping_add(LINE));
            }
        }
    }

    /// Probable address of the child's base node.
    #[inline(always)]
    fn base(&self, near: *const u8) -> Option<*const u8> {
        let known = self.value >> PLACE_SHIFT;
        (known != 0).then(|| near.wrapping_offset(steps(place(near), known) * BASE_ALIGN as isize))
    }

    /// Corrects the hint once the child's head is known. The paper's own tree has no hints.
    #[inline]
    pub(in crate::bwtree) fn correct<K: Key, V: Variant>(&self, head: NodeRef<'_, K, V>) {
        if let Some(cell) = self.cell.filter(|_| !V::LITERAL) {
            let known = self.value >> PLACE_SHIFT & ((1 << PLACE_BITS) - 1);
            if known != place(head.base_hint()) {
                store(cell, self.child, head);
            }
        }
    }
}

/// Prefetches the slot that the next delta of a leaf probably gets: slots are claimed downwards from their
/// base node, and its claims and marks take a line or two.
#[inline(always)]
pub(in crate::bwtree) fn prefetch_slots<K: Key, V: Variant>(head: NodeRef<'_, K, V>) {
    let newest = head.as_ptr().cast::<u8>().cast_const();
    prefetch(newest.wrapping_sub(slot_bytes::<K>()));
    prefetch(newest.wrapping_sub(2 * LINE));
}

/// Prefetches all deltas of a chain that lie in its slab: a walk through them would wait for one
/// line after another.
pub(in crate::bwtree) fn prefetch_slab<K: Key, V: Variant>(head: NodeRef<'_, K, V>) {
    if head.is_in_slab() {
        let newest = head.as_ptr().cast::<u8>().cast_const();
        let bytes = head.base_hint().addr().saturating_sub(newest.addr());
        (0..bytes)
            .step_by(LINE)
            .for_each(|at| prefetch(newest.wrapping_add(at)));
    }
}

/// Prefetches all lines of the base node that probably lies below a leaf's `head`, except the bytes
/// of its keys.
pub(in crate::bwtree) fn prefetch_whole<K: Key, V: Variant>(head: NodeRef<'_, K, V>) {
    prefetch_slab(head);
    let start = head.base_hint();
    let end = end_of_bounds::<K>(head.len());
    (0..end)
        .step_by(LINE)
        .for_each(|at| prefetch(start.wrapping_add(at)));
}

#[cold]
fn store<K: Key, V: Variant>(cell: &AtomicU64, child: PageId, head: NodeRef<'_, K, V>) {
    let unit = if head.level() == 0 { 1 } else { INNER_UNIT };
    let len = (head.len().div_ceil(unit) as u64).min(LEN_MAX);
    let hint = len << LEN_SHIFT | place(head.base_hint()) << PLACE_SHIFT;
    // Relaxed: every thread that stores here stores the same child, and any hint will do.
    cell.store(hint | u64::from(child.0), Ordering::Relaxed);
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use namiki_index::{Lookup, PointIndex};

    use super::*;
    use crate::bwtree::{BwConfig, FixedBwTree};

    #[test]
    fn steps_lead_to_the_nearest_equal_low_bits() {
        let low = |place: u64| place & ((1 << PLACE_BITS) - 1);
        for from in [0, 1, 1 << 29, (1 << 30) - 1, 1 << 30, (1 << 40) + 12_345] {
            for ahead in [0, 1, -1, 1000, -1000, (1 << 29) - 1, -(1 << 29)] {
                let Some(to) = u64::checked_add_signed(from, ahead) else {
                    continue;
                };
                assert_eq!(steps(low(from), low(to)) as i64, ahead, "{from} {ahead}");
                // Whatever else is in the word above the place.
                assert_eq!(steps(low(from), to | 1 << 35) as i64, ahead);
            }
        }
    }

    /// The entries of a tree of this level that lead to their child's base node.
    fn hinted(tree: &FixedBwTree) -> (usize, usize) {
        let guard = &crossbeam_epoch::pin();
        let (mut right, mut all) = (0, 0);
        for id in tree.mapping.ids() {
            let Some(head) = tree
                .mapping
                .load(id, guard)
                .filter(|head| head.level() == 1)
            else {
                continue;
            };
            let base = head.base();
            for i in 0..base.len() {
                let value = base.value_at(i);
                let child = tree.mapping.load(PageId::of_entry(value), guard);
                let child = child.expect("the tree is at rest").base();
                // Not the whole address: an allocator that looks for errors spreads nodes further
                // than the bits of a place reach.
                let known = value >> PLACE_SHIFT & ((1 << PLACE_BITS) - 1)
                    == place(child.as_ptr().cast())
                    && value >> LEN_SHIFT == (child.len() as u64).min(LEN_MAX);
                right += usize::from(known);
                all += 1;
            }
        }
        (right, all)
    }

    #[test]
    fn readers_correct_the_hints_that_they_pass() {
        let tree = FixedBwTree::new(BwConfig::default());
        let sorted = (0..20_000_u64).map(|n| ((n * 3).to_be_bytes(), n));
        tree.load_sorted(sorted).unwrap();
        let read_all = || {
            for n in 0..20_000_u64 {
                let found = tree.get_key(&(n * 3).to_be_bytes()).unwrap();
                assert_eq!(found, Lookup::Found(n));
            }
        };
        read_all();
        let (right, all) = hinted(&tree);
        assert!(all > 300 && right == all, "{right} of {all}");
        // New base nodes everywhere: the hints lead to freed memory.
        for n in 0..20_000_u64 {
            tree.write(&(n * 3 + 1).to_be_bytes(), n).unwrap();
        }
        for _ in 0..20 {
            read_all();
        }
        let (right, all) = hinted(&tree);
        assert!(all > 300 && right * 10 > all * 9, "{right} of {all}");
    }
}
