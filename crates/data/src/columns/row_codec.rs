//! The bytes of a row, without its key.
//!
//! ```text
//!  header   null bits            fixed columns         ends               variable columns
//! | 1 byte | 1 bit per nullable | in schema order, LE | 1, 2, 4 bytes, LE | bytes, back to back |
//! ```
//!
//! The two low bits of the header are the width of the ends (0: one byte, 1: two, 2: four). The six
//! others are the number of the schema version that the row was written under: a user of several
//! schemas sets it ([`set_version`]), and finds the schema by it; they are zero otherwise. An end counts from the first variable byte. A column without a value has its
//! null bit set, and zeros or no bytes. So the schema and at most two ends locate a column,
//! whatever the others contain. Columns of the key are not repeated here: [`column`](fn@column)
//! reads them from the key.

use std::borrow::Borrow;

use super::key_codec::{EncodeError, checked, skip_column, take_column};
use super::{ColumnPlace, ColumnType, Datum, Schema, Value};

/// The number of versions that a header can tell apart.
pub const VERSIONS: u8 = 64;
/// The bits of the header below the version.
const WIDTH_BITS: u32 = 2;

/// The number of the schema version that a row was written under. A row without bytes, all of whose
/// columns are in the key, has no header: it is of version 0.
#[inline]
#[must_use]
pub fn version(row: &[u8]) -> u8 {
    row.first().map_or(0, |header| header >> WIDTH_BITS)
}

/// Writes the number of a schema version, below [`VERSIONS`], into the header of a row.
#[inline]
pub fn set_version(row: &mut [u8], version: u8) {
    if let Some(header) = row.first_mut() {
        *header = *header & ((1 << WIDTH_BITS) - 1) | version << WIDTH_BITS;
    }
}

/// The bytes of a row, given the values of all columns; those in the key are left out.
///
/// # Errors
/// [`EncodeError`] for a value that cannot be stored in its column.
pub fn encode(schema: &Schema, row: &[Datum]) -> Result<Vec<u8>, EncodeError> {
    let mut bytes = Vec::new();
    encode_into(schema, row, &mut bytes)?;
    Ok(bytes)
}

/// [`encode`] into a buffer, which is cleared first.
///
/// # Errors
/// As [`encode`].
pub fn encode_into<D: Borrow<Datum>>(
    schema: &Schema,
    row: &[D],
    into: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    into.clear();
    if row.len() != schema.columns().len() {
        return Err(EncodeError::WrongCount {
            values: row.len(),
            columns: schema.columns().len(),
        });
    }
    if schema.is_all_key() {
        return Ok(());
    }
    into.resize(schema.fixed_end(), 0);
    let mut variable = Vec::with_capacity(schema.variable_count());
    let mut total = 0;
    for (at, value) in row.iter().enumerate() {
        let value: &Datum = value.borrow();
        let place = schema.place(at);
        if matches!(place, ColumnPlace::Key(_)) {
            continue;
        }
        let column = &schema.columns()[at];
        // The usual case needs no copy of the text.
        let cast;
        let value = if value.column_type() == Some(column.column_type)
            && !matches!(value, Datum::Decimal { .. })
        {
            value
        } else {
            cast = checked(schema, at, value)?;
            &cast
        };
        if let (Datum::Null, Some(bit)) = (value, schema.null_bit(at)) {
            into[1 + bit / 8] |= 1 << (bit % 8);
        }
        match place {
            ColumnPlace::Key(_) => {}
            ColumnPlace::Fixed(byte) => {
                put_fixed(value.value(), column.column_type, &mut into[byte..]);
            }
            ColumnPlace::Variable(_) => {
                total += value.value().as_bytes().map_or(0, <[u8]>::len);
                variable.push((at, total));
            }
        }
    }
    let (code, width) = match total {
        0..=0xff => (0, 1),
        0x100..=0xffff => (1, 2),
        _ if u32::try_from(total).is_ok() => (2, 4),
        _ => return Err(EncodeError::TooLong { bytes: total }),
    };
    into[0] = code;
    for (_, end) in &variable {
        into.extend_from_slice(&(*end as u32).to_le_bytes()[..width]);
    }
    for (at, _) in &variable {
        let value: &Datum = row[*at].borrow();
        into.extend_from_slice(value.value().as_bytes().unwrap_or_default());
    }
    Ok(())
}

