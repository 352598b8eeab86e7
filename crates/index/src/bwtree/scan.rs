//! Scans, both ways.
//!
//! A head pointer is a snapshot of its leaf, so a scan reads a clean leaf in place. It consolidates
//! another, or, if somebody gets in the way, flattens the chain into a buffer. Forward it follows the right siblings. Backward there are none to
//! follow, and the next leaf is the one that covers the point just below the lower fence (`search.rs`).
//! Either way the leaves visited cover the range without gap or overlap: where the next one found
//! reaches back over keys already visited (it was merged meanwhile), those are left out.
//!
//! Trap "long scans re-pin": after some leaves the scan copies the fence it stands at, pins anew, and
//! searches on from the copy, so that it does not keep the collector waiting.
//!
//! Paper: bwtree §4.1.1, figure 7 (Scan)

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow, Range};

use crossbeam_epoch::{self as epoch, Guard};

use super::BwTree;
use super::base::Entry;
use super::consolidate::{Consolidated, collect, consolidated};
use super::node::{Kind, NodeRef};
use super::search::{At, Below, Last, Place};
use super::variant::Variant;
use crate::key::Key;
use crate::range::{after_start, before_end, parse_bound};
use crate::{Direction, IndexError, ScanItem, ScanRange};

/// Leaves visited under one pin.
const LEAVES_PER_PIN: usize = 64;

/// The entries of a leaf: those of a base node, or of a chain flattened into a buffer.
enum Entries<'a, 'g, K: Key> {
    Base(NodeRef<'g, K>),
    Flat(&'a [Entry<'g, K>]),
}

impl<'g, K: Key> Entries<'_, 'g, K> {
    /// Those within both bounds.
    fn between(&self, from: Bound<K::Ref<'_>>, to: Bound<K::Ref<'_>>) -> Range<usize> {
        match self {
            Self::Base(base) => {
                let start = match from {
                    Bound::Unbounded => 0,
                    Bound::Included(key) => base.rank::<false>(key),
                    Bound::Excluded(key) => base.rank::<true>(key),
                };
                let end = match to {
                    Bound::Unbounded => base.len(),
                    Bound::Included(key) => base.rank::<true>(key),
                    Bound::Excluded(key) => base.rank::<false>(key),
                };
                start..end
            }
            Self::Flat(entries) => {
                let start = entries.partition_point(|entry| !after_start::<K>(from, entry.0));
                let end = entries.partition_point(|entry| before_end::<K>(to, entry.0));
                start..end
            }
        }
    }

    /// Shows some of them, in order.
    fn show(
        &self,
        some: Range<usize>,
        direction: Direction,
        visit: &mut impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut show = |(key, payload): Entry<'g, K>| {
            visit(ScanItem::Entry(
                K::encode(K::shorten(key), &mut [0; 8]),
                payload,
            ))
        };
        match (self, direction) {
            (Self::Base(base), Direction::Forward) => base.each_payload(some, show),
            (Self::Base(base), Direction::Backward) => {
                let mut some = some.rev();
                some.try_for_each(|i| show((base.key_at(i), base.value_at(i))))
            }
            (Self::Flat(entries), Direction::Forward) => {
                entries[some].iter().copied().try_for_each(show)
            }
            (Self::Flat(entries), Direction::Backward) => {
                entries[some].iter().rev().copied().try_for_each(show)
            }
        }
    }
}

