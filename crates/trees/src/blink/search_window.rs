//! Cache lines of words, and the two of them that a search begins with.

use namiki_platform::sync::AtomicU64;

/// Words of a cache line. (Loom explores every order of every access, so fewer there.)
pub(super) const LANES: usize = if cfg!(loom) { 2 } else { 8 };
pub(super) const WORD: usize = size_of::<AtomicU64>();
/// A cache line.
pub(super) const LINE: usize = LANES * WORD;

/// The first of the two lines that a search reads first: those with the guess in their middle.
#[inline(always)]
pub(super) fn window(guess: usize, lines: usize) -> usize {
    (guess.saturating_sub(LANES / 2) / LANES).min(lines.saturating_sub(2))
}