#[inline]
fn put_fixed(value: Value<'_>, column_type: ColumnType, into: &mut [u8]) {
    let mut put = |bytes: &[u8]| into[..bytes.len()].copy_from_slice(bytes);
    match value {
        Value::Bool(value) => put(&[u8::from(value)]),
        Value::I64(value) => put(&value.to_le_bytes()),
        Value::U64(value) => put(&value.to_le_bytes()),
        Value::Decimal { unscaled, .. } => match column_type {
            ColumnType::LongDecimal { .. } => put(&unscaled.to_le_bytes()),
            _ => put(&(unscaled as i64).to_le_bytes()),
        },
        Value::F64(number) => put(&number.to_le_bytes()),
        Value::Date(days) => put(&days.to_le_bytes()),
        Value::Null | Value::Text(_) | Value::Bytes(_) => {}
    }
}

/// One column of a row. Text in a key that contains zeros is decoded into `scratch`. `None` if the
/// bytes are no row of this schema.
#[inline]
#[must_use]
pub fn column<'a>(
    schema: &Schema,
    number: usize,
    key: &'a [u8],
    row: &'a [u8],
    scratch: &'a mut Vec<u8>,
) -> Option<Value<'a>> {
    let column_type = schema.columns()[number].column_type;
    match schema.place(number) {
        ColumnPlace::Key(position) => key_column(schema, position, key, scratch),
        place => {
            if let Some(bit) = schema.null_bit(number)
                && row.get(1 + bit / 8)? >> (bit % 8) & 1 == 1
            {
                return Some(Value::Null);
            }
            match place {
                ColumnPlace::Fixed(byte) => fixed(column_type, row.get(byte..)?),
                ColumnPlace::Variable(variable) => {
                    let bytes = variable_bytes(schema, variable, row)?;
                    Some(if column_type == ColumnType::Text {
                        Value::Text(bytes)
                    } else {
                        Value::Bytes(bytes)
                    })
                }
                ColumnPlace::Key(_) => None,
            }
        }
    }
}

#[inline]
fn key_column<'a>(
    schema: &Schema,
    position: usize,
    key: &'a [u8],
    scratch: &'a mut Vec<u8>,
) -> Option<Value<'a>> {
    let alone = schema.key().len() == 1;
    let mut rest = key;
    for at in &schema.key()[..position] {
        let before = schema.columns()[*at].column_type;
        skip_column(&mut rest, before, schema.nulls(*at), alone)?;
    }
    let at = schema.key()[position];
    let column_type = schema.columns()[at].column_type;
    take_column(&mut rest, column_type, schema.nulls(at), alone, scratch)
}

#[inline]
fn fixed(column_type: ColumnType, bytes: &[u8]) -> Option<Value<'_>> {
    Some(match column_type {
        ColumnType::Bool => match bytes.first()? {
            0 => Value::Bool(false),
            1 => Value::Bool(true),
            _ => return None,
        },
        ColumnType::I64 => Value::I64(i64::from_le_bytes(*bytes.first_chunk()?)),
        ColumnType::U64 => Value::U64(u64::from_le_bytes(*bytes.first_chunk()?)),
        ColumnType::Decimal { scale } => Value::Decimal {
            unscaled: i128::from(i64::from_le_bytes(*bytes.first_chunk()?)),
            scale,
        },
        ColumnType::LongDecimal { scale } => Value::Decimal {
            unscaled: i128::from_le_bytes(*bytes.first_chunk()?),
            scale,
        },
        ColumnType::F64 => Value::F64(f64::from_le_bytes(*bytes.first_chunk()?)),
        ColumnType::Date => Value::Date(i32::from_le_bytes(*bytes.first_chunk()?)),
        ColumnType::Text | ColumnType::Bytes => return None,
    })
}

#[inline]
fn variable_bytes<'a>(schema: &Schema, variable: usize, row: &'a [u8]) -> Option<&'a [u8]> {
    let width = match row.first()? & ((1 << WIDTH_BITS) - 1) {
        0 => 1,
        1 => 2,
        2 => 4,
        _ => return None,
    };
    let ends = schema.fixed_end();
    let end = |number: usize| -> Option<usize> {
        let from = ends + number * width;
        let mut raw = [0; 4];
        raw[..width].copy_from_slice(row.get(from..from + width)?);
        Some(u32::from_le_bytes(raw) as usize)
    };
    let first = ends + schema.variable_count() * width;
    let from = if variable == 0 { 0 } else { end(variable - 1)? };
    row.get(first + from..first + end(variable)?)
}

