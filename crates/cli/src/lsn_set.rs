//! Which log sequence numbers were found: a bitmap in pieces.

use std::collections::BTreeMap;

use namiki::Lsn;

const WORDS: usize = 64;
const PIECE: u64 = WORDS as u64 * 64;

/// A set of log sequence numbers. Dense ranges take a bit each.
#[derive(Default)]
pub(crate) struct LsnSet {
    pieces: BTreeMap<u64, Box<[u64; WORDS]>>,
    len: u64,
}

fn place(lsn: u64) -> (u64, usize, u64) {
    let within = lsn % PIECE;
    (lsn / PIECE, (within / 64) as usize, 1 << (within % 64))
}

impl LsnSet {
    /// Adds one; returns whether it is new.
    pub(crate) fn insert(&mut self, Lsn(lsn): Lsn) -> bool {
        let (piece, word, bit) = place(lsn);
        let words = self
            .pieces
            .entry(piece)
            .or_insert_with(|| Box::new([0; WORDS]));
        let new = words[word] & bit == 0;
        words[word] |= bit;
        self.len += u64::from(new);
        new
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    fn contains(&self, lsn: u64) -> bool {
        let (piece, word, bit) = place(lsn);
        self.pieces
            .get(&piece)
            .is_some_and(|words| words[word] & bit != 0)
    }

    /// The first number from `from` on that is not in the set.
    pub(crate) fn first_missing(&self, Lsn(from): Lsn) -> Lsn {
        let mut lsn = from;
        loop {
            let (piece, ..) = place(lsn);
            let full = lsn.is_multiple_of(PIECE)
                && self
                    .pieces
                    .get(&piece)
                    .is_some_and(|words| words.iter().all(|word| *word == u64::MAX));
            if full {
                lsn += PIECE;
            } else if self.contains(lsn) {
                lsn += 1;
            } else {
                return Lsn(lsn);
            }
        }
    }

    /// How many of the set are at or above `from`.
    pub(crate) fn count_from(&self, Lsn(from): Lsn) -> u64 {
        let (piece, ..) = place(from);
        let earlier = self.pieces.range(..piece).flat_map(|(_, words)| &words[..]);
        let below: u64 = earlier.map(|word| u64::from(word.count_ones())).sum();
        let within = (piece * PIECE..from).filter(|lsn| self.contains(*lsn));
        self.len - below - within.count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_the_first_gap_and_counts_what_lies_beyond() {
        let mut set = LsnSet::default();
        assert_eq!(set.first_missing(Lsn(1)), Lsn(1));
        for lsn in (1..=3 * PIECE + 7).rev() {
            assert!(set.insert(Lsn(lsn)));
        }
        assert!(!set.insert(Lsn(5)));
        set.insert(Lsn(u64::MAX / 2));
        let gap = Lsn(3 * PIECE + 8);
        assert_eq!(set.first_missing(Lsn(1)), gap);
        assert_eq!(set.first_missing(Lsn(PIECE + 1)), gap);
        assert_eq!(set.count_from(gap), 1);
        assert_eq!(set.count_from(Lsn(PIECE + 1)), 2 * PIECE + 7 + 1);
        assert_eq!(set.len(), 3 * PIECE + 8);
    }
}
