//! Freeze and replace: one node is replaced by one or two, or two are replaced by one.
//!
//! Nodes have no half-done states that other threads could find. A structure change freezes the old
//! nodes, builds new ones privately, and exchanges them in one multi-word change:
//!
//! ```text
//!            parent                   one node for one:   child word of the parent
//!           /      \                                      status of the parent (compared: not frozen)
//!       node  -->   node'                                 word of the table of leaves
//! ```
//! Otherwise the parent's number of children changes, so it is frozen and copied, too, and
//! exchanged in its own parent. The same happens if the parent is found frozen: the thread that
//! froze it may be slow or gone, so the change does not wait, but includes the parent. So a change
//! fails only because another succeeded. An inner node that would grow too large becomes two, which
//! continues upwards; at the top one word leads to the root.
//!
//! A thread that meets a frozen leaf replaces it ([`BzTree::replace`]) by one leaf or two,
//! depending on its contents. Several threads may build replacements; one change succeeds, the
//! others drop theirs.
//!
//! Trap "a parent splitting during a merge", "stale parent stack": the child word says whether the
//! parent still leads to the old node, its status whether the parent itself is still part of the tree, and
//! both are compared in the change.
//!
//! Paper: bwtree §2.3

use crossbeam_epoch::Guard;
use namiki_index::LeafVersion;
use namiki_index::key::Key;
use namiki_index::shared::counters::Event;
use namiki_index::shared::scan::Target;

use super::leaf_table::version;
use super::node::{Entry, NodeRef, OwnedNode, Shape};
use super::search_and_descend::Step;
use super::status_word::{RECORDS_MAX, Status};
use super::{BzTree, Variant, leaf_word_changes};
use crate::mwcas::{self, Change};

/// A leaf that was split.
pub(super) struct Split {
    /// Its last version.
    pub(super) of: LeafVersion,
    /// The halves.
    pub(super) halves: (LeafVersion, LeafVersion),
}

/// The number of a leaf that changes, and the addresses of the old leaf and the new; 0: none.
pub(super) type Renamed = (u32, u64, u64);

/// A number for the right half of a split, returned if the split fails.
struct RightNumber<'t> {
    leaves: &'t super::leaf_table::Leaves,
    number: u32,
    counter: u64,
    used: bool,
}

impl Drop for RightNumber<'_> {
    fn drop(&mut self) {
        if !self.used {
            self.leaves.give_back(self.number, self.counter);
        }
    }
}

