//! Scans of leaves.
//!
//! A scan copies the contents of a leaf at one instant into a buffer and reports them from there,
//! so `visit` may use the tree. Leaves have no side links: each is searched for from the root.
//!
//! # One instant
//!
//! In the append variant the status word defines the visible records, and these never change. In
//! place, payloads are replaced without a change of the status, so each replacement is counted
//! before and after. A copy is of one instant if, before it, all replacements that were begun were
//! done, and if, after it, none has begun since and the status shows the same key set. A scan that
//! does not succeed in a few turns freezes the leaf: its contents are then constant, and current
//! until the leaf is replaced.
//!
//! Paper: bwtree §4.1.1, figure 7 (Scan)

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::atomic;

use crossbeam_epoch::Guard;
use namiki_index::key::Key;
use namiki_index::shared::range::{after_start, before_end};
use namiki_index::shared::scan::{Fenced, Part, Target};
use namiki_index::{Direction, ScanItem};

use super::leaf_table::version;
use super::node::{Entry, NodeRef};
use super::search_and_descend::partition;
use super::status_word::Status;
use super::{BzTree, Variant, leaf_word_changes};

/// Turns in which payloads were replaced before a scan freezes the leaf.
const TURNS_MAX: usize = 8;

/// A leaf, and the status it had when it was copied.
type Copied<'g, K> = (NodeRef<'g, K>, Status);

impl<K: Key, V: Variant> Fenced<K> for BzTree<K, V> {
    type Leaf<'g> = Copied<'g, K>;
    type Buffer<'g> = Vec<Entry<'g, K>>;

    fn find<'g>(
        &self,
        target: Target<'_, K>,
        part: &Part<'_, K>,
        buffer: &mut Self::Buffer<'g>,
        guard: &'g Guard,
    ) -> Copied<'g, K> {
        let leaf = self.leaf_to_scan(target, part.direction, guard);
        (leaf, self.copy(leaf, buffer, guard))
    }

    fn fence<'a>((leaf, _): &'a Copied<'_, K>, direction: Direction) -> Option<K::Ref<'a>> {
        match direction {
            Direction::Forward => leaf.high().map(|high| K::shorten(high)),
            // The leftmost leaf has the smallest key as its lower fence, and no other has.
            Direction::Backward => {
                let low = K::shorten(leaf.low());
                (K::cmp(low, K::min()) != Ordering::Equal).then_some(low)
            }
        }
    }

    fn show<'g>(
        &self,
        (leaf, status): &Copied<'g, K>,
        part: &Part<'_, K>,
        entries: &mut Self::Buffer<'g>,
        visit: &mut impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        visit(ScanItem::Leaf(version(*leaf, *status)))?;
        let first = partition(entries.len(), |i| {
            !after_start::<K>(part.from, entries[i].0)
        });
        let end = partition(entries.len(), |i| before_end::<K>(part.to, entries[i].0));
        let mut show = |i: usize| {
            let (key, payload) = entries[i];
            visit(ScanItem::Entry(
                K::encode(K::shorten(key), &mut [0; 8]),
                payload,
            ))
        };
        match part.direction {
            Direction::Forward => (first..end).try_for_each(&mut show),
            Direction::Backward => (first..end).rev().try_for_each(&mut show),
        }
    }
}

impl<K: Key, V: Variant> BzTree<K, V> {
    /// Copies the contents of a leaf at one instant, and returns its status at that instant.
    fn copy<'g>(&self, leaf: NodeRef<'g, K>, out: &mut Vec<Entry<'g, K>>, guard: &Guard) -> Status {
        for _ in 0..TURNS_MAX {
            out.clear();
            // `SeqCst` all of them: done, begun, status, payloads, status, begun, in this order, as
            // against begun, payload, done in `write.rs`.
            let (begun, done) = leaf.updates();
            let before = done.load(atomic::Ordering::SeqCst);
            if V::IN_PLACE && begun.load(atomic::Ordering::SeqCst) != before {
                continue;
            }
            let status = leaf_word_changes::status(leaf.status(), guard);
            leaf.collect(status, out, guard);
            if !V::IN_PLACE {
                return status;
            }
            let now = leaf_word_changes::status(leaf.status(), guard);
            if now.changes() == status.changes() && begun.load(atomic::Ordering::SeqCst) == before {
                return status;
            }
        }
        let status = leaf.freeze_leaf::<V>(guard);
        out.clear();
        leaf.collect(status, out, guard);
        self.replace(leaf.low(), leaf, guard);
        status
    }
}
