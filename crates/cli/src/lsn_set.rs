//! The set of log sequence numbers that were found.

use namiki::Lsn;
use roaring::RoaringTreemap;

/// A set of log sequence numbers. Dense ranges take a bit each.
#[derive(Default)]
pub(crate) struct LsnSet {
    found: RoaringTreemap,
}

impl LsnSet {
    /// Adds a number; returns whether it is new.
    pub(crate) fn insert(&mut self, Lsn(lsn): Lsn) -> bool {
        self.found.insert(lsn)
    }

    pub(crate) fn len(&self) -> u64 {
        self.found.len()
    }

    /// The first number from `from` on that is not in the set.
    pub(crate) fn first_missing(&self, Lsn(from): Lsn) -> Lsn {
        // Binary search: up to the end of the dense range, the set has as many members as the range
        // has numbers.
        let before = self.below(from);
        let (mut all_there, mut beyond) = (from, from.saturating_add(self.len() + 1));
        while all_there < beyond {
            let middle = all_there + (beyond - all_there) / 2;
            if self.found.rank(middle) - before == middle - from + 1 {
                all_there = middle + 1;
            } else {
                beyond = middle;
            }
        }
        Lsn(all_there)
    }

    /// Number of members at or above `from`.
    pub(crate) fn count_from(&self, Lsn(from): Lsn) -> u64 {
        self.len() - self.below(from)
    }

    fn below(&self, lsn: u64) -> u64 {
        lsn.checked_sub(1).map_or(0, |last| self.found.rank(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_the_first_gap_and_counts_what_lies_beyond() {
        /// More than one container of the bitmap.
        const MANY: u64 = 200_000;
        let mut set = LsnSet::default();
        assert_eq!(set.first_missing(Lsn(1)), Lsn(1));
        assert_eq!(set.count_from(Lsn(0)), 0);
        for lsn in (1..=MANY).rev() {
            assert!(set.insert(Lsn(lsn)));
        }
        assert!(!set.insert(Lsn(5)));
        set.insert(Lsn(u64::MAX / 2));
        let gap = Lsn(MANY + 1);
        assert_eq!(set.first_missing(Lsn(1)), gap);
        assert_eq!(set.first_missing(Lsn(70_000)), gap);
        assert_eq!(set.first_missing(Lsn(0)), Lsn(0));
        assert_eq!(set.first_missing(Lsn(u64::MAX / 2)), Lsn(u64::MAX / 2 + 1));
        assert_eq!(set.count_from(gap), 1);
        assert_eq!(set.count_from(Lsn(70_001)), MANY - 70_000 + 1);
        assert_eq!(set.len(), MANY + 1);
    }
}
