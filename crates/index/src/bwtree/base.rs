//! Base nodes: sorted entries in packed arrays, and the search in them.
//!
//! ```text
//!  fixed keys     | header 64 B | key u64 × n  | value × n |
//!  variable keys  | header 80 B | head u64 × n | value × n | prefix u32 | end u32 × n | low | high | keys |
//! ```
//! Values are payloads (u64) in a leaf and page ids (u32) in an inner node. A search touches the
//! header line and the few lines of the key array, then one line of values. Variable keys are whole
//! in `keys`; `head` is the eight bytes after the `prefix` bytes that all keys of the node share, so
//! that keys with a long common prefix still differ in their heads.
//!
//! # Invariants
//! - B1. Keys ascend strictly, `low <= key < high`. In an inner node the first key is `low`, so
//!   every search in range finds a child (trap "leftmost child": it has an entry like any other).
//! - B2. `end[i]` is where key `i` ends, counted from the start of `keys`; the last is their total.
//!
//! Paper: bwtree §3
#![expect(
    unsafe_code,
    reason = "entries lie in trailing arrays behind the header"
)]

use std::cmp::Ordering;
use std::mem::size_of;
use std::slice;

use namiki_platform::prefetch;

use super::mapping::PageId;
use super::node::{BaseHeader, Kind, NodeRef, OwnedNode};
use crate::key::Key;

/// A key and its payload, or a separator and the number of the page right of it.
pub(super) type Entry<'a, K> = (<K as Key>::Ref<'a>, u64);

fn value_bytes(level: u8) -> usize {
    if level == 0 {
        size_of::<u64>()
    } else {
        size_of::<PageId>()
    }
}

/// Bytes of the key and value arrays, rounded up to a multiple of 4.
fn array_bytes(level: u8, len: usize) -> usize {
    len * (size_of::<u64>() + value_bytes(level))
}

/// Builds a base node from entries in ascending order.
pub(super) fn build<K: Key>(header: &BaseHeader<'_, K>, entries: &[Entry<'_, K>]) -> OwnedNode<K> {
    debug_assert!(
        entries
            .windows(2)
            .all(|pair| K::cmp(pair[0].0, pair[1].0) == Ordering::Less)
    );
    let len = entries.len();
    let arrays = array_bytes(header.level, len);
    let high = header.high.unwrap_or(header.low);
    let beside = if K::INLINE {
        0
    } else {
        let keys: usize = entries.iter().map(|entry| K::tail(entry.0).len()).sum();
        (1 + len) * size_of::<u32>() + K::tail(header.low).len() + K::tail(high).len() + keys
    };
    let prefix = match (entries.first(), entries.last()) {
        (Some(first), Some(last)) if !K::INLINE => {
            let pairs = K::tail(first.0).iter().zip(K::tail(last.0));
            pairs.take_while(|(a, b)| a == b).count()
        }
        _ => 0,
    };
    let mut node = OwnedNode::base(header, len, arrays + beside);
    let area = node.area();
    // SAFETY: the node was allocated with `arrays + beside` bytes after its header, which is as
    // many as the offsets below add up to; it is ours alone (N1). The area is aligned to 8, the
    // first array a multiple of 8 and all before the byte strings a multiple of 4.
    unsafe {
        let heads = area.cast::<u64>();
        let values = area.add(len * size_of::<u64>());
        for (i, (key, value)) in entries.iter().enumerate() {
            heads.add(i).write(K::head(*key, prefix));
            if header.level == 0 {
                values.cast::<u64>().add(i).write(*value);
            } else {
                values.cast::<PageId>().add(i).write(PageId(*value as u32));
            }
        }
        if !K::INLINE {
            let numbers = area.add(arrays).cast::<u32>();
            numbers.write(prefix as u32);
            let mut at = numbers.add(1 + len).cast::<u8>();
            let mut fence = |key: K::Ref<'_>| {
                let tail = K::tail(key);
                at.copy_from_nonoverlapping(tail.as_ptr(), tail.len());
                let copy = slice::from_raw_parts(at, tail.len());
                at = at.add(tail.len());
                K::raw(K::from_parts(K::head(key, 0), copy))
            };
            let (low, high) = (fence(header.low), fence(high));
            let mut end = 0;
            for (i, (key, _)) in entries.iter().enumerate() {
                let tail = K::tail(*key);
                at.add(end)
                    .copy_from_nonoverlapping(tail.as_ptr(), tail.len());
                end += tail.len();
                numbers.add(1 + i).write(end as u32);
            }
            node.set_fences(low, high);
        }
    }
    node
}

