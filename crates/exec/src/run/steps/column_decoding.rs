//! From a row's bytes to the words of a row of the plan; and from words to the bytes of a key.

use crate::data::key_codec::encode_column;
use crate::data::{Schema, Value, row_codec};
use crate::error::{ExecError, HexBytes};
use crate::program::{KeyOrigin, KeyValues, Load, ReadStep};
use crate::row::Row;

/// Loads the columns that a step wants of a row, unless its filter leaves the row out. Tells whether it is to go on.
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

/// There is no row with a key. For a look-up that is an answer; what an index entry names must be there.
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

/// The key, or the beginning of one, made of these values of a row. Nothing if no row has it: because one of the values fits
/// no stored column, or is missing where it would have to equal one.
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
        let nullable = schema.columns()[*at].nullable;
        match value {
            Value::Null if key.origin == KeyOrigin::Equality || !nullable => return None,
            Value::Decimal { unscaled, .. } => _ = i64::try_from(unscaled).ok()?,
            _ => {}
        }
        encode_column(value, nullable, alone, into);
    }
    Some(())
}
