//! Keys cut into slices of eight bytes.
//!
//! A layer stores the rest of a key from that layer on: a slice, its first eight bytes as a
//! big-endian number with zeros where the key has ended, and a *marker* that says whether and how
//! it continues. Slice and marker together are in the order of the keys, and no two keys of a layer
//! that end in it have both in common.
//!
//! | marker | |
//! |---|---|
//! | 0 to 8 | the key ends in this slice, after this number of bytes |
//! | [`LONG`] | it continues; the rest is in its own suffix |
//! | [`LINK`] | several such keys; their own layer holds their rests |
//!
//! Eight-byte keys all have marker 8, so a tree of them stores none, and compares slices only.

use std::sync::atomic::Ordering;

use namiki_index::key::{Fixed8, Key, Variable};
use namiki_platform::sync::AtomicU8;

/// Slots of a border node.
pub(super) const WIDTH: usize = if cfg!(loom) { 4 } else { 32 };
/// The key continues in a suffix.
pub(super) const LONG: u8 = 9;
/// Keys continue in a layer.
pub(super) const LINK: u8 = 10;
/// Bytes of a slice.
pub(super) const SLICE: usize = 8;

/// A search key in one layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut<'k> {
    pub(super) slice: u64,
    /// 0 to 8, or [`LONG`], which stands for [`LINK`] too.
    pub(super) marker: u8,
    /// The bytes after the slice.
    pub(super) rest: &'k [u8],
}

impl<'k> Cut<'k> {
    /// A whole key, in the first layer.
    #[inline]
    pub(super) fn first<K: Key>(key: K::Ref<'k>) -> Self {
        if K::INLINE {
            Self {
                slice: K::head(key, 0),
                marker: SLICE as u8,
                rest: &[],
            }
        } else {
            Self::of(K::tail(key))
        }
    }

    /// The rest of a key, in a further layer.
    #[inline]
    pub(super) fn of(key: &'k [u8]) -> Self {
        Self {
            slice: Variable::head(key, 0),
            marker: key.len().min(usize::from(LONG)) as u8,
            rest: key.get(SLICE..).unwrap_or(&[]),
        }
    }
}

/// How a tree of one kind of keys stores markers.
pub trait Slicing: Key {
    /// The markers of a border node.
    #[doc(hidden)]
    type Markers: Markers;
}

/// A marker for each slot of a border node.
#[doc(hidden)]
pub trait Markers: Send + Sync {
    fn new() -> Self;
    fn get(&self, slot: usize) -> u8;
    fn set(&self, slot: usize, marker: u8);
}

impl Slicing for Fixed8 {
    type Markers = ();
}

impl Markers for () {
    fn new() -> Self {}

    #[inline]
    fn get(&self, _slot: usize) -> u8 {
        SLICE as u8
    }

    #[inline]
    fn set(&self, _slot: usize, _marker: u8) {}
}

impl Slicing for Variable {
    type Markers = [AtomicU8; WIDTH];
}

impl Markers for [AtomicU8; WIDTH] {
    fn new() -> Self {
        std::array::from_fn(|_| AtomicU8::new(0))
    }

    #[inline]
    fn get(&self, slot: usize) -> u8 {
        // Part of the node's content: ordered by its version (`version.rs`, V1). The same holds for
        // `set`.
        self[slot].load(Ordering::Relaxed)
    }

    #[inline]
    fn set(&self, slot: usize, marker: u8) {
        self[slot].store(marker, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn slice_and_marker_follow_the_order_of_the_keys() {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for len in 0..10 {
            for byte in [0, 1, 255] {
                keys.push(vec![byte; len]);
                keys.push([vec![0; len], vec![byte]].concat());
            }
        }
        keys.sort();
        keys.dedup();
        for pair in keys.windows(2) {
            let [a, b] = [0, 1].map(|i| Cut::of(&pair[i]));
            assert!((a.slice, a.marker, a.rest) < (b.slice, b.marker, b.rest));
        }
    }
}
