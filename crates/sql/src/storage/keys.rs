//! Keys in the encoding of `namiki_data`, and the errors of encodings.

use namiki_data::columns::key_codec::{self, EncodeError};
use namiki_data::columns::{Datum, Schema};

use crate::error::{SqlError, SqlResult};
use crate::sqlstate;

/// The key of a row, given the values of all columns.
///
/// # Errors
/// 22003 or 42804 for a value that its column cannot hold.
pub(crate) fn encode_key(layout: &Schema, row: &[Datum]) -> SqlResult<Vec<u8>> {
    key_codec::encode(layout, row).map_err(|error| not_encoded(&error))
}

pub(super) fn damaged() -> SqlError {
    SqlError::corrupted("a stored row does not have the columns of its table")
        .with_hint("Run `namiki check` on the database directory.")
}

pub(super) fn not_encoded(error: &EncodeError) -> SqlError {
    let state = match error {
        EncodeError::MissingValue { .. } => sqlstate::NOT_NULL_VIOLATION,
        EncodeError::TooLong { .. } => sqlstate::PROGRAM_LIMIT_EXCEEDED,
        EncodeError::WrongType { .. } => sqlstate::DATATYPE_MISMATCH,
        _ => sqlstate::INTERNAL_ERROR,
    };
    SqlError::new(state, error.to_string())
}
