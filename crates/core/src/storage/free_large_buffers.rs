//! Reuse of buffers from one transaction to the next; buffers that have become large are freed.
//!
//! Keeping them avoids allocations in transactions. A single large transaction must not hold its
//! memory for as long as its session lives.

use std::collections::HashMap;

/// A buffer that has become as large is freed when the transaction has ended. A power of two, see [`Sizes::is_large`].
pub(crate) const LARGE_BYTES: usize = 1 << 20;
const _: () = assert!(LARGE_BYTES.is_power_of_two());

/// The bytes of some buffers: all ones of their lengths. One branch decides whether any of them is
/// large.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sizes(usize);

impl Sizes {
    #[inline(always)]
    pub(crate) fn with<T>(self, buffer: &Vec<T>) -> Self {
        Self(self.0 | (buffer.capacity() * size_of::<T>()))
    }

    #[inline(always)]
    pub(crate) fn with_map<K, V, S>(self, map: &HashMap<K, V, S>) -> Self {
        Self(self.0 | (map.capacity() * size_of::<(K, V)>()))
    }

    #[inline(always)]
    pub(crate) fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Numbers below a power of two have none of its bits and none above, and neither has the union of theirs.
    #[inline(always)]
    pub(crate) fn is_large(self) -> bool {
        self.0 >= LARGE_BYTES
    }
}

/// Frees the memory of a buffer that has become large.
pub(crate) fn free_if_large<T>(buffer: &mut Vec<T>) {
    if Sizes::default().with(buffer).is_large() {
        *buffer = Vec::new();
    }
}

/// Frees the memory of a map that has become large.
pub(crate) fn free_map_if_large<K, V, S: Default>(map: &mut HashMap<K, V, S>) {
    if Sizes::default().with_map(map).is_large() {
        *map = HashMap::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_large_buffer_among_small_ones_is_noticed() {
        let mut small = vec![0_u64; LARGE_BYTES / 8 - 1];
        let mut large = Vec::<u8>::with_capacity(LARGE_BYTES);
        assert!(!Sizes::default().with(&small).with(&small).is_large());
        assert!(Sizes::default().with(&small).with(&large).is_large());
        free_if_large(&mut small);
        free_if_large(&mut large);
        assert_eq!((small.len(), large.capacity()), (LARGE_BYTES / 8 - 1, 0));
        let mut map: HashMap<u64, u64> = HashMap::with_capacity(LARGE_BYTES / 16);
        free_map_if_large(&mut map);
        assert_eq!(map.capacity(), 0);
    }
}
