//! The page table of one segment: a word for each page.
//!
//! ```text
//!   63        32 31          28 27           0
//!  | frame + 1  | usage (0..3) | pins         |     0 in the upper half: not resident
//! ```
//!
//! The pins of a page that is not resident are those of readers that are about to take them back.

use namiki_platform::sync::{AtomicU64, Ordering};

use crate::identity::PageNo;

const PIN: u64 = 1;
const PINS: u64 = (1 << 28) - 1;
const USAGE: u64 = 1 << 28;
const USAGE_MASK: u64 = 15 << 28;
const USAGE_MAX: u64 = 3 * USAGE;
const FRAME_SHIFT: u32 = 32;

/// See the module.
#[derive(Debug)]
pub(super) struct PageTable {
    words: Box<[AtomicU64]>,
}

/// The effect of [`PageTable::age`] on a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Aged {
    /// A reader has it.
    Pinned,
    /// It was used: its count is one less now.
    Used,
    /// It was not used, and is not resident any more.
    Evicted,
}

fn frame_of(word: u64) -> Option<u32> {
    ((word >> FRAME_SHIFT) as u32).checked_sub(1)
}

impl PageTable {
    /// Frames that a word can tell apart.
    pub(super) const FRAMES_MAX: usize = (u32::MAX - 1) as usize;

    pub(super) fn new(pages: usize) -> Self {
        Self {
            words: (0..pages).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Pins a page that is resident and tells its frame, which stays until [`PageTable::unpin`]
    /// (K4).
    #[inline]
    pub(super) fn pin(&self, page: PageNo) -> Option<u32> {
        let word = self.words.get(page.0 as usize)?;
        // Most misses need not write. Relaxed: what is read here decides nothing but that.
        frame_of(word.load(Ordering::Relaxed))?;
        // Acquire pairs with the release of `set_and_pin`: the frame's bytes are visible
        // (`cache/mod.rs`, K1).
        let before = word.fetch_add(PIN, Ordering::Acquire);
        let Some(frame) = frame_of(before) else {
            // It was evicted. Nothing was read under this pin, so it orders nothing.
            word.fetch_sub(PIN, Ordering::Relaxed);
            return None;
        };
        if before & USAGE_MASK < USAGE_MAX {
            // A count that is lost to another reader's is no matter. Relaxed: it is a hint for the
            // hand.
            let seen = before + PIN;
            let _ = word.compare_exchange(seen, seen + USAGE, Ordering::Relaxed, Ordering::Relaxed);
        }
        Some(frame)
    }

    /// Releases a pin. Reads under the pin happen before the frame's next use: release pairs with
    /// the acquire of `take_if_unpinned`, also through the additions and subtractions in between,
    /// which continue its release sequence.
    #[inline]
    pub(super) fn unpin(&self, page: PageNo) {
        let before = self.words[page.0 as usize].fetch_sub(PIN, Ordering::Release);
        debug_assert!(before & PINS > 0 && frame_of(before).is_some());
    }

    /// Lets the word name a frame that was filled, with one pin. Under the cache's lock, and only
    /// of a page that is not resident.
    pub(super) fn set_and_pin(&self, page: PageNo, frame: u32) {
        let added = (u64::from(frame) + 1) << FRAME_SHIFT | PIN;
        // An addition keeps the pins of readers that are about to take theirs back; frame and usage
        // were zero. Release: see `pin`.
        let before = self.words[page.0 as usize].fetch_add(added, Ordering::Release);
        debug_assert!(before & !PINS == 0);
    }

    /// Called by the clock hand: lowers the count of a resident page, or makes it absent if that is
    /// zero and there is no pin.
    pub(super) fn age(&self, page: PageNo) -> Aged {
        let word = &self.words[page.0 as usize];
        let before = word.load(Ordering::Relaxed);
        if before & PINS != 0 {
            return Aged::Pinned;
        }
        if before & USAGE_MASK != 0 {
            // Only the hand lowers it, under the lock, and readers only raise it: it does not go
            // below zero.
            word.fetch_sub(USAGE, Ordering::Relaxed);
            return Aged::Used;
        }
        match self.take_if_unpinned(page) {
            Some(_) => Aged::Evicted,
            None => Aged::Pinned,
        }
    }

    /// Makes a resident page absent, if there is no pin, and tells the frame, which nothing names
    /// any more (K3).
    pub(super) fn take_if_unpinned(&self, page: PageNo) -> Option<u32> {
        let word = &self.words[page.0 as usize];
        let before = word.load(Ordering::Relaxed);
        if before & PINS != 0 {
            return None;
        }
        let frame = frame_of(before)?;
        // Acquire: see `unpin`.
        word.compare_exchange(before, 0, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        Some(frame)
    }

    /// Number of readers that have the page pinned.
    #[cfg(test)]
    #[cfg(loom)]
    pub(super) fn pins(&self, page: PageNo) -> u64 {
        self.words[page.0 as usize].load(Ordering::Relaxed) & PINS
    }
}
