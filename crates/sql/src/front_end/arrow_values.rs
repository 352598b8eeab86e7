//! SQL's types and values as Arrow has them.
//!
//! uuid, json, char and varchar are texts in Arrow. Their fields say in their metadata what they are, and it stays with a
//! column through a plan.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Field, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, TimeUnit, TimestampMicrosecondType, UInt32Type,
};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::scalar::ScalarValue;
use namiki_data::columns::{Datum, Value};

use super::errors::sql_error;
use crate::error::{SqlError, SqlResult};
use crate::sqlstate;
use crate::types::{NUMERIC_PRECISION, SqlType, TimeZone, from_text, write_text};

/// The key of a field's metadata that has the SQL type, as JSON.
const SQL_TYPE: &str = "sql";
/// The key that has the table's number and the column's, with a point between.
const ORIGIN: &str = "origin";

/// The type in Arrow.
pub(super) fn arrow_type(of: SqlType) -> DataType {
    match of {
        SqlType::Bool => DataType::Boolean,
        SqlType::Int2 => DataType::Int16,
        SqlType::Int4 => DataType::Int32,
        SqlType::Int8 => DataType::Int64,
        SqlType::Oid => DataType::Int64,
        SqlType::Float4 => DataType::Float32,
        SqlType::Float8 => DataType::Float64,
        SqlType::Numeric { precision, scale } => DataType::Decimal128(precision, scale as i8),
        SqlType::Date => DataType::Date32,
        SqlType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        SqlType::Timestamptz => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        SqlType::Bytea => DataType::Binary,
        SqlType::Text
        | SqlType::Varchar { .. }
        | SqlType::Char { .. }
        | SqlType::Uuid
        | SqlType::Json
        | SqlType::Name
        | SqlType::Interval => DataType::Utf8,
    }
}

/// A field of this type, which remembers it.
pub(super) fn field(name: &str, of: SqlType, nullable: bool) -> Field {
    let field = Field::new(name, arrow_type(of), nullable);
    if sql_type_of(field.data_type()) == of {
        return field;
    }
    match serde_json::to_string(&of) {
        Ok(json) => field.with_metadata(HashMap::from([(SQL_TYPE.to_owned(), json)])),
        Err(_) => field,
    }
}

/// The same field, which remembers the table and the column that it is.
pub(super) fn with_origin(field: Field, table: u32, column: usize) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(ORIGIN.to_owned(), format!("{table}.{}", column + 1));
    field.with_metadata(metadata)
}

/// The table's number and the column's, counted from 1, if the field is a column of a table.
pub(super) fn origin(field: &Field) -> Option<(u32, i16)> {
    let (table, column) = field.metadata().get(ORIGIN)?.split_once('.')?;
    Some((table.parse().ok()?, column.parse().ok()?))
}

/// The SQL type of a field.
pub(super) fn field_type(field: &Field) -> SqlType {
    let said = field
        .metadata()
        .get(SQL_TYPE)
        .and_then(|json| serde_json::from_str(json).ok());
    match said {
        // An expression may have kept the metadata of another type.
        Some(said) if arrow_type(said) == *field.data_type() => said,
        _ => sql_type_of(field.data_type()),
    }
}

/// The SQL type that values of an Arrow type are shown as.
pub(super) fn sql_type_of(data_type: &DataType) -> SqlType {
    match data_type {
        DataType::Boolean => SqlType::Bool,
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => SqlType::Int2,
        DataType::Int32 | DataType::UInt16 => SqlType::Int4,
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 => SqlType::Int8,
        DataType::Float16 | DataType::Float32 => SqlType::Float4,
        DataType::Float64 => SqlType::Float8,
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale) => SqlType::Numeric {
            precision: *precision,
            scale: u8::try_from(*scale).unwrap_or(0),
        },
        DataType::Decimal256(_, scale) => SqlType::Numeric {
            precision: NUMERIC_PRECISION,
            scale: u8::try_from(*scale).unwrap_or(0),
        },
        DataType::Date32 | DataType::Date64 => SqlType::Date,
        DataType::Timestamp(_, None) => SqlType::Timestamp,
        DataType::Timestamp(_, Some(_)) => SqlType::Timestamptz,
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => SqlType::Bytea,
        DataType::Interval(_) | DataType::Duration(_) => SqlType::Interval,
        _ => SqlType::Text,
    }
}