/// All columns of a row. `None` if the bytes are not a row of this schema.
#[must_use]
pub fn decode(schema: &Schema, key: &[u8], row: &[u8]) -> Option<Vec<Datum>> {
    let read = |number| {
        let mut scratch = Vec::new();
        column(schema, number, key, row, &mut scratch).map(Value::to_datum)
    };
    (0..schema.columns().len()).map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Column, key_codec};
    use super::*;

    fn schema() -> Schema {
        let columns = vec![
            Column::new("name", ColumnType::Text),
            Column::new("id", ColumnType::U64),
            Column::new("price", ColumnType::Decimal { scale: 2 }).nullable(),
            Column::new("day", ColumnType::Date),
            Column::new("comment", ColumnType::Text).nullable(),
            Column::new("paid", ColumnType::Bool),
            Column::new("raw", ColumnType::Bytes),
            Column::new("weight", ColumnType::F64),
            Column::new("total", ColumnType::LongDecimal { scale: 10 }).nullable(),
        ];
        Schema::new(columns, &["day", "name"]).unwrap()
    }

    fn row(comment: Datum, price: Datum) -> Vec<Datum> {
        vec![
            Datum::Text("zero \0 inside".to_owned()),
            Datum::U64(7),
            price,
            Datum::Date(-3),
            comment,
            Datum::Bool(true),
            Datum::Bytes(vec![0, 255]),
            Datum::from(-0.5),
            Datum::Decimal {
                unscaled: -(1 << 100),
                scale: 10,
            },
        ]
    }

    #[test]
    fn rows_keep_the_bits_of_floats() {
        let columns = vec![
            Column::new("id", ColumnType::I64),
            Column::new("number", ColumnType::F64),
        ];
        let schema = Schema::new(columns, &["id"]).unwrap();
        for number in [-0.0, f64::from_bits(f64::NAN.to_bits() ^ 5), f64::MIN] {
            let bytes = encode(&schema, &[Datum::I64(1), Datum::from(number)]).unwrap();
            let mut scratch = Vec::new();
            let read = column(&schema, 1, b"", &bytes, &mut scratch);
            let is_same =
                |found| matches!(found, Value::F64(it) if it.to_bits() == number.to_bits());
            assert!(read.is_some_and(is_same), "{number}");
        }
    }

    #[test]
    fn rows_come_back_with_ends_of_every_width() {
        let schema = schema();
        let price = Datum::parse_decimal("-1.25").unwrap();
        for length in [0, 1, 255, 256, 65_535, 65_536, 100_000] {
            let row = row(Datum::Text("x".repeat(length)), price.clone());
            let (key, bytes) = (
                key_codec::encode(&schema, &row).unwrap(),
                encode(&schema, &row).unwrap(),
            );
            assert_eq!(decode(&schema, &key, &bytes).unwrap(), row, "{length}");
        }
    }

    #[test]
    fn versions_change_nothing_else() {
        let schema = schema();
        let row = row(Datum::Text("x".repeat(300)), Datum::Null);
        let key = key_codec::encode(&schema, &row).unwrap();
        let mut bytes = encode(&schema, &row).unwrap();
        assert_eq!(version(&bytes), 0);
        for number in [63, 5, 0] {
            set_version(&mut bytes, number);
            assert_eq!(version(&bytes), number);
            assert_eq!(decode(&schema, &key, &bytes).unwrap(), row);
        }
        assert_eq!(version(&[]), 0);
    }

    #[test]
    fn missing_values_are_told_from_empty_ones() {
        let schema = schema();
        for comment in [Datum::Null, Datum::Text(String::new())] {
            let row = row(comment, Datum::Null);
            let key = key_codec::encode(&schema, &row).unwrap();
            let bytes = encode(&schema, &row).unwrap();
            assert_eq!(decode(&schema, &key, &bytes).unwrap(), row);
        }
        let mut wrong = row(Datum::Null, Datum::Null);
        wrong[5] = Datum::Null;
        let error = encode(&schema, &wrong).unwrap_err().to_string();
        assert_eq!(error, "the column `paid` must have a value");
    }

    #[test]
    fn damaged_bytes_are_not_a_row() {
        let schema = schema();
        let row = row(Datum::Text("abc".to_owned()), Datum::Null);
        let key = key_codec::encode(&schema, &row).unwrap();
        let bytes = encode(&schema, &row).unwrap();
        for length in 0..bytes.len() {
            assert_eq!(decode(&schema, &key, &bytes[..length]), None, "{length}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                let _ = decode(&schema, &key, &damaged);
            }
        }
    }
}
