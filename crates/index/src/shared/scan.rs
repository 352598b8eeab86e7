//! Scans from leaf to leaf along their fences, in both directions.
//!
//! A leaf covers the keys from its low fence, included, to its high fence, excluded. Forward, the next leaf
//! is the one at the high fence; backward, the one just below the low fence. So the visited leaves
//! cover the range without a gap. If the next leaf reaches back over keys that were already visited
//! (it was merged in between), those are skipped.
//!
//! Trap "long scans re-pin": after some leaves the scan copies the fence it stands at, pins anew, and
//! searches on from the copy, so that it does not delay the collector.
//!
//! Paper: bwtree §4.1.1, figure 7 (Scan)

use std::cmp::Ordering;
use std::mem;
use std::ops::{Bound, ControlFlow};

use crossbeam_epoch::{self as epoch, Guard};

use crate::key::{Key, OwnedKey};
use crate::shared::range::{before_end, parse_bound};
use crate::{Direction, IndexError, ScanItem, ScanRange};

/// Leaves visited under one pin.
pub const LEAVES_PER_PIN: usize = 64;

/// The target of a search.
#[derive(Clone, Copy, Debug)]
pub enum Target<'k, K: Key> {
    /// To the leaf that covers a key.
    At(K::Ref<'k>),
    /// To the leaf of the largest keys below one that is not the smallest.
    Below(K::Ref<'k>),
    /// To the last leaf.
    Last,
}

/// The requested part of a leaf: both ends and the direction.
pub struct Part<'k, K: Key> {
    pub from: Bound<K::Ref<'k>>,
    pub to: Bound<K::Ref<'k>>,
    pub direction: Direction,
}

/// A tree of leaves with fences.
pub trait Fenced<K: Key> {
    /// A leaf as it was at one instant.
    type Leaf<'g>;
    /// Buffer for the copy of a leaf, reused for the next one.
    type Buffer<'g>: Default;

    /// Finds a leaf; a part of it will be shown.
    fn find<'g>(
        &'g self,
        target: Target<'_, K>,
        part: &Part<'_, K>,
        buffer: &mut Self::Buffer<'g>,
        guard: &'g Guard,
    ) -> Self::Leaf<'g>;

    /// Finds the leaf at the high fence of another.
    fn find_right<'g>(
        &'g self,
        _left: &Self::Leaf<'g>,
        high: K::Ref<'_>,
        part: &Part<'_, K>,
        buffer: &mut Self::Buffer<'g>,
        guard: &'g Guard,
    ) -> Self::Leaf<'g> {
        self.find(Target::At(high), part, buffer, guard)
    }

    /// The high fence, or in a backward scan the low one. Called only for the direction of the part
    /// that the leaf was found for. `None`: the leaf has no neighbour there.
    fn fence<'a>(leaf: &'a Self::Leaf<'_>, direction: Direction) -> Option<K::Ref<'a>>;

    /// Reports the leaf that was found last, and those of its entries that are in the part.
    fn show<'g>(
        &self,
        leaf: &Self::Leaf<'g>,
        part: &Part<'_, K>,
        buffer: &mut Self::Buffer<'g>,
        visit: &mut impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()>;
}

/// Visits the keys of a range: see [`OrderedIndex::scan`](crate::OrderedIndex::scan).
pub fn scan<K: Key, T: Fenced<K>>(
    tree: &T,
    range: ScanRange<'_>,
    mut visit: impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
) -> Result<(), IndexError> {
    let whole = Part::whole(range)?;
    // Where to go on after a re-pin: the fence the last leaf ended at.
    let mut resume: Option<OwnedKey<K>> = None;
    loop {
        let fence = resume.as_ref().map(OwnedKey::get);
        match scan_some(tree, &whole, fence, &mut visit) {
            ControlFlow::Break(()) => return Ok(()),
            ControlFlow::Continue(fence) => resume = Some(fence),
        }
    }
}

/// Visits some leaves, from a fence on or from the beginning. Continues with the next fence.
fn scan_some<K: Key, T: Fenced<K>>(
    tree: &T,
    whole: &Part<'_, K>,
    fence: Option<K::Ref<'_>>,
    visit: &mut impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
) -> ControlFlow<(), OwnedKey<K>> {
    let guard = &epoch::pin();
    let mut buffer = T::Buffer::default();
    let mut leaf = tree.find(
        whole.target(fence.map(|fence| K::shorten(fence))),
        &whole.behind(fence.map(|fence| K::shorten(fence))),
        &mut buffer,
        guard,
    );
    let mut last: Option<T::Leaf<'_>> = None;
    for turn in 1.. {
        let behind = match &last {
            Some(last) => T::fence(last, whole.direction),
            None => fence.map(|fence| K::shorten(fence)),
        };
        tree.show(&leaf, &whole.behind(behind), &mut buffer, visit)?;
        let Some(next) = T::fence(&leaf, whole.direction) else {
            break;
        };
        if !whole.goes_beyond(next) {
            break;
        }
        if turn == LEAVES_PER_PIN {
            return ControlFlow::Continue(OwnedKey::new(next));
        }
        let part = whole.behind(Some(next));
        let found = match whole.direction {
            Direction::Forward => tree.find_right(&leaf, next, &part, &mut buffer, guard),
            Direction::Backward => tree.find(Target::Below(next), &part, &mut buffer, guard),
        };
        last = Some(mem::replace(&mut leaf, found));
    }
    ControlFlow::Break(())
}

impl<'r, K: Key> Part<'r, K> {
    /// The whole range.
    fn whole(range: ScanRange<'r>) -> Result<Self, IndexError> {
        Ok(Self {
            from: parse_bound::<K>(range.start)?,
            to: parse_bound::<K>(range.end)?,
            direction: range.direction,
        })
    }

    /// The target of the scan's next search: its begin, or a fence.
    fn target<'k>(&'k self, fence: Option<K::Ref<'k>>) -> Target<'k, K> {
        let first = match self.direction {
            Direction::Forward => self.from,
            Direction::Backward => self.to,
        };
        match (self.direction, fence, first) {
            (Direction::Forward, Some(fence), _) => Target::At(fence),
            (Direction::Backward, Some(fence), _) => Target::Below(fence),
            (_, None, Bound::Included(key) | Bound::Excluded(key)) => Target::At(K::shorten(key)),
            (Direction::Forward, None, Bound::Unbounded) => Target::At(K::min()),
            (Direction::Backward, None, Bound::Unbounded) => Target::Last,
        }
    }

    /// The rest of the range behind a fence that was reached.
    fn behind<'k>(&'k self, fence: Option<K::Ref<'k>>) -> Part<'k, K> {
        let (mut from, mut to) = (
            self.from.map(|key| K::shorten(key)),
            self.to.map(|key| K::shorten(key)),
        );
        match (fence, self.direction) {
            (Some(fence), Direction::Forward) => from = Bound::Included(fence),
            (Some(fence), Direction::Backward) => to = Bound::Excluded(fence),
            (None, _) => {}
        }
        Part {
            from,
            to,
            direction: self.direction,
        }
    }

    /// Whether something of the range is left behind a fence. A leaf that begins at the start, even an
    /// excluded one, is the last of a scan backward.
    fn goes_beyond(&self, fence: K::Ref<'_>) -> bool {
        match (self.direction, self.from) {
            (Direction::Forward, _) => before_end::<K>(self.to.map(|key| K::shorten(key)), fence),
            (Direction::Backward, Bound::Unbounded) => true,
            (Direction::Backward, Bound::Included(start) | Bound::Excluded(start)) => {
                K::cmp(fence, start) == Ordering::Greater
            }
        }
    }
}
