//! Rows and keys in the encodings of `namiki_data`.

use namiki_data::columns::key_codec::{self, EncodeError};
use namiki_data::columns::{Datum, Schema, Value, row_codec};

use crate::error::{SqlError, SqlResult};
use crate::sqlstate;

/// The key of a row, given the values of all columns.
///
/// # Errors
/// 22003 or 42804 for a value that its column cannot hold.
pub(crate) fn encode_key(layout: &Schema, row: &[Datum]) -> SqlResult<Vec<u8>> {
    key_codec::encode(layout, row).map_err(|error| not_encoded(&error))
}

/// The bytes of a row without its key.
///
/// # Errors
/// As [`encode_key`].
pub(crate) fn encode_row(layout: &Schema, row: &[Datum], into: &mut Vec<u8>) -> SqlResult<()> {
    row_codec::encode_into(layout, row, into).map_err(|error| not_encoded(&error))
}

/// All columns of a row.
///
/// # Errors
/// XX001 if the bytes are not a row of this layout.
pub(crate) fn decode_row(layout: &Schema, key: &[u8], row: &[u8]) -> SqlResult<Vec<Datum>> {
    row_codec::decode(layout, key, row).ok_or_else(damaged)
}

/// One column of a row.
///
/// # Errors
/// XX001 if the bytes are not a row of this layout.
pub(crate) fn row_value<'a>(
    layout: &Schema,
    column: usize,
    key: &'a [u8],
    row: &'a [u8],
    scratch: &'a mut Vec<u8>,
) -> SqlResult<Value<'a>> {
    row_codec::column(layout, column, key, row, scratch).ok_or_else(damaged)
}

fn damaged() -> SqlError {
    SqlError::corrupted("a stored row does not have the columns of its table")
        .with_hint("Run `namiki check` on the database directory.")
}

fn not_encoded(error: &EncodeError) -> SqlError {
    let state = match error {
        EncodeError::MissingValue { .. } => sqlstate::NOT_NULL_VIOLATION,
        EncodeError::TooLong { .. } => sqlstate::PROGRAM_LIMIT_EXCEEDED,
        EncodeError::WrongType { .. } => sqlstate::DATATYPE_MISMATCH,
        _ => sqlstate::INTERNAL_ERROR,
    };
    SqlError::new(state, error.to_string())
}
