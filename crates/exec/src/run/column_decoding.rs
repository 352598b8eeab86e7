//! From a row's bytes to the words of a row of the plan; and from words to the bytes of a key.

use crate::data::key_codec::encode_column;
use crate::data::{Schema, Value, row_codec};
use crate::error::{ExecError, HexBytes};
use crate::program::{Load, ReadStep};
use crate::row::{Row, Slot};

/// Loads the columns that a step wants of a row, unless its filter leaves the row out. Tells whether it is to go on.
#[inline]
pub(super) fn decode_columns(
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

/// The key, or the beginning of one, made of these values of a row. Nothing if one of them is missing or fits no
/// stored column: then no row has it.
#[inline]
pub(super) fn encode_key(
    schema: &Schema,
    slots: &[Slot],
    row: &Row,
    into: &mut Vec<u8>,
) -> Option<()> {
    let alone = schema.key().len() == 1;
    for (at, slot) in schema.key().iter().zip(slots) {
        let value = slot.get(row.as_ref());
        match value {
            Value::Null => return None,
            Value::Decimal { unscaled, .. } => _ = i64::try_from(unscaled).ok()?,
            _ => {}
        }
        encode_column(value, schema.columns()[*at].nullable, alone, into);
    }
    Some(())
}
