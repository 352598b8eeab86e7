//! Allocation of a slab's slots, and the marks that summarise the slab's deltas.
//!
//! In a tree with slabs (`variant.rs`) a base leaf is allocated together with room for the deltas that
//! will lie on it. A writer *claims* a slot, notes in the slab's *marks* which key its delta is about,
//! fills the slot in, and publishes the delta by the swap of the page's head, as any other:
//!
//! ```text
//!   | … slot 2 | slot 1 | slot 0 | marks … 2, 1, 0 | claims |  base node: header, entries
//!                          ^ lines of the slab               ^ the node's address
//! ```
//! Marks are the shortcut of a search: a key without a mark has no delta in the slab, so that the search
//! goes from the head straight to the base node, past all deltas.
//!
//! # Invariants
//! - O1. A slot is claimed once, and never returned: not by a writer that fails its swap, nor by
//!   one that finds nothing to do. It has the memory of the base node and goes with it.
//! - O2. A delta in a slab is published only on a chain that ends in the slab's own base node. A writer
//!   that finds another base node below the head leaves its slot behind and claims one there. (The other
//!   would be freed while the new chain leads through it.)
//! - O3. The mark of a slot is written before the delta in it is published and never changes. So a thread
//!   that has read a head finds the marks of all deltas of the slab that lie below it; others may be there,
//!   too.
//!
//! Paper: bwtree §2.4, reference 11

use std::sync::atomic::Ordering;

use namiki_index::key::Key;
use namiki_platform::sync::{AtomicU32, AtomicU64};

/// Largest number of deltas in one slab.
pub(super) const SLOTS_MAX: u8 = 24;

/// The claims on a slab's slots.
#[repr(C)]
pub(super) struct Claims {
    taken: AtomicU32,
    slots: u32,
}

impl Claims {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            taken: AtomicU32::new(0),
            slots: slots as u32,
        }
    }

    #[inline]
    pub(super) fn slots(&self) -> usize {
        self.slots as usize
    }

    /// Takes a slot; `None` if all are taken.
    #[inline]
    pub(super) fn take(&self) -> Option<usize> {
        // Relaxed, both: that every value is drawn once is in the word alone; a reader of a slot has its
        // memory from the swap that publishes it. The load before keeps the count from wrapping where many
        // writers find the slab full.
        if self.taken.load(Ordering::Relaxed) >= self.slots {
            return None;
        }
        let slot = self.taken.fetch_add(1, Ordering::Relaxed);
        (slot < self.slots).then_some(slot as usize)
    }
}

/// Notes which key the delta in `slot` is about, before it is published (O3).
#[inline]
pub(super) fn set_mark(marks: &[AtomicU64], slot: usize, mark: u64) {
    // Relaxed: `SeqCst` swaps publish the delta, and a reader of the head they leave sees this.
    marks[slot].store(mark, Ordering::Relaxed);
}

/// Whether a delta in the slab may be about a key with this mark. False is certain. Marks that were
/// not written yet are zero, which is also a valid mark.
#[inline]
pub(super) fn has_mark(marks: &[AtomicU64], mark: u64) -> bool {
    // Relaxed: see `set_mark`.
    marks.iter().fold(false, |found, slot| {
        found | (slot.load(Ordering::Relaxed) == mark)
    })
}

/// The mark of a key in a slab: the key itself, or a hash that few other keys share.
#[inline]
pub(super) fn mark_of<K: Key>(key: K::Ref<'_>) -> u64 {
    if K::INLINE {
        return K::head(key, 0);
    }
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let tail = K::tail(key);
    let mut mark = tail.len() as u64;
    for at in (0..tail.len()).step_by(size_of::<u64>()) {
        let mixed = u128::from(mark ^ K::head(key, at)) * u128::from(MULTIPLIER);
        mark = (mixed as u64 ^ (mixed >> 64) as u64).wrapping_add(MULTIPLIER);
    }
    mark
}

#[cfg(test)]
#[cfg(loom)]
mod loom_model;

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use namiki_index::key::{Fixed8, Variable};

    use super::*;

    #[test]
    fn a_slab_has_as_many_slots_as_it_says() {
        let claims = Claims::new(3);
        let taken: Vec<_> = (0..100).map(|_| claims.take()).collect();
        assert_eq!(taken[..4], [Some(0), Some(1), Some(2), None]);
        assert!(taken[3..].iter().all(Option::is_none));
        assert_eq!(Claims::new(0).take(), None);
    }

    #[test]
    fn keys_that_differ_leave_different_marks() {
        assert_eq!(mark_of::<Fixed8>(77), 77);
        let mut marks = std::collections::BTreeSet::new();
        let zeros = [0; 300];
        for len in 0..zeros.len() {
            assert!(marks.insert(mark_of::<Variable>(&zeros[..len])), "{len}");
        }
        let mut key = [b'k'; 64];
        for n in 0..100_000_u64 {
            key[56..].copy_from_slice(&n.to_be_bytes());
            assert!(marks.insert(mark_of::<Variable>(&key)), "{n}");
            // The same bytes elsewhere in the key.
            key[40..48].copy_from_slice(&n.to_le_bytes());
        }
    }
}
