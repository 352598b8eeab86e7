//! Keys of tables with a schema: the columns of the key, in the encoding of typed keys.
//!
//! | key | bytes (`key/encoding.rs`) |
//! |---|---|
//! | one column | the column alone |
//! | several columns | each as a component |
//!
//! So a typed table can be described by a schema, and a loaded table opens with typed keys.

use super::{ColumnType, Datum, Float, NullOrder, Schema, Value};
use crate::debug_as_sentence;
use crate::key::encoding::{FixedKey, put_escaped, put_mark, take_escaped, take_fixed, take_mark};
pub use crate::key::encoding::{LAST_NULL_MARK, VALUE_MARK};

debug_as_sentence!(EncodeError);

/// The reason that a value cannot be stored in its column.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The value has another type, or does not fit.
    #[error("the column `{column}` holds {column_type}, not {value}")]
    WrongType {
        /// The column.
        column: String,
        /// Its type.
        column_type: ColumnType,
        /// The value.
        value: Datum,
    },
    /// The column is not nullable.
    #[error("the column `{column}` must have a value")]
    MissingValue {
        /// The column.
        column: String,
    },
    /// A row has another number of values than the table has columns.
    #[error("{values} values for {columns} columns")]
    WrongCount {
        /// Values given.
        values: usize,
        /// Columns.
        columns: usize,
    },
    /// Rows are shorter than 4 GiB.
    #[error("the row has {bytes} bytes, more than 4 GiB")]
    TooLong {
        /// Its bytes.
        bytes: usize,
    },
}

/// Adds one column to a key. `nulls`: where missing values come, if the column is nullable. `alone`:
/// it is the key's only column. The value has the column's type, or is missing where it may be.
///
/// In a key, -0 is stored as 0, and every NaN as one: they are equal.
#[inline]
pub fn encode_column(
    value: Value<'_>,
    column_type: ColumnType,
    nulls: Option<NullOrder>,
    alone: bool,
    into: &mut Vec<u8>,
) {
    match nulls {
        Some(NullOrder::Last) if value.is_null() => into.push(LAST_NULL_MARK),
        Some(_) => put_mark(!value.is_null(), into),
        None => {}
    }
    match value {
        Value::Null => {}
        Value::Bool(value) => into.extend_from_slice(&value.to_key()),
        Value::U64(value) => into.extend_from_slice(&value.to_key()),
        Value::I64(value) => into.extend_from_slice(&value.to_key()),
        Value::Decimal { unscaled, .. } => match column_type {
            ColumnType::LongDecimal { .. } => into.extend_from_slice(&unscaled.to_key()),
            _ => into.extend_from_slice(&(unscaled as i64).to_key()),
        },
        Value::F64(value) => into.extend_from_slice(&Float(value).to_ordered_bits().to_key()),
        Value::Date(days) => into.extend_from_slice(&days.to_key()),
        Value::Text(bytes) | Value::Bytes(bytes) if alone => into.extend_from_slice(bytes),
        Value::Text(bytes) | Value::Bytes(bytes) => put_escaped(bytes, into),
    }
}

/// Checks that a value can be stored in a column, and converts it to the column's type.
///
/// # Errors
/// [`EncodeError::WrongType`] or [`EncodeError::MissingValue`].
pub fn checked(schema: &Schema, column: usize, value: &Datum) -> Result<Datum, EncodeError> {
    let column = &schema.columns()[column];
    if *value == Datum::Null {
        return if column.nullable {
            Ok(Datum::Null)
        } else {
            let column = column.name.clone();
            Err(EncodeError::MissingValue { column })
        };
    }
    let fits = |value: &Datum| match (value, column.column_type) {
        (Datum::Decimal { unscaled, .. }, ColumnType::Decimal { .. }) => {
            i64::try_from(*unscaled).is_ok()
        }
        _ => true,
    };
    let cast = value.cast(column.column_type).filter(fits);
    cast.ok_or_else(|| EncodeError::WrongType {
        column: column.name.clone(),
        column_type: column.column_type,
        value: value.clone(),
    })
}

/// The key of a row, or its beginning: values for the first columns of the key.
///
/// # Errors
/// [`EncodeError`] for a value that cannot be stored in its column, or more values than the key has
/// columns.
pub fn encode_prefix(schema: &Schema, values: &[Datum]) -> Result<Vec<u8>, EncodeError> {
    if values.len() > schema.key().len() {
        return Err(EncodeError::WrongCount {
            values: values.len(),
            columns: schema.key().len(),
        });
    }
    let alone = schema.key().len() == 1;
    let mut bytes = Vec::with_capacity(16 * values.len());
    for (column, value) in schema.key().iter().zip(values) {
        let value = checked(schema, *column, value)?;
        encode_column(
            value.value(),
            schema.columns()[*column].column_type,
            schema.nulls(*column),
            alone,
            &mut bytes,
        );
    }
    Ok(bytes)
}

