//! The bytes of variable keys in a base node.
//!
//! ```text
//!  | header | shared u32 | high, if it fits in the line | separators, blocks | bound u32 × (n + 1) | low | high | keys |
//! ```
//! Key `i` is whole, from `bound[i]` to `bound[i + 1]`, counted from the start of the node. The
//! fields that each search needs are in front: the number of bytes that all keys of the node share,
//! and the upper fence.
//!
//! A search for a key compares heads and, if an equal one is found, reads two bounds. A key that
//! ends within its head needs no more: if one of two keys with the same prefix and head ends there,
//! the shorter is the smaller, as the longer continues with zeros. Only longer ones are compared by
//! their bytes.
//!
//! Where the fences share the prefix, too, all keys of the page's range do, and a search in it need not
//! compare it.
//!
//! The first key of an inner node is its lower fence, with which no search in its range ends left of it.
//! So it does not count for the prefix: on the left edge of the tree it is the empty key, which shares
//! nothing. Its head is zero then.
//!
//! Inline keys have none of this. The invariants are those of `base.rs` and `node.rs`.
#![expect(unsafe_code, reason = "the bytes of keys lie behind the header")]

use std::cmp::Ordering;
use std::mem::size_of;
use std::slice;

use namiki_index::key::Key;

use super::layout::{BOUND, Entry, Parts, header_bytes};
use crate::bwtree::node::{BaseHeader, Header, NodeRef, OwnedNode};
use crate::bwtree::variant::Variant;

/// Bytes of a head.
const HEAD: usize = size_of::<u64>();

/// If at most this number of the prefix bytes is not shared by the fences, the prefix is cut to the
/// part that they share: a head still has enough bytes left to tell the keys apart.
const GIVEN_UP: usize = 4;

/// Set if the fences share the prefix.
const BY_FENCES: u32 = 1;

/// Offset of the bounds of variable key number `i` in a node with these parts.
#[inline]
pub(in crate::bwtree) fn bound_at(parts: Parts, i: usize) -> usize {
    parts.strings + i * BOUND
}

/// Offset at which the bounds of a node with `len` entries end; for inline keys, its blocks.
pub(in crate::bwtree) fn end_of_bounds<K: Key>(len: usize) -> usize {
    bound_at(Parts::of::<K>(len), if K::INLINE { 0 } else { len + 1 })
}

/// Number of leading bytes that two keys share.
fn common<K: Key>(a: K::Ref<'_>, b: K::Ref<'_>) -> usize {
    let pairs = K::tail(a).iter().zip(K::tail(b));
    pairs.take_while(|(a, b)| a == b).count()
}

/// The layout of a node's variable keys, before they are written.
pub(super) struct Strings {
    /// The prefix and whether the fences share it.
    prefix: usize,
    by_fences: bool,
    /// Whether the first key does not.
    first_apart: bool,
    /// Where the bounds begin.
    bounds: usize,
    /// Where the fences begin. The upper one follows the lower if it is not in front.
    low: usize,
    high: usize,
    /// Where the keys begin, and end.
    keys: usize,
    end: usize,
}

