//! One line of the table: up to three keys with their payloads, and the word that guards them.
//!
//! ```text
//!  bytes 0..8    8..16      16..40         40..64
//!       | control | further | three words | three payloads |      one cache line
//!
//!  control, bits 63..10   9..4             3..1   0
//!         | version     | depth + 1, or 0 | used | locked |
//! ```
//! A *bucket* is a home line and the lines that follow it where it holds more than three keys
//! (`locked_bucket.rs`); only the control word of the home line counts; that of the other lines has
//! only *used*. A bucket of *depth* `d` at place `i` holds the keys with hashes that end in the `d`
//! lowest bits of `i`; a bucket without a depth is *dead* and holds nothing. Memory that was never
//! written is a dead bucket.
//!
//! # Invariants
//! - L1. The thread that sets *locked* by a compare-and-swap owns the bucket until it stores a control word
//!   without it. Nothing else of a bucket is written without the lock, except in a dead one, which belongs
//!   to the holder of its parent's lock.
//! - L2. A control word that was once replaced never recurs: each change has a version of its own, and a
//!   bucket that is activated again begins above all versions of dead ones. So a reader that finds the same
//!   word before and after has seen one state of the bucket.
//! - L3. Everything in a line is stored with `Release` and loaded with `Acquire`: a reader that sees a
//!   store made under a lock sees the lock too when it loads the control word again.

use std::sync::atomic::Ordering;

use namiki_platform::sync::{AtomicU64, total_order};

/// Keys of a line.
pub(super) const SLOTS: usize = 3;

const LOCKED: u64 = 1;
const USED_SHIFT: u32 = 1;
const USED_MASK: u64 = (1 << SLOTS) - 1;
const DEPTH_SHIFT: u32 = USED_SHIFT + SLOTS as u32;
const DEPTH_MASK: u64 = (1 << 6) - 1;
const VERSION_SHIFT: u32 = DEPTH_SHIFT + 6;

/// See above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Control(u64);

impl Control {
    /// The state of a bucket that becomes live: unlocked.
    #[inline]
    pub(super) const fn active(depth: u32, used: u8, version: u64) -> Self {
        Self(
            version << VERSION_SHIFT
                | (depth as u64 + 1) << DEPTH_SHIFT
                | (used as u64) << USED_SHIFT,
        )
    }

    /// The next state, unlocked.
    #[inline]
    pub(super) const fn changed(self, depth: u32, used: u8) -> Self {
        Self::active(depth, used, self.version() + 1)
    }

    /// The version of the state.
    #[inline]
    pub(super) const fn deactivated(self) -> Self {
        Self((self.version() + 1) << VERSION_SHIFT)
    }

    #[inline]
    pub(super) const fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }

    #[inline]
    pub(super) const fn is_inactive(self) -> bool {
        self.0 >> DEPTH_SHIFT & DEPTH_MASK == 0
    }

    /// Which slots of the line hold a key.
    #[inline]
    pub(super) const fn used(self) -> u8 {
        (self.0 >> USED_SHIFT & USED_MASK) as u8
    }

    #[inline]
    pub(super) const fn version(self) -> u64 {
        self.0 >> VERSION_SHIFT
    }

    /// The depth of a live bucket.
    #[inline]
    pub(super) fn depth(self) -> u32 {
        assert!(!self.is_inactive(), "a dead bucket has no depth");
        (self.0 >> DEPTH_SHIFT & DEPTH_MASK) as u32 - 1
    }

    /// Mask of the hash bits that must match the bucket's place. All bits if the bucket is dead; no
    /// place matches then.
    #[inline]
    pub(super) const fn mask(self) -> u64 {
        ((1_u64 << (self.0 >> DEPTH_SHIFT & DEPTH_MASK)) >> 1).wrapping_sub(1)
    }

    /// Whether the bucket at `place` is the one for the hash.
    #[inline]
    pub(super) const fn is_for(self, hash: u64, place: u64) -> bool {
        hash & self.mask() == place
    }

    /// Whether everything that was read between this load and a second one belongs to one unlocked
    /// state. (A bucket that was locked and unlocked with the same control word was not changed.)
    #[inline]
    pub(super) const fn is_still(self, second: Self) -> bool {
        self.0 & !LOCKED == second.0
    }
}

