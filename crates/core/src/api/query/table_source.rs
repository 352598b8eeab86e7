//! Tables in memory as sources of queries.
//!
//! A typed table's keys have the encoding of a query's keys, provided that their parts have eight
//! bytes, or are text or bytes. Its value is one column; or, if the values are rows that were
//! encoded for a schema, all the other columns.
//!
//! Rows are read in a view: a query reads one consistent snapshot, however long it runs.
//!
//! A source keeps the contents of its table in memory, but does not keep the database open. A
//! query's threads may drop the source some time after the rows were dropped; the drop of the last
//! handle, not theirs, closes the database.

use std::borrow::Cow;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use namiki_data::columns::{Column, ColumnType, Schema};
use namiki_exec::source::{RowBatch, Source, SourceError};
use namiki_index::{Direction, ScanRange};

use super::middle_key::middle_key;
use crate::api::view::View;
use crate::table::raw_table::{BATCH_KEYS_MAX, RawTable};

/// A table in memory, with names for its columns, as a view sees it.
pub(super) struct TableSource {
    pub(super) view: View,
    pub(super) raw_table: Arc<RawTable>,
    pub(super) schema: Schema,
    pub(super) values: Values,
}

/// How a query reads the values of a table.
#[derive(Clone)]
pub(super) enum Values {
    /// All columns except the key, encoded.
    Rows,
    /// One column of a fixed length, or of any.
    One(ColumnType),
    /// Columns that a function of the program makes from a key and a value.
    Made(RowOf),
}

/// The columns of a row, as [`encode_row`](crate::query::encode_row) has them, made from its key
/// and its value; or the reason why it has no columns.
pub type RowOf = Arc<dyn Fn(&[u8], &[u8]) -> Result<Vec<u8>, String> + Send + Sync>;

/// A row has no columns: its key or its value is invalid for its type.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NoRow(String);

/// The types of the parts of a key, by the name of its type in the manifest; `None` if queries
/// cannot read such keys.
pub(super) fn key_columns(type_name: &str) -> Option<Vec<ColumnType>> {
    let inner = type_name
        .strip_prefix('(')
        .and_then(|it| it.strip_suffix(')'));
    let parts = inner.unwrap_or(type_name).split(", ");
    parts.map(|part| one_column(part, true)).collect()
}

/// The type of a value that is one column; `None` if queries cannot read such values.
pub(super) fn value_column(type_name: &str) -> Option<ColumnType> {
    one_column(type_name, false)
}

fn one_column(type_name: &str, in_key: bool) -> Option<ColumnType> {
    match type_name {
        "u64" => Some(ColumnType::U64),
        "i64" => Some(ColumnType::I64),
        "string" => Some(ColumnType::Text),
        "bytes" => Some(ColumnType::Bytes),
        "bool" if !in_key => Some(ColumnType::Bool),
        _ => None,
    }
}

/// Columns with these names and types.
pub(super) fn columns<'a>(
    names: &'a [&'a str],
    types: &'a [ColumnType],
) -> impl Iterator<Item = Column> + 'a {
    let pairs = names.iter().zip(types);
    pairs.map(|(name, column_type)| Column::new(name, *column_type))
}

impl Values {
    /// The bytes of a row without its key.
    fn row<'v>(&self, key: &[u8], value: &'v [u8]) -> Result<Cow<'v, [u8]>, NoRow> {
        let column_type = match self {
            Self::Rows => return Ok(Cow::Borrowed(value)),
            Self::Made(row_of) => return row_of(key, value).map(Cow::Owned).map_err(NoRow),
            Self::One(column_type) => column_type,
        };
        let mut row = Vec::with_capacity(value.len() + 5);
        if column_type.fixed_bytes().is_some() {
            row.push(0);
        } else {
            // The end of the one column of any length, as wide as it needs.
            let end = (value.len() as u32).to_le_bytes();
            let (header, width) = match value.len() {
                0..=0xff => (0, 1),
                0x100..=0xffff => (1, 2),
                _ => (2, 4),
            };
            row.push(header);
            row.extend_from_slice(&end[..width]);
        }
        row.extend_from_slice(value);
        Ok(Cow::Owned(row))
    }
}

impl Source for TableSource {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn rows(&self) -> u64 {
        self.view.len_estimate(&self.raw_table)
    }

    fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        rows_max: usize,
        into: &mut RowBatch,
    ) -> Result<(), SourceError> {
        // A query's bounds are bytes, and not always keys of the table.
        let kind = self.raw_table.key_kind();
        let (from, to) = (kind.lower_bound(from), kind.upper_bound(to));
        let range = ScanRange {
            start: from.as_ref().map(|key| &**key),
            end: to.as_ref().map(|key| &**key),
            direction: Direction::Forward,
        };
        self.view.check(&self.raw_table)?;
        let mut left = rows_max;
        let mut no_row = None;
        self.view.scan_bytes(&self.raw_table, range, |key, value| {
            match self.values.row(key, value) {
                Ok(row) => into.push(key, &row),
                Err(why) => no_row = Some(why),
            }
            left -= 1;
            Ok(if left > 0 && !into.is_full() && no_row.is_none() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            })
        })?;
        no_row.map_or(Ok(()), |why| Err(why.into()))
    }

    fn middle_key(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Result<Option<Vec<u8>>, SourceError> {
        if !self.raw_table.is_ordered() {
            return Ok(None);
        }
        let kind = self.raw_table.key_kind();
        let (from, to) = (kind.lower_bound(from), kind.upper_bound(to));
        let (from, to) = (
            from.as_ref().map(|key| &**key),
            to.as_ref().map(|key| &**key),
        );
        self.view.check(&self.raw_table)?;
        let end_key = |range: ScanRange<'_>| self.view.end_key(&self.raw_table, range);
        Ok(middle_key(from, to, end_key)?)
    }

    fn get_many(&self, keys: &[&[u8]], into: &mut RowBatch) -> Result<(), SourceError> {
        self.view.check(&self.raw_table)?;
        let mut no_row = None;
        let can_be_there = |key: &&[u8]| self.raw_table.check_key(key).is_ok();
        'all: for keys in keys.chunk_by(|a, b| can_be_there(a) == can_be_there(b)) {
            // Text, for example, that is longer than any key.
            if !keys.iter().all(can_be_there) {
                keys.iter().for_each(|_| into.push_absent());
                continue;
            }
            for keys in keys.chunks(BATCH_KEYS_MAX) {
                if into.is_full() {
                    break 'all;
                }
                self.view.get_batch(&self.raw_table, keys, |key, value| {
                    match value.map(|value| self.values.row(key, value)) {
                        Some(Ok(row)) => into.push(key, &row),
                        Some(Err(why)) => no_row = Some(why),
                        None => into.push_absent(),
                    }
                })?;
            }
        }
        no_row.map_or(Ok(()), |why| Err(why.into()))
    }
}