impl Strings {
    pub(super) fn of<K: Key>(
        header: &BaseHeader<'_, K>,
        entries: &[Entry<'_, K>],
        parts: Parts,
    ) -> Self {
        let mut this = Self {
            prefix: 0,
            by_fences: false,
            first_apart: false,
            bounds: parts.strings,
            low: parts.strings,
            high: parts.strings,
            keys: parts.strings,
            end: parts.strings,
        };
        if K::INLINE {
            return this;
        }
        let counting = &entries[usize::from(header.level > 0).min(entries.len())..];
        if let (Some(first), Some(last)) = (counting.first(), counting.last()) {
            this.prefix = common::<K>(first.0, last.0);
            this.first_apart = common::<K>(entries[0].0, last.0) < this.prefix;
        }
        // All keys lie between the fences, so they share at least as much.
        let fences = header
            .high
            .map_or(0, |high| common::<K>(header.low, high))
            .min(this.prefix);
        if this.prefix - fences <= GIVEN_UP {
            (this.prefix, this.by_fences, this.first_apart) = (fences, true, false);
        }
        let high_bytes = header.high.map_or(0, |high| K::tail(high).len());
        let front = header_bytes::<K>();
        this.low += (entries.len() + 1) * BOUND;
        this.keys = this.low + K::tail(header.low).len();
        if front + high_bytes <= parts.separators {
            this.high = front;
        } else {
            this.high = this.keys;
            this.keys += high_bytes;
        }
        let bytes: usize = entries.iter().map(|entry| K::tail(entry.0).len()).sum();
        this.end = this.keys + bytes;
        assert!(
            u32::try_from(this.end).is_ok(),
            "a bound has four bytes, and a page less than 4 GiB"
        );
        this
    }

    /// The head of key number `i`.
    #[inline]
    pub(super) fn head<K: Key>(&self, i: usize, key: K::Ref<'_>) -> u64 {
        if i == 0 && self.first_apart {
            return 0;
        }
        K::head(key, self.prefix)
    }

    /// Where the node ends.
    #[inline]
    pub(super) fn end(&self) -> usize {
        self.end
    }

    /// Writes everything into the node that it was made for, which has `end` bytes.
    pub(super) fn write<K: Key, V: Variant>(
        &self,
        node: &mut OwnedNode<K, V>,
        header: &BaseHeader<'_, K>,
        entries: &[Entry<'_, K>],
    ) {
        if K::INLINE {
            return;
        }
        let start = node.start();
        let keep = |at: usize, key: K::Ref<'_>| {
            let tail = K::tail(key);
            // SAFETY: `of` counted the bytes of this very key at this place; the node is ours alone
            // (N1), so it does not overlap what is copied, and the copy lives as long as the node.
            unsafe {
                let copy = start.add(at);
                copy.copy_from_nonoverlapping(tail.as_ptr(), tail.len());
                let tail = slice::from_raw_parts(copy, tail.len());
                K::raw(K::from_parts(K::head(key, 0), tail))
            }
        };
        let low = keep(self.low, header.low);
        let high = header.high.map_or(low, |high| keep(self.high, high));
        let mut at = self.keys;
        // SAFETY: `of` made room for this number behind the header, which has a size that is a multiple of
        // 8, and for one bound more than there are entries where the blocks end, which are whole lines.
        unsafe {
            let shared = (self.prefix as u32) << 1 | if self.by_fences { BY_FENCES } else { 0 };
            start
                .add(size_of::<Header<K>>())
                .cast::<u32>()
                .write(shared);
            let bounds = start.add(self.bounds).cast::<u32>();
            bounds.write(at as u32);
            for (i, (key, _)) in entries.iter().enumerate() {
                keep(at, *key);
                at += K::tail(*key).len();
                bounds.add(i + 1).write(at as u32);
            }
        }
        node.set_fences(low, high);
    }
}

impl<'g, K: Key, V: Variant> NodeRef<'g, K, V> {
    /// Number of bytes that all keys of this base node share, and whether all keys of its range do.
    #[inline]
    fn shared(self) -> (usize, bool) {
        if K::INLINE {
            return (0, true);
        }
        // SAFETY: for keys that are not inline `write` put this number behind the header.
        let shared = unsafe { *self.part(size_of::<Header<K>>()).cast::<u32>() };
        (shared as usize >> 1, shared & BY_FENCES != 0)
    }

    /// Number of leading bytes of the keys that their heads omit.
    #[inline]
    pub(super) fn prefix(self) -> usize {
        self.shared().0
    }

    /// Where the bytes of key number `i` begin and end, for keys that are not inline.
    #[inline]
    fn bounds_at(self, i: usize) -> (usize, usize) {
        assert!(!K::INLINE && i < self.len());
        // SAFETY: `write` put one bound more there than there are keys.
        unsafe {
            let bounds = self.part(self.parts().strings).cast::<u32>().add(i);
            (*bounds as usize, *bounds.add(1) as usize)
        }
    }

    /// The bytes of key number `i`, for keys that are not inline.
    #[inline]
    pub(super) fn tail_at(self, i: usize) -> &'g [u8] {
        if K::INLINE {
            return &[];
        }
        let (start, end) = self.bounds_at(i);
        // SAFETY: bounds ascend and are within the node (B2), which is alive and constant during `'g`
        // (N1, N4).
        unsafe { slice::from_raw_parts(self.part(start), end - start) }
    }

