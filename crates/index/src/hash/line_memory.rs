//! Type-stable memory for lines, by number: it grows by doubling and stays readable for ever.
//!
//! Readers of eight-byte keys do not pin, so a line that one of them is about to read may be reused
//! or returned to the kernel at any time. Both are harmless. The addresses stay mapped until the
//! table is dropped, everything in a line is atomic, and a reader uses a line's contents only if
//! the control word of its bucket has not changed while it read them (`line.rs`, L2).
//!
//! ```text
//!  segment 0: lines 0..F    1: F..2F    2: 2F..4F    3: 4F..8F    …
//! ```
//!
//! # Invariants
//! - S1. A segment's start is null until its memory exists, and does not change afterwards.
//! - S2. A segment's memory is freed when the lines are dropped, not before.
#![expect(unsafe_code, reason = "mapped memory is read as lines")]

use std::array;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::line::Line;

const SEGMENTS: usize = 32;

/// Smaller segments are on the heap: the kernel maps whole pages.
#[cfg(not(loom))]
const MAPPED_BYTES_MIN: usize = 4096;

/// The memory of a segment, zero at first.
enum Memory {
    /// (The loom model always uses the heap: its atomics are more than their bytes.)
    Heap(Box<[Line]>),
    #[cfg(not(loom))]
    Mapped(namiki_platform::Mapping),
}

impl Memory {
    fn new(lines: usize) -> std::io::Result<Self> {
        #[cfg(not(loom))]
        if lines * size_of::<Line>() >= MAPPED_BYTES_MIN {
            return namiki_platform::Mapping::new(lines * size_of::<Line>()).map(Self::Mapped);
        }
        Ok(Self::Heap((0..lines).map(|_| Line::zero()).collect()))
    }

    fn start(&self) -> ptr::NonNull<Line> {
        match self {
            Self::Heap(lines) => ptr::NonNull::from(&**lines).cast(),
            #[cfg(not(loom))]
            Self::Mapped(mapping) => mapping.start().cast(),
        }
    }

    /// Returns the contents to the kernel, where that frees pages.
    fn discard(&self) {
        match self {
            Self::Heap(_) => {}
            #[cfg(not(loom))]
            Self::Mapped(mapping) => mapping.discard(),
        }
    }
}

struct Segment {
    memory: Memory,
    /// Number of leading lines that may hold something: they were used since the segment was mapped
    /// or returned.
    used: AtomicU64,
}

/// Lines in segments that are allocated on demand.
pub(super) struct Lines {
    first_bits: u32,
    /// Where line 0 would be if the segment began with it.
    origins: [AtomicPtr<Line>; SEGMENTS],
    segments: Box<[OnceLock<Box<Segment>>]>,
}

impl Lines {
    /// `2^first_bits` lines in the first segment, as many in the second, twice as many in each further.
    pub(super) fn new(first_bits: u32) -> Self {
        Self {
            first_bits,
            origins: array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            segments: std::iter::repeat_with(OnceLock::new)
                .take(SEGMENTS)
                .collect(),
        }
    }

    /// The most lines there can be.
    pub(super) const fn max(&self) -> u64 {
        1 << (self.first_bits as usize + SEGMENTS - 1)
    }

    fn segment_of(&self, line: u64) -> usize {
        // Twice and one more, for a logarithm of zero.
        ((line >> self.first_bits) << 1 | 1).ilog2() as usize
    }

    /// The first line of a segment, and how many it has.
    fn extent(&self, segment: usize) -> (u64, usize) {
        let bits = self.first_bits as usize + segment.saturating_sub(1);
        (if segment == 0 { 0 } else { 1 << bits }, 1 << bits)
    }

    /// A line in a segment that was reached.
    #[inline]
    pub(super) fn line(&self, line: u64) -> &Line {
        // `Acquire` pairs with the `Release` in `reach`.
        let origin = self.origins[self.segment_of(line)].load(Ordering::Acquire);
        assert!(!origin.is_null(), "a line is used when it is there");
        // SAFETY: a non-null origin belongs to a segment that holds this line, exists (S1) and
        // stays mapped while `self` lives (S2); zeros are a valid line, and everything in it is
        // atomic.
        unsafe { &*origin.wrapping_add(line as usize) }
    }

