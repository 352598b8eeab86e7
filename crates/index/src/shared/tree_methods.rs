//! Methods that trees have in common, word for word. Each macro stands in an `impl` of its trait, and
//! names what the tree must have.

/// Methods of [`PointIndex`](crate::PointIndex) over keys of the kind `$key`: `get_many`,
/// `statistics`, `memory_bytes`, `len`. The tree has the methods `get_lanes(&[$key::Ref], &mut
/// Vec<Lookup>)` and `census()`, whose result has the fields `statistics` and `bytes`.
#[doc(hidden)]
#[macro_export]
macro_rules! methods_by_lanes_and_census {
    ($key:ident) => {
        fn get_many(
            &self,
            keys: &[&[u8]],
            out: &mut Vec<$crate::Lookup>,
        ) -> Result<(), $crate::IndexError> {
            let lanes = |keys: &[_], out: &mut Vec<_>| self.get_lanes(keys, out);
            $crate::shared::batch::get_in_lanes::<$key>(keys, out, lanes)
        }

        fn statistics(&self) -> $crate::Statistics {
            self.census().statistics
        }

        fn memory_bytes(&self) -> usize {
            self.census().bytes
        }

        fn len(&self) -> usize {
            self.census().statistics.records as usize
        }
    };
}

/// Methods of [`PointIndex`](crate::PointIndex) about leaves: `leaf_rts`, `raise_and_check`,
/// `current`. The tree has a field `table`, whose methods `rts`, `raise_and_check` and `current` take
/// a leaf or its version; the caller's crate depends on `crossbeam_epoch`.
#[doc(hidden)]
#[macro_export]
macro_rules! methods_by_leaf_table {
    () => {
        fn leaf_rts(&self, leaf: u64) -> u64 {
            self.table.rts(leaf)
        }

        fn raise_and_check(&self, seen: $crate::LeafVersion, rts: u64) -> bool {
            self.table
                .raise_and_check(seen, rts, &crossbeam_epoch::pin())
        }

        fn current(&self, leaf: u64) -> Option<$crate::LeafVersion> {
            self.table.current(leaf, &crossbeam_epoch::pin())
        }
    };
}

/// All methods of [`OrderedIndex`](crate::OrderedIndex), over keys of the kind `$key`: `scan`,
/// `bulk_load`. The tree implements [`Fenced`](crate::shared::scan::Fenced) and has the method
/// `load_sorted(sorted)`.
#[doc(hidden)]
#[macro_export]
macro_rules! methods_by_fences {
    ($key:ident) => {
        fn scan(
            &self,
            range: $crate::ScanRange<'_>,
            visit: impl FnMut($crate::ScanItem<'_>) -> std::ops::ControlFlow<()>,
        ) -> Result<(), $crate::IndexError> {
            $crate::shared::scan::scan::<$key, _>(self, range, visit)
        }

        fn bulk_load<B: AsRef<[u8]>>(
            &self,
            sorted: impl IntoIterator<Item = (B, u64)>,
        ) -> Result<usize, $crate::IndexError> {
            self.load_sorted(sorted)
        }
    };
}
