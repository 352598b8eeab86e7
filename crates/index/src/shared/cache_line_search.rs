//! Blocks and the search in them: ascending heads of keys in cache lines, each followed by a line
//! of their values.
//!
//! ```text
//!  separators: first heads of blocks 1, 2, …, in whole lines
//!  block:      | head u64 × 8 | value u64 × 8 |        a cache line each
//! ```
//! The rest of a line beyond the last head is filled with the largest head.
#![expect(unsafe_code, reason = "the search halves a range without a check")]

pub const LINE: usize = 64;
/// Entries of a block: a cache line of heads.
pub const BLOCK: usize = LINE / size_of::<u64>();
pub const BLOCK_BYTES: usize = 2 * LINE;
/// The filler of unused heads in a line.
pub const FILLER: u64 = u64::MAX;

/// The child's whole range of keys.
pub const WHOLE: usize = 1 << WHOLE_BITS;
const WHOLE_BITS: u32 = 8;

/// How many of eight heads are less than `probe` (`OR_EQUAL`: not greater).
#[inline(always)]
pub fn count<const OR_EQUAL: bool>(heads: &[u64; BLOCK], probe: u64) -> usize {
    let Some(most) = probe.checked_sub(u64::from(!OR_EQUAL)) else {
        return 0;
    };
    // A sum of borrows compiles to half the instructions of a sum of comparisons, which goes to
    // vector registers and back where those know no comparison of 64 bits (x86-64 without AVX2).
    let greater = |head: u64| usize::from(most.overflowing_sub(head).1);
    BLOCK - heads.iter().map(|head| greater(*head)).sum::<usize>()
}

/// The same of ascending lines of heads.
///
/// Halves the range without a branch on the data, so that the processor does not guess.
#[inline]
pub fn count_lines<const OR_EQUAL: bool>(lines: &[[u64; BLOCK]], probe: u64) -> usize {
    let (mut low, mut left) = (0, lines.len());
    while left > 1 {
        let half = left / 2;
        // SAFETY: `low + left <= lines.len()` throughout and `1 <= half < left`.
        let first = unsafe { lines.get_unchecked(low + half) }[0];
        let before = if OR_EQUAL {
            first <= probe
        } else {
            first < probe
        };
        low = std::hint::select_unpredictable(before, low + half, low);
        left -= half;
    }
    // All lines before `low` are less, and none from `low + 1` on has a head that is.
    lines
        .get(low)
        .map_or(0, |line| low * BLOCK + count::<OR_EQUAL>(line, probe))
}

/// Where in a range of keys one lies that is `from_low` behind its start, in shares of [`WHOLE`].
#[inline(always)]
pub fn share_of(from_low: u64, width: u64) -> usize {
    let width = width.max(1);
    let share = match width >> (u64::BITS - WHOLE_BITS) {
        0 if from_low < width => (from_low << WHOLE_BITS) / width,
        0 => return WHOLE,
        _ => from_low / (width >> WHOLE_BITS),
    };
    (share as usize).min(WHOLE)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn shares_are_in_proportion_whatever_the_width() {
        for width in [
            1,
            2,
            51,
            1 << 20,
            1 << 55,
            1 << 56,
            (1 << 63) + 99,
            u64::MAX,
        ] {
            for part in [0, 1, 3, 7] {
                let from_low = (u128::from(width) * part / 8) as u64;
                let exact = u128::from(from_low) * WHOLE as u128 / u128::from(width);
                let share = share_of(from_low, width) as u128;
                assert!(share.abs_diff(exact) <= 1, "{share} {exact} of {width}");
            }
            assert!(share_of(u64::MAX, width) <= WHOLE);
        }
        assert_eq!(share_of(5, 0), WHOLE);
    }
}
