//! The search in one node.
//!
//! The search begins at the position that the descent has guessed: it counts the smaller heads in
//! the two lines around the guess. Only if these are all or none, it continues with a binary search
//! of the rest. Counting needs no branches that depend on the keys, so there are no mispredictions.
//!
//! All functions here may read a node while it changes. They then return nonsense within bounds,
//! and the caller detects the change.

use std::cmp::Ordering;
use std::sync::atomic;

use namiki_index::key::Key;
use namiki_platform::sync::AtomicU64;

use super::node::NodeRef;
use super::out_of_line_keys;
use super::search_window::{LANES, window};

/// Number of heads of a line that are less than `probe`.
#[inline(always)]
fn count_less(line: &[AtomicU64], probe: u64) -> usize {
    // A sum of borrows: two instructions a head.
    let less = |head: &AtomicU64| {
        let borrow = head.load(atomic::Ordering::Relaxed).overflowing_sub(probe);
        usize::from(borrow.1)
    };
    line.iter().map(less).sum()
}

/// The number of heads that are less than `probe`, by a binary search of lines `low` to
/// `low + left`. All heads before these lines are less, and none behind is.
#[inline(never)]
fn halve(lines: &[[AtomicU64; LANES]], probe: u64, mut low: usize, mut left: usize) -> usize {
    while left > 1 {
        let half = left / 2;
        let less = lines[low + half][0].load(atomic::Ordering::Relaxed) < probe;
        low = std::hint::select_unpredictable(less, low + half, low);
        left -= half;
    }
    low * LANES + count_less(&lines[low], probe)
}

/// The number of heads that are less than `probe`, which is probably near `guess`. `UNIQUE`: no two
/// heads are equal.
#[inline(always)]
fn lower_bound<const UNIQUE: bool>(heads: &[AtomicU64], probe: u64, guess: usize) -> usize {
    let lines = heads.as_chunks::<LANES>().0;
    let at = window(guess, lines.len());
    let [first, second] = match lines[at..] {
        [ref first, ref second, ..] => [first, second],
        _ => return count_less(&lines[at], probe),
    };
    let less = count_less(first, probe) + count_less(second, probe);
    if less == 2 * LANES && at + 2 < lines.len() {
        return halve(lines, probe, at + 2, lines.len() - at - 2);
    }
    if less == 0 && at > 0 && !(UNIQUE && first[0].load(atomic::Ordering::Relaxed) == probe) {
        return halve(lines, probe, 0, at);
    }
    at * LANES + less
}

/// Compares a key with a kept one; both share `prefix` bytes, and the heads behind are equal.
fn compare<K: Key>(node: NodeRef<'_, K>, key: K::Ref<'_>, word: u64, prefix: usize) -> Ordering {
    let bytes = K::tail(key);
    let (whole, len) = (prefix + size_of::<u64>(), out_of_line_keys::short_len(word));
    if bytes.len() <= whole && len <= whole && len < out_of_line_keys::LEN_LONG {
        return bytes.len().cmp(&len);
    }
    let other = K::tail(node.view(word));
    let behind = |bytes| <[u8]>::get(bytes, prefix..).unwrap_or(&[]);
    behind(bytes).cmp(behind(other))
}

