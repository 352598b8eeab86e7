//! Leaf number → the leaf and its stamp: phantom protection.
//!
//! A leaf's version is its number and a counter in its status word, so it changes in the same step
//! as the key set. The leaf's address in this table changes with the child word of its parent, in
//! one multi-word change; so the table never leads to a leaf that is out of the tree.
//!
//! # No insertion slips past a reader
//!
//! A reader raises the rts and **then** reads the leaf's status; an inserter changes the status and
//! **then** reads the rts. All are `SeqCst`. It remains to be shown that this holds although leaves
//! are replaced:
//!
//! - The reader takes the leaf from the table after the raise, so that leaf was in the tree after the
//!   raise. An insertion into it before it was frozen is in its status; one into its replacement
//!   came after the raise.
//! - *Split, merge.* A reader that relied on the old leaf may rely on it no longer, but a reader that did
//!   so successfully must be known to the leaves that replace it, which have other numbers. So a
//!   reader that finds the leaf frozen does not succeed: it completes the replacement and retries.
//!   And a thread that replaces a leaf first freezes it and **then** takes over its rts: every
//!   successful reader raised it before.
//!
//! # Invariants
//! - L1. A word of the table is 0 or the address of a leaf of the tree.
//! - L2. A pair of number and counter never recurs: a leaf that takes a number over starts above the
//!   counters that the number has had (`floor`).
//! - L3. The rts of a number never decreases: an inserter may ask for it after the leaf is gone.

use std::sync::atomic::Ordering;

use crossbeam_epoch::Guard;
use namiki_index::LeafVersion;
use namiki_index::key::Key;
use namiki_index::shared::id_pool::IdPool;
use namiki_index::shared::segmented_array::SegmentedArray;
use namiki_platform::sync::{AtomicU64, total_order};

use super::node::NodeRef;
use super::status_word::Status;
use crate::mwcas;

struct Slot {
    /// The leaf's address, changed by multi-word changes.
    leaf: AtomicU64,
    /// Largest stamp of a transaction that relied on an absent key here.
    rts: AtomicU64,
    /// Where the counter of the next leaf with this number starts.
    floor: AtomicU64,
}

/// The leaves of one tree by number.
pub(super) struct Leaves {
    slots: SegmentedArray<Slot>,
    numbers: IdPool,
}

/// The version of a leaf in this state.
#[inline]
pub(super) fn version<K: Key>(leaf: NodeRef<'_, K>, status: Status) -> LeafVersion {
    LeafVersion {
        leaf: u64::from(leaf.number()),
        counter: leaf.counter() + status.changes(),
    }
}

impl Leaves {
    pub(super) fn new() -> Self {
        Self {
            slots: SegmentedArray::new(),
            numbers: IdPool::new(),
        }
    }

    #[inline]
    fn slot(&self, number: u32) -> &Slot {
        match self.slots.get(number) {
            Some(slot) => slot,
            None => unreachable!("a number has a slot before it is given out"),
        }
    }

    /// A number for a new leaf and the counter to start with. `None`: all numbers are used up. The
    /// caller has to return it.
    pub(super) fn take(&self) -> Option<(u32, u64)> {
        let number = self.numbers.take()?;
        self.slots.reach(number, || Slot {
            leaf: AtomicU64::new(0),
            rts: AtomicU64::new(0),
            floor: AtomicU64::new(0),
        });
        Some((number, self.slot(number).floor.load(Ordering::SeqCst)))
    }

    /// Whether a number is free now.
    #[inline]
    pub(super) fn are_left(&self) -> bool {
        self.numbers.are_left()
    }

    /// Takes all numbers that were never used.
    pub(super) fn use_up(&self) {
        self.numbers.use_up();
    }

    /// Releases the number of a leaf that is gone, or never was. `floor` is larger than its last counter.
    pub(super) fn give_back(&self, number: u32, floor: u64) {
        self.slot(number).floor.store(floor, Ordering::SeqCst);
        self.numbers.give_back(number);
    }

    /// The word with the leaf's address.
    #[inline]
    pub(super) fn word(&self, number: u32) -> &AtomicU64 {
        &self.slot(number).leaf
    }

    /// Lets `to` account for readers that relied on `from`, which is frozen.
    #[inline]
    pub(super) fn inherit(&self, from: u32, to: u32) {
        let rts = self.rts(u64::from(from));
        self.slot(to).rts.fetch_max(rts, Ordering::SeqCst);
    }

    /// See [`leaf_rts`](namiki_index::PointIndex::leaf_rts).
    #[inline]
    pub(super) fn rts(&self, leaf: u64) -> u64 {
        total_order();
        let slot = u32::try_from(leaf)
            .ok()
            .and_then(|leaf| self.slots.get(leaf));
        slot.map_or(0, |slot| slot.rts.load(Ordering::SeqCst))
    }

    /// Raises the rts to at least this. The caller then reads the leaf.
    #[inline]
    pub(super) fn raise(&self, leaf: u64, rts: u64) {
        if let Some(slot) = u32::try_from(leaf)
            .ok()
            .and_then(|leaf| self.slots.get(leaf))
        {
            // The common case under many readers: large enough already. A load suffices, as it is
            // in the same total order as the raise that it saw.
            if slot.rts.load(Ordering::SeqCst) < rts {
                slot.rts.fetch_max(rts, Ordering::SeqCst);
            }
        }
        total_order();
    }

    /// The leaf of that number and its status.
    pub(super) fn find<'g, K: Key>(
        &self,
        leaf: u64,
        guard: &'g Guard,
    ) -> Option<(NodeRef<'g, K>, Status)> {
        let slot = self.slots.get(u32::try_from(leaf).ok()?)?;
        let leaf = NodeRef::of_address(&slot.leaf, guard)?;
        Some((leaf, Status(mwcas::read(leaf.status(), guard))))
    }

    /// Bytes of the table.
    pub(super) fn bytes(&self) -> usize {
        self.slots.bytes() + self.numbers.bytes()
    }
}