    /// Points the fences of a copy of this node at the copies of their bytes.
    pub(super) fn copy_fences(self, copy: &mut OwnedNode<K, V>) {
        if K::INLINE {
            return;
        }
        assert_eq!(copy.as_ref().bytes(), self.bytes());
        let start = copy.start();
        let fence = |key: K::Ref<'_>| {
            let tail = K::tail(key);
            let at = tail.as_ptr().addr() - self.as_ptr().addr();
            assert!(at + tail.len() <= self.bytes());
            // SAFETY: the bytes of this node's fences are in it, at this place, see `write`; so they are there
            // in the copy, and live as long as it does.
            unsafe {
                let tail = slice::from_raw_parts(start.add(at), tail.len());
                K::raw(K::from_parts(K::head(key, 0), tail))
            }
        };
        let low = fence(self.key());
        let high = self.high().map_or(low, fence);
        copy.set_fences(low, high);
    }

    /// Where a variable key is, or (`false`) would be, that is in the range of this page, or its upper fence.
    pub(super) fn place_of(self, key: K::Ref<'_>) -> (usize, bool) {
        let (prefix, by_fences) = self.shared();
        let apart = if by_fences {
            None
        } else {
            self.place_by_prefix(key, prefix)
        };
        let (at, found) = apart.unwrap_or_else(|| self.place_by_head(key, prefix));
        // Not compared so far.
        if at == self.firsts() && !found && at > 0 && K::cmp(key, self.key_at(0)) == Ordering::Equal
        {
            return (0, true);
        }
        (at, found)
    }

    /// Number of keys in a leaf that are less than this one, which is any key (`OR_EQUAL`: not
    /// greater).
    pub(in crate::bwtree) fn rank_of_any<const OR_EQUAL: bool>(self, key: K::Ref<'_>) -> usize {
        assert_eq!(self.level(), 0);
        if K::INLINE {
            return self.rank::<OR_EQUAL>(key);
        }
        let prefix = self.prefix();
        let (at, found) = self
            .place_by_prefix(key, prefix)
            .unwrap_or_else(|| self.place_by_head(key, prefix));
        at + usize::from(OR_EQUAL && found)
    }

    /// Number of keys in front that need no comparison: an inner node's first key, which is its
    /// lower fence.
    #[inline]
    fn firsts(self) -> usize {
        usize::from(self.level() > 0).min(self.len())
    }

    /// The place of a key that does not share the prefix.
    fn place_by_prefix(self, key: K::Ref<'_>, prefix: usize) -> Option<(usize, bool)> {
        let Some(last) = self.len().checked_sub(1) else {
            return Some((0, false));
        };
        let key = K::tail(key);
        match key[..key.len().min(prefix)].cmp(&self.tail_at(last)[..prefix]) {
            Ordering::Less => Some((self.firsts(), false)),
            Ordering::Greater => Some((last + 1, false)),
            Ordering::Equal => None,
        }
    }

    /// The place of a key that shares the prefix.
    fn place_by_head(self, key: K::Ref<'_>, prefix: usize) -> (usize, bool) {
        let len = self.len();
        let probe = K::head(key, prefix);
        // Keys with the same head are neighbours (`index/src/key.rs`, K1).
        let mut low = self.rank_of::<false>(probe).max(self.firsts());
        if low == len || self.head_at(low) != probe {
            return (low, false);
        }
        // Usually there is only one.
        let mut high = low + 1;
        if high < len && self.head_at(high) == probe {
            high = self.rank_of::<true>(probe);
        }
        while low < high {
            let middle = low.midpoint(high);
            match self.order_by_tail(middle, key, prefix) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return (middle, true),
                Ordering::Greater => high = middle,
            }
        }
        (low, false)
    }

    /// Compares key number `i` with one of the same prefix and head.
    fn order_by_tail(self, i: usize, key: K::Ref<'_>, prefix: usize) -> Ordering {
        let (start, end) = self.bounds_at(i);
        let (this, key) = (end - start, K::tail(key));
        let within_head = prefix + HEAD;
        if this.min(key.len()) <= within_head {
            return this.cmp(&key.len());
        }
        self.tail_at(i)[within_head..].cmp(&key[within_head..])
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::collections::BTreeSet;

    use namiki_index::key::Variable;

    use super::*;
    use crate::bwtree::base::{Fate, build};
    use crate::bwtree::node::Spot;
    use crate::bwtree::page_id::PageId;
    use crate::bwtree::variant::Plain;

    /// A few strings that share much and little, with zeros at their ends and within, around `stem`.
    fn strings(stem: &[u8]) -> BTreeSet<Vec<u8>> {
        let tails: [&[u8]; 12] = [
            b"",
            b"\0",
            b"\0\0",
            b"\0a",
            b"a",
            b"a\0\0\0\0\0\0\0",
            b"a\0\0\0\0\0\0\0\0",
            b"a\0\0\0\0\0\0\0x",
            b"abcdefgh",
            b"abcdefghi",
            b"b",
            b"\xff\xff\xff\xff\xff\xff\xff\xff",
        ];
        let whole = tails.iter().map(|tail| [stem, tail].concat());
        let parts = (0..stem.len()).map(|len| stem[..len].to_vec());
        whole.chain(parts).collect()
    }

    fn node<'a>(
        level: u8,
        low: &'a [u8],
        high: Option<&'a [u8]>,
        keys: &[&'a [u8]],
    ) -> OwnedNode<Variable, Plain> {
        let header = BaseHeader {
            level,
            right: PageId::NONE,
            counter: 7,
            low,
            high,
            slots: 0,
        };
        let entries: Vec<_> = (0..).zip(keys).map(|(i, key)| (*key, i)).collect();
        build(&header, &entries)
    }

    #[test]
    fn keys_are_where_they_belong_whatever_they_share() {
        for stem in [
            &b""[..],
            b"k",
            b"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk",
        ] {
            let all: Vec<Vec<u8>> = strings(stem).into_iter().collect();
            let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
            for from in 0..all.len() {
                for to in from..=all.len() {
                    for every in [1, 2, 5] {
                        for level in [0, 1] {
                            check(level, &all, from, to, every);
                        }
                    }
                }
            }
        }
    }

    /// A node of every `every`-th one of some of these keys, and a search for each of them in it.
    fn check(level: u8, all: &[&[u8]], from: usize, to: usize, every: usize) {
        let (Some(low), high) = (all.get(from), all.get(to).copied()) else {
            return;
        };
        // In a leaf the lower fence need not be there.
        let first = from + usize::from(level == 0);
        let keys: Vec<&[u8]> = all[first.min(to)..to]
            .iter()
            .step_by(every)
            .copied()
            .collect();
        if level > 0 && keys.is_empty() {
            return;
        }
        let node = node(level, low, high, &keys);
        let node = node.as_ref();
        assert_eq!((node.low(), node.high()), (*low, high));
        for (i, key) in keys.iter().enumerate() {
            assert_eq!(node.key_at(i), *key);
        }
        for key in &all[from..(to + 1).min(all.len())] {
            let place = match keys.binary_search(key) {
                Ok(i) => (i, true),
                Err(i) => (i, false),
            };
            assert_eq!(node.place_of(key), place, "{key:x?} in {keys:x?}");
        }
        if level == 0 {
            for key in all {
                let rank = keys.partition_point(|other| other < key);
                assert_eq!(node.rank_of_any::<false>(key), rank, "{key:x?}");
                let rank = keys.partition_point(|other| other <= key);
                assert_eq!(node.rank_of_any::<true>(key), rank, "{key:x?}");
            }
        }
    }

    #[test]
    fn a_copy_with_other_payloads_keeps_its_own_bytes() {
        let all = strings(b"a stem of some length");
        let keys: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
        let long = [0xff; 100];
        for high in [None, Some(&b"b"[..]), Some(&long[..])] {
            let old = node(0, b"", high, &keys);
            let header = BaseHeader {
                level: 0,
                right: PageId(3),
                counter: 9,
                low: &b""[..],
                high,
                slots: 0,
            };
            let mut changes = [5, 11].map(|i| Fate {
                key: keys[i],
                value: Some(i as u64 + 1000),
                spot: Spot::UNKNOWN,
            });
            assert_eq!(old.as_ref().len_with(&mut changes), keys.len());
            let copy = old.as_ref().copy_with(&header, &changes, keys.len());
            drop(old);
            let copy = copy.as_ref();
            assert_eq!((copy.low(), copy.high()), (&b""[..], high));
            assert_eq!((copy.right(), copy.counter()), (PageId(3), 9));
            for (i, key) in keys.iter().enumerate() {
                let payload = i as u64 + if [5, 11].contains(&i) { 1000 } else { 0 };
                assert_eq!((copy.key_at(i), copy.value_at(i)), (*key, payload));
                assert_eq!(copy.base_get(key), Some(payload));
            }
        }
    }
}
