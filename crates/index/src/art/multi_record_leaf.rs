//! Leaves: buckets of sorted records, and blocks of 256 places.
//!
//! ```text
//!  lock | mark | count, room | words of the kind
//!                              Bucket, 8-byte keys    room x (key, payload)
//!                              Bucket, byte strings   skip, room x (head, payload), room x record
//!                              Block                  block, bitmap (4), 256 x payload
//! ```
//! The head of a byte string is the eight bytes after the first `skip`, which all keys of the leaf
//! share; the record is the whole key, out of line (`out_of_line_keys.rs`). A block holds keys that are all the
//! same but for their last byte, and finds a payload by that byte: one place, no search. `block` is the
//! key without it.
//!
//! # Invariants
//! - B1. The words are read and written as atomics, written under the lock (`lock.rs`, L1). `count`
//!   is at most `room`; words behind the last record are zero.
//! - B2. Keys ascend. All keys of a leaf with byte strings share `skip` first bytes.
//! - B3. Room and kind do not change: a leaf that needs others is replaced by a copy with the same mark.

use std::cmp::Ordering as Order;
use std::ops::{Bound, Range};
use std::sync::atomic::Ordering;

use crossbeam_epoch::Guard;

use super::kind::Kind;
use super::node::{BEFORE_PLACES, LeafRef, PLACES};
use super::out_of_line_keys::Record;
use super::prefix_compare::ArtKey;
use crate::shared::leaf_table::LeafMark;

/// A record of a leaf, while leaves are being rearranged. `record` is `NONE` for a key that has none
/// yet: it gets one when written to a leaf.
#[derive(Clone, Copy)]
pub struct Item<'a, K: ArtKey> {
    pub(super) key: K::Ref<'a>,
    pub(super) payload: u64,
    pub(super) record: Record<'a>,
}

impl<'g, K: ArtKey> LeafRef<'g, K> {
    /// A block for the keys of which these are all but the last byte.
    pub(super) fn new_block(block: u64, mark: LeafMark, guard: &'g Guard) -> Self {
        let leaf = Self::new_leaf(Kind::Block, 0, mark, guard);
        leaf.store(0, block);
        leaf
    }

    pub(super) fn is_block(self) -> bool {
        K::BLOCKS && self.kind() == Kind::Block
    }

    /// Records.
    #[inline]
    pub(super) fn count(self) -> usize {
        // Never more than there is room for (B1), even if the rest has changed since.
        self.header().count.load(Ordering::Relaxed) as usize
    }

    fn set_count(self, count: usize) {
        self.header().count.store(count as u32, Ordering::Relaxed);
    }

    /// The word of the key or head of place `i`; that of its payload is the next.
    #[inline]
    fn pair(i: usize) -> usize {
        2 * i + usize::from(!K::INLINE)
    }

    #[inline]
    fn skip(self) -> usize {
        if K::INLINE { 0 } else { self.load(0) as usize }
    }

