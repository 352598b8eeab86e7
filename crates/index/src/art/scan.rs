//! Scans, both ways, leaf by leaf.
//!
//! On its way down a scan notes the tightest bounds it passes on either side: they are the leaf's range.
//! It copies the leaf's records, checks that the leaf is as it was, shows them, and goes on with the leaf
//! that covers the bound (forward), or the keys just below it (backward). Bounds of nodes higher up stay
//! true while the leaf's version does (A1), so the leaves shown cover the range without gap. Where a leaf
//! reaches back over what was visited already (it was merged meanwhile), that is left out.
//!
//! While it shows records a scan holds no lock, but it is pinned, as the bytes of keys are read in place;
//! after some leaves it pins anew.

use std::ops::{Bound, ControlFlow};

use crossbeam_epoch as epoch;

use super::ArtTree;
use super::leaf::Item;
use super::path::{ArtKey, Target};
use super::search::{Step, Trace};
use crate::range::{after_start, before_end, parse_bound};
use crate::{Direction, IndexError, ScanItem, ScanRange};

/// Leaves visited under one pin.
const LEAVES_PER_PIN: usize = 64;

/// The bounds of the leaf at the end of a way, as far as they are known: node and byte.
struct Fences<'g, K> {
    low: Option<(super::NodeRef<'g, K>, u8)>,
    high: Option<(super::NodeRef<'g, K>, u8)>,
}

impl<'g, K: ArtKey> Trace<'g, K> for Fences<'g, K> {
    fn clear(&mut self) {
        *self = Self {
            low: None,
            high: None,
        };
    }

    fn pass(&mut self, step: Step<'g, K>) {
        let (low, high) = step.node.bounds(step.rank);
        self.low = low.map(|byte| (step.node, byte)).or(self.low);
        self.high = high.map(|byte| (step.node, byte)).or(self.high);
    }
}

/// A bound as a key: eight-byte keys are filled up with zeros, as a bound is less than all keys that
/// begin with it.
fn fence<K: ArtKey>(bound: Option<(super::NodeRef<'_, K>, u8)>) -> Option<Vec<u8>> {
    let (node, byte) = bound?;
    let mut bytes = node.path_bytes();
    bytes.push(byte);
    if K::INLINE {
        bytes.resize(8, 0);
    }
    Some(bytes)
}

impl<K: ArtKey> ArtTree<K> {
    pub(super) fn scan_range(
        &self,
        range: ScanRange<'_>,
        mut visit: impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        let (start, end) = (parse_bound::<K>(range.start)?, parse_bound::<K>(range.end)?);
        let forward = range.direction == Direction::Forward;
        // The fence that the last leaf ended at.
        let mut resume: Option<Vec<u8>> = None;
        let mut guard = epoch::pin();
        for leaves in 1.. {
            let (start, end) = (
                start.map(|key| K::shorten(key)),
                end.map(|key| K::shorten(key)),
            );
            let fence = resume.as_deref().map(K::parse).transpose()?;
            let target = match (forward, fence, start, end) {
                (true, Some(fence), ..) => Target::At(fence),
                (true, None, Bound::Included(key) | Bound::Excluded(key), _) => Target::At(key),
                (true, None, Bound::Unbounded, _) => Target::At(K::min()),
                (false, Some(fence), ..) => Target::Below(fence),
                (false, None, _, Bound::Included(key) | Bound::Excluded(key)) => Target::At(key),
                (false, None, _, Bound::Unbounded) => Target::Last,
            };
            let mut items = Vec::new();
            let fences = self.copy_leaf(target, &mut items, &mut visit, &guard);
            let ControlFlow::Continue((low, high)) = fences else {
                return Ok(());
            };
            // The leaf may reach back over the fence, if it was merged meanwhile.
            let (from, to) = match (forward, fence) {
                (true, Some(fence)) => (Bound::Included(fence), end),
                (false, Some(fence)) => (start, Bound::Excluded(fence)),
                (_, None) => (start, end),
            };
            let mut show = |item: &Item<'_, K>| {
                let key = K::shorten(item.key);
                let inside = after_start::<K>(from.map(|from| K::shorten(from)), key)
                    && before_end::<K>(to.map(|to| K::shorten(to)), key);
                if !inside {
                    return ControlFlow::Continue(());
                }
                visit(ScanItem::Entry(K::encode(key, &mut [0; 8]), item.payload))
            };
            let shown = if forward {
                items.iter().try_for_each(&mut show)
            } else {
                items.iter().rev().try_for_each(&mut show)
            };
            let next = if forward { high } else { low };
            let (ControlFlow::Continue(()), Some(next)) = (shown, next) else {
                return Ok(());
            };
            if is_past::<K>(K::parse(&next)?, start, end, range.direction) {
                return Ok(());
            }
            resume = Some(next);
            drop(items);
            if leaves % LEAVES_PER_PIN == 0 {
                guard.repin();
            }
        }
        Ok(())
    }

    /// Copies the leaf of a target, reports its version, and returns its fences.
    fn copy_leaf<'g>(
        &self,
        target: Target<'_, K>,
        items: &mut Vec<Item<'g, K>>,
        visit: &mut impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
        guard: &'g epoch::Guard,
    ) -> ControlFlow<(), (Option<Vec<u8>>, Option<Vec<u8>>)> {
        let mut fences = Fences {
            low: None,
            high: None,
        };
        let mut turn = 0;
        loop {
            let reached = self.leaf(target, &mut fences, guard);
            items.clear();
            reached.leaf.items(items);
            let version = reached.leaf.mark().version();
            if reached.leaf.lock().check(reached.version) {
                visit(ScanItem::Leaf(version))?;
                return ControlFlow::Continue((fence(fences.low), fence(fences.high)));
            }
            self.restart(&mut turn);
        }
    }
}

/// Whether nothing of a range is left behind a fence. A leaf that begins at the start, even an excluded
/// one, is the last of a scan backward.
fn is_past<K: ArtKey>(
    fence: K::Ref<'_>,
    start: Bound<K::Ref<'_>>,
    end: Bound<K::Ref<'_>>,
    direction: Direction,
) -> bool {
    match direction {
        Direction::Forward => !before_end::<K>(end.map(|end| K::shorten(end)), fence),
        Direction::Backward => match start {
            Bound::Unbounded => false,
            Bound::Included(start) | Bound::Excluded(start) => {
                K::cmp(fence, K::shorten(start)).is_le()
            }
        },
    }
}
