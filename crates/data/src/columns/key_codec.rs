//! Keys as bytes that compare as the columns do.
//!
//! | column | bytes |
//! |---|---|
//! | bool | 0 or 1 |
//! | u64 | 8, big endian |
//! | i64, decimal | 8, big endian, the sign bit flipped |
//! | date | 4, big endian, the sign bit flipped |
//! | text, bytes | themselves, each 0 as 0 255, then 0 1; in a key of one column themselves alone |
//!
//! A column that may be null has a byte before it: 0 for null (and nothing more), 1 for a value.
//! The same encoding is that of typed keys in `namiki`, so that a typed table can be described by a
//! schema.

use std::ops::Bound;

use super::{ColumnType, Datum, Schema, Value};
use namiki_platform::debug_as_sentence;

debug_as_sentence!(EncodeError);

/// The reason why a value does not fit its column.
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
    /// Not nullable.
    #[error("the column `{column}` must have a value")]
    MissingValue {
        /// The column.
        column: String,
    },
    /// The number of values is wrong.
    #[error("{values} values for {columns} columns")]
    WrongCount {
        /// Number of given values.
        values: usize,
        /// Number of needed values.
        columns: usize,
    },
    /// Rows are shorter than 4 GiB.
    #[error("the row has {bytes} bytes, more than 4 GiB")]
    TooLong {
        /// Its bytes.
        bytes: usize,
    },
}

/// The byte before a nullable column that is null.
const NULL_MARK: u8 = 0;

/// The byte before a nullable column with a value. It sorts behind null, and only values follow it.
pub(crate) const VALUE_MARK: u8 = 1;

/// Adds one column to a key. `alone`: it is the key's only one.
pub(crate) fn encode_column(value: Value<'_>, nullable: bool, alone: bool, into: &mut Vec<u8>) {
    if nullable {
        into.push(if value.is_null() {
            NULL_MARK
        } else {
            VALUE_MARK
        });
    }
    match value {
        Value::Null => {}
        Value::Bool(value) => into.push(u8::from(value)),
        Value::U64(value) => into.extend_from_slice(&value.to_be_bytes()),
        Value::I64(value) => into.extend_from_slice(&(value ^ i64::MIN).to_be_bytes()),
        Value::Decimal { unscaled, .. } => {
            into.extend_from_slice(&(unscaled as i64 ^ i64::MIN).to_be_bytes());
        }
        Value::Date(days) => into.extend_from_slice(&(days ^ i32::MIN).to_be_bytes()),
        Value::Text(_) | Value::Bytes(_) => {
            let bytes = value.as_bytes().unwrap_or_default();
            if alone {
                into.extend_from_slice(bytes);
            } else {
                escape(bytes, into);
            }
        }
    }
}

fn escape(bytes: &[u8], into: &mut Vec<u8>) {
    for part in bytes.split_inclusive(|byte| *byte == 0) {
        into.extend_from_slice(part);
        if part.ends_with(&[0]) {
            into.push(255);
        }
    }
    into.extend_from_slice(&[0, 1]);
}

/// Checks that a value can stand in a stored column, and gives it the column's type.
pub(crate) fn checked(schema: &Schema, column: usize, value: &Datum) -> Result<Datum, EncodeError> {
    let column = &schema.columns()[column];
    if *value == Datum::Null {
        return if column.nullable {
            Ok(Datum::Null)
        } else {
            let column = column.name.clone();
            Err(EncodeError::MissingValue { column })
        };
    }
    let fits = |value: &Datum| match value {
        Datum::Decimal { unscaled, .. } => i64::try_from(*unscaled).is_ok(),
        _ => true,
    };
    let cast = value.cast(column.column_type).filter(fits);
    cast.ok_or_else(|| EncodeError::WrongType {
        column: column.name.clone(),
        column_type: column.column_type,
        value: value.clone(),
    })
}

/// The key of a row, or the beginning of one: values for the first columns of the key.
///
/// # Errors
/// [`EncodeError`] for a value that does not fit its column, or more values than the key has
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
            schema.columns()[*column].nullable,
            alone,
            &mut bytes,
        );
    }
    Ok(bytes)
}

/// The key of a row, given the values of all columns.
///
/// # Errors
/// [`EncodeError`] for a value that does not fit its column.
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

/// The first key that is greater than all that begin with `prefix`.
#[must_use]
pub fn after_prefix(prefix: &[u8]) -> Bound<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 255 {
            end.push(last + 1);
            return Bound::Excluded(end);
        }
    }
    Bound::Unbounded
}

/// Takes one column off the front of a key. Text that is escaped and holds zeros is put together in
/// `scratch`. Nothing if the bytes are not such a column.
pub(crate) fn take_column<'a>(
    bytes: &mut &'a [u8],
    column_type: ColumnType,
    nullable: bool,
    alone: bool,
    scratch: &'a mut Vec<u8>,
) -> Option<Value<'a>> {
    if nullable {
        let (mark, rest) = bytes.split_first()?;
        *bytes = rest;
        match *mark {
            NULL_MARK => return Some(Value::Null),
            VALUE_MARK => {}
            _ => return None,
        }
    }
    Some(match column_type {
        ColumnType::Bool => match take::<1>(bytes)? {
            [0] => Value::Bool(false),
            [1] => Value::Bool(true),
            _ => return None,
        },
        ColumnType::U64 => Value::U64(u64::from_be_bytes(take(bytes)?)),
        ColumnType::I64 => Value::I64(i64::from_be_bytes(take(bytes)?) ^ i64::MIN),
        ColumnType::Decimal { scale } => Value::Decimal {
            unscaled: i128::from(i64::from_be_bytes(take(bytes)?) ^ i64::MIN),
            scale,
        },
        ColumnType::Date => Value::Date(i32::from_be_bytes(take(bytes)?) ^ i32::MIN),
        ColumnType::Text => Value::Text(take_bytes(bytes, alone, scratch)?),
        ColumnType::Bytes => Value::Bytes(take_bytes(bytes, alone, scratch)?),
    })
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*taken)
}