    /// The record of place `i`, if keys are byte strings.
    #[inline]
    fn record_of(self, i: usize) -> Record<'g> {
        if K::INLINE {
            Record::NONE
        } else {
            self.record(i)
        }
    }

    /// The key of place `i`.
    #[inline]
    fn key(self, i: usize) -> K::Ref<'g> {
        K::from_parts(self.load(Self::pair(i)), self.record_of(i).bytes())
    }

    fn put(self, i: usize, head: u64, payload: u64, record: Record<'_>) {
        self.store(Self::pair(i), head);
        self.store(Self::pair(i) + 1, payload);
        if !K::INLINE {
            self.set_record(i, record);
        }
    }

    fn copy(self, from: usize, to: usize) {
        let pair = Self::pair(from);
        self.put(
            to,
            self.load(pair),
            self.load(pair + 1),
            self.record_of(from),
        );
    }

    /// Where a key is, or where it would go.
    #[inline]
    fn search(self, key: K::Ref<'_>) -> Result<usize, usize> {
        let head = K::head(key, self.skip());
        if self.kind() == Kind::Block {
            let (block, place) = (head >> 8, (head & 0xff) as usize);
            let present = self.load(1 + place / 64) >> (place % 64) & 1;
            return if block == self.load(0) && present == 1 {
                Ok(place)
            } else {
                Err(place)
            };
        }
        // The last place with a key that is not greater, without branches that the processor must predict.
        let count = self.count();
        if count == 0 {
            return Err(0);
        }
        let (mut low, mut len) = (0, count);
        while len > 1 {
            let half = len / 2;
            low = if self.load(Self::pair(low + half)) < head {
                low + half
            } else {
                low
            };
            len -= half;
        }
        low += usize::from(self.load(Self::pair(low)) < head);
        if K::INLINE {
            return if low < count && self.load(Self::pair(low)) == head {
                Ok(low)
            } else {
                Err(low)
            };
        }
        // Among keys with the same head, which are often one, by all bytes.
        let (mut middle, mut end) = (low, count);
        while low < end {
            let order = self.load(Self::pair(middle)).cmp(&head);
            match order.then_with(|| K::cmp(K::shorten(self.key(middle)), K::shorten(key))) {
                Order::Equal => return Ok(middle),
                Order::Less => low = middle + 1,
                Order::Greater => end = middle,
            }
            middle = low.midpoint(end);
        }
        Err(low)
    }

    /// The place and payload of a key. Right if the version is the same before and after.
    #[inline]
    pub(super) fn find(self, key: K::Ref<'_>) -> Option<(usize, u64)> {
        let place = self.search(key).ok()?;
        Some((place, self.load(self.payload_word(place))))
    }

    #[inline]
    fn payload_word(self, place: usize) -> usize {
        if self.kind() == Kind::Block {
            BEFORE_PLACES + place
        } else {
            Self::pair(place) + 1
        }
    }

    /// Replaces the payload of the record at a place. Under the lock, as all functions below.
    #[inline]
    pub(super) fn set_payload(self, place: usize, payload: u64) {
        self.store(self.payload_word(place), payload);
    }

    /// Whether a key that is absent can be added: to a bucket with fewer than `leaf_max` records, or to
    /// a block that it belongs to.
    #[inline]
    pub(super) fn takes(self, key: K::Ref<'_>, leaf_max: usize) -> bool {
        if self.kind() == Kind::Block {
            K::head(key, 0) >> 8 == self.load(0)
        } else {
            self.count() < leaf_max
        }
    }

    /// Adds a key that is absent and that the leaf takes.
    pub(super) fn insert(self, key: K::Ref<'_>, payload: u64, guard: &Guard) {
        let count = self.count();
        if self.kind() == Kind::Block {
            let place = (K::head(key, 0) & 0xff) as usize;
            let bits = 1 + place / 64;
            self.store(BEFORE_PLACES + place, payload);
            self.store(bits, self.load(bits) | 1 << (place % 64));
            self.set_count(count + 1);
            return;
        }
        assert!(count < self.room(), "a leaf with room");
        if !K::INLINE {
            let shared = if count == 0 {
                K::tail(key).len()
            } else {
                K::shared(key, K::shorten(self.key(0)))
            };
            if count == 0 || shared < self.skip() {
                self.set_skip(shared, count);
            }
        }
        let (Ok(place) | Err(place)) = self.search(key);
        for i in (place..count).rev() {
            self.copy(i, i + 1);
        }
        let record = if K::INLINE {
            Record::NONE
        } else {
            Record::new(K::tail(key), guard)
        };
        self.put(place, K::head(key, self.skip()), payload, record);
        self.set_count(count + 1);
    }

    /// Writes all heads anew.
    fn set_skip(self, skip: usize, count: usize) {
        self.store(0, skip as u64);
        for i in 0..count {
            self.store(Self::pair(i), K::head(self.key(i), skip));
        }
    }

    /// Removes the record of a place.
    pub(super) fn remove(self, place: usize, guard: &Guard) {
        let count = self.count();
        self.set_count(count - 1);
        if self.kind() == Kind::Block {
            let bits = 1 + place / 64;
            self.store(bits, self.load(bits) & !(1 << (place % 64)));
            return;
        }
        if !K::INLINE {
            self.retire_record(place, guard);
        }
        for i in place..count - 1 {
            self.copy(i + 1, i);
        }
        self.put(count - 1, 0, 0, Record::NONE);
    }

    /// The places of all records.
    pub(super) fn all(self) -> Range<usize> {
        let end = if self.kind() == Kind::Block {
            PLACES
        } else {
            self.count()
        };
        0..end
    }

    /// The places of all records of a range, and perhaps of one more at either end. Right if the version
    /// is the same before and after.
    pub(super) fn places(self, from: Bound<K::Ref<'_>>, to: Bound<K::Ref<'_>>) -> Range<usize> {
        let mut places = self.all();
        if let Bound::Included(key) | Bound::Excluded(key) = from {
            places.start = self.first_not_below(key);
        }
        if let Bound::Included(key) | Bound::Excluded(key) = to {
            places.end = places.end.min(self.first_not_below(key) + 1);
        }
        places
    }

    fn first_not_below(self, key: K::Ref<'_>) -> usize {
        if self.kind() == Kind::Block {
            match (K::head(key, 0) >> 8).cmp(&self.load(0)) {
                Order::Less => return 0,
                Order::Greater => return PLACES,
                Order::Equal => {}
            }
        }
        if !K::INLINE {
            // A bound need not share what the leaf's keys share, as `search` expects.
            let (mut low, mut end) = (0, self.count());
            while low < end {
                let middle = low.midpoint(end);
                if K::cmp(K::shorten(self.key(middle)), K::shorten(key)).is_lt() {
                    low = middle + 1;
                } else {
                    end = middle;
                }
            }
            return low;
        }
        let (Ok(place) | Err(place)) = self.search(key);
        place
    }

    /// Appends the records of some places to `items`. Right if the version is the same before and after.
    pub(super) fn items(self, places: Range<usize>, items: &mut Vec<Item<'g, K>>) {
        if self.kind() == Kind::Block {
            let block = self.load(0) << 8;
            for word in 0..PLACES / 64 {
                let mut bits = self.load(1 + word);
                while bits != 0 {
                    let place = 64 * word + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    if places.contains(&place) {
                        items.push(Item {
                            key: K::from_parts(block | place as u64, &[]),
                            payload: self.load(BEFORE_PLACES + place),
                            record: Record::NONE,
                        });
                    }
                }
            }
            return;
        }
        items.extend(places.map(|i| Item {
            key: self.key(i),
            payload: self.load(Self::pair(i) + 1),
            record: self.record_of(i),
        }));
    }

    /// Makes these the records. Keys without out-of-line bytes get them.
    pub(super) fn write(self, items: &[Item<'_, K>], guard: &Guard) {
        if self.kind() == Kind::Block {
            for bits in 1..BEFORE_PLACES {
                self.store(bits, 0);
            }
            self.set_count(0);
            for item in items {
                self.insert(K::shorten(item.key), item.payload, guard);
            }
            return;
        }
        assert!(items.len() <= self.room(), "the records fit");
        let skip = match (items.first(), items.last()) {
            (Some(first), Some(last)) if !K::INLINE => {
                if items.len() == 1 {
                    K::tail(first.key).len()
                } else {
                    K::shared(K::shorten(first.key), K::shorten(last.key))
                }
            }
            _ => 0,
        };
        let before = self.count();
        if !K::INLINE {
            self.store(0, skip as u64);
        }
        for (i, item) in items.iter().enumerate() {
            let record = if K::INLINE || item.record != Record::NONE {
                item.record
            } else {
                Record::new(K::tail(item.key), guard)
            };
            self.put(i, K::head(K::shorten(item.key), skip), item.payload, record);
        }
        for i in items.len()..before {
            self.put(i, 0, 0, Record::NONE);
        }
        self.set_count(items.len());
    }

    /// Bytes of the leaf, including its out-of-line keys.
    pub(super) fn bytes_with_keys(self) -> usize {
        let records = if K::INLINE { 0 } else { self.count() };
        let keys = (0..records).map(|i| self.record(i).size());
        self.bytes() + keys.sum::<usize>()
    }
}
