//! Indexes behind trait objects, so that the suite is compiled once and not for every index.
//!
//! [`PointIndex`] and [`OrderedIndex`] take functions of any type, which no trait object can; these two traits have the same
//! calls with references to functions. Every index has them, and their objects are indexes again.

use std::ops::ControlFlow;

use crate::{
    Change, Changed, Expected, IndexError, LeafVersion, Lookup, OrderedIndex, PointIndex, ScanItem,
    ScanRange, Statistics,
};

/// Object-safe counterpart of [`PointIndex`].
#[expect(
    clippy::len_without_is_empty,
    reason = "an index has one, made of this"
)]
pub trait PointObject: Send + Sync {
    /// See [`PointIndex::get`].
    fn get(&self, key: &[u8]) -> Result<Lookup, IndexError>;
    /// See [`PointIndex::get_many`].
    fn get_many(&self, keys: &[&[u8]], out: &mut Vec<Lookup>) -> Result<(), IndexError>;
    /// See [`PointIndex::change`].
    fn change_by(
        &self,
        key: &[u8],
        expected: Expected,
        decide: &mut dyn FnMut(Option<u64>) -> Change,
    ) -> Result<Changed, IndexError>;
    /// See [`PointIndex::put`].
    fn put(&self, key: &[u8], payload: u64) -> Result<(), IndexError>;
    /// See [`PointIndex::leaf_rts`].
    fn leaf_rts(&self, leaf: u64) -> u64;
    /// See [`PointIndex::raise_and_check`].
    fn raise_and_check(&self, seen: LeafVersion, rts: u64) -> bool;
    /// See [`PointIndex::current`].
    fn current(&self, leaf: u64) -> Option<LeafVersion>;
    /// See [`PointIndex::statistics`].
    fn statistics(&self) -> Statistics;
    /// See [`PointIndex::memory_bytes`].
    fn memory_bytes(&self) -> usize;
    /// See [`PointIndex::len`].
    fn len(&self) -> usize;
}

/// Object-safe counterpart of [`OrderedIndex`].
pub trait OrderedObject: PointObject {
    /// See [`OrderedIndex::scan`].
    fn scan_to(
        &self,
        range: ScanRange<'_>,
        visit: &mut dyn FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> Result<(), IndexError>;
}

impl<I: PointIndex> PointObject for I {
    fn get(&self, key: &[u8]) -> Result<Lookup, IndexError> {
        PointIndex::get(self, key)
    }

    fn get_many(&self, keys: &[&[u8]], out: &mut Vec<Lookup>) -> Result<(), IndexError> {
        PointIndex::get_many(self, keys, out)
    }

    fn change_by(
        &self,
        key: &[u8],
        expected: Expected,
        decide: &mut dyn FnMut(Option<u64>) -> Change,
    ) -> Result<Changed, IndexError> {
        self.change(key, expected, decide)
    }

    fn put(&self, key: &[u8], payload: u64) -> Result<(), IndexError> {
        PointIndex::put(self, key, payload)
    }

    fn leaf_rts(&self, leaf: u64) -> u64 {
        PointIndex::leaf_rts(self, leaf)
    }

    fn raise_and_check(&self, seen: LeafVersion, rts: u64) -> bool {
        PointIndex::raise_and_check(self, seen, rts)
    }

    fn current(&self, leaf: u64) -> Option<LeafVersion> {
        PointIndex::current(self, leaf)
    }

    fn statistics(&self) -> Statistics {
        PointIndex::statistics(self)
    }

    fn memory_bytes(&self) -> usize {
        PointIndex::memory_bytes(self)
    }

    fn len(&self) -> usize {
        PointIndex::len(self)
    }
}

impl<I: OrderedIndex> OrderedObject for I {
    fn scan_to(
        &self,
        range: ScanRange<'_>,
        visit: &mut dyn FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        self.scan(range, visit)
    }
}

/// Implements the index traits for objects.
macro_rules! index_again {
    ($object:ident) => {
        impl PointIndex for dyn $object + '_ {
            fn get(&self, key: &[u8]) -> Result<Lookup, IndexError> {
                PointObject::get(self, key)
            }

            fn get_many(&self, keys: &[&[u8]], out: &mut Vec<Lookup>) -> Result<(), IndexError> {
                PointObject::get_many(self, keys, out)
            }

            fn change(
                &self,
                key: &[u8],
                expected: Expected,
                mut decide: impl FnMut(Option<u64>) -> Change,
            ) -> Result<Changed, IndexError> {
                self.change_by(key, expected, &mut decide)
            }

            fn put(&self, key: &[u8], payload: u64) -> Result<(), IndexError> {
                PointObject::put(self, key, payload)
            }

            fn leaf_rts(&self, leaf: u64) -> u64 {
                PointObject::leaf_rts(self, leaf)
            }

            fn raise_and_check(&self, seen: LeafVersion, rts: u64) -> bool {
                PointObject::raise_and_check(self, seen, rts)
            }

            fn current(&self, leaf: u64) -> Option<LeafVersion> {
                PointObject::current(self, leaf)
            }

            fn statistics(&self) -> Statistics {
                PointObject::statistics(self)
            }

            fn memory_bytes(&self) -> usize {
                PointObject::memory_bytes(self)
            }

            fn len(&self) -> usize {
                PointObject::len(self)
            }
        }
    };
}

index_again!(PointObject);
index_again!(OrderedObject);
