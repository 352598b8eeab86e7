//! Merges of nodes that deletions have made small.
//!
//! A leaf with few records is united with a neighbour under the same parent, if both fit into one. The
//! parent then has one child fewer, and is united with its neighbour in turn; a root of one child is
//! replaced by that child. After a merge the search restarts from the root, so that merges that
//! have become possible are done, too: an emptied tree is one leaf.
//!
//! Both nodes are frozen, the left one first, and then exchanged for their union (`replace.rs`). If
//! that fails, because other threads were faster or a node has grown in between, frozen leaves are
//! replaced one by one. A frozen inner node may stay: the next change below it copies it.
//!
//! Paper: bwtree §2.3, §4.2.3

use crossbeam_epoch::Guard;
use namiki_index::key::Key;
use namiki_index::shared::counters::Event;
use namiki_index::shared::scan::Target;

use super::leaf_table::version;
use super::node::{Entry, NodeRef, OwnedNode, Shape};
use super::replace::inner;
use super::search_and_descend::Path;
use super::{BzTree, Variant, leaf_word_changes};
use crate::mwcas;

impl<K: Key, V: Variant> BzTree<K, V> {
    /// Number of live records of a leaf: an upper bound, exact unless a writer is active.
    pub(super) fn alive(&self, leaf: NodeRef<'_, K>, guard: &Guard) -> usize {
        let status = leaf_word_changes::status(leaf.status(), guard);
        let shown = status.visible().count_ones() as usize;
        if V::IN_PLACE {
            return (leaf.len() + shown).saturating_sub(status.dead());
        }
        if leaf.len().saturating_sub(shown) >= self.config.leaf_min() {
            return leaf.len() + shown;
        }
        let mut entries = Vec::with_capacity(leaf.len() + shown);
        leaf.collect(status, &mut entries, guard);
        entries.len()
    }

    /// Checks whether the deletion of a key from `leaf` calls for a merge.
    #[inline]
    pub(super) fn compact(&self, key: K::Ref<'_>, leaf: NodeRef<'_, K>, guard: &Guard) {
        let is_root = leaf.high().is_none() && K::cmp(leaf.low(), K::min()).is_eq();
        if !is_root && self.alive(leaf, guard) < self.config.leaf_min() {
            while self.merge_near(key, guard) {}
        }
    }

    /// Merges nodes on the path to a key. False: there is nothing to merge.
    #[inline(never)]
    fn merge_near(&self, key: K::Ref<'_>, guard: &Guard) -> bool {
        let path = self.path(Target::At(key), guard);
        let status = leaf_word_changes::status(path.leaf.status(), guard);
        if status.is_frozen() {
            self.replace(key, path.leaf, guard);
            return true;
        }
        let records = self.alive(path.leaf, guard);
        if records < self.config.leaf_min() {
            let fits = |node| records + self.alive(node, guard) <= self.config.merged_max();
            if let Some(left) = neighbour(&path, path.steps.len(), fits, guard) {
                return self.merge_leaves(&path, left, guard);
            }
        }
        for depth in (1..path.steps.len()).rev() {
            let children = path.steps[depth].node.len();
            if children < self.config.inner_min() {
                let fits = |node: NodeRef<'_, K>| children + node.len() <= self.config.inner_max;
                if let Some(left) = neighbour(&path, depth, fits, guard) {
                    return self.merge_inner(&path, depth, left, guard);
                }
            }
        }
        false
    }

    /// Merges two leaves, of which `left` is the number of the first in the parent.
    fn merge_leaves(&self, path: &Path<'_, K>, left: usize, guard: &Guard) -> bool {
        let depth = path.steps.len() - 1;
        let parent = path.steps[depth].node;
        let old = [left, left + 1].map(|i| parent.child(i, guard));
        let last = old.map(|leaf| leaf.freeze_leaf::<V>(guard));
        let mut entries = Vec::new();
        old[0].collect(last[0], &mut entries, guard);
        let mut right = Vec::new();
        old[1].collect(last[1], &mut right, guard);
        entries.append(&mut right);
        let done = entries.len() <= self.config.leaf_max && {
            let [kept, lost] = [0, 1].map(|i| version(old[i], last[i]));
            self.leaves.inherit(old[1].number(), old[0].number());
            let shape = Shape {
                level: 0,
                number: old[0].number(),
                counter: kept.counter.max(lost.counter) + 1,
                slots: self.config.slots,
                low: old[0].low(),
                high: old[1].high(),
            };
            let new = OwnedNode::build(&shape, &entries);
            let renamed = [
                (old[0].number(), old[0].address(), new.as_ref().address()),
                (old[1].number(), old[1].address(), 0),
            ];
            let merged = self.install_pair(path, depth, left, &old, new, &renamed, guard);
            if merged {
                self.leaves.give_back(old[1].number(), lost.counter + 1);
            }
            merged
        };
        if !done {
            for leaf in old {
                self.replace(leaf.low(), leaf, guard);
            }
            // Together they are too large now: give up.
            return entries.len() <= self.config.leaf_max;
        }
        true
    }

    /// Merges two children, of which `left` is the number of the first, of the inner node above `depth`.
    fn merge_inner(&self, path: &Path<'_, K>, depth: usize, left: usize, guard: &Guard) -> bool {
        let parent = path.steps[depth - 1].node;
        let old = [left, left + 1].map(|i| parent.child(i, guard));
        let mut entries: Vec<Entry<'_, K>> = Vec::new();
        for node in old {
            leaf_word_changes::freeze(node.status(), guard);
            let children =
                (0..node.len()).map(|i| (node.key(i), mwcas::read(node.value(i), guard)));
            entries.extend(children);
        }
        let shape = inner(old[0].level(), old[0].low(), old[1].high());
        let new = OwnedNode::build(&shape, &entries);
        self.install_pair(path, depth - 1, left, &old, new, &[], guard);
        true
    }

    /// Exchanges children `left` and the next of the node at `depth` for one.
    #[expect(clippy::too_many_arguments, reason = "what, where, and by what")]
    fn install_pair(
        &self,
        path: &Path<'_, K>,
        depth: usize,
        left: usize,
        old: &[NodeRef<'_, K>; 2],
        new: OwnedNode<K>,
        renamed: &[super::replace::Renamed],
        guard: &Guard,
    ) -> bool {
        let mut steps: Vec<_> = path.steps[..=depth].to_vec();
        steps[depth].index = left;
        let merged = self.install(&steps, old, vec![new], renamed, guard).is_ok();
        self.counters.add(if merged {
            Event::Merge
        } else {
            Event::FailedConsolidation
        });
        merged
    }
}

/// The left one of a pair of children that includes the one on the path below `depth - 1`, and a
/// neighbour which `fits`.
fn neighbour<'g, K: Key>(
    path: &Path<'g, K>,
    depth: usize,
    fits: impl Fn(NodeRef<'g, K>) -> bool,
    guard: &'g Guard,
) -> Option<usize> {
    let step = path.steps.get(depth.checked_sub(1)?)?;
    let (node, index) = (step.node, step.index);
    if let Some(left) = index.checked_sub(1)
        && fits(node.child(left, guard))
    {
        return Some(left);
    }
    (index + 1 < node.len() && fits(node.child(index + 1, guard))).then_some(index)
}
