//! Searches: in the sorted region of a node, and from the root to a leaf.
//!
//! A search counts separators, which are few and close to the header, and then heads in one line;
//! the value lies in the next line. Nodes have neither side links nor half-done changes: a child's
//! word leads to a node that covers what its parent says, or to one that did when the search
//! passed.
//!
//! # Why an old node may be read
//!
//! A search may end in a leaf that has been replaced in between. Its content was final when it was
//! replaced, and it was part of the tree at some instant of the search: each inner node on the way
//! was, by induction, and a frozen inner node's child, which cannot be exchanged in it any more,
//! was moved along when that node was replaced. So the answer was right at an instant between the
//! beginning and the end of the search.
//!
//! Paper: bwtree §2.3

use std::cmp::Ordering;

use crossbeam_epoch::Guard;
use namiki_index::Direction;
use namiki_index::key::Key;
use namiki_index::shared::cache_line_search::{BLOCK, WHOLE, count, count_lines, share_of};
use namiki_index::shared::scan::Target;

use super::node::NodeRef;
use super::{BzTree, Variant};

/// An inner node that a search came through, and the child it took.
#[derive(Clone, Copy)]
pub(super) struct Step<'g, K: Key> {
    pub(super) node: NodeRef<'g, K>,
    pub(super) index: usize,
}

/// A search from the root to a leaf, with the nodes it came through.
pub(super) struct Path<'g, K: Key> {
    pub(super) steps: Vec<Step<'g, K>>,
    pub(super) leaf: NodeRef<'g, K>,
}

impl<'g, K: Key> NodeRef<'g, K> {
    /// Number of heads that are less than `probe` (`OR_EQUAL`: not greater).
    #[inline(always)]
    fn rank_of<const OR_EQUAL: bool>(self, probe: u64) -> usize {
        let Some(last) = self.len().div_ceil(BLOCK).checked_sub(1) else {
            return 0;
        };
        let block = count_lines::<OR_EQUAL>(self.separators(), probe).min(last);
        let within = count::<OR_EQUAL>(self.heads(block), probe);
        (block * BLOCK + within).min(self.len())
    }

    /// Number of keys of the sorted region that are less than `key` (`OR_EQUAL`: not greater).
    #[inline(always)]
    pub(super) fn rank<const OR_EQUAL: bool>(self, key: K::Ref<'_>) -> usize {
        if K::INLINE {
            return self.rank_of::<OR_EQUAL>(K::head(key, 0));
        }
        self.rank_by_bytes::<OR_EQUAL>(key)
    }

    fn rank_by_bytes<const OR_EQUAL: bool>(self, key: K::Ref<'_>) -> usize {
        let len = self.len();
        if len == 0 {
            return 0;
        }
        let prefix = self.prefix();
        if prefix > 0 {
            let (bytes, shared) = (K::tail(key), &K::tail(self.key(0))[..prefix]);
            match bytes[..bytes.len().min(prefix)].cmp(shared) {
                Ordering::Less => return 0,
                Ordering::Greater => return len,
                Ordering::Equal => {}
            }
        }
        // Among keys with the same head (K1: they are neighbours) the bytes decide.
        let probe = K::head(key, prefix);
        let (low, high) = (self.rank_of::<false>(probe), self.rank_of::<true>(probe));
        low + partition(high - low, |i| match K::cmp(self.key(low + i), key) {
            Ordering::Less => true,
            Ordering::Equal => OR_EQUAL,
            Ordering::Greater => false,
        })
    }

    /// The place of a key in the sorted region.
    #[inline(always)]
    pub(super) fn find_sorted(self, key: K::Ref<'_>) -> Option<usize> {
        if K::INLINE {
            let probe = K::head(key, 0);
            let last = self.len().div_ceil(BLOCK).checked_sub(1)?;
            let block = count_lines::<true>(self.separators(), probe).min(last);
            let heads = self.heads(block);
            // The filler of a block is the largest head, which may also be a key.
            let within = count::<false>(heads, probe).min(BLOCK - 1);
            let i = block * BLOCK + within;
            return (heads[within] == probe && i < self.len()).then_some(i);
        }
        let i = self.rank_by_bytes::<false>(key);
        let there = i < self.len() && K::cmp(self.key(i), key) == Ordering::Equal;
        there.then_some(i)
    }