impl<K: Key> NodeRef<'_, K> {
    /// Number of keys of the node that are less than `key`, and whether the next one is equal.
    #[inline(always)]
    pub(super) fn lower(self, key: K::Ref<'_>, guess: usize) -> (usize, bool) {
        let len = self.len();
        let heads = self.heads();
        if K::INLINE {
            let probe = K::head(key, 0);
            let at = lower_bound::<true>(heads, probe, guess).min(len);
            let equal = at < len && heads[at].load(atomic::Ordering::Relaxed) == probe;
            return (at, equal);
        }
        self.lower_by_bytes(key, guess, len)
    }

    fn lower_by_bytes(self, key: K::Ref<'_>, guess: usize, len: usize) -> (usize, bool) {
        let prefix = self.shape().prefix;
        let probe = K::head(key, prefix);
        let heads = self.heads();
        let is_probe = |i: usize| i < len && heads[i].load(atomic::Ordering::Relaxed) == probe;
        let mut low = lower_bound::<false>(heads, probe, guess).min(len);
        if !is_probe(low) {
            return (low, false);
        }
        // Keys with the same head are neighbours: the bytes decide.
        let mut high = low + 1;
        if is_probe(high) {
            high = match probe.checked_add(1) {
                Some(next) => lower_bound::<false>(heads, next, high).min(len),
                None => len,
            };
        }
        let mut equal = false;
        while low < high {
            let middle = low.midpoint(high);
            match compare(self, key, self.key_word(middle), prefix) {
                Ordering::Less => high = middle,
                Ordering::Greater => low = middle + 1,
                Ordering::Equal => {
                    (low, high, equal) = (middle, middle, true);
                }
            }
        }
        (low, equal)
    }

    /// The child that covers the point at `key` (`BELOW`: just below it).
    #[inline(always)]
    pub(super) fn rank_of_child<const BELOW: bool>(self, key: K::Ref<'_>, guess: usize) -> usize {
        let (less, equal) = self.lower(key, guess);
        let not_greater = less + usize::from(equal && !BELOW);
        not_greater.saturating_sub(1)
    }

    /// Estimated position in this node, the root, at which a search will end.
    #[inline(always)]
    pub(super) fn guess_in_root(self, key: K::Ref<'_>) -> usize {
        let (shape, heads) = (self.shape(), self.heads());
        let (len, head) = (shape.len.min(heads.len()), K::head(key, shape.prefix));
        if len < 3 {
            return 0;
        }
        // The first key is the smallest there is and says nothing.
        let [low, high] = [1, len - 1].map(|i| heads[i].load(atomic::Ordering::Relaxed));
        1 + share(head.saturating_sub(low), high.wrapping_sub(low), len - 2)
    }

    /// Estimated position among the `len` entries of child number `i` at which a search for `key`
    /// will end.
    #[inline(always)]
    pub(super) fn guess(self, i: usize, key: K::Ref<'_>, len: usize) -> usize {
        let (heads, prefix) = (self.heads(), self.shape().prefix);
        let head = |i: usize| heads[i].load(atomic::Ordering::Relaxed);
        let high = if i + 1 < self.len() {
            head(i + 1)
        } else if K::INLINE && self.right().is_some() {
            self.high_word()
        } else {
            u64::MAX
        };
        let low = head(i);
        share(
            K::head(key, prefix).wrapping_sub(low),
            high.wrapping_sub(low),
            len,
        )
    }
}

/// The position, scaled to `len`, of a key that lies `from_low` behind the start of a range of this
/// width.
#[inline(always)]
fn share(from_low: u64, width: u64, len: usize) -> usize {
    if from_low >= width {
        return len;
    }
    // 32 bits are enough, and the product with a length of 16 bits does not overflow.
    let shift = 32_u32.saturating_sub(width.leading_zeros());
    ((from_low >> shift) * len as u64 / ((width >> shift) + 1)) as usize
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    fn heads(keys: &[u64], room: usize) -> Vec<AtomicU64> {
        let filler = std::iter::repeat(super::super::node::FILLER);
        let all = keys.iter().copied().chain(filler).take(room);
        all.map(AtomicU64::new).collect()
    }

    #[test]
    fn the_bound_is_right_whatever_the_guess() {
        for room in [8, 16, 24, 64, 256] {
            for len in [0, 1, 7, 8, room / 2, room / 2 + 1, room - 1, room] {
                let keys: Vec<u64> = (0..len as u64).map(|n| n * 3 + 1).collect();
                let heads = heads(&keys, room);
                for probe in (0..3 * len as u64 + 4).chain([u64::MAX - 1]) {
                    let right = keys.partition_point(|key| *key < probe);
                    for guess in (0..room + 9).step_by(3) {
                        let bound = lower_bound::<true>(&heads, probe, guess);
                        assert_eq!(bound, right, "{len} {probe}");
                    }
                }
                assert_eq!(lower_bound::<true>(&heads, u64::MAX, 0), len);
                let same = self::heads(&vec![5; len], room);
                for guess in 0..room {
                    assert_eq!(lower_bound::<false>(&same, 5, guess), 0);
                    assert_eq!(lower_bound::<false>(&same, 6, guess), len);
                }
            }
        }
    }

    #[test]
    fn a_share_is_in_proportion_whatever_the_width() {
        for width in [
            1,
            2,
            51,
            1 << 20,
            (1 << 32) - 1,
            1 << 56,
            (1 << 63) + 99,
            u64::MAX,
        ] {
            for part in [0, 1, 3, 7] {
                let from_low = (u128::from(width) * part / 8) as u64;
                let exact = (u128::from(from_low) * 100 / u128::from(width)) as usize;
                let guess = share(from_low, width, 100);
                assert!(
                    guess.abs_diff(exact) <= 1 + 100 / width.min(100) as usize,
                    "{guess} {exact} {width}"
                );
            }
            assert_eq!(share(u64::MAX, width, 100), 100);
        }
        assert_eq!(share(5, 0, 100), 100);
    }
}
