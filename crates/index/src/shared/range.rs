//! The ends of a range of keys.

use std::cmp::Ordering;
use std::ops::Bound;

use crate::IndexError;
use crate::key::Key;

/// Reads a bound from the bytes of its key.
pub fn parse_bound<K: Key>(bound: Bound<&[u8]>) -> Result<Bound<K::Ref<'_>>, IndexError> {
    Ok(match bound {
        Bound::Included(key) => Bound::Included(K::parse(key)?),
        Bound::Excluded(key) => Bound::Excluded(K::parse(key)?),
        Bound::Unbounded => Bound::Unbounded,
    })
}

/// Whether a key is right of the start of a range.
pub fn after_start<K: Key>(start: Bound<K::Ref<'_>>, key: K::Ref<'_>) -> bool {
    match start {
        Bound::Unbounded => true,
        Bound::Included(start) => K::cmp(key, start) != Ordering::Less,
        Bound::Excluded(start) => K::cmp(key, start) == Ordering::Greater,
    }
}

/// Whether a key is left of the end of a range.
pub fn before_end<K: Key>(end: Bound<K::Ref<'_>>, key: K::Ref<'_>) -> bool {
    match end {
        Bound::Unbounded => true,
        Bound::Included(end) => K::cmp(key, end) != Ordering::Greater,
        Bound::Excluded(end) => K::cmp(key, end) == Ordering::Less,
    }
}
