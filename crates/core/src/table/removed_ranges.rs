//! Approximate ranges of the keys that have left a table's index since the last image: that image
//! may still have their rows, and no record says any more that its key range has changed.
//!
//! At most a few hundred ranges are kept; further ones are merged. So an unchanged range may be
//! taken for changed, but never the other way round.

use std::ops::Bound;

use namiki_platform::Stamp;
use parking_lot::Mutex;
use smallvec::SmallVec;

/// The number of ranges that are kept.
const RANGES_MAX: usize = 256;

type KeyBytes = SmallVec<[u8; 16]>;

/// Some removed keys, from one to another, both included.
#[derive(Debug)]
struct RemovedRange {
    first: KeyBytes,
    last: KeyBytes,
    /// The latest of the deletions.
    stamp: Stamp,
}

/// See above: in the order of keys, without overlaps.
#[derive(Debug, Default)]
pub(crate) struct RemovedRanges {
    ranges: Mutex<Vec<RemovedRange>>,
}

impl RemovedRanges {
    /// A key is about to leave the index, deleted by the commit of this stamp.
    pub(crate) fn note(&self, key: &[u8], stamp: Stamp) {
        let mut ranges = self.ranges.lock();
        let at = ranges.partition_point(|range| *range.last < *key);
        if let Some(range) = ranges.get_mut(at)
            && *range.first <= *key
        {
            range.stamp = range.stamp.max(stamp);
            return;
        }
        let key = KeyBytes::from_slice(key);
        let range = RemovedRange {
            first: key.clone(),
            last: key,
            stamp,
        };
        ranges.insert(at, range);
        if ranges.len() > RANGES_MAX {
            merge_pairs(&mut ranges);
        }
    }

    /// Whether a key in these bounds may have left the index that was deleted above `since`.
    pub(crate) fn any_since(
        &self,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        since: Stamp,
    ) -> bool {
        let ranges = self.ranges.lock();
        let is_below = |range: &RemovedRange| match lower {
            Bound::Unbounded => false,
            Bound::Included(lower) => *range.last < *lower,
            Bound::Excluded(lower) => *range.last <= *lower,
        };
        let begins = |range: &RemovedRange| match upper {
            Bound::Unbounded => true,
            Bound::Included(upper) => *range.first <= *upper,
            Bound::Excluded(upper) => *range.first < *upper,
        };
        let inside = ranges[ranges.partition_point(is_below)..].iter();
        inside
            .take_while(|range| begins(range))
            .any(|range| range.stamp > since)
    }

    /// The image as of this stamp is the one that the next is compared with.
    pub(crate) fn forget_through(&self, stamp: Stamp) {
        self.ranges.lock().retain(|range| range.stamp > stamp);
    }
}

fn merge_pairs(ranges: &mut Vec<RemovedRange>) {
    let mut separate = std::mem::take(ranges).into_iter();
    while let Some(mut range) = separate.next() {
        if let Some(next) = separate.next() {
            range.last = next.last;
            range.stamp = range.stamp.max(next.stamp);
        }
        ranges.push(range);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(from: u64, to: u64) -> ([u8; 8], [u8; 8]) {
        (from.to_be_bytes(), to.to_be_bytes())
    }

    fn any(ranges: &RemovedRanges, from: u64, to: u64, since: u64) -> bool {
        let (from, to) = between(from, to);
        ranges.any_since((Bound::Included(&from), Bound::Excluded(&to)), Stamp(since))
    }

    #[test]
    fn a_few_removed_keys_are_known_one_by_one() {
        let ranges = RemovedRanges::default();
        for key in [30_u64, 10, 20, 10] {
            ranges.note(&key.to_be_bytes(), Stamp(key));
        }
        assert!(any(&ranges, 10, 11, 9) && !any(&ranges, 10, 11, 10));
        assert!(!any(&ranges, 11, 20, 0) && any(&ranges, 11, 21, 0));
        assert!(!any(&ranges, 31, 99, 0) && !any(&ranges, 0, 10, 0));
        let key = 10_u64.to_be_bytes();
        let above = (Bound::Excluded(&key[..]), Bound::Unbounded);
        assert!(ranges.any_since(above, Stamp(29)) && !ranges.any_since(above, Stamp(30)));
        assert!(ranges.any_since((Bound::Unbounded, Bound::Included(&key)), Stamp(0)));
        ranges.forget_through(Stamp(20));
        assert!(!any(&ranges, 0, 30, 0) && any(&ranges, 0, 31, 0));
    }

    #[test]
    fn many_removed_keys_are_never_forgotten() {
        let ranges = RemovedRanges::default();
        let keys = || (0..10_000_u64).map(|n| n * 7919 % 10_007);
        for key in keys() {
            ranges.note(&key.to_be_bytes(), Stamp(key + 1));
        }
        assert!(ranges.ranges.lock().len() <= RANGES_MAX);
        for key in keys() {
            assert!(any(&ranges, key, key + 1, key), "{key}");
        }
        ranges.forget_through(Stamp(10_008));
        assert!(ranges.ranges.lock().is_empty());
    }
}
