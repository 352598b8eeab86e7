//! Static dispatch for indexes that are chosen at run time: each call goes to the chosen variant.
//!
//! A callback of an index, such as the visitor of a scan, is a type parameter, so no virtual call
//! is made for a key; each index is compiled once for each of these types. A build with debug
//! assertions is never measured and often built: there all callbacks have one type, a reference to
//! a trait object.

/// Implements [`PointIndex`](namiki_index::PointIndex) for such a type. The second name is that of a macro that
/// evaluates an expression for whichever index `self` is.
macro_rules! dispatch_point_index {
    ($type:ident, $each:ident) => {
        impl namiki_index::PointIndex for $type {
            #[inline]
            fn get(&self, key: &[u8]) -> Result<namiki_index::Lookup, namiki_index::IndexError> {
                $each!(self, index => index.get(key))
            }

            fn get_many(
                &self,
                keys: &[&[u8]],
                out: &mut Vec<namiki_index::Lookup>,
            ) -> Result<(), namiki_index::IndexError> {
                $each!(self, index => index.get_many(keys, out))
            }

            #[inline]
            fn change(
                &self,
                key: &[u8],
                expected: namiki_index::Expected,
                decide: impl FnMut(Option<u64>) -> namiki_index::Change,
            ) -> Result<namiki_index::Changed, namiki_index::IndexError> {
                #[cfg(debug_assertions)]
                return self.change_as_object(key, expected, &mut { decide });
                #[cfg(not(debug_assertions))]
                $each!(self, index => index.change(key, expected, decide))
            }

            fn put(&self, key: &[u8], payload: u64) -> Result<(), namiki_index::IndexError> {
                $each!(self, index => index.put(key, payload))
            }

            fn leaf_rts(&self, leaf: u64) -> u64 {
                $each!(self, index => index.leaf_rts(leaf))
            }

            fn raise_and_check(&self, seen: namiki_index::LeafVersion, rts: u64) -> bool {
                $each!(self, index => index.raise_and_check(seen, rts))
            }

            fn current(&self, leaf: u64) -> Option<namiki_index::LeafVersion> {
                $each!(self, index => index.current(leaf))
            }

            fn statistics(&self) -> namiki_index::Statistics {
                $each!(self, index => index.statistics())
            }

            fn memory_bytes(&self) -> usize {
                $each!(self, index => index.memory_bytes())
            }

            fn len(&self) -> usize {
                $each!(self, index => index.len())
            }
        }

        #[cfg(debug_assertions)]
        impl $type {
            fn change_as_object(
                &self,
                key: &[u8],
                expected: namiki_index::Expected,
                decide: &mut dyn FnMut(Option<u64>) -> namiki_index::Change,
            ) -> Result<namiki_index::Changed, namiki_index::IndexError> {
                use namiki_index::PointIndex as _;
                $each!(self, index => index.change(key, expected, decide))
            }
        }
    };
}

pub(super) use dispatch_point_index;