    /// Position of the child of an inner node that a search takes.
    #[inline(always)]
    fn turn(self, target: Target<'_, K>) -> usize {
        let rank = match target {
            Target::At(key) => self.rank::<true>(key),
            Target::Below(key) => self.rank::<false>(key),
            Target::Last => self.len(),
        };
        rank.saturating_sub(1)
    }

    /// The head of key number `i`, or that of the upper fence.
    #[inline(always)]
    fn head_or_fence(self, i: usize) -> Option<u64> {
        if i < self.len() {
            return Some(self.heads(i / BLOCK)[i % BLOCK]);
        }
        self.high().map(|high| K::head(high, self.prefix()))
    }

    /// The child on the path to `key`; prefetches its lines, and with `FILL` those of its slots too.
    #[inline(always)]
    pub(super) fn child_to<const FILL: bool>(
        self,
        key: K::Ref<'_>,
        slots: usize,
        guard: &'g Guard,
    ) -> Self {
        let i = self.rank::<true>(key).saturating_sub(1);
        let (probe, low) = (
            K::head(key, self.prefix()),
            self.heads(i / BLOCK)[i % BLOCK],
        );
        let share = match self.head_or_fence(i + 1) {
            Some(next) => share_of(probe.wrapping_sub(low), next.wrapping_sub(low)),
            None => WHOLE / 2,
        };
        self.child_ahead::<FILL>(i, share.min(WHOLE - 1), slots, guard)
    }
}

/// Number of entries before the first of `len` for which `before` does not hold.
pub(super) fn partition(len: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low.midpoint(high);
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

impl<K: Key, V: Variant> BzTree<K, V> {
    /// The leaf that a key belongs to.
    #[inline(always)]
    pub(super) fn leaf<'g>(&self, key: K::Ref<'_>, guard: &'g Guard) -> NodeRef<'g, K> {
        self.descend::<false>(key, guard)
    }

    /// The same for a caller that will probably fill a slot.
    #[inline(always)]
    pub(super) fn leaf_to_fill<'g>(&self, key: K::Ref<'_>, guard: &'g Guard) -> NodeRef<'g, K> {
        self.descend::<true>(key, guard)
    }

    #[inline(always)]
    fn descend<'g, const FILL: bool>(&self, key: K::Ref<'_>, guard: &'g Guard) -> NodeRef<'g, K> {
        let mut node = self.root.load(guard);
        while node.level() > 0 {
            node = node.child_to::<FILL>(key, self.config.slots, guard);
        }
        node
    }

    /// The leaf that a scan goes to. Prefetches all its lines, and those of the next one.
    pub(super) fn leaf_to_scan<'g>(
        &self,
        target: Target<'_, K>,
        direction: Direction,
        guard: &'g Guard,
    ) -> NodeRef<'g, K> {
        let mut node = self.root.load(guard);
        while node.level() > 0 {
            let i = node.turn(target);
            let next = match direction {
                Direction::Forward => i + 1,
                Direction::Backward => i.wrapping_sub(1),
            };
            node.prefetch_leaf(i, self.config.slots);
            node.prefetch_leaf(next, self.config.slots);
            node = node.child(i, guard);
        }
        node
    }

    /// The leaf, and the path to it.
    pub(super) fn path<'g>(&self, target: Target<'_, K>, guard: &'g Guard) -> Path<'g, K> {
        let mut steps = Vec::with_capacity(8);
        let mut leaf = self.root.load(guard);
        while leaf.level() > 0 {
            let index = leaf.turn(target);
            steps.push(Step { node: leaf, index });
            leaf = leaf.child(index, guard);
        }
        Path { steps, leaf }
    }
}
