//! Reuse of buffers from one transaction to the next; buffers that have become large are freed.
//!
//! Keeping them avoids allocations in transactions. A single large transaction must not hold its
//! memory for as long as its session lives.

use std::collections::HashMap;

/// A buffer that has become as large is freed when the transaction has ended. A power of two, see [`Sizes::is_large`].
pub(crate) const LARGE_BYTES: usize = 1 << 20;
/// The same for a session that holds transactions for a client: there may be thousands, most of them idle. A short
/// transaction needs less.
pub(crate) const LARGE_WHILE_IDLE_BYTES: usize = 2 << 10;
const _: () = assert!(LARGE_BYTES.is_power_of_two() && LARGE_WHILE_IDLE_BYTES.is_power_of_two());

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

    /// Whether any of them has as many bytes as this, a power of two: numbers below it have none of its bits and none
    /// above, and neither has the union of theirs.
    #[inline(always)]
    pub(crate) fn reach(self, large_bytes: usize) -> bool {
        self.0 >= large_bytes
    }
}

/// Frees the memory of a buffer that has become large.
pub(crate) fn free_if_large<T>(buffer: &mut Vec<T>, large_bytes: usize) {
    if Sizes::default().with(buffer).reach(large_bytes) {
        *buffer = Vec::new();
    }
}

/// Frees the memory of a map that has become large.
pub(crate) fn free_map_if_large<K, V, S: Default>(map: &mut HashMap<K, V, S>, large_bytes: usize) {
    if Sizes::default().with_map(map).reach(large_bytes) {
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
        assert!(
            !Sizes::default()
                .with(&small)
                .with(&small)
                .reach(LARGE_BYTES)
        );
        assert!(
            Sizes::default()
                .with(&small)
                .with(&large)
                .reach(LARGE_BYTES)
        );
        free_if_large(&mut small, LARGE_BYTES);
        free_if_large(&mut large, LARGE_BYTES);
        assert_eq!((small.len(), large.capacity()), (LARGE_BYTES / 8 - 1, 0));
        let mut map: HashMap<u64, u64> = HashMap::with_capacity(LARGE_BYTES / 16);
        free_map_if_large(&mut map, LARGE_BYTES);
        assert_eq!(map.capacity(), 0);
    }
}