/// A value as a literal of a plan.
///
/// # Errors
/// 42804 if it is not of this type.
pub(super) fn scalar_value(value: &Datum, of: SqlType) -> SqlResult<ScalarValue> {
    let null = *value == Datum::Null;
    let wrong = || {
        SqlError::new(
            sqlstate::DATATYPE_MISMATCH,
            format!("the value {value} is not of type {of}"),
        )
    };
    if null {
        return ScalarValue::try_from(&arrow_type(of)).map_err(sql_error);
    }
    Ok(match (of, value) {
        (SqlType::Bool, Datum::Bool(value)) => ScalarValue::Boolean(Some(*value)),
        (SqlType::Int2, Datum::I64(number)) => {
            ScalarValue::Int16(Some(i16::try_from(*number).map_err(|_| of.out_of_range())?))
        }
        (SqlType::Int4, Datum::I64(number)) => {
            ScalarValue::Int32(Some(i32::try_from(*number).map_err(|_| of.out_of_range())?))
        }
        (SqlType::Int8 | SqlType::Oid, Datum::I64(number)) => ScalarValue::Int64(Some(*number)),
        (SqlType::Timestamp, Datum::I64(micros)) => {
            ScalarValue::TimestampMicrosecond(Some(*micros), None)
        }
        (SqlType::Timestamptz, Datum::I64(micros)) => {
            ScalarValue::TimestampMicrosecond(Some(*micros), Some("UTC".into()))
        }
        (SqlType::Float4, Datum::F64(number)) => ScalarValue::Float32(Some(number.0 as f32)),
        (SqlType::Float8, Datum::F64(number)) => ScalarValue::Float64(Some(number.0)),
        (
            SqlType::Numeric { precision, scale },
            Datum::Decimal {
                unscaled,
                scale: from,
            },
        ) if *from == scale => ScalarValue::Decimal128(Some(*unscaled), precision, scale as i8),
        (SqlType::Date, Datum::Date(days)) => ScalarValue::Date32(Some(*days)),
        (SqlType::Bytea, Datum::Bytes(bytes)) => ScalarValue::Binary(Some(bytes.clone())),
        (SqlType::Uuid, Datum::Bytes(_)) => ScalarValue::Utf8(Some(text_of(value, of))),
        (_, Datum::Text(text)) if of.is_text() => ScalarValue::Utf8(Some(text.clone())),
        _ => return Err(wrong()),
    })
}

