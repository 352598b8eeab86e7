//! Scans in both directions.
//!
//! The entries of a leaf in the range are copied at one instant and then passed to the visitor, so the
//! visitor may use the tree. Forward, the next leaf is the right sibling. Its lines are prefetched
//! before the copy is passed on; those of the second leaf are prefetched together with those of the
//! first, as the parent knows both. Backward there are no links, and the next leaf is the one that
//! covers the point just below the lower fence.
//!
//! Paper: bwtree §2.2; §4.1.1, figure 7 (Scan)

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};

use crossbeam_epoch::Guard;
use namiki_index::key::Key;
use namiki_index::shared::range::{after_start, before_end};
use namiki_index::shared::scan::{Fenced, Part, Target};
use namiki_index::{Direction, LeafVersion, ScanItem};

use super::BlinkTree;
use super::descend::DescentPath;
use super::node::{Entry, NodeRef};

/// The copy of a leaf at one instant, apart from the entries.
pub struct Copied<'g, K: Key> {
    leaf: NodeRef<'g, K>,
    version: LeafVersion,
    right: Option<(NodeRef<'g, K>, K::Ref<'g>)>,
}

impl<K: Key> Fenced<K> for BlinkTree<K> {
    type Leaf<'g> = Copied<'g, K>;
    /// The entries in the part.
    type Buffer<'g> = Vec<Entry>;

    fn find<'g>(
        &self,
        target: Target<'_, K>,
        part: &Part<'_, K>,
        entries: &mut Vec<Entry>,
        guard: &'g Guard,
    ) -> Copied<'g, K> {
        entries.clear();
        entries.reserve(self.config.leaf_max);
        match (target, part.direction) {
            (Target::At(key), Direction::Forward) => {
                let path = self.descend::<false>(0, key, guard);
                path.prefetch_tail(self.nodes.room(0));
                let asked = path.prefetch_next(part.to, self.nodes.room(0));
                self.copy_forward(path, key, asked, part, entries)
            }
            (Target::At(key), Direction::Backward) => {
                let path = self.descend::<false>(0, key, guard);
                self.copy::<false>(path, key, part, entries)
            }
            (Target::Below(key), _) => {
                let path = self.descend::<true>(0, key, guard);
                self.copy::<true>(path, key, part, entries)
            }
            (Target::Last, _) => self.copy_last(part, entries, guard),
        }
    }

    fn find_right<'g>(
        &self,
        left: &Copied<'g, K>,
        high: K::Ref<'_>,
        part: &Part<'_, K>,
        entries: &mut Vec<Entry>,
        _: &'g Guard,
    ) -> Copied<'g, K> {
        let Some((right, _)) = left.right else {
            unreachable!("what is at a high key is in the right sibling")
        };
        self.copy_forward(DescentPath::sideways(right), high, None, part, entries)
    }

    fn fence<'a>(leaf: &'a Copied<'_, K>, direction: Direction) -> Option<K::Ref<'a>> {
        match direction {
            Direction::Forward => leaf.right.map(|(_, high)| K::shorten(high)),
            // The leftmost leaf has the smallest key as its lower fence, and no other has.
            Direction::Backward => {
                let low = K::shorten(leaf.leaf.low());
                (K::cmp(low, K::min()) != Ordering::Equal).then_some(low)
            }
        }
    }

    fn show<'g>(
        &self,
        Copied { leaf, version, .. }: &Copied<'g, K>,
        part: &Part<'_, K>,
        entries: &mut Vec<Entry>,
        visit: &mut impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        visit(ScanItem::Leaf(*version))?;
        match part.direction {
            Direction::Forward => show(*leaf, entries.iter(), visit),
            Direction::Backward => show(*leaf, entries.iter().rev(), visit),
        }
    }
}

