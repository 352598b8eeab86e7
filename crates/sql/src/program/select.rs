//! SELECT as a row program, and the writing of values.

use std::ops::ControlFlow;

use namiki::Transaction;
use namiki_data::columns::{Datum, Value};

use super::{Access, Environment, RowValues, Scalar};
use crate::error::{SqlError, SqlResult};
use crate::sink::RowSink;
use crate::sqlstate;
use crate::storage::{RowFormat, Storage};
use crate::types::{SqlType, TimeZone, write_binary, write_text};

/// The form in which a client wants a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutputFormat {
    pub(crate) sql_type: SqlType,
    pub(crate) binary: bool,
}

/// Writes a value into a sink.
#[inline]
pub(crate) fn write_value(
    sink: &mut dyn RowSink,
    value: Value<'_>,
    format: OutputFormat,
    zone: TimeZone,
) {
    if value.is_null() {
        return sink.null();
    }
    let into = sink.begin_value();
    if format.binary {
        write_binary(value, format.sql_type, into);
    } else {
        write_text(value, format.sql_type, zone, into);
    }
    sink.end_value();
}

/// A SELECT of one table.
#[derive(Clone, Debug)]
pub(crate) struct SelectProgram {
    /// `None`: one row without columns.
    pub(crate) access: Option<Access>,
    /// The columns of the answer.
    pub(crate) output: Vec<Scalar>,
    /// Rows to pass over, and rows to return.
    pub(crate) skip: usize,
    pub(crate) limit: Option<usize>,
}

impl SelectProgram {
    /// Writes the rows; returns their number.
    ///
    /// # Errors
    /// Those of the transaction and of the expressions; 53200 beyond `rows_max` rows.
    pub(crate) fn run(
        &self,
        tx: &mut Transaction,
        storage: &Storage,
        environment: &Environment,
        formats: &[OutputFormat],
        rows_max: usize,
        sink: &mut dyn RowSink,
    ) -> SqlResult<u64> {
        let (mut seen, mut written) = (0_usize, 0_usize);
        let limit = self.limit.unwrap_or(usize::MAX);
        if limit == 0 {
            return Ok(0);
        }
        let mut scratch = Vec::new();
        let Some(access) = &self.access else {
            return self.run_without_tables(environment, formats, sink);
        };
        access.visit(tx, storage, environment, |values, key, row| {
            seen += 1;
            if seen <= self.skip {
                return Ok(ControlFlow::Continue(()));
            }
            if written == rows_max {
                return Err(SqlError::new(
                    sqlstate::OUT_OF_MEMORY,
                    format!("a statement in a transaction may return at most {rows_max} rows"),
                )
                .with_hint(
                    "Run the query outside of the transaction block, where it reads a view.",
                ));
            }
            let mark = sink.mark();
            let stored = &access.relation.format;
            let done = self.write_row(
                values,
                stored,
                key,
                row,
                environment,
                formats,
                &mut scratch,
                sink,
            );
            if let Err(error) = done {
                // No part of a row stays.
                sink.rewind(mark);
                return Err(error);
            }
            written += 1;
            Ok(if written == limit {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        })?;
        Ok(written as u64)
    }

    /// The one row of a SELECT without a table.
    ///
    /// # Errors
    /// Those of the expressions.
    pub(crate) fn run_without_tables(
        &self,
        environment: &Environment,
        formats: &[OutputFormat],
        sink: &mut dyn RowSink,
    ) -> SqlResult<u64> {
        if self.skip > 0 {
            return Ok(0);
        }
        let values = self
            .output
            .iter()
            .map(|scalar| scalar.constant(environment));
        let values = values.collect::<SqlResult<Vec<Datum>>>()?;
        sink.begin_row(values.len());
        for (value, format) in values.iter().zip(formats) {
            write_value(sink, value.value(), *format, environment.zone);
        }
        sink.end_row();
        Ok(1)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one row")]
    fn write_row(
        &self,
        values: &RowValues<'_>,
        stored: &RowFormat,
        key: &[u8],
        row: &[u8],
        environment: &Environment,
        formats: &[OutputFormat],
        scratch: &mut Vec<u8>,
        sink: &mut dyn RowSink,
    ) -> SqlResult<()> {
        sink.begin_row(self.output.len());
        for (scalar, format) in self.output.iter().zip(formats) {
            if let Scalar::Column(number) = scalar {
                // Straight from the stored bytes.
                let value = stored.value(*number, key, row, scratch)?;
                write_value(sink, value, *format, environment.zone);
            } else {
                let value = scalar.evaluate(values, environment)?;
                write_value(sink, value.value(), *format, environment.zone);
            }
        }
        sink.end_row();
        Ok(())
    }
}
