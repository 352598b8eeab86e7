//! The log's winners for a table that has an image: the last version of each key that the log has
//! changed.
//!
//! All of these are later than the image, so the image's row of such a key is skipped. Views read
//! them while the image is loaded; then they go into the table's index together with its rows.

use std::cmp::Ordering;
use std::ops::{Bound, Range};

use super::kept_keys::{Hashed, Kept};
use crate::storage::record::RecordRef;

/// Keys in their order, each with its record, or `None` if it was deleted.
pub(in crate::recovery) type SortedWinners<K> = Vec<(K, Option<RecordRef>)>;

/// The last versions of the keys of a table.
pub(crate) enum LogWinners {
    /// For a table of eight-byte keys.
    Fixed8(SortedWinners<u64>),
    /// For a table of keys of any length.
    Variable(SortedWinners<Hashed>),
}

impl LogWinners {
    /// None, for a table of such keys.
    pub(in crate::recovery) fn none(fixed_keys: bool) -> Self {
        if fixed_keys {
            Self::Fixed8(Vec::new())
        } else {
            Self::Variable(Vec::new())
        }
    }

    /// The number of keys, including deleted ones.
    pub(in crate::recovery) fn len(&self) -> usize {
        match self {
            Self::Fixed8(winners) => winners.len(),
            Self::Variable(winners) => winners.len(),
        }
    }

    /// The number of these keys that have a record.
    pub(in crate::recovery) fn present(&self) -> usize {
        fn present<K>(winners: &SortedWinners<K>) -> usize {
            winners
                .iter()
                .filter(|(_, record)| record.is_some())
                .count()
        }
        match self {
            Self::Fixed8(winners) => present(winners),
            Self::Variable(winners) => present(winners),
        }
    }

    /// Compares the key in this place with another one.
    pub(in crate::recovery) fn cmp_key(&self, place: usize, key: &[u8]) -> Ordering {
        match self {
            Self::Fixed8(winners) => winners[place].0.cmp_key(key),
            Self::Variable(winners) => winners[place].0.cmp_key(key),
        }
    }

    /// The record of the key in this place, unless it was deleted.
    pub(in crate::recovery) fn record(&self, place: usize) -> Option<RecordRef> {
        match self {
            Self::Fixed8(winners) => winners[place].1,
            Self::Variable(winners) => winners[place].1,
        }
    }

    /// The key in this place, into `key`.
    pub(in crate::recovery) fn copy_key(&self, place: usize, key: &mut Vec<u8>) {
        key.clear();
        match self {
            Self::Fixed8(winners) => key.extend_from_slice(&winners[place].0.to_be_bytes()),
            Self::Variable(winners) => key.extend_from_slice(&winners[place].0.key),
        }
    }

    /// The place of a key, if the log has changed it.
    pub(in crate::recovery) fn find(&self, key: &[u8]) -> Option<usize> {
        let place = self.first_from(key);
        (place < self.len() && self.cmp_key(place, key).is_eq()).then_some(place)
    }

    /// The first place with this key, or one above it.
    pub(in crate::recovery) fn first_from(&self, key: &[u8]) -> usize {
        self.partition(|order| order.is_lt(), key)
    }

    /// The places of the keys in a range.
    pub(in crate::recovery) fn range(
        &self,
        start: Bound<&[u8]>,
        end: Bound<&[u8]>,
    ) -> Range<usize> {
        let first = match start {
            Bound::Unbounded => 0,
            Bound::Included(key) => self.partition(|order| order.is_lt(), key),
            Bound::Excluded(key) => self.partition(|order| order.is_le(), key),
        };
        let end = match end {
            Bound::Unbounded => self.len(),
            Bound::Included(key) => self.partition(|order| order.is_le(), key),
            Bound::Excluded(key) => self.partition(|order| order.is_lt(), key),
        };
        first..end.max(first)
    }

    /// The first place of a key that does not compare so with this one.
    fn partition(&self, is_before: impl Fn(Ordering) -> bool, key: &[u8]) -> usize {
        match self {
            Self::Fixed8(winners) => {
                winners.partition_point(|(kept, _)| is_before(kept.cmp_key(key)))
            }
            Self::Variable(winners) => {
                winners.partition_point(|(kept, _)| is_before(kept.cmp_key(key)))
            }
        }
    }
}