/// The key of a row, given the values of all columns.
///
/// # Errors
/// [`EncodeError`] for a value that cannot be stored in its column.
pub fn encode(schema: &Schema, row: &[Datum]) -> Result<Vec<u8>, EncodeError> {
    if row.len() != schema.columns().len() {
        return Err(EncodeError::WrongCount {
            values: row.len(),
            columns: schema.columns().len(),
        });
    }
    let values: Vec<Datum> = schema.key().iter().map(|at| row[*at].clone()).collect();
    encode_prefix(schema, &values)
}

/// Takes one column off the front of a key, written by [`encode_column`] with the same type, nulls
/// and `alone`. Escaped text that contains zeros is decoded into `scratch`. `None` if the bytes are no
/// such column.
#[inline]
pub fn take_column<'a>(
    bytes: &mut &'a [u8],
    column_type: ColumnType,
    nulls: Option<NullOrder>,
    alone: bool,
    scratch: &'a mut Vec<u8>,
) -> Option<Value<'a>> {
    if !take_value_mark(bytes, nulls)? {
        return Some(Value::Null);
    }
    Some(match column_type {
        ColumnType::Bool => Value::Bool(take_fixed(bytes)?),
        ColumnType::U64 => Value::U64(take_fixed(bytes)?),
        ColumnType::I64 => Value::I64(take_fixed(bytes)?),
        ColumnType::Decimal { scale } => Value::Decimal {
            unscaled: i128::from(take_fixed::<i64, _>(bytes)?),
            scale,
        },
        ColumnType::LongDecimal { scale } => Value::Decimal {
            unscaled: take_fixed(bytes)?,
            scale,
        },
        ColumnType::F64 => Value::F64(Float::from_ordered_bits(take_fixed(bytes)?).0),
        ColumnType::Date => Value::Date(take_fixed(bytes)?),
        ColumnType::Text => Value::Text(take_text(bytes, alone, scratch)?),
        ColumnType::Bytes => Value::Bytes(take_text(bytes, alone, scratch)?),
    })
}

/// Takes the byte before a value that may be missing, if there is one: whether there is a value.
#[inline]
fn take_value_mark(bytes: &mut &[u8], nulls: Option<NullOrder>) -> Option<bool> {
    match nulls {
        None => Some(true),
        Some(NullOrder::First) => take_mark(bytes),
        Some(NullOrder::Last) => match take_fixed::<u8, _>(bytes)? {
            VALUE_MARK => Some(true),
            LAST_NULL_MARK => Some(false),
            _ => None,
        },
    }
}

#[inline]
fn take_text<'a>(bytes: &mut &'a [u8], alone: bool, scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    if alone {
        return Some(std::mem::take(bytes));
    }
    Some(take_escaped(bytes)?.text_in(scratch))
}

/// Skips one column at the front of a key. See [`take_column`].
#[inline]
pub fn skip_column(
    bytes: &mut &[u8],
    column_type: ColumnType,
    nulls: Option<NullOrder>,
    alone: bool,
) -> Option<()> {
    if !take_value_mark(bytes, nulls)? {
        return Some(());
    }
    if let Some(length) = column_type.fixed_bytes() {
        *bytes = bytes.get(length..)?;
    } else if alone {
        *bytes = &[];
    } else {
        take_escaped(bytes)?;
    }
    Some(())
}

/// All columns of a key. `None` if the bytes are not a key of this schema.
#[must_use]
pub fn decode(schema: &Schema, mut bytes: &[u8]) -> Option<Vec<Datum>> {
    let alone = schema.key().len() == 1;
    let mut values = Vec::with_capacity(schema.key().len());
    for at in schema.key() {
        let column = &schema.columns()[*at];
        let mut scratch = Vec::new();
        let mut rest = bytes;
        let value = take_column(
            &mut rest,
            column.column_type,
            schema.nulls(*at),
            alone,
            &mut scratch,
        )?;
        values.push(value.to_datum());
        let left = rest.len();
        bytes = &bytes[bytes.len() - left..];
    }
    bytes.is_empty().then_some(values)
}

#[cfg(test)]
mod tests {
    use super::super::Column;
    use super::*;

    #[test]
    fn a_value_of_another_column_is_refused() {
        let schema = Schema::new(vec![Column::new("id", ColumnType::I64)], &["id"]).unwrap();
        let text = Datum::Text("x".to_owned());
        let error = encode_prefix(&schema, &[text]).unwrap_err();
        assert_eq!(error.to_string(), "the column `id` holds i64, not x");
        assert!(encode_prefix(&schema, &[Datum::Null]).is_err());
        assert!(encode_prefix(&schema, &[Datum::I64(1), Datum::I64(2)]).is_err());
        assert_eq!(encode_prefix(&schema, &[]).unwrap(), Vec::<u8>::new());
    }
}
