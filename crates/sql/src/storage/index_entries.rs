//! Entries of indexes: core tables with the keys of table rows as their rows.
//!
//! ```text
//!  index          key                                      row
//!  not unique     the index's columns, the row's key       the row's key
//!  unique         the index's columns                      the row's key
//!  unique, null   the index's columns, the row's key       the row's key
//! ```
//! Nulls are last, and distinct: an entry with one is never a duplicate.

use namiki_data::columns::{ColumnType, Datum, NullOrder, key_codec};

/// The beginning of the entries with these values in the index's first columns.
pub(crate) fn index_prefix<'v>(
    values: impl IntoIterator<Item = (&'v Datum, ColumnType)>,
    into: &mut Vec<u8>,
) {
    for (value, column_type) in values {
        key_codec::encode_column(
            value.value(),
            column_type,
            Some(NullOrder::Last),
            false,
            into,
        );
    }
}

/// The key of an entry of an index that is not unique, or that contains a null.
pub(crate) fn index_key<'v>(
    values: impl IntoIterator<Item = (&'v Datum, ColumnType)>,
    row_key: &[u8],
) -> Vec<u8> {
    let mut key = Vec::with_capacity(32 + row_key.len());
    index_prefix(values, &mut key);
    key.extend_from_slice(row_key);
    key
}

/// The key of an entry of a unique index, and whether it may be a duplicate.
pub(crate) fn unique_key<'v>(
    values: impl IntoIterator<Item = (&'v Datum, ColumnType)> + Clone,
    row_key: &[u8],
) -> (Vec<u8>, bool) {
    let has_null = values
        .clone()
        .into_iter()
        .any(|(value, _)| *value == Datum::Null);
    if has_null {
        return (index_key(values, row_key), false);
    }
    let mut key = Vec::with_capacity(32);
    index_prefix(values, &mut key);
    (key, true)
}