fn text_of(value: &Datum, of: SqlType) -> String {
    let mut bytes = Vec::new();
    write_text(value.value(), of, TimeZone::Utc, &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The value of a literal, as one of this type.
///
/// # Errors
/// 42804 if it is not of this type.
pub(super) fn datum_of(value: &ScalarValue, of: SqlType) -> SqlResult<Datum> {
    if value.is_null() {
        return Ok(Datum::Null);
    }
    let array = value.to_array().map_err(sql_error)?;
    value_at(&array, 0, of, |value| value.map(Value::to_datum))?
}

/// Calls `read` with a value of a column; texts that stand for another type are read.
///
/// # Errors
/// 42804 if the array is of another type; 22P02 for a text that is no value of the type.
pub(super) fn value_at<T>(
    array: &dyn Array,
    row: usize,
    of: SqlType,
    read: impl FnOnce(SqlResult<Value<'_>>) -> T,
) -> SqlResult<T> {
    // An array of nulls alone has no bits that say so.
    if array.is_null(row) || *array.data_type() == DataType::Null {
        return Ok(read(Ok(Value::Null)));
    }
    let value = match array.data_type() {
        DataType::Boolean => Value::Bool(array.as_boolean().value(row)),
        DataType::Int16 => Value::I64(array.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => Value::I64(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => Value::I64(array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt32 => Value::I64(array.as_primitive::<UInt32Type>().value(row).into()),
        DataType::Float32 => Value::F64(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => Value::F64(array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal128(_, scale) => Value::Decimal {
            unscaled: array.as_primitive::<Decimal128Type>().value(row),
            scale: u8::try_from(*scale).unwrap_or(0),
        },
        DataType::Date32 => Value::Date(array.as_primitive::<Date32Type>().value(row)),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Value::I64(array.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        DataType::Utf8 if of.is_text() => {
            Value::Text(array.as_string::<i32>().value(row).as_bytes())
        }
        DataType::Binary => Value::Bytes(array.as_binary::<i32>().value(row)),
        DataType::Utf8 => {
            let read_value = from_text(of, array.as_string::<i32>().value(row), TimeZone::Utc);
            return Ok(match &read_value {
                Ok(datum) => read(Ok(datum.value())),
                Err(error) => read(Err(error.clone())),
            });
        }
        DataType::List(_) => {
            let text = list_text(&array.as_list::<i32>().value(row))?;
            return Ok(read(Ok(Value::Text(text.as_bytes()))));
        }
        // Others are shown as Arrow writes them, or cast to a type that is known here.
        _ => {
            let known = arrow_type(of);
            if known != DataType::Utf8 && known != *array.data_type() {
                let one = array.slice(row, 1);
                let cast = datafusion::arrow::compute::cast(&one, &known)
                    .map_err(|error| sql_error(error.into()))?;
                return value_at(&cast, 0, of, read);
            }
            let text =
                array_value_to_string(array, row).map_err(|error| sql_error(error.into()))?;
            return Ok(read(Ok(Value::Text(text.as_bytes()))));
        }
    };
    Ok(read(Ok(value)))
}

/// The text of an array: `{1,NULL,"a b"}`.
fn list_text(items: &Arc<dyn Array>) -> SqlResult<String> {
    let of = sql_type_of(items.data_type());
    let mut texts = Vec::with_capacity(items.len());
    for row in 0..items.len() {
        let value = datum_at(items, row, of)?;
        let text = text_of(&value, of);
        let is_plain = !text.is_empty()
            && !text.eq_ignore_ascii_case("null")
            && !text.contains(|it: char| "{},\"\\".contains(it) || it.is_whitespace());
        texts.push(match value {
            Datum::Null => "NULL".to_owned(),
            _ if is_plain => text,
            _ => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        });
    }
    Ok(format!("{{{}}}", texts.join(",")))
}

/// A value of a column.
///
/// # Errors
/// As [`value_at`].
pub(super) fn datum_at(array: &Arc<dyn Array>, row: usize, of: SqlType) -> SqlResult<Datum> {
    value_at(array.as_ref(), row, of, |value| value.map(Value::to_datum))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use namiki_data::columns::Float;

    #[test]
    fn values_come_back_from_literals() {
        let numeric = SqlType::Numeric {
            precision: 9,
            scale: 2,
        };
        for (of, value) in [
            (SqlType::Bool, Datum::Bool(true)),
            (SqlType::Int2, Datum::I64(-3)),
            (SqlType::Timestamptz, Datum::I64(5)),
            (SqlType::Float4, Datum::F64(Float(0.5))),
            (
                numeric,
                Datum::Decimal {
                    unscaled: 125,
                    scale: 2,
                },
            ),
            (SqlType::Uuid, Datum::Bytes(vec![7; 16])),
            (SqlType::Bytea, Datum::Bytes(vec![0, 1])),
            (SqlType::Char { length: 2 }, Datum::Text("ab".to_owned())),
            (SqlType::Date, Datum::Null),
        ] {
            let literal = scalar_value(&value, of).unwrap();
            assert_eq!(literal.data_type(), arrow_type(of));
            assert_eq!(datum_of(&literal, of).unwrap(), value, "{of}");
        }
    }

    #[test]
    fn fields_remember_their_types_and_columns() {
        for of in [
            SqlType::Uuid,
            SqlType::Varchar { limit: 3 },
            SqlType::Int4,
            SqlType::Text,
        ] {
            let field = with_origin(field("a", of, true), 17, 2);
            assert_eq!(field_type(&field), of);
            assert_eq!(origin(&field), Some((17, 3)));
        }
    }
}
