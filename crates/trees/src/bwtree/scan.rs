//! Scans of leaves.
//!
//! A head pointer is a snapshot of its leaf, so a scan reads a clean leaf in place. It consolidates any
//! other leaf, or, if a concurrent change makes that fail, flattens the chain into a buffer. Forward it
//! follows the right siblings. Backward it has no links to follow and searches for the next leaf
//! (`descend.rs`).
//!
//! Paper: bwtree §4.1.1, figure 7 (Scan)

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow, Range};

use crossbeam_epoch::Guard;
use namiki_index::key::Key;
use namiki_index::shared::range::{after_start, before_end};
use namiki_index::shared::scan::{Fenced, Part, Target};
use namiki_index::{Direction, ScanItem};

use super::BwTree;
use super::base::Entry;
use super::consolidate::{Consolidated, collect, consolidated};
use super::descend::{At, Below, Last, Place};
use super::node::{Kind, NodeRef};
use super::variant::Variant;

/// The entries of a leaf: those of a base node, or of a chain flattened into a buffer.
enum Entries<'a, 'g, K: Key, V: Variant> {
    Base(NodeRef<'g, K, V>),
    Flat(&'a [Entry<'g, K>]),
}

impl<'g, K: Key, V: Variant> Entries<'_, 'g, K, V> {
    /// The entries in a part of the leaf.
    fn within(&self, part: &Part<'_, K>) -> Range<usize> {
        match self {
            Self::Base(base) => {
                let start = match part.from {
                    Bound::Unbounded => 0,
                    Bound::Included(key) => base.rank_of_any::<false>(key),
                    Bound::Excluded(key) => base.rank_of_any::<true>(key),
                };
                let end = match part.to {
                    Bound::Unbounded => base.len(),
                    Bound::Included(key) => base.rank_of_any::<true>(key),
                    Bound::Excluded(key) => base.rank_of_any::<false>(key),
                };
                start..end
            }
            Self::Flat(entries) => {
                let start = entries.partition_point(|entry| !after_start::<K>(part.from, entry.0));
                let end = entries.partition_point(|entry| before_end::<K>(part.to, entry.0));
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

impl<K: Key, V: Variant> Fenced<K> for BwTree<K, V> {
    type Leaf<'g> = Place<'g, K, V>;
    type Buffer<'g> = Vec<Entry<'g, K>>;

    fn find<'g>(
        &self,
        target: Target<'_, K>,
        _: &Part<'_, K>,
        _: &mut Self::Buffer<'g>,
        guard: &'g Guard,
    ) -> Place<'g, K, V> {
        let place = match target {
            Target::At(key) => self.leaf(At(key), guard),
            Target::Below(key) => self.leaf(Below(key), guard),
            Target::Last => self.leaf(Last, guard),
        };
        self.flattened(place, guard)
    }

    fn find_right<'g>(
        &self,
        left: &Place<'g, K, V>,
        high: K::Ref<'_>,
        _: &Part<'_, K>,
        _: &mut Self::Buffer<'g>,
        guard: &'g Guard,
    ) -> Place<'g, K, V> {
        let id = left.head.right();
        let place = match self.mapping.load(id, guard) {
            Some(head) if !head.is_removed() && !head.is_left_of(At(high)) => Place::new(id, head),
            _ => self.leaf(At(high), guard),
        };
        self.flattened(place, guard)
    }

    fn fence<'a>(leaf: &'a Place<'_, K, V>, direction: Direction) -> Option<K::Ref<'a>> {
        match direction {
            Direction::Forward => leaf.head.high().map(|high| K::shorten(high)),
            // The leftmost leaf has the smallest key as its lower fence, and no other has.
            Direction::Backward => {
                let low = K::shorten(leaf.head.low());
                (K::cmp(low, K::min()) != Ordering::Equal).then_some(low)
            }
        }
    }

    fn show<'g>(
        &self,
        leaf: &Place<'g, K, V>,
        part: &Part<'_, K>,
        buffer: &mut Self::Buffer<'g>,
        visit: &mut impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        visit(ScanItem::Leaf(leaf.version()))?;
        buffer.clear();
        let entries = if leaf.head.kind() == Kind::Base {
            Entries::Base(leaf.head)
        } else {
            collect(leaf.head, buffer);
            Entries::Flat(buffer)
        };
        let some = entries.within(part);
        if some.is_empty() {
            return ControlFlow::Continue(());
        }
        if part.direction == Direction::Backward {
            return entries.show(some, part.direction, visit);
        }
        // Halfway through the leaf, the next leaf's slot has arrived, and there is time to fetch
        // the leaf, too.
        let right = leaf.head.right();
        self.mapping.prefetch(right);
        let half = some.start.midpoint(some.end);
        entries.show(some.start..half, part.direction, visit)?;
        self.mapping.prefetch_head(right);
        entries.show(half..some.end, part.direction, visit)
    }
}

impl<K: Key, V: Variant> BwTree<K, V> {
    /// The same leaf, consolidated to a base node if it is not one and no concurrent change
    /// prevents that. So the work of flattening serves other threads, too.
    fn flattened<'g>(&self, place: Place<'g, K, V>, guard: &'g Guard) -> Place<'g, K, V> {
        if place.head.kind() == Kind::Base || place.head.smo().is_some() {
            return place;
        }
        // The paper's own iterator keeps its copy to itself.
        if V::LITERAL && !self.is_long(place.head.depth(), self.config.leaf_chain_max) {
            return place;
        }
        let Consolidated::Base(base) = consolidated(place.head, usize::MAX) else {
            return place;
        };
        Place {
            head: self.rebase(place, base, guard).unwrap_or(place.head),
            ..place
        }
    }
}
