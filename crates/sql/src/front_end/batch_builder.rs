//! Rows as Arrow's batches.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayBuilder, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder,
    Float64Builder, Int16Builder, Int32Builder, Int64Builder, RecordBatch, RecordBatchOptions,
    StringBuilder, TimestampMicrosecondBuilder,
};
use datafusion::arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use namiki_data::columns::Value;

use super::errors::sql_error;
use crate::error::{SqlError, SqlResult};
use crate::types::{SqlType, TimeZone, write_text};

/// Rows of a batch, and bytes of its texts: a batch is full when it has one of both. Joins multiply batches, so that rows with
/// long values come in short ones.
pub(super) const BATCH_ROWS: usize = 4096;
const BATCH_BYTES: usize = 256 << 10;

/// Gathers rows of a batch, column by column.
pub(super) struct BatchBuilder {
    schema: SchemaRef,
    columns: Vec<ColumnBuilder>,
    rows: usize,
    /// Of texts and byte strings.
    bytes: usize,
}

enum ColumnBuilder {
    Bool(BooleanBuilder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Decimal(Decimal128Builder),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
    Bytes(BinaryBuilder),
    /// A text; uuids are written as such.
    Text(StringBuilder, SqlType),
}

impl ColumnBuilder {
    fn new(data_type: &DataType, of: SqlType, rows: usize) -> SqlResult<Self> {
        Ok(match data_type {
            DataType::Boolean => Self::Bool(BooleanBuilder::with_capacity(rows)),
            DataType::Int16 => Self::Int16(Int16Builder::with_capacity(rows)),
            DataType::Int32 => Self::Int32(Int32Builder::with_capacity(rows)),
            DataType::Int64 => Self::Int64(Int64Builder::with_capacity(rows)),
            DataType::Float32 => Self::Float32(Float32Builder::with_capacity(rows)),
            DataType::Float64 => Self::Float64(Float64Builder::with_capacity(rows)),
            DataType::Decimal128(_, _) => Self::Decimal(
                Decimal128Builder::with_capacity(rows).with_data_type(data_type.clone()),
            ),
            DataType::Date32 => Self::Date(Date32Builder::with_capacity(rows)),
            DataType::Timestamp(TimeUnit::Microsecond, _) => Self::Timestamp(
                TimestampMicrosecondBuilder::with_capacity(rows).with_data_type(data_type.clone()),
            ),
            DataType::Binary => Self::Bytes(BinaryBuilder::new()),
            DataType::Utf8 => Self::Text(StringBuilder::new(), of),
            other => return Err(SqlError::unsupported(format!("a column of type {other}"))),
        })
    }

    fn null(&mut self) {
        match self {
            Self::Bool(column) => column.append_null(),
            Self::Int16(column) => column.append_null(),
            Self::Int32(column) => column.append_null(),
            Self::Int64(column) => column.append_null(),
            Self::Float32(column) => column.append_null(),
            Self::Float64(column) => column.append_null(),
            Self::Decimal(column) => column.append_null(),
            Self::Date(column) => column.append_null(),
            Self::Timestamp(column) => column.append_null(),
            Self::Bytes(column) => column.append_null(),
            Self::Text(column, _) => column.append_null(),
        }
    }

    fn append(&mut self, value: Value<'_>) -> SqlResult<()> {
        match (self, value) {
            (column, Value::Null) => column.null(),
            (Self::Bool(column), Value::Bool(value)) => column.append_value(value),
            (Self::Int16(column), Value::I64(number)) => column.append_value(number as i16),
            (Self::Int32(column), Value::I64(number)) => column.append_value(number as i32),
            (Self::Int64(column), Value::I64(number)) => column.append_value(number),
            (Self::Timestamp(column), Value::I64(micros)) => column.append_value(micros),
            (Self::Float32(column), Value::F64(number)) => column.append_value(number as f32),
            (Self::Float64(column), Value::F64(number)) => column.append_value(number),
            (Self::Decimal(column), Value::Decimal { unscaled, .. }) => {
                column.append_value(unscaled);
            }
            (Self::Date(column), Value::Date(days)) => column.append_value(days),
            (Self::Bytes(column), Value::Bytes(bytes)) => column.append_value(bytes),
            (Self::Text(column, _), Value::Text(text)) => {
                let text = std::str::from_utf8(text)
                    .map_err(|_| SqlError::corrupted("a stored text is not UTF-8"))?;
                column.append_value(text);
            }
            (Self::Text(column, of), value) => {
                let mut text = Vec::new();
                write_text(value, *of, TimeZone::Utc, &mut text);
                column.append_value(String::from_utf8_lossy(&text));
            }
            _ => {
                return Err(SqlError::corrupted(
                    "a stored value is not of its column's type",
                ));
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> datafusion::arrow::array::ArrayRef {
        match self {
            Self::Bool(column) => Arc::new(column.finish()),
            Self::Int16(column) => Arc::new(column.finish()),
            Self::Int32(column) => Arc::new(column.finish()),
            Self::Int64(column) => Arc::new(column.finish()),
            Self::Float32(column) => Arc::new(column.finish()),
            Self::Float64(column) => Arc::new(column.finish()),
            Self::Decimal(column) => Arc::new(column.finish()),
            Self::Date(column) => Arc::new(column.finish()),
            Self::Timestamp(column) => Arc::new(column.finish()),
            Self::Bytes(column) => ArrayBuilder::finish(column),
            Self::Text(column, _) => ArrayBuilder::finish(column),
        }
    }
}

impl BatchBuilder {
    /// A builder of batches with this schema.
    ///
    /// # Errors
    /// 0A000 for a type that no column of a table has.
    pub(super) fn new(schema: SchemaRef, rows: usize) -> SqlResult<Self> {
        let column = |field: &Arc<datafusion::arrow::datatypes::Field>| {
            ColumnBuilder::new(
                field.data_type(),
                super::arrow_values::field_type(field),
                rows,
            )
        };
        let columns = schema
            .fields()
            .iter()
            .map(column)
            .collect::<SqlResult<Vec<_>>>()?;
        Ok(Self {
            schema,
            columns,
            rows: 0,
            bytes: 0,
        })
    }

    /// The rows of the batch so far.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Whether further rows belong to the next batch.
    pub(super) fn is_full(&self) -> bool {
        self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    /// The next value of a column.
    ///
    /// # Errors
    /// XX001 if it is of another type.
    pub(super) fn append(&mut self, column: usize, value: Value<'_>) -> SqlResult<()> {
        if let Value::Text(bytes) | Value::Bytes(bytes) = value {
            self.bytes += bytes.len();
        }
        self.columns[column].append(value)
    }

    /// All columns of a row were appended.
    pub(super) fn end_row(&mut self) {
        self.rows += 1;
    }

    /// The batch.
    ///
    /// # Errors
    /// XX000 if its columns do not fit together.
    pub(super) fn finish(&mut self) -> SqlResult<RecordBatch> {
        let columns = self.columns.iter_mut().map(ColumnBuilder::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        (self.rows, self.bytes) = (0, 0);
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| sql_error(error.into()))
    }
}
