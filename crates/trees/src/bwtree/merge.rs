//! Merges, and the loss of a level at the root.
//!
//! Page R is merged into its left sibling L below the same parent:
//!
//! 1. A *merging* delta on the parent announces it: entry K, child R.
//! 2. A *remove* delta on R freezes it. A thread that meets one helps and then restarts from the root.
//! 3. A *merge* delta on L takes R's chain over.
//! 4. An *index-delete* delta on the parent ends the announcement, and R's id is retired.
//!
//! Steps 2 to 4 are the paper's. Step 1 is ours. It keeps the parent from splitting between L and R
//! in the middle (trap "a parent splitting during a merge"): R's entry would become the leftmost of
//! a new parent, and could not be deleted. An announcement counts as a half-done change of the
//! parent, which must be completed before any other begins (S2 in `split.rs`). For the same reason
//! R is never the parent's first child (trap "leftmost child, no left sibling"): for that one, its
//! right sibling is merged into it.
//!
//! # Invariants
//! - G1. A page shows one half-done change at most. So under one parent one merge is under way, L and R
//!   cannot take part in another, and removal of L while R needs it cannot happen.
//! - G2. R is frozen by a swap of a state that shows no half-done change, and that was read after the
//!   announcement was. So a slow helper cannot remove a page after its merge is over: an announcement ends
//!   only after R was removed (G4), R's slot stays as it is then while the helper is pinned (M4), and a
//!   state without the removal, if it can still be swapped, was never followed by one (M3).
//! - G3. The merge delta goes on the page that has R as its right sibling. After it no page has, so it goes
//!   on once. L keeps showing it until the parent knows, so L is not split at K before that.
//! - G4. The index-delete delta goes on a state that shows the announcement, so it goes on once; the thread
//!   that put it there retires R.
//!
//! Paper: bwtree §4.2.3, figure 10; §4.2.4, figure 11

use std::cmp::Ordering;

use crossbeam_epoch::Guard;
use namiki_index::key::Key;
use namiki_index::shared::counters::Event;

use super::BwTree;
use super::descend::{At, Below, Last, Place};
use super::leaf_stamps::StampTable;
use super::node::{Change, Kind, NodeRef, OwnedNode};
use super::page_id::PageId;
use super::structure_change_types::Resize;
use super::variant::Variant;

/// Number of attempts to begin a merge in spite of interference from other threads.
const ATTEMPTS: usize = 4;

impl<K: Key, V: Variant> BwTree<K, V> {
    /// A count that differs between two calls if the tree has shrunk in between.
    fn merges_and_collapses(&self) -> u64 {
        self.counters.sum(Event::Merge) + self.counters.sum(Event::RootCollapse)
    }

    /// Merges the page with a sibling if it has become small and the two fit into one; replaces a
    /// root with a single child by that child.
    pub(super) fn shrink(&self, place: Place<'_, K, V>, guard: &Guard) {
        let head = place.head;
        let leaf = head.level() == 0;
        let len_min = if leaf {
            self.config.leaf_min()
        } else {
            self.config.inner_min()
        };
        if head.len() >= len_min {
            return;
        }
        for _ in 0..ATTEMPTS {
            if self.try_shrink(place, guard) {
                return;
            }
        }
    }

    /// One attempt; false if another is worthwhile.
    fn try_shrink(&self, place: Place<'_, K, V>, guard: &Guard) -> bool {
        let (id, low, level) = (place.id, place.head.low(), place.head.level());
        if self.root.load().page == id {
            return level == 0 || self.try_collapse(id, guard);
        }
        let Some(parent) = self.descend_along(place.stack, level + 1, At(low), guard) else {
            return true;
        };
        let head = parent.head;
        let own = head.route(At(low));
        if own.child != id {
            return true;
        }
        // The entry to be deleted: ours, or that of our right sibling if we are the first child.
        let first = K::cmp(own.low, head.low()) == Ordering::Equal;
        let key = if first { own.high } else { Some(own.low) };
        let Some(key) = key.filter(|key| !head.is_left_of(At(*key))) else {
            // An only child. Once the parent has been merged there will be siblings.
            if level + 1 == head.level() && head.len() == 1 {
                let before = self.merges_and_collapses();
                self.shrink(parent, guard);
                return self.merges_and_collapses() == before;
            }
            return true;
        };
        let right = head.route(At(key)).child;
        let left = head.route(Below(key)).child;
        let (Some(left_head), Some(right_head)) = (
            self.mapping.load(left, guard),
            self.mapping.load(right, guard),
        ) else {
            return true;
        };
        if !self.fit(left_head, right_head) {
            return true;
        }
        if head.smo().is_some() {
            self.clear_change(parent, guard);
            return false;
        }
        let announcement = Change {
            key,
            child: right,
            page: PageId::NONE,
            lower: key,
            upper: None,
        };
        let delta = OwnedNode::index(Kind::Merging, &announcement, head);
        if self.mapping.push(parent.id, head, delta).is_err() {
            self.counters.add(Event::CasMiss);
            return false;
        }
        self.complete_merge(parent.id, right, guard);
        true
    }