    /// Where line 0 would be if the segment that has both lines began with it; null: the lines are in
    /// different segments, or that segment was not reached yet.
    pub(super) fn common_origin(&self, first: u64, last: u64) -> *mut Line {
        let segment = self.segment_of(first);
        if segment == self.segment_of(last) {
            // `Acquire` pairs with the `Release` in `reach`.
            self.origins[segment].load(Ordering::Acquire)
        } else {
            ptr::null_mut()
        }
    }

    /// Makes sure that the line's segment exists. `false`: there is no memory for it.
    pub(super) fn reach(&self, line: u64) -> bool {
        let number = self.segment_of(line);
        if self.origins[number].load(Ordering::Acquire).is_null() {
            let (first, lines) = self.extent(number);
            let Ok(memory) = Memory::new(lines) else {
                return false;
            };
            let used = AtomicU64::new(0);
            // If another thread was faster, our segment is freed.
            let segment = self.segments[number].get_or_init(|| Box::new(Segment { memory, used }));
            let start = segment.memory.start().as_ptr();
            // All racing threads store the same value.
            self.origins[number].store(start.wrapping_sub(first as usize), Ordering::Release);
        }
        true
    }

    /// Marks a line of an existing segment as used.
    pub(super) fn hold(&self, line: u64) {
        let number = self.segment_of(line);
        if let Some(segment) = self.segments[number].get() {
            let used = line - self.extent(number).0 + 1;
            if segment.used.load(Ordering::Relaxed) < used {
                segment.used.fetch_max(used, Ordering::Relaxed);
            }
        }
    }

    /// Returns the memory of the line's segment to the kernel. Its lines stay readable; each keeps
    /// its contents or becomes zero at some moment.
    pub(super) fn discard(&self, line: u64) {
        if let Some(segment) = self.segments[self.segment_of(line)].get()
            && segment.used.swap(0, Ordering::Relaxed) > 0
        {
            segment.memory.discard();
        }
    }

    /// Bytes of all lines that may hold something.
    pub(super) fn bytes(&self) -> usize {
        let segments = self.segments.iter().filter_map(OnceLock::get);
        let lines: u64 = segments
            .map(|segment| segment.used.load(Ordering::Relaxed))
            .sum();
        lines as usize * size_of::<Line>()
    }

    /// Number of the segment that the line is in.
    #[inline]
    pub(super) fn segment(&self, line: u64) -> usize {
        self.segment_of(line)
    }

    /// How many segments there can be.
    pub(super) const SEGMENTS: usize = SEGMENTS;
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn every_line_keeps_its_own_place() {
        for first_bits in [0, 1, 6] {
            let lines = Lines::new(first_bits);
            let count = 1_000;
            for number in 0..count {
                assert!(lines.reach(number));
                lines.hold(number);
                assert_eq!(lines.line(number).payload(0), 0);
                lines.line(number).set(0, 0, number + 1);
            }
            for number in 0..count {
                assert_eq!(lines.line(number).payload(0), number + 1);
            }
            assert_eq!(lines.bytes(), 1_000 * 64);
        }
    }

    #[test]
    fn discarded_lines_stay_readable_and_come_back() {
        let lines = Lines::new(6);
        for number in 0..256 {
            assert!(lines.reach(number));
            lines.hold(number);
            lines.line(number).set(0, 7, 7);
        }
        lines.discard(128);
        lines.discard(255);
        assert_eq!(lines.bytes(), 128 * 64);
        assert_eq!(lines.line(127).word(0), 7);
        // Zero, unless the kernel refused.
        lines.line(200).word(0);
        lines.hold(130);
        assert_eq!(lines.bytes(), 131 * 64);
    }
}
