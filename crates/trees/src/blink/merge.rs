//! Merges: a node with few entries and its sibling become one, and empty levels are removed.
//!
//! The right one of two children of the same parent is emptied into the left one.
//!
//! ```text
//!   P (L, R, T)                 P (L, T)
//!   |    \   \                  |     \
//!   L --> R -> T                L ---> T       R: dead, its link leads to L
//! ```
//! The thread takes all three latches, L, R, and then P (B1 in `split.rs`), before it changes
//! anything, and then changes the nodes together. A reader that stands on R, or that has its
//! address from P or from the old L, waits while R changes and finds it dead. It goes left to L,
//! which has R's upper fence by then: a search never ends in a node that has lost its key. R is
//! unlinked from L and P when the latches are released, so it may be retired.
//!
//! Lower fences stay as they are, so the leftmost node of a level remains for good, and other levels
//! need no change. A root with one child gives its place to the child. An emptied tree therefore comes
//! back to one leaf. A child without siblings stays until a merge of its parent gives it some; then
//! it is checked again.
//!
//! Paper: bwtree §2.1, figure 2; Lehman and Yao leave deletion open, this protocol is ours

use crossbeam_epoch::Guard;
use namiki_index::key::Key;
use namiki_index::shared::counters::Event;

use super::BlinkTree;
use super::node::{NodeRef, retire_key};

/// The result of an attempt.
pub(super) enum Merged<'g, K: Key> {
    /// Nothing to merge.
    No,
    /// Other threads interfered; try again.
    Again,
    /// Merged; the level above may have a node with few entries now. Holds the lower fences of
    /// children that had no siblings before.
    Yes([Option<K::Ref<'g>>; 2]),
}

/// Two neighbours under one parent.
#[derive(Clone, Copy)]
struct Pair<'g, K: Key> {
    left: NodeRef<'g, K>,
    right: NodeRef<'g, K>,
}

impl<K: Key> BlinkTree<K> {
    /// Checks the node of a level that covers `key`: it has few entries.
    pub(super) fn shrink(&self, level: u8, key: K::Ref<'_>, guard: &Guard) {
        let mut level = level;
        loop {
            let root = self.root.load(guard);
            if root.level() <= level {
                self.lose_levels(guard);
                return;
            }
            match self.merge_at(level, key, guard) {
                Merged::No => {
                    // Perhaps the only child of the root.
                    self.lose_levels(guard);
                    return;
                }
                Merged::Again => self.counters.add(Event::Restart),
                Merged::Yes(alone) => {
                    for low in alone.into_iter().flatten() {
                        self.shrink(level - 1, low, guard);
                    }
                    level += 1;
                }
            }
        }
    }

