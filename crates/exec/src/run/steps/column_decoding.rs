//! Decodes a row's bytes to the words of a row of the plan, and encodes words to the bytes of a
//! key.

use namiki_data::columns::key_codec::encode_column;
use namiki_data::columns::{ColumnType, Schema, Value, row_codec};

use crate::error::{ExecError, HexBytes};
use crate::program::{KeyOrigin, KeyValues, Load, ReadStep};
use crate::row::Row;

/// Loads the columns of a row that a step needs, unless its filter rejects the row. Returns whether
/// the row passes.
#[inline]
pub(crate) fn decode_columns(
    step: &ReadStep,
    schema: &Schema,
    table: &str,
    key: &[u8],
    bytes: &[u8],
    row: &mut Row,
    scratch: &mut Vec<u8>,
) -> Result<bool, ExecError> {
    let mut load_all = |loads: &[Load], row: &mut Row| -> Option<()> {
        for load in loads {
            let value = row_codec::column(schema, load.column, key, bytes, scratch)?;
            load.slot.put_in(value, row)?;
        }
        Some(())
    };
    let not_a_row = || ExecError::NotARow {
        table: table.to_owned(),
        key: HexBytes(key.to_vec()),
    };
    if let Some(filter) = &step.filter {
        load_all(&step.early_loads, row).ok_or_else(not_a_row)?;
        if filter.truth(row.as_ref())? != Some(true) {
            return Ok(false);
        }
    }
    load_all(&step.loads, row).ok_or_else(not_a_row)?;
    Ok(true)
}

/// There is no row with a key. That is a valid answer to a look-up, but the row of an index entry
/// must exist.
#[inline]
pub(crate) fn no_row(values: &KeyValues, table: &str, key: &[u8]) -> Result<(), ExecError> {
    match values.origin {
        KeyOrigin::Equality => Ok(()),
        KeyOrigin::IndexEntry => Err(ExecError::RowOfIndexEntryMissing {
            table: table.to_owned(),
            key: HexBytes(key.to_vec()),
        }),
    }
}

/// Encodes a key, or a prefix of one, from values of a row. `None` if no row can have it: a value
/// does not fit a stored column, or is missing in an equality.
#[inline]
pub(crate) fn encode_key(
    schema: &Schema,
    key: &KeyValues,
    row: &Row,
    into: &mut Vec<u8>,
) -> Option<()> {
    let alone = schema.key().len() == 1;
    for (at, slot) in schema.key().iter().zip(&key.slots) {
        let value = slot.get(row.as_ref());
        let (column_type, nulls) = (schema.columns()[*at].column_type, schema.nulls(*at));
        match (value, column_type) {
            (Value::Null, _) if key.origin == KeyOrigin::Equality || nulls.is_none() => {
                return None;
            }
            (Value::Decimal { unscaled, .. }, ColumnType::Decimal { .. }) => {
                i64::try_from(unscaled).ok()?;
            }
            _ => {}
        }
        encode_column(value, column_type, nulls, alone, into);
    }
    Some(())
}
