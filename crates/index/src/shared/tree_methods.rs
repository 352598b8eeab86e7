//! Methods that trees have in common, word for word, because they call what each tree has under the
//! same name: `census`, `get_lanes`, `load_sorted`, and a field `table`.

/// Methods of [`PointIndex`](crate::PointIndex) over keys of this kind, by the tree's lanes and its
/// census.
#[doc(hidden)]
#[macro_export]
macro_rules! methods_by_census {
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

/// Methods of [`PointIndex`](crate::PointIndex) by the tree's leaf table.
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

/// All methods of [`OrderedIndex`](crate::OrderedIndex), by the leaves' fences.
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