    /// Merges the node of `level` that `key` belongs to with a sibling, if both have few entries.
    pub(super) fn merge_at<'g>(
        &self,
        level: u8,
        key: K::Ref<'_>,
        guard: &'g Guard,
    ) -> Merged<'g, K> {
        let Some(pair) = self.pair_at(level, key, guard) else {
            return Merged::No;
        };
        let Pair { left, right } = pair;
        if !self.worthwhile(left, right) {
            return Merged::No;
        }
        left.latch().latch();
        // Split since; or dead, and its link leads to the left.
        if left.right() != Some(right) {
            left.latch().unlatch();
            return Merged::Again;
        }
        // Alive: it is deleted only under the latch of its left sibling, which we have.
        right.latch().latch();
        if !self.worthwhile(left, right) {
            right.latch().unlatch();
            left.latch().unlatch();
            return Merged::No;
        }
        let parent = self.latch_at(level + 1, right.low(), guard);
        let (at, known) = parent.lower(right.low(), 0);
        let above_both = known && at > 0;
        if !above_both {
            // The parent was split between them.
            for node in [parent, right, left] {
                node.latch().unlatch();
            }
            return Merged::Again;
        }
        assert!(
            parent.child(at).is_some_and(|child| child.0 == right),
            "the parent knows the right sibling of a node that is not latched"
        );
        self.merge(parent, at, pair, guard)
    }

    /// The node of `level` that `key` belongs to and its left sibling, or its right one, if they have
    /// the same parent.
    fn pair_at<'g>(&self, level: u8, key: K::Ref<'_>, guard: &'g Guard) -> Option<Pair<'g, K>> {
        loop {
            let mut path = self.descend::<false>(level + 1, key, guard);
            let seen = self.settle::<false>(&mut path, key);
            let parent = path.node;
            if parent.level() != level + 1 {
                return None;
            }
            let i = parent.rank_of_child::<false>(key, 0).max(1);
            let [left, right] = [i - 1, i].map(|i| {
                let inside = i < parent.len();
                inside
                    .then(|| parent.child(i).map(|child| child.0))
                    .flatten()
            });
            if parent.unchanged(seen) {
                return Some(Pair {
                    left: left?,
                    right: right?,
                });
            }
        }
    }

    /// Whether one of two neighbours has few entries and both together fit well in one.
    fn worthwhile(&self, left: NodeRef<'_, K>, right: NodeRef<'_, K>) -> bool {
        let (most, few) = if left.level() == 0 {
            (self.config.leaf_max, self.config.leaf_min())
        } else {
            (self.config.inner_max, self.config.inner_min())
        };
        let (left, right) = (left.len(), right.len());
        // Not quite full, so that the next insert does not split it again; unless that would leave
        // an empty node, or a child without siblings.
        let room = if left.min(right) <= 1 {
            most
        } else {
            most - most / 4
        };
        left.min(right) < few && left + right <= room
    }

    /// Merges two nodes; all three are latched, and the right one is child number `at`.
    fn merge<'g>(
        &self,
        parent: NodeRef<'g, K>,
        at: usize,
        Pair { left, right }: Pair<'g, K>,
        guard: &'g Guard,
    ) -> Merged<'g, K> {
        let level = left.level();
        let alone = [left, right].map(|node| (level > 0 && node.len() == 1).then(|| node.low()));
        for node in [left, right, parent] {
            node.latch().set_changing();
        }
        if level == 0 {
            self.table.merge(right.mark(), left.mark());
        }
        let fence = left.high_word();
        left.set_high_word(right.high_word());
        left.set_right(right.right());
        left.use_fences();
        let mut shape = left.shape();
        for i in 0..right.len() {
            left.set_entry(shape.len + i, right.entry(i), shape.prefix);
        }
        shape.len += right.len();
        (shape.last, shape.run) = (0, 0);
        left.set_shape(shape);
        right.set_right(Some(left));
        let separator = parent.remove(at).key;

        right.latch().unlatch_dead();
        left.latch().unlatch();
        parent.latch().unlatch();
        for word in [fence, separator, right.low_word()] {
            retire_key::<K>(word, guard);
        }
        self.nodes.retire(right, guard);
        self.counters.add(Event::Merge);
        Merged::Yes(alone)
    }

    /// Replaces the root by its only child, as long as it has only one.
    pub(super) fn lose_levels(&self, guard: &Guard) {
        loop {
            let root = self.root.load(guard);
            if root.level() == 0 || root.len() != 1 {
                return;
            }
            let Some((child, _)) = root.child(0) else {
                return;
            };
            // Upwards (B1). With the child's latch no thread is about to give it a sibling.
            child.latch().latch();
            root.latch().latch();
            let only = self.root.load(guard) == root && root.len() == 1;
            if only {
                // A root that is split stays latched until there is another; and if the child had a
                // sibling, the root would know it (B2).
                assert!(root.right().is_none() && child.right().is_none());
                root.latch().set_changing();
                root.set_right(Some(child));
                self.root.store(child);
                root.latch().unlatch_dead();
                let (low, key) = (root.low_word(), root.key_word(0));
                for word in [low, if K::INLINE { 0 } else { key }] {
                    retire_key::<K>(word, guard);
                }
                self.nodes.retire(root, guard);
                self.counters.add(Event::RootCollapse);
            } else {
                root.latch().unlatch();
            }
            child.latch().unlatch();
            if !only {
                return;
            }
        }
    }
}