fn take_bytes<'a>(bytes: &mut &'a [u8], alone: bool, scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    let all = *bytes;
    if alone {
        *bytes = &[];
        return Some(all);
    }
    let zero = all.iter().position(|byte| *byte == 0)?;
    if all.get(zero + 1) == Some(&1) {
        *bytes = &all[zero + 2..];
        return Some(&all[..zero]);
    }
    scratch.clear();
    let mut rest = all;
    loop {
        let zero = rest.iter().position(|byte| *byte == 0)?;
        scratch.extend_from_slice(&rest[..zero]);
        let mark = *rest.get(zero + 1)?;
        rest = &rest[zero + 2..];
        match mark {
            255 => scratch.push(0),
            1 => {
                *bytes = rest;
                return Some(scratch);
            }
            _ => return None,
        }
    }
}

/// Passes over one column at the front of a key.
pub(crate) fn skip_column(
    bytes: &mut &[u8],
    column_type: ColumnType,
    nullable: bool,
    alone: bool,
) -> Option<()> {
    if nullable {
        let (mark, rest) = bytes.split_first()?;
        *bytes = rest;
        if *mark == NULL_MARK {
            return Some(());
        }
    }
    if let Some(length) = column_type.fixed_bytes() {
        *bytes = bytes.get(length..)?;
        return Some(());
    }
    if alone {
        *bytes = &[];
        return Some(());
    }
    loop {
        let zero = bytes.iter().position(|byte| *byte == 0)?;
        let mark = *bytes.get(zero + 1)?;
        *bytes = &bytes[zero + 2..];
        match mark {
            1 => return Some(()),
            255 => {}
            _ => return None,
        }
    }
}

/// All columns of a key. Nothing if the bytes are not a key of this schema.
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
            column.nullable,
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
    use namiki_platform::seeded_random::Random;

    use super::super::Column;
    use super::*;

    const TYPES: [ColumnType; 7] = [
        ColumnType::Bool,
        ColumnType::I64,
        ColumnType::U64,
        ColumnType::Decimal { scale: 2 },
        ColumnType::Date,
        ColumnType::Text,
        ColumnType::Bytes,
    ];

    fn random_datum(random: &mut Random, column: &Column) -> Datum {
        if column.nullable && random.chance(0.2) {
            return Datum::Null;
        }
        let small = random.below(5) as i64 - 2;
        let bytes = |random: &mut Random| -> Vec<u8> {
            let len = random.index(4);
            (0..len)
                .map(|_| [0, 1, 255, b'a'][random.index(4)])
                .collect()
        };
        match column.column_type {
            ColumnType::Bool => Datum::Bool(random.chance(0.5)),
            ColumnType::I64 => Datum::I64(if random.chance(0.1) { i64::MIN } else { small }),
            ColumnType::U64 => Datum::U64(if random.chance(0.1) { u64::MAX } else { 7 }),
            ColumnType::Decimal { scale } => Datum::Decimal {
                unscaled: i128::from(small),
                scale,
            },
            ColumnType::Date => Datum::Date(small as i32),
            ColumnType::Text => {
                let bytes = bytes(random).into_iter().map(|byte| byte & 127);
                Datum::Text(String::from_utf8(bytes.collect()).unwrap())
            }
            ColumnType::Bytes => Datum::Bytes(bytes(random)),
        }
    }

    #[test]
    fn keys_compare_as_their_columns_and_come_back() {
        for seed in 0..200 {
            let mut random = Random::seeded(seed);
            let columns: Vec<Column> = (0..1 + random.index(3))
                .map(|at| {
                    let column = Column::new(&format!("c{at}"), TYPES[random.index(7)]);
                    if random.chance(0.3) {
                        column.nullable()
                    } else {
                        column
                    }
                })
                .collect();
            let names: Vec<String> = columns.iter().map(|it| it.name.clone()).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let schema = Schema::new(columns, &names).unwrap();
            let row = |random: &mut Random| -> Vec<Datum> {
                let columns = schema.columns().iter();
                columns.map(|column| random_datum(random, column)).collect()
            };
            let rows: Vec<Vec<Datum>> = (0..30).map(|_| row(&mut random)).collect();
            for a in &rows {
                let a_bytes = encode(&schema, a).unwrap();
                assert_eq!(decode(&schema, &a_bytes).as_ref(), Some(a), "seed {seed}");
                for b in &rows {
                    let b_bytes = encode(&schema, b).unwrap();
                    assert_eq!(a_bytes.cmp(&b_bytes), a.cmp(b), "seed {seed}: {a:?} {b:?}");
                }
            }
        }
    }

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

    #[test]
    fn what_follows_a_prefix_begins_with_another() {
        assert_eq!(after_prefix(b"ab"), Bound::Excluded(b"ac".to_vec()));
        assert_eq!(after_prefix(&[1, 255, 255]), Bound::Excluded(vec![2]));
        assert_eq!(after_prefix(&[255]), Bound::Unbounded);
        assert_eq!(after_prefix(&[]), Bound::Unbounded);
    }
}
