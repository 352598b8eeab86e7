//! Maps a hash to its home line in few instructions: the fewer instructions a look-up has, the more
//! look-ups overlap their misses.
//!
//! Place and segment depend on logarithms of `size` and of the place, for which older processors have only
//! slow instructions. A *guide* has the results precomputed for all sizes between two powers of
//! two:
//!
//! ```text
//!  place:  0 … 0 | highest bits: part | the other bits |      part -> where line 0 of its segment would be
//! ```
//! There is a guide for each such *level*. A part has its places in one segment, except perhaps part 0,
//! which finds its lines by their numbers alone.
//!
//! # Invariants
//! - D1. A guide does not change, and is freed with the lines it leads to.
//! - D2. The guide of a level is made and used when all lines up to the level's first size exist;
//!   they stay. So places below half its range have lines for any later size.
#![expect(unsafe_code, reason = "guides are reached by their addresses")]

use std::array;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{self, Ordering};

use namiki_platform::sync::AtomicPtr;

use super::line::Line;
use super::line_memory::Lines;

const PART_BITS: u32 = 5;
const PARTS: usize = 1 << PART_BITS;

/// The level of a table with `size` buckets: `2^level + 1` to `2^(level + 1)` buckets have the same
/// one.
#[inline]
fn level_of(size: u64) -> usize {
    (size.max(2) - 1).ilog2() as usize
}

/// See above.
pub(super) struct Guide {
    /// The bits of a hash that are a place among `2^(level + 1)`, and among half as many.
    masks: [u64; 2],
    /// How far a place is shifted to leave its part.
    shift: u32,
    /// Null: the part is in several segments, or its lines do not exist yet.
    origins: [atomic::AtomicPtr<Line>; PARTS],
}

impl Guide {
    fn new(level: usize, lines: &Lines) -> Self {
        let shift = (level as u32 + 1).saturating_sub(PART_BITS);
        let origin = |part: usize| {
            let first = (part as u64) << shift;
            let last = first + (1 << shift) - 1;
            lines.common_origin(first, last)
        };
        Self {
            masks: [2, 1].map(|half| (half << level) - 1),
            shift,
            origins: array::from_fn(|part| atomic::AtomicPtr::new(origin(part))),
        }
    }

    /// The place of a hash among `size` buckets. If `size` is no longer of this level, a place from
    /// which a search reaches the right one.
    #[inline(always)]
    pub(super) fn place(&self, hash: u64, size: u64) -> u64 {
        let [place, of_half] = self.masks.map(|mask| hash & mask);
        if place < size { place } else { of_half }
    }

    /// The line at a place that [`place`](Self::place) returned.
    #[inline(always)]
    pub(super) fn line<'a>(&'a self, lines: &'a Lines, place: u64) -> &'a Line {
        let part = place.wrapping_shr(self.shift) as usize % PARTS;
        // Relaxed: it has been there as long as the guide (D1).
        let origin = self.origins[part].load(Ordering::Relaxed);
        if origin.is_null() {
            return lines.line(place);
        }
        // SAFETY: the part's places are all in the segment of this origin, which is mapped as long as
        // `lines` lives (S1, S2 of `line_memory.rs`); the place is one of them, for it is not above the mask.
        unsafe { &*origin.wrapping_add(place as usize) }
    }
}

/// The guides of a table.
pub(super) struct Guides {
    current: AtomicPtr<Guide>,
    levels: Box<[OnceLock<Box<Guide>>]>,
}

impl Guides {
    /// For lines of which the first `size` exist.
    pub(super) fn new(size: u64, lines: &Lines) -> Self {
        let levels = 0..=level_of(lines.max());
        let guides = Self {
            current: AtomicPtr::new(ptr::null_mut()),
            levels: levels.map(|_| OnceLock::new()).collect(),
        };
        guides.follow(size, lines);
        guides
    }

    #[inline(always)]
    pub(super) fn current(&self) -> &Guide {
        // SAFETY: set by `new` and never null again; a guide lives as long as `self` (D1). `Acquire` pairs
        // with the `SeqCst` in `follow`, which came after the guide was made.
        unsafe { &*self.current.load(Ordering::Acquire) }
    }

    /// Whether tables of these sizes need different guides.
    #[inline]
    pub(super) fn differ(size: u64, new: u64) -> bool {
        level_of(size) != level_of(new)
    }

    /// Switches to the guide for this size.
    #[inline]
    pub(super) fn follow(&self, size: u64, lines: &Lines) {
        let level = level_of(size);
        let guide = self.levels[level].get_or_init(|| Box::new(Guide::new(level, lines)));
        let guide = ptr::from_ref::<Guide>(guide).cast_mut();
        self.current.store(guide, Ordering::SeqCst);
    }

    pub(super) fn bytes(&self) -> usize {
        let made = self.levels.iter().filter(|guide| guide.get().is_some());
        size_of_val(&*self.levels) + made.count() * size_of::<Guide>()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// For every size and every level's guide, the guide leads to a line, the same as by number.
    #[test]
    fn guides_lead_to_the_lines_that_numbers_lead_to() {
        for first_bits in [0, 1, 6] {
            let lines = Lines::new(first_bits);
            let first = 1 << first_bits;
            assert!(lines.reach(0));
            let guides = Guides::new(first, &lines);
            for size in first + 1..3_000 {
                assert!(lines.reach(size - 1));
                if Guides::differ(size - 1, size) {
                    guides.follow(size, &lines);
                }
                for hash in (0..64).chain(size.saturating_sub(3)..size + 3) {
                    let guide = guides.current();
                    // The size may have changed since the guide was chosen.
                    for size in [size, size / 3 + 1] {
                        let place = guide.place(hash, size);
                        assert!(ptr::eq(guide.line(&lines, place), lines.line(place)));
                    }
                    let place = guide.place(hash, size);
                    assert!(place < size);
                    // One bit more would be the place of a bucket that there is not.
                    let deeper = (1_u64..).map(|bits| hash & ((1 << bits) - 1));
                    let deepest = deeper.take(20).filter(|place| *place < size).last();
                    assert_eq!(Some(place), deepest);
                }
            }
        }
    }
}
