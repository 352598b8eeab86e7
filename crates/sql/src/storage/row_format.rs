//! The bytes of a table's rows, which were written under several versions of its columns.
//!
//! What is stored of a table only grows: ADD COLUMN appends a column, and DROP COLUMN leaves its column where it is, empty
//! in new rows. So a version is a number of stored columns. A row's header says its version
//! ([`row_codec::version`]); columns that it does not have are the values that they were added with. Rows are always
//! written under the last version.

use std::sync::Arc;

use namiki_data::columns::{Column, ColumnPlace, Datum, Schema, Value, row_codec};

use super::keys::{damaged, not_encoded};
use crate::error::{SqlError, SqlResult};
use crate::sqlstate;

/// A stored column of a table.
#[derive(Clone, Debug)]
pub(crate) struct FormatColumn {
    /// The number of SQL's column; `None` if it was dropped.
    pub(crate) column: Option<usize>,
    pub(crate) column_type: namiki_data::columns::ColumnType,
    /// What rows of earlier versions have in it.
    pub(crate) missing: Datum,
}

/// How the rows of a table are read and written.
#[derive(Debug)]
pub(crate) struct RowFormat {
    /// The columns as SQL has them, and the hidden row number if there is one. Keys follow it.
    layout: Arc<Schema>,
    current: Version,
    older: Box<[Version]>,
    /// Where the columns of `layout` are among the stored ones. Empty if they are the stored ones.
    places: Box<[usize]>,
    stored: Box<[FormatColumn]>,
}

/// The columns that rows were written with at a time.
#[derive(Clone, Debug)]
struct Version {
    number: u8,
    /// The stored columns, and behind them the hidden row number if there is one.
    schema: Arc<Schema>,
    /// The number of stored columns.
    count: usize,
}

/// A column of a fixed length outside of the key, in a row of the current version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FixedPlace {
    pub(crate) byte: usize,
    /// The byte and the mask of its null bit.
    pub(crate) null_byte: usize,
    pub(crate) null_mask: u8,
}

impl RowFormat {
    /// The format of rows that all have these columns, as version 0.
    pub(crate) fn of_layout(layout: &Arc<Schema>) -> Self {
        Self {
            current: Version {
                number: 0,
                schema: Arc::clone(layout),
                count: layout.columns().len(),
            },
            layout: Arc::clone(layout),
            older: Box::new([]),
            places: Box::new([]),
            stored: Box::new([]),
        }
    }

