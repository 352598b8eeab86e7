//! Splits, and the growth of the tree at its root.
//!
//! 1. The right half Q is built and its page filled, and if P is the root, a root above the two, too; no
//!    page leads to either yet.
//! 2. One compare-and-swap replaces P's chain by *split delta → left half*. Now Q is reached
//!    through P, and the delta records that the parent does not know yet.
//! 3. An index-insert delta goes on the parent; or, if P is the root, the new root takes its place.
//! 4. The split delta is taken off.
//!
//! The paper puts the split delta on the whole base node and leaves the cut to the next
//! consolidation. Here the split cuts at once, as all entries are in hand, so it leaves two clean
//! pages.
//!
//! # Invariants
//! - S1. A split delta leaves its page only after the parent had an entry at its key.
//! - S2. While a page shows a half-done change, no other begins on it and it is not merged. So as long
//!   as the split delta is there, Q is not merged into P and the parent's entry is not deleted.
//! - S3. The entry is posted by a swap of a parent state that lacks it, *after which state was read*
//!   the split delta was seen in place. By S1 and S2 it was never posted before: a slow helper
//!   cannot bring back the entry of a page long merged away.
//!
//! Paper: bwtree §4.2.2, figure 9

use std::cmp::Ordering;

use crossbeam_epoch::Guard;
use namiki_index::LeafVersion;
use namiki_index::key::Key;
use namiki_index::shared::counters::Event;

use super::BwTree;
use super::base::{self, Entry};
use super::descend::{At, Place};
use super::leaf_stamps::StampTable;
use super::node::{BaseHeader, Change, Kind, NodeRef, OwnedNode};
use super::page_id::PageId;
use super::slots_of;
use super::structure_change_types::{Below, Resize, SplitDone};
use super::variant::Variant;

/// Number of consecutive ascending inserts after which a page is cut behind them.
const ASCENT: usize = 2;
/// The same within a leaf: with short runs of keys two inserts ascend by chance, and pages would be
/// cut anywhere.
const ASCENT_WITHIN: usize = 3;

/// Detects ascending inserts: the position of the key that was added last, if the ones added before
/// it are its left neighbours. For the page's last key, consolidated deltas before it count as
/// ascending. Pages with chains shorter than the numbers above are found to ascend at their end
/// only.
fn ascent<K: Key, V: Variant>(head: NodeRef<'_, K, V>, entries: &[Entry<'_, K>]) -> Option<usize> {
    let is_newest = |node: NodeRef<'_, K, V>, at: usize| {
        let adds = matches!(node.kind(), Kind::Put | Kind::IndexInsert)
            && node.next().is_some_and(|next| {
                // A writer that did not look for the key has raised the counter in case it was absent.
                next.len() < node.len() || next.counter() < node.counter()
            });
        adds && K::cmp(node.key(), entries[at].0) == Ordering::Equal
    };
    let at = entries
        .binary_search_by(|(key, _)| K::cmp(*key, head.key()))
        .ok()?;
    let is_last = at + 1 == entries.len();
    let wanted = match head.level() {
        0 if !is_last => ASCENT_WITHIN,
        _ => ASCENT,
    };
    let (mut node, mut left) = (head, at);
    for _ in 0..wanted {
        if node.kind() == Kind::Base && is_last {
            break;
        }
        if !is_newest(node, left) {
            return None;
        }
        (node, left) = (node.next()?, left.checked_sub(1)?);
    }
    Some(at)
}

