//! Scans in both directions, leaf by leaf.
//!
//! On its way down a scan notes the tightest bounds it passes on either side: they are the leaf's fences.
//! It copies the leaf's records, checks that the leaf is unchanged, reports them, and continues
//! with the leaf that covers the fence (forward), or the keys just below it (backward). Bounds of
//! nodes higher up stay true while the leaf's version does (`art/mod.rs`, A1).
//!
//! While it shows records a scan holds no lock, but it is pinned, as the bytes of keys are read in place.

use std::ops::ControlFlow;

use crossbeam_epoch::Guard;

use super::ArtTree;
use super::descend::{Step, Trace};
use super::multi_record_leaf::Item;
use super::node::NodeRef;
use super::prefix_compare::ArtKey;
use crate::key::OwnedKey;
use crate::shared::range::{after_start, before_end};
use crate::shared::scan::{Fenced, Part, Target};
use crate::{Direction, LeafVersion, ScanItem};

/// The bounds of the leaf at the end of a path, as far as they are known: node and byte.
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
    pub(super) fn high(&self) -> Option<OwnedKey<K>> {
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

/// The copy of a leaf at one instant, apart from the records.
pub struct Copied<K> {
    version: LeafVersion,
    /// The fence in the direction of the scan.
    fence: Option<OwnedKey<K>>,
}

impl<K: ArtKey> Fenced<K> for ArtTree<K> {
    type Leaf<'g> = Copied<K>;
    type Buffer<'g> = Vec<Item<'g, K>>;

    /// Prefetches the next leaf, too: its misses overlap with the work here.
    fn find<'g>(
        &'g self,
        target: Target<'_, K>,
        part: &Part<'_, K>,
        items: &mut Self::Buffer<'g>,
        guard: &'g Guard,
    ) -> Copied<K> {
        let forward = part.direction == Direction::Forward;
        let mut fences = Fences::default();
        let mut turn = 0;
        loop {
            let reached = self.leaf(target, &mut fences, guard);
            let fence = if forward { fences.high } else { fences.low };
            if let Some((node, byte)) = fence {
                let rank = i32::from(byte) - i32::from(!forward);
                node.find(rank).prefetch(0, self.config.room());
            }
            items.clear();
            let leaf = reached.leaf;
            leaf.items(leaf.places(part.from, part.to), items);
            let version = leaf.mark().version();
            if leaf.lock().check(reached.version) {
                let fence = fence.map(|(node, byte)| node.bound(byte));
                return Copied { version, fence };
            }
            self.restart(&mut turn);
        }
    }

    fn fence<'a>(leaf: &'a Copied<K>, _: Direction) -> Option<K::Ref<'a>> {
        leaf.fence.as_ref().map(OwnedKey::get)
    }

    fn show<'g>(
        &self,
        leaf: &Copied<K>,
        part: &Part<'_, K>,
        items: &mut Self::Buffer<'g>,
        visit: &mut impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        visit(ScanItem::Leaf(leaf.version))?;
        match part.direction {
            Direction::Forward => show(items.iter(), part, visit),
            Direction::Backward => show(items.iter().rev(), part, visit),
        }
    }
}

/// Number of entries by which payloads are announced ahead.
const AHEAD: usize = 6;

/// Reports those of a leaf's records that are in the part.
fn show<'a, 'g: 'a, K: ArtKey>(
    items: impl Iterator<Item = &'a Item<'g, K>> + Clone,
    part: &Part<'_, K>,
    visit: &mut impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut ahead = items.clone();
    ahead
        .by_ref()
        .take(AHEAD)
        .try_for_each(|item| visit(ScanItem::Ahead(item.payload)))?;
    for item in items {
        if let Some(item) = ahead.next() {
            visit(ScanItem::Ahead(item.payload))?;
        }
        if after_start::<K>(part.from, item.key) && before_end::<K>(part.to, item.key) {
            let mut buffer = [0; 8];
            let key = K::encode(K::shorten(item.key), &mut buffer);
            visit(ScanItem::Entry(key, item.payload))?;
        }
    }
    ControlFlow::Continue(())
}
