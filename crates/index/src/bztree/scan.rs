//! Scans, both ways.
//!
//! A scan copies what a leaf holds at one instant into a buffer and shows it from there, so `visit` may
//! use the tree. There are no side links: the next leaf is the one that covers the fence where the last
//! one ended, or the keys just below. Where it reaches back over keys already visited (it was merged
//! meanwhile), those are left out.
//!
//! # One instant
//!
//! In the append variant a status word says which records count, and these never change. In place,
//! payloads are replaced without the status: so each replacement is counted twice, before it and after.
//! If as many were done as were begun, and when the leaf has been copied no more have begun and the
//! status shows the same key set, nothing changed between. A scan that does not come to this in a few
//! turns freezes the leaf: what is in it then stays so, and is current until the leaf is replaced.
//!
//! Trap "long scans re-pin": after some leaves the scan copies the fence it stands at and pins anew, so
//! that it does not keep the collector waiting.
//!
//! Paper: bwtree §4.1.1, figure 7 (Scan)

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic;

use crossbeam_epoch::{self as epoch, Guard};

use super::leaves::version;
use super::node::{Entry, NodeRef};
use super::search::{Target, partition};
use super::status::Status;
use super::{BzTree, Variant, words};
use crate::key::Key;
use crate::range::{after_start, before_end, parse_bound};
use crate::{Direction, IndexError, ScanItem, ScanRange};

/// Leaves visited under one pin.
const LEAVES_PER_PIN: usize = 64;
/// Turns in which payloads were replaced before a scan freezes the leaf.
const TURNS_MAX: usize = 8;

impl<K: Key, V: Variant> BzTree<K, V> {
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
        let target = match (fence, start) {
            (Some(fence), _) => K::shorten(fence),
            (None, Bound::Included(key) | Bound::Excluded(key)) => K::shorten(key),
            (None, Bound::Unbounded) => K::min(),
        };
        let forward = Direction::Forward;
        let mut leaf = self.leaf_to_scan(Target::At(target), forward, guard);
        let mut from = match fence {
            Some(fence) => Bound::Included(K::shorten(fence)),
            None => start.map(|key| K::shorten(key)),
        };
        for turn in 1.. {
            let status = self.copy(leaf, &mut buffer, guard);
            Self::show(
                leaf,
                status,
                &buffer,
                (from, end),
                Direction::Forward,
                visit,
            )?;
            let Some(high) = leaf.high() else {
                break;
            };
            if !before_end::<K>(end, high) {
                break;
            }
            if turn == LEAVES_PER_PIN {
                return ControlFlow::Continue(K::encode(high, &mut [0; 8]).to_vec());
            }
            leaf = self.leaf_to_scan(Target::At(high), forward, guard);
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
        let target = match (fence, end) {
            (Some(fence), _) => Target::Below(K::shorten(fence)),
            (None, Bound::Included(key) | Bound::Excluded(key)) => Target::At(K::shorten(key)),
            (None, Bound::Unbounded) => Target::Last,
        };
        let backward = Direction::Backward;
        let mut leaf = self.leaf_to_scan(target, backward, guard);
        let mut to = match fence {
            Some(fence) => Bound::Excluded(K::shorten(fence)),
            None => end.map(|key| K::shorten(key)),
        };
        for turn in 1.. {
            let status = self.copy(leaf, &mut buffer, guard);
            Self::show(
                leaf,
                status,
                &buffer,
                (start, to),
                Direction::Backward,
                visit,
            )?;
            let low = leaf.low();
            // The leftmost leaf has the smallest key as its lower fence, and no other has. A leaf
            // that begins at an excluded start holds nothing more than the leaf itself.
            let at_start = match start {
                Bound::Unbounded => false,
                Bound::Included(start) | Bound::Excluded(start) => {
                    K::cmp(low, start) != Ordering::Greater
                }
            };
            if at_start || K::cmp(low, K::min()) == Ordering::Equal {
                break;
            }
            if turn == LEAVES_PER_PIN {
                return ControlFlow::Continue(K::encode(low, &mut [0; 8]).to_vec());
            }
            leaf = self.leaf_to_scan(Target::Below(low), backward, guard);
            to = Bound::Excluded(low);
        }
        ControlFlow::Break(())
    }

    /// Copies what a leaf holds at one instant, and returns its status at that instant.
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
            let status = words::status(leaf.status(), guard);
            leaf.collect(status, out, guard);
            if !V::IN_PLACE {
                return status;
            }
            let now = words::status(leaf.status(), guard);
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

    /// Reports a leaf and those of its entries that are within both bounds.
    fn show(
        leaf: NodeRef<'_, K>,
        status: Status,
        entries: &[Entry<'_, K>],
        (from, to): (Bound<K::Ref<'_>>, Bound<K::Ref<'_>>),
        direction: Direction,
        visit: &mut impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        visit(ScanItem::Leaf(version(leaf, status)))?;
        let first = partition(entries.len(), |i| !after_start::<K>(from, entries[i].0));
        let end = partition(entries.len(), |i| before_end::<K>(to, entries[i].0));
        let mut show = |i: usize| {
            let (key, payload) = entries[i];
            visit(ScanItem::Entry(
                K::encode(K::shorten(key), &mut [0; 8]),
                payload,
            ))
        };
        match direction {
            Direction::Forward => (first..end).try_for_each(&mut show),
            Direction::Backward => (first..end).rev().try_for_each(&mut show),
        }
    }
}