    /// Whether two siblings are worth merging: the union leaves room to grow, or one of them is so
    /// empty that it has no reason to exist. (A union too large is split evenly afterwards.)
    fn fit(&self, left: NodeRef<'_, K, V>, right: NodeRef<'_, K, V>) -> bool {
        let (len_max, trivial) = if left.level() == 0 {
            (self.config.leaf_max, 0)
        } else {
            (self.config.inner_max, 1)
        };
        let smaller = left.len().min(right.len());
        left.len() + right.len() <= len_max * 3 / 4 || smaller <= trivial
    }

    /// Finishes the merge of child `victim` announced in page `parent`, if it is still under way.
    pub(super) fn complete_merge(&self, parent: PageId, victim: PageId, guard: &Guard) {
        // The announcement is always looked up anew: what a removal or merge delta remembers is only
        // page ids, as the parent's chain may be consolidated away long before theirs. If the ids
        // are in use again by then, we help a merge that does exist.
        while let Some(head) = self.mapping.load(parent, guard)
            && let Some(announcement) = head.smo()
            && announcement.kind() == Kind::Merging
            && announcement.child() == victim
        {
            self.advance_merge(Place::new(parent, head), announcement, guard);
        }
    }

    /// Takes a merge one step further. One attempt: the caller checks again.
    pub(super) fn advance_merge(
        &self,
        parent: Place<'_, K, V>,
        announcement: NodeRef<'_, K, V>,
        guard: &Guard,
    ) {
        let (key, right_id) = (announcement.key(), announcement.child());
        let Some(right) = self.mapping.load(right_id, guard) else {
            return;
        };
        if !right.is_removed() {
            self.freeze(parent.id, right_id, right, guard);
            return;
        }
        // L, or what was split from it since: the page with a range that ends at K.
        let mut left_id = parent.head.route(Below(key)).child;
        let left = loop {
            let Some(left) = self.mapping.load(left_id, guard) else {
                return;
            };
            if left.is_removed() {
                // Only if `parent.head` is out of date (G1).
                return;
            }
            match left.high() {
                Some(high) if K::cmp(high, key) == Ordering::Less => left_id = left.right(),
                Some(high) if K::cmp(high, key) == Ordering::Equal => break Some(left),
                _ => break None,
            }
        };
        match left {
            Some(left) if left.right() == right_id => {
                let left = Place::new(left_id, left);
                self.absorb(parent.id, left, right_id, right, guard);
            }
            // Split at K since: the merge is over and `parent.head` out of date.
            Some(_) => {}
            // L's range extends past K: step 3 is done.
            None => self.forget(parent, key, left_id, right_id, right, guard),
        }
    }

    /// Step 2: removes R, in a state that was read after the announcement (G2).
    fn freeze(&self, parent: PageId, right_id: PageId, right: NodeRef<'_, K, V>, guard: &Guard) {
        if right.smo().is_some() {
            self.clear_change(Place::new(right_id, right), guard);
            return;
        }
        if self
            .mapping
            .push(right_id, right, OwnedNode::remove(parent, right))
            .is_err()
        {
            self.counters.add(Event::CasMiss);
        }
    }

