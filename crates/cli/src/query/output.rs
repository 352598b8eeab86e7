//! Rows as text, a line each.

use std::io::Write;

use clap::ValueEnum;
use namiki::query::{AnswerRow, Datum, Value};
use namiki_terminal::number_format::hex;
use serde_json::{Number, Value as Json};

use crate::failure::Failure;

/// Output formats of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Columns separated by tabs, below a line of names
    Text,
    /// One JSON object a line, with the columns in their order; decimals and dates are strings
    Json,
}

/// Prints rows.
pub(super) struct Printer<W> {
    out: W,
    format: Format,
    /// The names as they are printed.
    names: Vec<String>,
    rows: u64,
    counts_only: bool,
}

impl<W: Write> Printer<W> {
    /// The names must be distinct, as those of [`Rows::columns`](namiki::query::Rows::columns) are.
    pub(super) fn new<'c>(out: W, format: Format, columns: impl Iterator<Item = &'c str>) -> Self {
        let name = |name: &str| match format {
            Format::Text => on_one_line(name),
            Format::Json => Json::from(name).to_string(),
        };
        Self {
            out,
            format,
            names: columns.map(name).collect(),
            rows: 0,
            counts_only: false,
        }
    }

    /// From now on rows are only counted, not printed.
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
                let values: Vec<String> = values.map(text).collect();
                values.join("\t")
            }
            Format::Json => {
                let entries = self.names.iter().zip(values);
                let entries = entries.map(|(name, value)| format!("{name}:{}", json(value)));
                let entries: Vec<String> = entries.collect();
                format!("{{{}}}", entries.join(","))
            }
        };
        if self.rows == 0 {
            self.print_header()?;
        }
        self.rows += 1;
        writeln!(self.out, "{line}").map_err(Failure::output)
    }

    /// Must be called after the last row: prints the names of the columns if there were no rows.
    pub(super) fn end(&mut self) -> Result<(), Failure> {
        match self.rows {
            0 if !self.counts_only => self.print_header(),
            _ => Ok(()),
        }
    }

    fn print_header(&mut self) -> Result<(), Failure> {
        match self.format {
            Format::Text => writeln!(self.out, "{}", self.names.join("\t")),
            Format::Json => Ok(()),
        }
        .map_err(Failure::output)
    }

    /// Number of printed rows.
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
        Value::Text(bytes) => on_one_line(&String::from_utf8_lossy(bytes)),
        Value::Bytes(bytes) => format!("0x{}", hex(bytes)),
        other => other.to_datum().to_string(),
    }
}

fn on_one_line(text: &str) -> String {
    if text.contains(char::is_control) {
        text.escape_default().to_string()
    } else {
        text.to_owned()
    }
}

fn json(value: Value<'_>) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(value),
        Value::I64(value) => Json::Number(Number::from(value)),
        Value::U64(value) => Json::Number(Number::from(value)),
        Value::Text(text) => Json::String(String::from_utf8_lossy(text).into_owned()),
        other @ (Value::Decimal { .. } | Value::F64(_) | Value::Date(_)) => {
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
