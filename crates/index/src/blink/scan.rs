//! Scans, both ways.
//!
//! The entries of a leaf in the range are copied at one instant and then shown, so whoever is called
//! with them may use the tree. Forward, the next leaf is the right sibling, whose lines are asked for
//! before the copy is shown, and those of the second leaf already together with those of the first: the
//! parent knows both. Backward there are no links, and the next leaf is the one that covers the
//! point just below the lower fence. Either way the leaves visited cover the range without gap or
//! overlap: where the next one found reaches back over keys already visited (it was merged meanwhile),
//! those are left out.
//!
//! Trap "long scans re-pin": after some leaves the scan copies the fence it stands at, pins anew, and
//! searches on from the copy, so that it does not keep the collector waiting.
//!
//! Paper: bwtree §2.2; §4.1.1, figure 7 (Scan)

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};

use crossbeam_epoch::{self as epoch, Guard};

use super::BlinkTree;
use super::descend::Way;
use super::node::{Entry, NodeRef};
use crate::key::Key;
use crate::range::{after_start, before_end};
use crate::scan::{LEAVES_PER_PIN, Part};
use crate::{Direction, IndexError, LeafVersion, ScanItem, ScanRange};

/// What was copied of a leaf at one instant, beside the entries.
struct Copied<'g, K: Key> {
    leaf: NodeRef<'g, K>,
    version: LeafVersion,
    right: Option<(NodeRef<'g, K>, K::Ref<'g>)>,
}

impl<K: Key> BlinkTree<K> {
    pub(super) fn scan_range(
        &self,
        range: ScanRange<'_>,
        mut visit: impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        let whole = Part::whole(range)?;
        let mut entries = Vec::with_capacity(self.config.leaf_max);
        // Where to go on after a re-pin: the fence the last leaf ended at.
        let mut resume: Option<Vec<u8>> = None;
        loop {
            let fence = resume.as_deref().map(K::parse).transpose()?;
            let flow = match range.direction {
                Direction::Forward => self.scan_forward(&whole, fence, &mut entries, &mut visit),
                Direction::Backward => self.scan_backward(&whole, fence, &mut entries, &mut visit),
            };
            match flow {
                ControlFlow::Break(()) => return Ok(()),
                ControlFlow::Continue(fence) => resume = Some(fence),
            }
        }
    }

    /// Visits some leaves from `fence` (or `start`) on. Continues with the next fence.
    fn scan_forward(
        &self,
        whole: &Part<'_, K>,
        fence: Option<K::Ref<'_>>,
        entries: &mut Vec<Entry>,
        visit: &mut impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<(), Vec<u8>> {
        let guard = &epoch::pin();
        let mut at = match (fence, whole.from) {
            (Some(fence), _) => K::shorten(fence),
            (None, Bound::Included(key) | Bound::Excluded(key)) => K::shorten(key),
            (None, Bound::Unbounded) => K::min(),
        };
        let mut from = match fence {
            Some(fence) => Bound::Included(K::shorten(fence)),
            None => whole.from.map(|key| K::shorten(key)),
        };
        let mut way = self.descend::<false>(0, at, guard);
        way.prefetch_tail(self.nodes.room(0));
        let mut asked = way.prefetch_next(whole.to, self.nodes.room(0));
        for turn in 1.. {
            let copied = self.copy::<false>(&mut way, at, from, whole.to, entries);
            if let Some((right, _)) = copied.right
                && asked.take() != Some(right)
            {
                let len = self.config.leaf_max * 3 / 4;
                right.prefetch_entries(0, len, self.nodes.room(0));
            }
            visit(ScanItem::Leaf(copied.version))?;
            show(copied.leaf, entries.iter(), visit)?;
            let Some((right, high)) = copied.right else {
                return ControlFlow::Break(());
            };
            if !whole.goes_beyond(high) {
                return ControlFlow::Break(());
            }
            if turn == LEAVES_PER_PIN {
                return ControlFlow::Continue(K::encode(high, &mut [0; 8]).to_vec());
            }
            way = Way::sideways(right);
            at = high;
            from = Bound::Included(high);
        }
        ControlFlow::Break(())
    }

    /// Visits some leaves from below `fence` (or `end`) on. Continues with the next fence.
    fn scan_backward(
        &self,
        whole: &Part<'_, K>,
        fence: Option<K::Ref<'_>>,
        entries: &mut Vec<Entry>,
        visit: &mut impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<(), Vec<u8>> {
        let guard = &epoch::pin();
        let mut to = match fence {
            Some(fence) => Bound::Excluded(K::shorten(fence)),
            None => whole.to.map(|key| K::shorten(key)),
        };
        let mut copied = match (fence, whole.to) {
            (Some(fence), _) => {
                let mut way = self.descend::<true>(0, fence, guard);
                self.copy::<true>(&mut way, fence, whole.from, to, entries)
            }
            (None, Bound::Included(key) | Bound::Excluded(key)) => {
                let mut way = self.descend::<false>(0, key, guard);
                self.copy::<false>(&mut way, key, whole.from, to, entries)
            }
            (None, Bound::Unbounded) => self.copy_last(whole.from, entries, guard),
        };
        for turn in 1.. {
            visit(ScanItem::Leaf(copied.version))?;
            show(copied.leaf, entries.iter().rev(), visit)?;
            let low = copied.leaf.low();
            // The leftmost leaf has the smallest key as its lower fence, and no other has.
            if !whole.goes_beyond(low) || K::cmp(low, K::min()) == Ordering::Equal {
                return ControlFlow::Break(());
            }
            if turn == LEAVES_PER_PIN {
                return ControlFlow::Continue(K::encode(low, &mut [0; 8]).to_vec());
            }
            to = Bound::Excluded(low);
            let mut way = self.descend::<true>(0, low, guard);
            copied = self.copy::<true>(&mut way, low, whole.from, to, entries);
        }
        ControlFlow::Break(())
    }

    /// Copies the entries within both bounds of the leaf whose keys include the point at `key`
    /// (`BELOW`: just below it), which `way` leads to.
    fn copy<'g, const BELOW: bool>(
        &self,
        way: &mut Way<'g, K>,
        key: K::Ref<'_>,
        from: Bound<K::Ref<'_>>,
        to: Bound<K::Ref<'_>>,
        entries: &mut Vec<Entry>,
    ) -> Copied<'g, K> {
        loop {
            let seen = self.settle::<BELOW>(way, key);
            let copied = copy_now(way.node, way.guess, from, to, entries);
            if way.node.unchanged(seen) {
                return copied;
            }
        }
    }
}

impl<K: Key> BlinkTree<K> {
    /// The same for the leaf with the largest keys.
    fn copy_last<'g>(
        &self,
        from: Bound<K::Ref<'_>>,
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
                let copied = copy_now(node, 0, from, Bound::Unbounded, entries);
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

/// Copies the entries within both bounds. They are good if the leaf is unchanged afterwards.
fn copy_now<'g, K: Key>(
    leaf: NodeRef<'g, K>,
    guess: usize,
    from: Bound<K::Ref<'_>>,
    to: Bound<K::Ref<'_>>,
    entries: &mut Vec<Entry>,
) -> Copied<'g, K> {
    entries.clear();
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
    mut entries: impl Iterator<Item = &'a Entry>,
    visit: &mut impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    entries.try_for_each(|entry| {
        let key = leaf.view(entry.key);
        visit(ScanItem::Entry(K::encode(key, &mut [0; 8]), entry.value))
    })
}