impl<K: Key> BlinkTree<K> {
    /// Copies a part of the leaf that covers a key, which `path` leads to, and prefetches the leaf
    /// on the right, if that was not done yet.
    fn copy_forward<'g>(
        &self,
        path: DescentPath<'g, K>,
        key: K::Ref<'_>,
        asked: Option<NodeRef<'g, K>>,
        part: &Part<'_, K>,
        entries: &mut Vec<Entry>,
    ) -> Copied<'g, K> {
        let copied = self.copy::<false>(path, key, part, entries);
        if let Some((right, _)) = copied.right
            && asked != Some(right)
        {
            let len = self.config.leaf_max * 3 / 4;
            right.prefetch_entries(0, len, self.nodes.room(0));
        }
        copied
    }

    /// Copies a part of the leaf that covers the point at `key` (`BELOW`: just below it), which `path` leads
    /// to.
    fn copy<'g, const BELOW: bool>(
        &self,
        mut path: DescentPath<'g, K>,
        key: K::Ref<'_>,
        part: &Part<'_, K>,
        entries: &mut Vec<Entry>,
    ) -> Copied<'g, K> {
        loop {
            let seen = self.settle::<BELOW>(&mut path, key);
            let copied = copy_now(path.node, path.guess, part, entries);
            if path.node.unchanged(seen) {
                return copied;
            }
        }
    }

    /// The same for the leaf with the largest keys.
    fn copy_last<'g>(
        &self,
        part: &Part<'_, K>,
        entries: &mut Vec<Entry>,
        guard: &'g Guard,
    ) -> Copied<'g, K> {
        let mut node = self.root.load(guard);
        loop {
            let seen = node.begin();
            // A dead node's link leads on, too.
            let mut next = node.right();
            if next.is_none() && node.level() > 0 {
                next = node
                    .child(node.len().saturating_sub(1))
                    .map(|child| child.0);
            } else if next.is_none() {
                let copied = copy_now(node, 0, part, entries);
                if node.unchanged(seen) {
                    return copied;
                }
            }
            if let Some(next) = next
                && node.unchanged(seen)
            {
                node = next;
            }
        }
    }
}

/// Copies the entries in the part. They are valid if the leaf is unchanged afterwards.
fn copy_now<'g, K: Key>(
    leaf: NodeRef<'g, K>,
    guess: usize,
    part: &Part<'_, K>,
    entries: &mut Vec<Entry>,
) -> Copied<'g, K> {
    entries.clear();
    let (from, to) = (part.from, part.to);
    let first = match from {
        Bound::Unbounded => 0,
        // A node compares only keys between its fences.
        Bound::Included(key) | Bound::Excluded(key) if K::cmp(key, leaf.low()).is_lt() => 0,
        Bound::Included(key) | Bound::Excluded(key) if leaf.beyond::<false>(key).is_some() => {
            leaf.len()
        }
        Bound::Included(key) | Bound::Excluded(key) => {
            let (less, equal) = leaf.lower(key, guess);
            less + usize::from(equal && !after_start::<K>(from, leaf.key(less)))
        }
    };
    let right = leaf.right().zip(leaf.high());
    // Most often all keys of the leaf are left of the end.
    let all = right.is_some_and(|(_, high)| before_end::<K>(to, high));
    let len = leaf.len();
    leaf.copy_entries(first.min(len)..len, entries);
    if !all {
        let inside = |entry: &Entry| before_end::<K>(to, leaf.view(entry.key));
        entries.truncate(entries.partition_point(inside));
    }
    Copied {
        leaf,
        version: leaf.mark().version(),
        right,
    }
}

/// Reports entries that were copied from a leaf.
fn show<'a, K: Key>(
    leaf: NodeRef<'_, K>,
    entries: impl Iterator<Item = &'a Entry>,
    visit: &mut impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    for entry in entries {
        let key = leaf.view(entry.key);
        visit(ScanItem::Entry(K::encode(key, &mut [0; 8]), entry.value))?;
    }
    ControlFlow::Continue(())
}