/// The position at which a leaf is cut. Ascending inserts leave the left half full.
fn cut<K: Key>(
    leaf: NodeRef<'_, K>,
    status: Status,
    entries: &[Entry<'_, K>],
    most: usize,
) -> usize {
    let middle = entries.len() / 2;
    let ascending = leaf.len().checked_sub(1).is_some_and(|last| {
        let last = leaf.key(last);
        let fresh = entries.len() - entries.partition_point(|entry| K::cmp(entry.0, last).is_le());
        fresh > 1 && fresh == status.visible().count_ones() as usize
    });
    if ascending {
        middle.max(most.min(entries.len() - 1))
    } else {
        middle
    }
}

impl<K: Key, V: Variant> BzTree<K, V> {
    /// Whether a leaf is so large that its slots must not take new keys: without a number for a
    /// split, its replacement could not be built. By then the leaf would be frozen, whichever
    /// thread froze it, and would stay frozen.
    #[inline]
    pub(super) fn is_crowded(leaf: NodeRef<'_, K>) -> bool {
        leaf.len() + leaf.slots() > RECORDS_MAX
    }

    /// Whether a crowded leaf in this state is, or may be, replaced by leaves with room.
    #[cold]
    pub(super) fn can_be_relieved(
        &self,
        leaf: NodeRef<'_, K>,
        status: Status,
        guard: &Guard,
    ) -> bool {
        if status.is_frozen() || self.leaves.are_left() {
            return true;
        }
        let mut entries = Vec::with_capacity(leaf.len() + leaf.slots());
        leaf.collect(status, &mut entries, guard);
        entries.len() + leaf.slots() <= RECORDS_MAX
    }

    /// Makes sure that a leaf that is full, worn or frozen is replaced. If this call split it,
    /// returns the split.
    #[inline(never)]
    pub(super) fn replace(
        &self,
        key: K::Ref<'_>,
        leaf: NodeRef<'_, K>,
        guard: &Guard,
    ) -> Option<Split> {
        leaf.prefetch();
        let status = leaf.freeze_leaf::<V>(guard);
        let mut entries = Vec::with_capacity(leaf.len() + leaf.slots());
        leaf.collect(status, &mut entries, guard);
        let of = version(leaf, status);
        let number = leaf.number();
        let mut shape = Shape {
            level: 0,
            number,
            counter: of.counter,
            slots: self.config.slots,
            low: leaf.low(),
            high: leaf.high(),
        };
        let mut right = None;
        if entries.len() > self.config.leaf_max {
            right = self.leaves.take().map(|(number, counter)| RightNumber {
                leaves: &self.leaves,
                number,
                counter,
                used: false,
            });
        }
        // Without a number for a right half the leaf grows.
        let Some(mut right) = right else {
            assert!(
                entries.len() <= RECORDS_MAX,
                "a crowded leaf takes no further key"
            );
            let new = OwnedNode::build(&shape, &entries);
            let renamed = [(number, leaf.address(), new.as_ref().address())];
            let done = self.install_at(key, leaf, vec![new], &renamed, guard);
            self.counters.add(if done {
                Event::Consolidation
            } else {
                Event::FailedConsolidation
            });
            return None;
        };
        let at = cut(leaf, status, &entries, self.config.leaf_max);
        let separator = K::separator(entries[at - 1].0, entries[at].0);
        shape.counter += 1;
        let halves = [
            OwnedNode::build(
                &Shape {
                    high: Some(separator),
                    ..shape
                },
                &entries[..at],
            ),
            OwnedNode::build(
                &Shape {
                    number: right.number,
                    counter: right.counter,
                    low: separator,
                    ..shape
                },
                &entries[at..],
            ),
        ];
        let [left_half, right_half] = [0, 1].map(|i: usize| halves[i].as_ref());
        let split = Split {
            of,
            halves: (
                version(left_half, Status::NEW),
                version(right_half, Status::NEW),
            ),
        };
        let renamed = [
            (number, leaf.address(), left_half.address()),
            (right.number, 0, right_half.address()),
        ];
        self.leaves.inherit(number, right.number);
        if self.install_at(key, leaf, halves.into(), &renamed, guard) {
            right.used = true;
            self.counters.add(Event::Split);
            return Some(split);
        }
        self.counters.add(Event::FailedConsolidation);
        None
    }

    /// Replaces a frozen leaf by new ones, unless another thread does.
    fn install_at(
        &self,
        key: K::Ref<'_>,
        old: NodeRef<'_, K>,
        new: Vec<OwnedNode<K>>,
        renamed: &[Renamed],
        guard: &Guard,
    ) -> bool {
        let mut new = new;
        loop {
            let path = self.path(Target::At(key), guard);
            if path.leaf != old {
                return false;
            }
            match self.install(&path.steps, &[old], new, renamed, guard) {
                Ok(()) => return true,
                Err(unused) => new = unused,
            }
            self.counters.add(Event::Restart);
        }
    }

    /// Exchanges `old`, one node or two neighbours, which are frozen, for `new`, one or two, below
    /// the last of `steps`. Returns `new` if other threads changed the path first.
    pub(super) fn install(
        &self,
        steps: &[Step<'_, K>],
        old: &[NodeRef<'_, K>],
        new: Vec<OwnedNode<K>>,
        renamed: &[Renamed],
        guard: &Guard,
    ) -> Result<(), Vec<OwnedNode<K>>> {
        let given = new.len();
        // All new nodes; those in `top` replace those at `places`.
        let (mut made, mut top) = (new, 0..given);
        let mut places = old.to_vec();
        let mut gone = old.to_vec();
        let unused = |mut made: Vec<OwnedNode<K>>| {
            made.truncate(given);
            Err(made)
        };
        for (depth, step) in steps.iter().enumerate().rev() {
            let parent = step.node;
            while let ([place], [new]) = (&places[..], &made[top.clone()]) {
                let status = leaf_word_changes::status(parent.status(), guard);
                if status.is_frozen() {
                    break;
                }
                let child = parent.value(step.index);
                let change = Change::new(child, place.word(), new.as_ref().word());
                let change = change.and(parent.status(), status.0, status.0);
                if self.rename(change, renamed).commit(guard) {
                    self.published(made, &gone, guard);
                    return Ok(());
                }
                if mwcas::read(child, guard) != place.word() {
                    return unused(made);
                }
            }
            leaf_word_changes::freeze(parent.status(), guard);
            let there = places.iter().enumerate().all(|(i, place)| {
                let i = step.index + i;
                i < parent.len() && mwcas::read(parent.value(i), guard) == place.word()
            });
            if !there {
                return unused(made);
            }
            let copies = {
                let mut entries: Vec<Entry<'_, K>> = Vec::with_capacity(parent.len() + 1);
                let taken = step.index..step.index + places.len();
                for i in (0..parent.len()).filter(|i| !taken.contains(i)) {
                    entries.push((parent.key(i), mwcas::read(parent.value(i), guard)));
                }
                let tops = made[top.clone()].iter().map(OwnedNode::as_ref);
                let tops: Vec<_> = tops.map(|node| (node.low(), node.word())).collect();
                entries.splice(step.index..step.index, tops);
                if depth == 0 && entries.len() == 1 {
                    self.counters.add(Event::RootCollapse);
                    Vec::new()
                } else {
                    self.copies(parent, &entries)
                }
            };
            if !copies.is_empty() {
                top = made.len()..made.len() + copies.len();
                made.extend(copies);
            }
            places = vec![parent];
            gone.push(parent);
        }
        if top.len() > 1 {
            let root = {
                let tops = made[top.clone()].iter().map(OwnedNode::as_ref);
                let entries: Vec<_> = tops.clone().map(|node| (node.low(), node.word())).collect();
                let level = 1 + tops.map(NodeRef::level).max().unwrap_or(0);
                OwnedNode::build(&inner(level, K::min(), None), &entries)
            };
            top = made.len()..made.len() + 1;
            made.push(root);
            self.counters.add(Event::RootSplit);
        }
        let (Some(place), Some(new)) = (places.first(), made.get(top.start)) else {
            unreachable!("something takes the place of something")
        };
        let change = Change::new(self.root.word(), place.word(), new.as_ref().word());
        if self.rename(change, renamed).commit(guard) {
            self.published(made, &gone, guard);
            return Ok(());
        }
        unused(made)
    }

    /// Adds to a change those of the table of leaves.
    fn rename<'w>(&'w self, change: Change<'w>, renamed: &[Renamed]) -> Change<'w> {
        let mut change = change;
        for (number, from, to) in renamed {
            change = change.and(self.leaves.word(*number), *from, *to);
        }
        change
    }

    /// One inner node or two with these children, in place of `parent`.
    fn copies<'a>(&self, parent: NodeRef<'a, K>, entries: &[Entry<'a, K>]) -> Vec<OwnedNode<K>> {
        let (level, low, high) = (parent.level(), parent.low(), parent.high());
        if entries.len() <= self.config.inner_max {
            return vec![OwnedNode::build(&inner(level, low, high), entries)];
        }
        self.counters.add(Event::Split);
        let (left, right) = entries.split_at(entries.len() / 2);
        vec![
            OwnedNode::build(&inner(level, low, Some(right[0].0)), left),
            OwnedNode::build(&inner(level, right[0].0, high), right),
        ]
    }

    fn published(&self, made: Vec<OwnedNode<K>>, gone: &[NodeRef<'_, K>], guard: &Guard) {
        made.into_iter().for_each(OwnedNode::published);
        gone.iter().for_each(|node| node.retire(guard));
    }
}

/// The shape of an inner node.
pub(super) fn inner<'a, K: Key>(
    level: u8,
    low: K::Ref<'a>,
    high: Option<K::Ref<'a>>,
) -> Shape<'a, K> {
    Shape {
        level,
        number: 0,
        counter: 0,
        slots: 0,
        low,
        high,
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use namiki_index::key::{Fixed8, Key, Variable};
    use namiki_index::{IndexError, InsertOutcome, Lookup, OrderedIndex, PointIndex};

    use super::RECORDS_MAX;
    use crate::bztree::{Append, BzConfig, BzTree, InPlace, Variant};

    /// A leaf without a number for its other half grows up to its limit; then it refuses further
    /// keys, and nothing else.
    fn refuses_what_it_has_no_leaf_for<K: Key, V: Variant>() {
        let key = |n: u64| (2 * n).to_be_bytes();
        let config = BzConfig::tiny();
        let tree = BzTree::<K, V>::new(config);
        tree.leaves.use_up();
        let mut there = 0;
        let refused = loop {
            match tree.insert(&key(there), there) {
                Ok(InsertOutcome::Inserted(_)) => there += 1,
                other => break other,
            }
        };
        assert_eq!(refused, Err(IndexError::OutOfPages));
        let most = (RECORDS_MAX - config.slots) as u64..=RECORDS_MAX as u64;
        assert!(most.contains(&there), "{there}");
        let refuses = || {
            for _ in 0..3 {
                let refused = tree.insert(&key(there), 1);
                assert_eq!(refused, Err(IndexError::OutOfPages));
                assert_eq!(tree.put(&key(there), 1), Err(IndexError::OutOfPages));
            }
            assert_eq!(tree.len() as u64, there);
        };
        refuses();
        // More updates than it has slots, and deletions followed by re-insertions of the same keys.
        for round in 1..4 {
            for n in 0..10 {
                assert_eq!(tree.update(&key(n), n + round), Ok(Some(n + round - 1)));
                tree.put(&key(n), n + round).unwrap();
            }
        }
        for n in 0..10 {
            assert_eq!(tree.delete(&key(n)), Ok(Some(n + 3)));
            assert!(matches!(tree.get(&key(n)), Ok(Lookup::Missing(_))));
        }
        for n in 0..10 {
            tree.insert(&key(n), n).unwrap();
        }
        for n in 0..there {
            assert_eq!(tree.get(&key(n)), Ok(Lookup::Found(n)));
        }
        refuses();
        let statistics = tree.statistics();
        assert_eq!((statistics.leaves, statistics.records), (1, there));
        // Places that become free are used, and a tree that is emptied is one small leaf again.
        for n in 0..there {
            assert_eq!(tree.delete(&key(n)), Ok(Some(n)));
            tree.insert(&key(there + n), n).unwrap();
        }
        assert_eq!(tree.len() as u64, there);
        let loaded = BzTree::<K, V>::new(config);
        loaded.leaves.use_up();
        let sorted = (0..100).map(|n| (key(n), n));
        assert_eq!(loaded.bulk_load(sorted), Err(IndexError::OutOfPages));
        assert_eq!(loaded.len(), 0);
    }

    #[test]
    fn a_tree_without_leaf_numbers_refuses_only_what_needs_one() {
        refuses_what_it_has_no_leaf_for::<Fixed8, InPlace>();
        refuses_what_it_has_no_leaf_for::<Fixed8, Append>();
        refuses_what_it_has_no_leaf_for::<Variable, InPlace>();
        refuses_what_it_has_no_leaf_for::<Variable, Append>();
    }
}
