//! Pages become resident, and leave: all under the cache's lock.
#![expect(
    unsafe_code,
    reason = "frames are filled and emptied beside readers that hold no lock"
)]

use std::sync::Arc;

use super::page_table::PageTable;
use super::{PageCache, PageFrame, State};
use crate::identity::{PageNo, SegmentId};

/// A page that was made resident, or was already.
pub(super) struct Pinned {
    pub(super) slot: u32,
    pub(super) is_duplicate: bool,
}

impl<F: PageFrame> PageCache<F> {
    /// Evicts up to `pages` pages that are not pinned and drops their frames, for a caller that finds their pool empty.
    /// Returns how many.
    pub fn evict(&self, pages: usize) -> usize {
        let mut state = self.state.lock();
        let mut evicted = 0;
        while evicted < pages {
            let Some(slot) = self.evict_one(&mut state) else {
                break;
            };
            state.clock.release(slot);
            evicted += 1;
        }
        evicted
    }

    /// Evicts all pages of a segment that will not be read again, but for those that are pinned: they leave by
    /// eviction. Returns how many were evicted.
    pub fn forget(&self, segment: SegmentId) -> usize {
        let mut state = self.state.lock();
        let Some(table) = state.tables.remove(&segment) else {
            return 0;
        };
        let mut evicted = 0;
        for slot in state.clock.take_pages_of(&table) {
            // SAFETY: we have the lock, and the clock has just cleared the word that named the slot
            // (`cache/mod.rs`, K2, K3).
            unsafe { self.frames.empty(slot) };
            state.clock.release(slot);
            evicted += 1;
        }
        state.evicted += evicted as u64;
        evicted
    }

    /// Makes a verified page resident and pins it. Where another reader was first, pins that one's and drops `frame`.
    ///
    /// # Errors
    /// The frame, if all frames are pinned.
    pub(super) fn insert(
        &self,
        table: &Arc<PageTable>,
        page: PageNo,
        frame: F,
    ) -> Result<Pinned, F> {
        let mut state = self.state.lock();
        if let Some(slot) = table.pin(page) {
            state.duplicates += 1;
            return Ok(Pinned {
                slot,
                is_duplicate: true,
            });
        }
        let free = state.clock.take_free();
        let Some(slot) = free.or_else(|| self.evict_one(&mut state)) else {
            return Err(frame);
        };
        // SAFETY: we have the lock, and no word names the slot: it was free, or has just been evicted (K2).
        unsafe { self.frames.fill(slot, frame) };
        state.clock.own(slot, table, page);
        state.inserted += 1;
        table.set_and_pin(page, slot);
        Ok(Pinned {
            slot,
            is_duplicate: false,
        })
    }

    /// Takes a frame from a page that is not pinned, and drops what is in it.
    fn evict_one(&self, state: &mut State) -> Option<u32> {
        let slot = state.clock.sweep()?;
        // SAFETY: we have the lock, and the sweep has just cleared the word that named the slot (K2, K3).
        unsafe { self.frames.empty(slot) };
        state.evicted += 1;
        Some(slot)
    }

    /// A byte of what is in a slot on which the caller holds a pin.
    #[cfg(test)]
    #[cfg(loom)]
    pub(super) fn byte_in(&self, slot: u32) -> Option<u8> {
        // SAFETY: the models call this between a pin and its release.
        unsafe { self.frames.get(slot) }.map(|frame| frame[0])
    }
}
