//! Rows as text, a line each.

use std::io::Write;

use clap::ValueEnum;
use namiki::query::{AnswerRow, Datum, Value};
use serde_json::{Map, Number, Value as Json};

use crate::failure::Failure;
use crate::number_format::hex;

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Columns with tabs between, below their names
    Text,
    /// One object a line; decimals and dates are strings
    Json,
}

/// Prints rows.
pub(super) struct Printer<W> {
    out: W,
    format: Format,
    columns: Vec<String>,
    rows: u64,
    counts_only: bool,
}

impl<W: Write> Printer<W> {
    pub(super) fn new(out: W, format: Format, columns: Vec<String>) -> Self {
        Self {
            out,
            format,
            columns,
            rows: 0,
            counts_only: false,
        }
    }

    /// From now on rows are counted, and not printed.
    pub(super) fn count_only(&mut self) {
        self.counts_only = true;
    }

    pub(super) fn print(&mut self, row: AnswerRow<'_>) -> Result<(), Failure> {
        if self.counts_only {
            self.rows += 1;
            return Ok(());
        }
        let values = (0..row.len()).map(|at| row.value(at));
        let line = match self.format {
            Format::Text => {
                if self.rows == 0 {
                    writeln!(self.out, "{}", self.columns.join("\t")).map_err(Failure::output)?;
                }
                let values: Vec<String> = values.map(text).collect();
                values.join("\t")
            }
            Format::Json => {
                let columns = self.columns.iter().cloned();
                let object: Map<String, Json> = columns.zip(values.map(json)).collect();
                Json::Object(object).to_string()
            }
        };
        self.rows += 1;
        writeln!(self.out, "{line}").map_err(Failure::output)
    }

    /// How many rows were printed.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(Failure::output)
    }
}

/// A value on one line, without tabs.
fn text(value: Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Text(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            if text.contains(char::is_control) {
                text.escape_default().to_string()
            } else {
                text.into_owned()
            }
        }
        Value::Bytes(bytes) => format!("0x{}", hex(bytes)),
        other => other.to_datum().to_string(),
    }
}

fn json(value: Value<'_>) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(value),
        Value::I64(value) => Json::Number(Number::from(value)),
        Value::U64(value) => Json::Number(Number::from(value)),
        Value::Text(text) => Json::String(String::from_utf8_lossy(text).into_owned()),
        other @ (Value::Decimal { .. } | Value::Date(_)) => {
            let datum: Datum = other.to_datum();
            Json::String(datum.to_string())
        }
        Value::Bytes(bytes) => Json::String(hex(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_one_line_and_stay_exact() {
        let price = Value::Decimal {
            unscaled: -12_345,
            scale: 2,
        };
        for (value, as_text, as_json) in [
            (Value::Null, "null", "null"),
            (Value::I64(-3), "-3", "-3"),
            (
                Value::U64(u64::MAX),
                "18446744073709551615",
                "18446744073709551615",
            ),
            (price, "-123.45", "\"-123.45\""),
            (Value::Date(8_035), "1992-01-01", "\"1992-01-01\""),
            (
                Value::Text("並木\t\n".as_bytes()),
                "\\u{4e26}\\u{6728}\\t\\n",
                "\"並木\\t\\n\"",
            ),
            (Value::Text("並木".as_bytes()), "並木", "\"並木\""),
            (Value::Bytes(&[0, 255]), "0x00ff", "\"00ff\""),
            (Value::Bool(true), "true", "true"),
        ] {
            assert_eq!(text(value), as_text);
            assert_eq!(json(value).to_string(), as_json);
        }
    }
}
