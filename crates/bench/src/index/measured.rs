//! What is measured: a map from byte strings to eight-byte payloads.
//!
//! The benchmark is compiled once for each implementation, so nothing stands between it and the
//! index but what the index itself puts there.

use std::ops::{Bound, ControlFlow};

use namiki_index::{
    IndexError, InsertOutcome, Lookup, OrderedIndex, PointIndex, ScanItem, ScanRange, Statistics,
    Tree,
};

use super::mix::Operation;

/// An index as the benchmark uses it.
pub(crate) trait Measured: Sync {
    /// Why it cannot do this, if it cannot. It is then never asked to, nor measured.
    fn lacks(&self, operation: Operation) -> Option<&'static str>;

    /// Looks a key up.
    fn get(&self, key: &[u8]) -> Result<Option<u64>, IndexError>;

    /// Looks many keys up at once.
    fn get_many(&self, keys: &[&[u8]], found: &mut Vec<Lookup>) -> Result<(), IndexError>;

    /// Visits keys in ascending order, from `start` on or all, until `visit` breaks.
    fn scan(
        &self,
        start: Option<&[u8]>,
        visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) -> Result<(), IndexError>;

    /// Sets a key's payload, adding the key if it is absent.
    fn put(&self, key: &[u8], payload: u64) -> Result<(), IndexError>;

    /// The same, and returns the payload it had.
    fn replace(&self, key: &[u8], payload: u64) -> Result<Option<u64>, IndexError>;

    /// Adds a key; false if it is there already.
    fn insert(&self, key: &[u8], payload: u64) -> Result<bool, IndexError>;

    /// Sets the payload of a key that is there and returns the one it had.
    fn update(&self, key: &[u8], payload: u64) -> Result<Option<u64>, IndexError>;

    /// Removes a key and returns the payload it had.
    fn delete(&self, key: &[u8]) -> Result<Option<u64>, IndexError>;

    /// Number of keys.
    fn len(&self) -> u64;

    /// What it says of itself, if it does.
    fn statistics(&self) -> Option<Statistics>;

    /// Bytes it takes, if it knows.
    fn memory_bytes(&self) -> Option<u64>;
}

impl Measured for Tree {
    fn lacks(&self, _operation: Operation) -> Option<&'static str> {
        None
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Result<Option<u64>, IndexError> {
        Ok(match PointIndex::get(self, key)? {
            Lookup::Found(payload) => Some(payload),
            Lookup::Missing(_) => None,
        })
    }

    #[inline]
    fn get_many(&self, keys: &[&[u8]], found: &mut Vec<Lookup>) -> Result<(), IndexError> {
        PointIndex::get_many(self, keys, found)
    }

    #[inline]
    fn scan(
        &self,
        start: Option<&[u8]>,
        mut visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        let start = start.map_or(Bound::Unbounded, Bound::Included);
        let range = ScanRange::forward(start, Bound::Unbounded);
        OrderedIndex::scan(self, range, |item| match item {
            ScanItem::Leaf(_) => ControlFlow::Continue(()),
            ScanItem::Entry(key, payload) => visit(key, payload),
        })
    }

    #[inline]
    fn put(&self, key: &[u8], payload: u64) -> Result<(), IndexError> {
        PointIndex::put(self, key, payload)
    }

    #[inline]
    fn replace(&self, key: &[u8], payload: u64) -> Result<Option<u64>, IndexError> {
        PointIndex::write(self, key, payload)
    }

    #[inline]
    fn insert(&self, key: &[u8], payload: u64) -> Result<bool, IndexError> {
        let outcome = PointIndex::insert(self, key, payload)?;
        Ok(matches!(outcome, InsertOutcome::Inserted(_)))
    }

    #[inline]
    fn update(&self, key: &[u8], payload: u64) -> Result<Option<u64>, IndexError> {
        PointIndex::update(self, key, payload)
    }

    #[inline]
    fn delete(&self, key: &[u8]) -> Result<Option<u64>, IndexError> {
        PointIndex::delete(self, key)
    }

    fn len(&self) -> u64 {
        PointIndex::len(self) as u64
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(PointIndex::statistics(self))
    }

    fn memory_bytes(&self) -> Option<u64> {
        Some(PointIndex::memory_bytes(self) as u64)
    }
}