impl<K: Key, V: Variant> BwTree<K, V> {
    /// The position of the cut: the middle. If keys come in ascending order, the cut lies behind
    /// the newest one, so that they continue to fill the left page; otherwise every page would stay
    /// half full. At the page's end some room is left for late keys.
    fn cut(head: NodeRef<'_, K, V>, entries: &[Entry<'_, K>]) -> usize {
        let len = entries.len();
        match ascent(head, entries) {
            Some(newest) if newest + 1 == len => (len * 9 / 10).clamp(1, len - 1),
            Some(newest) => newest + 1,
            None => len / 2,
        }
    }

    /// Splits a page into two base nodes with the entries collected from its head, and tells the
    /// parent.
    pub(super) fn split<'g>(
        &self,
        place: Place<'g, K, V>,
        entries: &[Entry<'g, K>],
        guard: &Guard,
    ) -> Option<SplitDone> {
        let (head, done) = self.part(place, entries, guard)?;
        self.complete_split(Place { head, ..place }, guard);
        Some(done)
    }

    /// Steps 1 and 2. Returns the split delta.
    pub(super) fn part<'g, 'h>(
        &self,
        place: Place<'g, K, V>,
        entries: &[Entry<'g, K>],
        guard: &'h Guard,
    ) -> Option<(NodeRef<'h, K, V>, SplitDone)> {
        let (id, head) = (place.id, place.head);
        let cut = Self::cut(head, entries);
        let (left_entries, right_entries) = entries.split_at(cut);
        let (below, at) = (left_entries.last()?.0, right_entries.first()?.0);
        let level = head.level();
        // In an inner node the separator must be the key of the first entry (`base.rs`, B1).
        let separator = if level == 0 {
            K::separator(below, at)
        } else {
            at
        };
        // Out of page ids: the page stays whole, which is slow but correct.
        let right = self.mapping.allocate()?;
        let right_header = BaseHeader {
            level,
            right: head.right(),
            counter: self.mapping.first_counter(right),
            low: separator,
            high: head.high(),
            slots: slots_of::<V>(level, &self.config),
        };
        self.mapping
            .fill(right, base::build(&right_header, right_entries));
        // Before the swap: readers may raise the left leaf's rts until that instant (`leaf_stamps.rs`).
        self.mapping.inherit(right, id);
        let left_header = BaseHeader {
            level,
            right,
            counter: head.counter() + 1,
            low: head.low(),
            high: Some(separator),
            slots: slots_of::<V>(level, &self.config),
        };
        let left = base::build(&left_header, left_entries);
        // A root that is split while ids run out could not be completed. (A page stops being the root only
        // by a change of its state.)
        let is_root = self.root.load().page == id;
        let grown = if is_root {
            self.root_above(id, separator, right, level)
        } else {
            Some(PageId::NONE)
        };
        let undo = |right| {
            // Trap "unpublished right node": it is freed together with its page id.
            self.mapping.inherit(right, PageId::NONE);
            self.mapping.unfill(right, guard);
        };
        let Some(grown) = grown else {
            undo(right);
            return None;
        };
        let delta = OwnedNode::split(left, right, grown);
        let Ok(new) = self.mapping.replace(id, head, delta, guard) else {
            self.counters.add(Event::CasMiss);
            undo(right);
            self.mapping.unfill(grown, guard);
            return None;
        };
        self.mapping.take_over_rts(right);
        self.counters.add(Event::Split);
        let version = |id: PageId, counter| LeafVersion {
            leaf: u64::from(id.0),
            counter,
        };
        let done = SplitDone {
            of: place.version(),
            halves: (
                version(id, left_header.counter),
                version(right, right_header.counter),
            ),
        };
        Some((new, done))
    }

    /// Tells the parent of a split and takes the split delta off. False: the tree would have to grow, and
    /// page ids have run out. Then the delta stays, which is slow but correct.
    pub(super) fn complete_split(&self, at: Place<'_, K, V>, guard: &Guard) -> bool {
        let (id, split) = (at.id, at.head);
        let separator = split.key();
        loop {
            let root = self.root.load();
            let above = split.level() + 1;
            let Some(parent) = self.descend_along(at.stack, above, At(separator), guard) else {
                // `root` was read before the delta is seen in place: see `Root`.
                if !self.shows(id, split, guard) {
                    return true;
                }
                if root.page == id {
                    if !self.grow(root, id, split, guard) {
                        return false;
                    }
                } else if let Some(head) = self.mapping.load(root.page, guard)
                    && let Some(change) = head.smo()
                    && head.level() == split.level()
                {
                    // This page is the product of a root split that is not complete yet.
                    if !self.complete(Place::new(root.page, change), guard) {
                        return false;
                    }
                }
                continue;
            };
            let route = parent.head.route(At(separator));
            if K::cmp(route.low, separator) == Ordering::Equal {
                self.mapping.trim_split(id, split, guard);
                return true;
            }
            // S3: in this order.
            if !self.shows(id, split, guard) {
                return true;
            }
            let entry = Change {
                key: separator,
                child: split.child(),
                page: PageId::NONE,
                lower: route.low,
                upper: route.high,
            };
            let delta = OwnedNode::index(Kind::IndexInsert, &entry, parent.head);
            match self.mapping.push(parent.id, parent.head, delta) {
                Ok(head) => {
                    self.mapping.trim_split(id, split, guard);
                    self.compact_inner(Place { head, ..parent }, guard);
                    return true;
                }
                Err(_) => {
                    self.counters.add(Event::CasMiss);
                    self.unfreeze(parent.id, guard);
                }
            }
        }
    }

    /// Whether the page's chain still has this structure change.
    pub(super) fn shows(&self, id: PageId, change: NodeRef<'_, K, V>, guard: &Guard) -> bool {
        self.mapping
            .load(id, guard)
            .is_some_and(|head| head.smo() == Some(change))
    }

    /// Root split: a new root above the two halves of the old one. The root word's swap completes
    /// the split; a thread that loses the race frees its page (trap "root split"). False: out of
    /// page ids.
    fn grow(
        &self,
        root: super::root_word::RootWord,
        id: PageId,
        split: NodeRef<'_, K, V>,
        guard: &Guard,
    ) -> bool {
        // Usually a root has been prepared; not if the page has become the root since it was split.
        let prepared = split.page();
        let page = if prepared == PageId::NONE {
            self.root_above(id, split.key(), split.child(), split.level())
        } else {
            Some(prepared)
        };
        let Some(page) = page else { return false };
        if self.root.replace(root, page) {
            self.counters.add(Event::RootSplit);
            self.mapping.trim_split(id, split, guard);
        } else if prepared == PageId::NONE {
            self.counters.add(Event::CasMiss);
            self.mapping.unfill(page, guard);
        }
        true
    }

    /// A root above the two halves of a page of this level, not published yet. `None`: out of page ids.
    fn root_above(
        &self,
        left: PageId,
        separator: K::Ref<'_>,
        right: PageId,
        level: u8,
    ) -> Option<PageId> {
        let page = self.mapping.allocate()?;
        let header = BaseHeader {
            level: level + 1,
            right: PageId::NONE,
            counter: 0,
            low: K::min(),
            high: None,
            slots: 0,
        };
        let entries = [
            (K::min(), u64::from(left.0)),
            (separator, u64::from(right.0)),
        ];
        self.mapping.fill(page, base::build(&header, &entries));
        Some(page)
    }

    /// Consolidates an inner page after a delta of this thread has made its chain long.
    pub(super) fn compact_inner(&self, place: Place<'_, K, V>, guard: &Guard) {
        let full = place.head.len() > self.config.inner_max;
        if !full && !self.is_long(place.head.depth(), self.config.inner_chain_max) {
            return;
        }
        if V::IN_CHAIN
            && !full
            && self.consolidate_below(place.head, Resize::Split, guard) == Below::Done
        {
            return;
        }
        self.consolidate(place, Resize::SplitOrMerge, guard);
    }
}