    /// Step 3: L takes over R's chain.
    fn absorb(
        &self,
        parent: PageId,
        left: Place<'_, K, V>,
        right_id: PageId,
        removed: NodeRef<'_, K, V>,
        guard: &Guard,
    ) {
        if left.head.smo().is_some() {
            self.clear_change(left, guard);
            return;
        }
        let Some(right) = removed.next() else {
            unreachable!("a removal lies on a chain")
        };
        if right.level() == 0 {
            // After the removal and before the merge is visible: see `leaf_stamps.rs`.
            self.mapping
                .raise_rts(left.id, self.mapping.resolve_rts(right_id));
        }
        let delta = OwnedNode::merge(left.head, right, right_id, parent);
        if self.mapping.push(left.id, left.head, delta).is_err() {
            self.counters.add(Event::CasMiss);
        }
    }

    /// Step 4: removes R's entry from the parent.
    fn forget(
        &self,
        parent: Place<'_, K, V>,
        key: K::Ref<'_>,
        left_id: PageId,
        right_id: PageId,
        removed: NodeRef<'_, K, V>,
        guard: &Guard,
    ) {
        let left = parent.head.route(Below(key));
        let right = parent.head.route(At(key));
        let entry = Change {
            key: K::shorten(key),
            child: left.child,
            page: PageId::NONE,
            lower: left.low,
            upper: right.high,
        };
        let delta = OwnedNode::index(Kind::IndexDelete, &entry, parent.head);
        let Ok(head) = self.mapping.push(parent.id, parent.head, delta) else {
            self.counters.add(Event::CasMiss);
            return;
        };
        self.counters.add(Event::Merge);
        self.mapping.retire_page(right_id, removed, guard);
        if let Some(left) = self.mapping.load(left_id, guard)
            && left
                .smo()
                .is_some_and(|change| change.kind() == Kind::Merge)
        {
            self.consolidate(Place::new(left_id, left), Resize::SplitOrMerge, guard);
        }
        let parent = Place { head, ..parent };
        if head.len() < self.config.inner_min() {
            self.consolidate(parent, Resize::SplitOrMerge, guard);
        } else {
            self.compact_inner(parent, guard);
        }
    }

    /// Cooperation: a thread that meets a removed page completes the merge or collapse that removed
    /// it.
    ///
    /// A reader must not read below the removal: the left sibling may have taken the records over
    /// and changed them since.
    #[cold]
    pub(super) fn help_removal(&self, id: PageId, removed: NodeRef<'_, K, V>, guard: &Guard) {
        if removed.owns_next() {
            self.complete_collapse(id, removed, guard);
        } else {
            self.complete_merge(removed.page(), id, guard);
        }
    }

    /// Trap "root collapse": a root with one child is frozen first, or an entry posted to it between
    /// our look and the root word's swap would be lost. False if it is worth another attempt.
    fn try_collapse(&self, id: PageId, guard: &Guard) -> bool {
        // The state is read before the page is seen to be the root. A page stops being the root
        // only by a split or a collapse, both of which change its state.
        let Some(head) = self.mapping.load(id, guard) else {
            return true;
        };
        if self.root.load().page != id || head.level() == 0 || head.len() != 1 {
            return true;
        }
        if head.is_removed() {
            self.help_removal(id, head, guard);
            return true;
        }
        if head.high().is_some() {
            return true;
        }
        if head.smo().is_some() {
            self.clear_change(Place::new(id, head), guard);
            return false;
        }
        match self
            .mapping
            .push(id, head, OwnedNode::remove(PageId::NONE, head))
        {
            Ok(removed) => {
                self.complete_collapse(id, removed, guard);
                // The new root may have but one child as well.
                let root = self.root.load().page;
                if let Some(head) = self.mapping.load(root, guard) {
                    self.shrink(Place::new(root, head), guard);
                }
                true
            }
            Err(_) => {
                self.counters.add(Event::CasMiss);
                false
            }
        }
    }

    /// The only child of a removed root takes its place; the thread that does so retires the page.
    fn complete_collapse(&self, id: PageId, removed: NodeRef<'_, K, V>, guard: &Guard) {
        let root = self.root.load();
        if root.page == id && self.root.replace(root, removed.path(Last).child) {
            self.counters.add(Event::RootCollapse);
            self.mapping.retire_page(id, removed, guard);
        }
    }
}