impl<K: Key, V: Variant> BwTree<K, V> {
    pub(super) fn scan_range(
        &self,
        range: ScanRange<'_>,
        mut visit: impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        let (start, end) = (parse_bound::<K>(range.start)?, parse_bound::<K>(range.end)?);
        // Where to go on after a re-pin: the fence the last leaf ended at.
        let mut resume: Option<Vec<u8>> = None;
        loop {
            let fence = resume.as_deref().map(K::parse).transpose()?;
            let flow = match range.direction {
                Direction::Forward => self.scan_forward(start, end, fence, &mut visit),
                Direction::Backward => self.scan_backward(start, end, fence, &mut visit),
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
        start: Bound<K::Ref<'_>>,
        end: Bound<K::Ref<'_>>,
        fence: Option<K::Ref<'_>>,
        visit: &mut impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<(), Vec<u8>> {
        let guard = &epoch::pin();
        let mut buffer = Vec::new();
        let mut place = match (fence, start) {
            (Some(fence), _) => self.leaf(At(fence), guard),
            (None, Bound::Included(key) | Bound::Excluded(key)) => self.leaf(At(key), guard),
            (None, Bound::Unbounded) => self.leaf(At(K::min()), guard),
        };
        let mut from = match fence {
            Some(fence) => Bound::Included(K::shorten(fence)),
            None => start.map(|key| K::shorten(key)),
        };
        for turn in 1.. {
            place = self.flattened(place, guard);
            self.visit_leaf(place, from, end, Direction::Forward, &mut buffer, visit)?;
            let Some(high) = place.head.high() else {
                return ControlFlow::Break(());
            };
            if !before_end::<K>(end, high) {
                return ControlFlow::Break(());
            }
            if turn == LEAVES_PER_PIN {
                return ControlFlow::Continue(K::encode(high, &mut [0; 8]).to_vec());
            }
            let right = place.head.right();
            place = match self.mapping.load(right, guard) {
                Some(head) if !head.is_removed() && !head.is_left_of(At(high)) => {
                    Place { id: right, head }
                }
                _ => self.leaf(At(high), guard),
            };
            from = Bound::Included(high);
        }
        ControlFlow::Break(())
    }

    /// Visits some leaves from below `fence` (or `end`) on. Continues with the next fence.
    fn scan_backward(
        &self,
        start: Bound<K::Ref<'_>>,
        end: Bound<K::Ref<'_>>,
        fence: Option<K::Ref<'_>>,
        visit: &mut impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<(), Vec<u8>> {
        let guard = &epoch::pin();
        let mut buffer = Vec::new();
        let mut place = match (fence, end) {
            (Some(fence), _) => self.leaf(Below(fence), guard),
            (None, Bound::Included(key) | Bound::Excluded(key)) => self.leaf(At(key), guard),
            (None, Bound::Unbounded) => self.leaf(Last, guard),
        };
        let mut to = match fence {
            Some(fence) => Bound::Excluded(K::shorten(fence)),
            None => end.map(|key| K::shorten(key)),
        };
        for turn in 1.. {
            place = self.flattened(place, guard);
            self.visit_leaf(place, start, to, Direction::Backward, &mut buffer, visit)?;
            let low = place.head.low();
            // The leftmost leaf has the smallest key as its lower fence, and no other has. A leaf
            // that begins at an excluded start holds nothing more than the leaf itself.
            let at_start = match start {
                Bound::Unbounded => false,
                Bound::Included(start) | Bound::Excluded(start) => {
                    K::cmp(low, start) != Ordering::Greater
                }
            };
            if at_start || K::cmp(low, K::min()) == Ordering::Equal {
                return ControlFlow::Break(());
            }
            if turn == LEAVES_PER_PIN {
                return ControlFlow::Continue(K::encode(low, &mut [0; 8]).to_vec());
            }
            place = self.leaf(Below(low), guard);
            to = Bound::Excluded(low);
        }
        ControlFlow::Break(())
    }

    /// Reports a leaf and those of its entries that are within both bounds.
    fn visit_leaf<'g>(
        &self,
        place: Place<'g, K>,
        from: Bound<K::Ref<'_>>,
        to: Bound<K::Ref<'_>>,
        direction: Direction,
        buffer: &mut Vec<Entry<'g, K>>,
        visit: &mut impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        visit(ScanItem::Leaf(place.version()))?;
        buffer.clear();
        let entries = if place.head.kind() == Kind::Base {
            Entries::Base(place.head)
        } else {
            collect(place.head, buffer);
            Entries::Flat(buffer)
        };
        let some = entries.between(from, to);
        if some.is_empty() {
            return ControlFlow::Continue(());
        }
        if direction == Direction::Backward {
            return entries.show(some, direction, visit);
        }
        // Halfway through, the next leaf's slot has come, and there is time for the leaf to come too.
        let right = place.head.right();
        self.mapping.prefetch(right);
        let half = some.start.midpoint(some.end);
        entries.show(some.start..half, direction, visit)?;
        self.mapping.prefetch_head(right);
        entries.show(half..some.end, direction, visit)
    }

    /// The same leaf as a base node, if it is not one and nobody gets in the way: what a scan must
    /// flatten for itself is then of use to others.
    fn flattened<'g>(&self, place: Place<'g, K>, guard: &'g Guard) -> Place<'g, K> {
        if place.head.kind() == Kind::Base || place.head.smo().is_some() {
            return place;
        }
        let Consolidated::Base(base) = consolidated(place.head, usize::MAX) else {
            return place;
        };
        Place {
            id: place.id,
            head: self.rebase(place, base, guard).unwrap_or(place.head),
        }
    }
}