/// See above.
#[repr(C, align(64))]
pub(super) struct Line {
    control: AtomicU64,
    /// The number of the line that follows, plus one; 0: none.
    further: AtomicU64,
    words: [AtomicU64; SLOTS],
    payloads: [AtomicU64; SLOTS],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Line>() == 64);

impl Line {
    /// As in memory that is zero.
    pub(super) fn zero() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            control: zero(),
            further: zero(),
            words: std::array::from_fn(|_| zero()),
            payloads: std::array::from_fn(|_| zero()),
        }
    }

    #[inline]
    pub(super) fn control(&self) -> Control {
        Control(self.control.load(Ordering::Acquire))
    }

    /// The same, as part of the single total order in which locks are taken and `size` changes
    /// (`linear_hashing.rs`, B4).
    #[inline]
    pub(super) fn control_in_order(&self) -> Control {
        total_order();
        Control(self.control.load(Ordering::SeqCst))
    }

    /// Sets the control word: unlocks a bucket, activates a dead one, or records the used slots of
    /// an overflow line.
    #[inline]
    pub(super) fn set_control(&self, control: Control) {
        self.control.store(control.0, Ordering::Release);
    }

    /// Locks the bucket if it is in this state, which is not locked. `SeqCst`: B4.
    #[inline]
    pub(super) fn try_lock(&self, seen: Control) -> bool {
        let locked = seen.0 | LOCKED;
        self.control
            .compare_exchange(seen.0, locked, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
    }

    #[inline]
    pub(super) fn further(&self) -> Option<u64> {
        self.further.load(Ordering::Acquire).checked_sub(1)
    }

    #[inline]
    pub(super) fn set_further(&self, line: Option<u64>) {
        let number = line.map_or(0, |line| line + 1);
        self.further.store(number, Ordering::Release);
    }

    #[inline]
    pub(super) fn word(&self, slot: usize) -> u64 {
        self.words[slot].load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn payload(&self, slot: usize) -> u64 {
        self.payloads[slot].load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn set(&self, slot: usize, word: u64, payload: u64) {
        self.words[slot].store(word, Ordering::Release);
        self.set_payload(slot, payload);
    }

    #[inline]
    pub(super) fn set_payload(&self, slot: usize, payload: u64) {
        self.payloads[slot].store(payload, Ordering::Release);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn a_control_word_keeps_its_parts_apart() {
        let active = Control::active(40, 0b101, 7);
        assert_eq!(
            (active.depth(), active.used(), active.version()),
            (40, 0b101, 7)
        );
        assert!(!active.is_locked() && !active.is_inactive());
        assert!(Control(active.0 | LOCKED).is_locked());
        let next = active.changed(0, 0);
        assert_eq!((next.depth(), next.used(), next.version()), (0, 0, 8));
        assert!(next.deactivated().is_inactive() && next.deactivated().version() == 9);
        assert!(Control(0).is_inactive());
    }

    #[test]
    fn a_bucket_is_for_hashes_ending_like_its_place() {
        let top = 1 << 63;
        let bucket = Control::active(3, 0, 0);
        assert!(bucket.is_for(top | 0b1101, 0b101));
        assert!(!bucket.is_for(top | 0b1001, 0b101));
        assert!(Control::active(0, 0, 0).is_for(top | 77, 0));
        // Hashes have their highest bit set, so no place is one.
        assert!(!Control(0).is_for(top | 0b101, 0b101));
    }

    #[test]
    fn only_an_unlocked_bucket_is_as_it_was() {
        let bucket = Control::active(3, 0b11, 8);
        let locked = Control(bucket.0 | LOCKED);
        assert!(bucket.is_still(bucket) && locked.is_still(bucket));
        assert!(!bucket.is_still(locked) && !locked.is_still(locked));
        assert!(!bucket.is_still(bucket.changed(3, 0b11)));
    }
}
