//! The interface of a measured index: a map from byte strings to eight-byte payloads.
//!
//! The benchmark is monomorphised for each implementation, so it adds no indirection to the index.

use std::ops::{Bound, ControlFlow};

use namiki::index::{Index, Point, Tree};
use namiki_index::{
    IndexError, InsertOutcome, Lookup, OrderedIndex, PointIndex, ScanItem, ScanRange, Statistics,
};

use super::drawn_operations::Choice;

/// An index as the benchmark uses it.
pub(crate) trait Measured: Sync {
    /// The reason why the index does not support this choice, if it does not. The index is then not
    /// measured.
    fn lacks(&self, choice: &Choice) -> Option<&'static str>;

    /// Whether it can visit its keys in order.
    fn is_ordered(&self) -> bool {
        true
    }

    /// Looks a key up.
    fn get(&self, key: &[u8]) -> Result<Option<u64>, IndexError>;

    /// Looks up several keys at once: one answer for each, in order. An index without such an
    /// operation reports this in [`lacks`](Self::lacks) and is not called, because single look-ups
    /// would measure something else.
    fn get_many(&self, _keys: &[&[u8]], found: &mut Vec<Lookup>) -> Result<(), IndexError> {
        found.clear();
        Ok(())
    }

    /// Visits keys in ascending order, from `start` or from the first, until `visit` breaks, which
    /// it does after at most `most` keys.
    fn scan(
        &self,
        start: Option<&[u8]>,
        most: u64,
        visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) -> Result<(), IndexError>;

    /// Sets a key's payload, adding the key if it is absent.
    fn put(&self, key: &[u8], payload: u64) -> Result<(), IndexError> {
        self.replace(key, payload).map(drop)
    }

    /// Sets a key's payload, adding the key if it is absent, and returns the previous payload.
    fn replace(&self, key: &[u8], payload: u64) -> Result<Option<u64>, IndexError>;

    /// Adds a key; false if it is present already.
    fn insert(&self, key: &[u8], payload: u64) -> Result<bool, IndexError>;

    /// Sets the payload of a present key and returns the previous one.
    fn update(&self, key: &[u8], payload: u64) -> Result<Option<u64>, IndexError>;

    /// Removes a key and returns its payload.
    fn delete(&self, key: &[u8]) -> Result<Option<u64>, IndexError>;

    /// Number of keys.
    fn len(&self) -> u64;

    /// The index's own statistics, if it has any.
    fn statistics(&self) -> Option<Statistics> {
        None
    }

    /// Memory of the index in bytes, if it is known.
    fn memory_bytes(&self) -> Option<u64> {
        None
    }
}

/// The reason why a hash table has no scans.
pub(crate) const NO_ORDER: &str = "it keeps no order, and cannot scan";

/// An index of ours: a tree, a hash table, or both.
pub(crate) trait Ours: PointIndex {
    /// Whether it can visit its keys in order.
    fn keeps_order(&self) -> bool;

    /// Visits the keys of a range, and fails if there is no order.
    fn visit(
        &self,
        range: ScanRange<'_>,
        visit: impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> Result<(), IndexError>;
}

impl Ours for Tree {
    fn keeps_order(&self) -> bool {
        true
    }

    #[inline]
    fn visit(
        &self,
        range: ScanRange<'_>,
        visit: impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        OrderedIndex::scan(self, range, visit)
    }
}

impl Ours for Point {
    fn keeps_order(&self) -> bool {
        false
    }

    fn visit(
        &self,
        _range: ScanRange<'_>,
        _visit: impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        Err(IndexError::Unordered)
    }
}

impl Ours for Index {
    fn keeps_order(&self) -> bool {
        self.kind().is_ordered()
    }

    #[inline]
    fn visit(
        &self,
        range: ScanRange<'_>,
        visit: impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        Self::scan(self, range, visit)
    }
}

impl<I: Ours> Measured for I {
    fn lacks(&self, choice: &Choice) -> Option<&'static str> {
        (choice.scans() && !self.keeps_order()).then_some(NO_ORDER)
    }

    fn is_ordered(&self) -> bool {
        self.keeps_order()
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
        _most: u64,
        mut visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        let start = start.map_or(Bound::Unbounded, Bound::Included);
        let range = ScanRange::forward(start, Bound::Unbounded);
        self.visit(range, |item| match item {
            ScanItem::Leaf(_) | ScanItem::Ahead(_) => ControlFlow::Continue(()),
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
