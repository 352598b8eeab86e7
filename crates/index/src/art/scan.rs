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

use std::ops::ControlFlow;

use crossbeam_epoch as epoch;

use super::ArtTree;
use super::leaf::Item;
use super::node::NodeRef;
use super::path::ArtKey;
use super::search::{Step, Trace};
use crate::range::{after_start, before_end};
use crate::scan::{LEAVES_PER_PIN, Part, Target};
use crate::{Direction, IndexError, LeafVersion, ScanItem, ScanRange};

/// The bounds of the leaf at the end of a way, as far as they are known: node and byte.
pub(super) struct Fences<'g, K> {
    low: Option<(NodeRef<'g, K>, u8)>,
    high: Option<(NodeRef<'g, K>, u8)>,
}

impl<K> Default for Fences<'_, K> {
    fn default() -> Self {
        Self {
            low: None,
            high: None,
        }
    }
}

impl<K: ArtKey> Fences<'_, K> {
    /// The bound that the next leaf begins with.
    pub(super) fn high(&self) -> Option<Vec<u8>> {
        self.high.map(|(node, byte)| node.bound(byte))
    }
}

impl<'g, K: ArtKey> Trace<'g, K> for Fences<'g, K> {
    fn clear(&mut self) {
        *self = Self::default();
    }

    fn pass(&mut self, step: Step<'g, K>) {
        let (low, high) = step.node.bounds(step.rank);
        self.low = low.map(|byte| (step.node, byte)).or(self.low);
        self.high = high.map(|byte| (step.node, byte)).or(self.high);
    }
}

impl<K: ArtKey> ArtTree<K> {
    pub(super) fn scan_range(
        &self,
        range: ScanRange<'_>,
        mut visit: impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        let whole = Part::<K>::whole(range)?;
        let forward = range.direction == Direction::Forward;
        // The fence that the last leaf ended at.
        let mut resume: Option<Vec<u8>> = None;
        loop {
            let guard = &epoch::pin();
            let mut items = Vec::new();
            for _ in 0..LEAVES_PER_PIN {
                let fence = resume.as_deref().map(K::parse).transpose()?;
                // The leaf may reach back over the fence, if it was merged meanwhile.
                let part = whole.behind(fence);
                let target = whole.target(fence);
                let (version, next) = self.copy_leaf(target, &part, &mut items, guard);
                if visit(ScanItem::Leaf(version)).is_break() {
                    return Ok(());
                }
                let mut show = |item: &Item<'_, K>| {
                    let key = K::shorten(item.key);
                    let inside = after_start::<K>(part.from.map(|from| K::shorten(from)), key)
                        && before_end::<K>(part.to.map(|to| K::shorten(to)), key);
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
                let (ControlFlow::Continue(()), Some(next)) = (shown, next) else {
                    return Ok(());
                };
                if !whole.goes_beyond(K::parse(&next)?) {
                    return Ok(());
                }
                resume = Some(next);
            }
        }
    }

    /// Copies what the leaf of a target has of a range, and returns the leaf's version and the fence
    /// that the next one lies behind. Asks for that one, too: its misses overlap with what is done here.
    fn copy_leaf<'g>(
        &'g self,
        target: Target<'_, K>,
        part: &Part<'_, K>,
        items: &mut Vec<Item<'g, K>>,
        guard: &'g epoch::Guard,
    ) -> (LeafVersion, Option<Vec<u8>>) {
        let forward = part.direction == Direction::Forward;
        let mut fences = Fences::default();
        let mut turn = 0;
        loop {
            let reached = self.leaf(target, &mut fences, guard);
            let next = if forward { fences.high } else { fences.low };
            if let Some((node, byte)) = next {
                let rank = i32::from(byte) - i32::from(!forward);
                node.find(rank).prefetch(0, self.config.room());
            }
            items.clear();
            let leaf = reached.leaf;
            let places = leaf.places(
                part.from.map(|from| K::shorten(from)),
                part.to.map(|to| K::shorten(to)),
            );
            leaf.items(places, items);
            let version = leaf.mark().version();
            if leaf.lock().check(reached.version) {
                return (version, next.map(|(node, byte)| node.bound(byte)));
            }
            self.restart(&mut turn);
        }
    }
}
