//! The status word of a node: every change of the node's key set changes it.
//!
//! ```text
//!  63   60 59         32 31        22    21      20        16 15          0
//! | 0000  | changes (28) | dead (10) | frozen | reserved (5) | visible (16) |
//! ```
//! - *changes*: number of changes of the node's key set since it was built. The leaf's version is
//!   this plus the counter that the node was built with, so it changes in the same step as the key
//!   set.
//! - *dead*: records that were removed in place, and records of a removal: the paper's deleted
//!   size, counted in records.
//! - *frozen*: the node is being replaced and accepts nothing more.
//! - *reserved*: slots of the unsorted region that have been taken.
//! - *visible*: those among them with a visible record. The two phases of an insertion are two
//!   compare-and-swaps of this word, the second of which makes the record visible, changes the
//!   version, and fails if anything changed that the insertion relied on.
//!
//! The highest bits are clear: the word takes part in multi-word changes (`mwcas`).
//!
//! Paper: bwtree §2.3

use crate::mwcas::MARK;

/// Most slots a leaf can have.
pub(super) const SLOTS_MAX: usize = 16;

const RESERVED_SHIFT: u32 = SLOTS_MAX as u32;
const RESERVED_BITS: u32 = 5;
const FROZEN_SHIFT: u32 = RESERVED_SHIFT + RESERVED_BITS;
const DEAD_SHIFT: u32 = FROZEN_SHIFT + 1;
const DEAD_BITS: u32 = 10;
const CHANGES_SHIFT: u32 = DEAD_SHIFT + DEAD_BITS;
const CHANGES_BITS: u32 = 28;
const _: () = assert!(1 << (CHANGES_SHIFT + CHANGES_BITS) <= MARK >> 2);

/// Largest count of changes of the key set. A node that comes close to it is replaced.
const CHANGES_MAX: u64 = (1 << CHANGES_BITS) - 1;
/// Largest number of records that a leaf may be built with, so that dead records can be counted.
pub(super) const RECORDS_MAX: usize = (1 << DEAD_BITS) - 1 - SLOTS_MAX;

/// A value of a status word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status(pub(super) u64);

impl Status {
    pub(super) const NEW: Self = Self(0);

    #[inline]
    pub(super) const fn is_frozen(self) -> bool {
        self.0 >> FROZEN_SHIFT & 1 != 0
    }

    #[inline]
    pub(super) const fn frozen(self) -> Self {
        Self(self.0 | 1 << FROZEN_SHIFT)
    }

    /// A bit for each slot with a visible record.
    #[inline]
    pub(super) const fn visible(self) -> u32 {
        self.0 as u32 & ((1 << SLOTS_MAX) - 1)
    }

    #[inline]
    pub(super) const fn reserved(self) -> usize {
        (self.0 >> RESERVED_SHIFT & ((1 << RESERVED_BITS) - 1)) as usize
    }

    #[inline]
    pub(super) const fn dead(self) -> usize {
        (self.0 >> DEAD_SHIFT & ((1 << DEAD_BITS) - 1)) as usize
    }

    #[inline]
    pub(super) const fn changes(self) -> u64 {
        self.0 >> CHANGES_SHIFT & CHANGES_MAX
    }

    /// Whether the node must be replaced because its count of changes is at the limit.
    #[inline]
    pub(super) const fn needs_compaction(self) -> bool {
        self.changes() == CHANGES_MAX
    }

    /// First phase: the next slot is taken.
    #[inline]
    pub(super) const fn reserve(self) -> Self {
        Self(self.0 + (1 << RESERVED_SHIFT))
    }

    /// Second phase: the record in `slot` becomes visible.
    #[inline]
    pub(super) const fn show(self, slot: usize) -> Self {
        Self(self.0 | 1 << slot)
    }

    /// Counts a change of the key set, in addition to the other change.
    #[inline]
    pub(super) const fn change(self) -> Self {
        Self(self.0 + (1 << CHANGES_SHIFT))
    }

    /// One more record is dead.
    #[inline]
    pub(super) const fn mark_deleted(self) -> Self {
        Self(self.0 + (1 << DEAD_SHIFT))
    }

    /// A dead record was restored.
    #[inline]
    pub(super) const fn revive(self) -> Self {
        Self(self.0 - (1 << DEAD_SHIFT))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_status_do_not_touch_each_other() {
        let mut status = Status::NEW;
        for slot in 0..SLOTS_MAX {
            assert_eq!(status.reserved(), slot);
            status = status.reserve().show(slot).change().mark_deleted();
            assert_eq!(status.visible(), (1 << (slot + 1)) - 1);
        }
        for _ in SLOTS_MAX..RECORDS_MAX + SLOTS_MAX {
            status = status.mark_deleted();
        }
        assert_eq!(status.dead(), RECORDS_MAX + SLOTS_MAX);
        assert_eq!((status.changes(), status.reserved()), (16, SLOTS_MAX));
        assert!(!status.is_frozen() && status.frozen().is_frozen());
        assert_eq!(status.frozen().changes(), 16);
        assert_eq!(status.revive().dead() + 1, status.dead());
        while !status.needs_compaction() {
            let step = 1.max((CHANGES_MAX - status.changes()) / 2);
            status = Status(status.0 + (step << CHANGES_SHIFT));
        }
        assert_eq!(status.0 >> 61, 0);
        assert_eq!(status.dead(), RECORDS_MAX + SLOTS_MAX);
    }
}