/// Keys that are compared one by one at the end of a search: a cache line of them.
const WINDOW: usize = LINE / size_of::<u64>();

/// How many of the ascending `heads` are less than `probe` (`OR_EQUAL`: not greater).
///
/// Halves the range without a branch on the data, so that the processor does not guess, and counts
/// within the last line's worth of keys, where comparisons need not wait for each other.
#[inline]
fn rank_of<const OR_EQUAL: bool>(heads: &[u64], probe: u64) -> usize {
    let before = |head: u64| {
        if OR_EQUAL {
            head <= probe
        } else {
            head < probe
        }
    };
    let mut low = 0;
    let mut left = heads.len();
    while left > WINDOW {
        let half = left / 2;
        // SAFETY: `low + left <= heads.len()` throughout and `1 <= half < left`.
        let head = unsafe { *heads.get_unchecked(low + half - 1) };
        low = std::hint::select_unpredictable(before(head), low + half, low);
        left -= half;
    }
    // All before `low` are less and none from `low + left` on is, so a window that begins further
    // left counts right as well.
    let start = low.min(heads.len().saturating_sub(WINDOW));
    match heads[start..].first_chunk::<WINDOW>() {
        Some(window) => {
            start
                + window
                    .iter()
                    .map(|head| usize::from(before(*head)))
                    .sum::<usize>()
        }
        None => heads.iter().filter(|head| before(**head)).count(),
    }
}