    /// The format of a table with these stored columns; `versions` are numbers and how many of the columns each has,
    /// ascending.
    ///
    /// # Errors
    /// XX001 if they contradict each other.
    pub(crate) fn new(
        layout: &Arc<Schema>,
        stored: Vec<FormatColumn>,
        versions: &[(u8, usize)],
    ) -> SqlResult<Self> {
        let contradiction = |what: &str| {
            SqlError::corrupted(format!("the stored columns of a table contradict {what}"))
        };
        let columns = layout.columns();
        let live = stored.iter().filter(|it| it.column.is_some()).count();
        let mut places = vec![usize::MAX; columns.len()];
        for (at, it) in stored.iter().enumerate() {
            if let Some(column) = it.column {
                *places
                    .get_mut(column)
                    .ok_or_else(|| contradiction("its columns"))? = at;
            }
        }
        let is_whole = (live..=live + 1).contains(&columns.len());
        if !is_whole || places[..live].contains(&usize::MAX) {
            return Err(contradiction("its columns"));
        }
        let is_ascending = |pair: &[(u8, usize)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
        if !versions.windows(2).all(is_ascending)
            || versions
                .last()
                .is_none_or(|last| last.1 != stored.len() || last.0 >= row_codec::VERSIONS)
        {
            return Err(contradiction("its versions"));
        }
        let mut made = Vec::with_capacity(versions.len());
        for (number, count) in versions {
            made.push(Version {
                number: *number,
                schema: Arc::new(schema_of(layout, &stored[..*count], live)?),
                count: *count,
            });
        }
        let current = made.pop().ok_or_else(|| contradiction("its versions"))?;
        Ok(Self {
            layout: Arc::clone(layout),
            current,
            older: made.into(),
            places: places.into(),
            stored: stored.into(),
        })
    }

    /// The columns of rows as they are written now.
    pub(crate) fn schema(&self) -> &Schema {
        &self.current.schema
    }

    /// The version that rows are written under.
    pub(super) fn version(&self) -> u8 {
        self.current.number
    }

    /// One column of a row.
    ///
    /// # Errors
    /// XX001 if the bytes are no row of the table; 40001 if the row is of a version that is not known: the caller's view
    /// of the catalogue is older.
    #[inline]
    pub(crate) fn value<'a>(
        &'a self,
        column: usize,
        key: &'a [u8],
        row: &'a [u8],
        scratch: &'a mut Vec<u8>,
    ) -> SqlResult<Value<'a>> {
        if let ColumnPlace::Key(_) = self.layout.place(column) {
            return row_codec::column(&self.layout, column, key, row, scratch).ok_or_else(damaged);
        }
        let version = self.version_of(row)?;
        let place = match self.places.get(column) {
            Some(place) => *place,
            None => column,
        };
        if place < version.count {
            return row_codec::column(&version.schema, place, key, row, scratch)
                .ok_or_else(damaged);
        }
        match self.stored.get(place) {
            Some(stored) => Ok(stored.missing.value()),
            None => Err(damaged()),
        }
    }

    /// All columns of a row, as SQL has them, and the hidden row number if there is one.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub(crate) fn decode(&self, key: &[u8], row: &[u8]) -> SqlResult<Vec<Datum>> {
        let read = |column| -> SqlResult<Datum> {
            let mut scratch = Vec::new();
            Ok(self.value(column, key, row, &mut scratch)?.to_datum())
        };
        (0..self.layout.columns().len()).map(read).collect()
    }

    /// The bytes of a row without its key, under the current version.
    ///
    /// # Errors
    /// 22003 or 42804 for a value that its column cannot hold.
    pub(crate) fn encode(&self, row: &[Datum], into: &mut Vec<u8>) -> SqlResult<()> {
        let schema = &self.current.schema;
        if self.places.is_empty() {
            return row_codec::encode_into(schema, row, into).map_err(|error| not_encoded(&error));
        }
        let at = |column: usize| row.get(column).ok_or_else(damaged);
        let mut stored = Vec::with_capacity(schema.columns().len());
        for column in &self.stored {
            stored.push(column.column.map_or(Ok(&Datum::Null), at)?);
        }
        if schema.columns().len() > stored.len() {
            // The hidden row number is in the key.
            stored.push(at(self.layout.columns().len() - 1)?);
        }
        row_codec::encode_into(schema, &stored, into).map_err(|error| not_encoded(&error))?;
        row_codec::set_version(into, self.current.number);
        Ok(())
    }

    /// The place of a column in rows of the current version; `None` if it is in the key, or of variable length.
    pub(crate) fn fixed_place(&self, column: usize) -> Option<FixedPlace> {
        if let ColumnPlace::Key(_) = self.layout.place(column) {
            return None;
        }
        let place = self.places.get(column).copied().unwrap_or(column);
        let schema = &self.current.schema;
        let ColumnPlace::Fixed(byte) = schema.place(place) else {
            return None;
        };
        // Null bits follow the header, one for each nullable column outside of the key.
        let has_bit = |at: &usize| {
            schema.columns()[*at].nullable && !matches!(schema.place(*at), ColumnPlace::Key(_))
        };
        let bit = (0..place).filter(has_bit).count();
        let is_nullable = has_bit(&place);
        Some(FixedPlace {
            byte,
            null_byte: if is_nullable { 1 + bit / 8 } else { 0 },
            null_mask: if is_nullable { 1 << (bit % 8) } else { 0 },
        })
    }

    /// The earlier versions: their numbers, and what they have of the stored columns.
    pub(super) fn earlier(&self) -> impl Iterator<Item = (u8, &Schema)> {
        self.older.iter().map(|it| (it.number, &*it.schema))
    }

    /// A row of the current version with the values that columns were added with, and without one in all columns of an
    /// earlier version.
    ///
    /// # Errors
    /// Those of encodings.
    pub(super) fn missing_row(&self, earlier: u8) -> SqlResult<Vec<u8>> {
        let version = self.older.iter().find(|it| it.number == earlier);
        let count = version.map_or(self.current.count, |it| it.count);
        let schema = &self.current.schema;
        let row: Vec<&Datum> = (0..schema.columns().len())
            .map(|at| match self.stored.get(at) {
                Some(stored) if at >= count => &stored.missing,
                _ => &Datum::Null,
            })
            .collect();
        let mut bytes = Vec::new();
        row_codec::encode_into(schema, &row, &mut bytes).map_err(|error| not_encoded(&error))?;
        row_codec::set_version(&mut bytes, self.current.number);
        Ok(bytes)
    }

    #[inline]
    fn version_of(&self, row: &[u8]) -> SqlResult<&Version> {
        let number = row_codec::version(row);
        if number == self.current.number {
            return Ok(&self.current);
        }
        let found = self.older.iter().find(|it| it.number == number);
        found.ok_or_else(of_later_version)
    }
}

/// The stored columns of a version, and the hidden row number if there is one.
fn schema_of(layout: &Schema, stored: &[FormatColumn], live: usize) -> SqlResult<Schema> {
    let of_layout = layout.columns();
    let mut columns = Vec::with_capacity(stored.len() + 1);
    for (at, it) in stored.iter().enumerate() {
        columns.push(match it.column.and_then(|column| of_layout.get(column)) {
            Some(column) => column.clone(),
            // No column of SQL's has such a name.
            None => Column::new(&format!("\u{0}dropped {at}"), it.column_type).nullable(),
        });
    }
    columns.extend(of_layout.get(live).cloned());
    let key: Vec<&str> = layout
        .key()
        .iter()
        .map(|at| of_layout[*at].name.as_str())
        .collect();
    Schema::new(columns, &key)
        .map_err(|error| SqlError::corrupted(format!("the stored columns of a table: {error}")))
}

/// A row that was written after the columns of its table had changed: the transaction read the table before.
#[cold]
fn of_later_version() -> SqlError {
    SqlError::new(
        sqlstate::SERIALIZATION_FAILURE,
        "could not serialize access due to a concurrent change of the table's columns",
    )
    .with_hint("The transaction might succeed if retried.")
}