impl<'g, K: Key> NodeRef<'g, K> {
    fn heads(self) -> &'g [u64] {
        debug_assert_eq!(self.kind(), Kind::Base);
        // SAFETY: a base node begins with `len` heads (see `build`), alive during `'g` (N4).
        unsafe { slice::from_raw_parts(self.area().cast(), self.len()) }
    }

    fn values(self) -> *const u8 {
        debug_assert_eq!(self.kind(), Kind::Base);
        // SAFETY: in bounds, the values follow the heads (see `build`).
        unsafe { self.area().add(self.len() * size_of::<u64>()) }
    }

    /// Payload number `i` of a base leaf.
    #[inline]
    fn payload_at(self, i: usize) -> u64 {
        assert!(i < self.len() && self.level() == 0);
        // SAFETY: `i` is in bounds of the array of payloads of a leaf (see `build`).
        unsafe { self.values().cast::<u64>().add(i).read() }
    }

    /// Child number `i` of an inner base node.
    #[inline]
    pub(super) fn child_at(self, i: usize) -> PageId {
        assert!(i < self.len() && self.level() > 0);
        // SAFETY: `i` is in bounds of the array of page ids of an inner node (see `build`).
        unsafe { self.values().cast::<PageId>().add(i).read() }
    }

    /// Payload or page id number `i`.
    pub(super) fn value_at(self, i: usize) -> u64 {
        if self.level() == 0 {
            self.payload_at(i)
        } else {
            u64::from(self.child_at(i).0)
        }
    }

    /// The bytes of key number `i`, for keys that are not inline.
    fn tail_at(self, i: usize) -> &'g [u8] {
        if K::INLINE {
            return &[];
        }
        let len = self.len();
        assert!(i < len);
        // SAFETY: the numbers follow the arrays, the fences and then the keys follow the numbers, as
        // `build` laid them out; the ends ascend and are within the keys (B2). The node is alive and
        // constant during `'g` (N1, N4).
        unsafe {
            let numbers = self
                .area()
                .add(array_bytes(self.level(), len))
                .cast::<u32>();
            let ends = numbers.add(1);
            let start = if i == 0 { 0 } else { *ends.add(i - 1) as usize };
            let end = *ends.add(i) as usize;
            let keys_end = self
                .area()
                .sub(size_of::<super::node::Header<K>>())
                .add(self.bytes());
            let keys = keys_end.sub(*ends.add(len - 1) as usize);
            slice::from_raw_parts(keys.add(start), end - start)
        }
    }

    /// Key number `i` of a base node.
    #[inline]
    pub(super) fn key_at(self, i: usize) -> K::Ref<'g> {
        K::from_parts(self.heads()[i], self.tail_at(i))
    }

    /// How many bytes all keys of the base node share.
    fn prefix(self) -> usize {
        // SAFETY: for keys that are not inline this number follows the arrays (see `build`).
        unsafe {
            *self
                .area()
                .add(array_bytes(self.level(), self.len()))
                .cast::<u32>() as usize
        }
    }

    /// How many keys of a base node are less than `key` (`OR_EQUAL`: not greater).
    #[inline]
    pub(super) fn rank<const OR_EQUAL: bool>(self, key: K::Ref<'_>) -> usize {
        if K::INLINE {
            return rank_of::<OR_EQUAL>(self.heads(), K::head(key, 0));
        }
        self.rank_by_bytes::<OR_EQUAL>(key)
    }

    fn rank_by_bytes<const OR_EQUAL: bool>(self, key: K::Ref<'_>) -> usize {
        let heads = self.heads();
        if heads.is_empty() {
            return 0;
        }
        let (prefix, bytes) = (self.prefix(), K::tail(key));
        let shared = &self.tail_at(0)[..prefix];
        match bytes[..bytes.len().min(prefix)].cmp(shared) {
            Ordering::Less => return 0,
            Ordering::Greater => return heads.len(),
            Ordering::Equal => {}
        }
        // Among keys with the same head (K1: they are neighbours) the bytes decide.
        let probe = K::head(key, prefix);
        let mut low = rank_of::<false>(heads, probe);
        let mut high = rank_of::<true>(heads, probe);
        while low < high {
            let middle = low.midpoint(high);
            let before = match K::cmp(self.key_at(middle), key) {
                Ordering::Less => true,
                Ordering::Equal => OR_EQUAL,
                Ordering::Greater => false,
            };
            if before {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The payload of `key` in a base leaf.
    #[inline]
    pub(super) fn base_get(self, key: K::Ref<'_>) -> Option<u64> {
        let rank = self.rank::<true>(key);
        if rank == 0 || K::cmp(self.key_at(rank - 1), key) != Ordering::Equal {
            return None;
        }
        Some(self.payload_at(rank - 1))
    }

    /// Asks the processor for the first `lines` cache lines of this node, all at once. A search
    /// would else wait for one after the other.
    #[inline]
    pub(super) fn prefetch(self, lines: usize) {
        let start = self.as_ptr().cast::<u8>().cast_const();
        for line in 0..lines {
            prefetch(start.wrapping_add(line * LINE));
        }
    }
}

const LINE: usize = 64;
/// Asking for more keeps the requests of the next look-ups waiting, and costs more than it saves.
const LINES_MAX: usize = 9;

/// How many lines of a node to ask for before its header is there and tells its length: as many as
/// one filled to `len` has (of an inner node only the keys, the child is a single access), but not
/// more than [`LINES_MAX`]: of a large node, the header and the first keys.
pub(super) fn lines_of<K: Key>(level: u8, len: usize) -> usize {
    let entry = size_of::<u64>() + if level == 0 { value_bytes(level) } else { 0 };
    let bytes = size_of::<super::node::Header<K>>() + len * entry;
    bytes.div_ceil(LINE).min(LINES_MAX)
}
