//! JSON lines.
//!
//! ```text
//! {"namiki":1,"table":"visits","key":"(string, u64)","value":"u32","eight_byte_keys":false,"room_bytes":8}
//! {"key":["alice",1],"value":2026}
//! {"end":true,"rows":1}
//! ```
//! The last line distinguishes a complete file from a truncated one.

use std::io::{BufRead, Write};

use namiki::{SchemaVersions, TableInfo, TypeLayouts};
use serde::{Deserialize, Serialize};

use super::row_file::{FileRow, Header, ReadError, RowReader, RowWriter, Target, without_mark};
use crate::failure::Failure;
use crate::typed::json::{from_json, to_json};
use crate::typed::{TableTypes, key_bytes, read_key, read_value, value_bytes};

/// The version of the format that is written, and the latest that is read.
pub(super) const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct HeaderLine {
    namiki: u32,
    table: String,
    key: String,
    value: String,
    #[serde(default)]
    eight_byte_keys: bool,
    #[serde(default)]
    room_bytes: Option<usize>,
    /// For the catalogue of another database; reading rows does not need it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    types: Option<TypeLayouts>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schemas: Option<SchemaVersions>,
}

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Line {
    Row {
        key: serde_json::Value,
        value: serde_json::Value,
    },
    End {
        end: bool,
        rows: u64,
    },
}

/// Writes a table.
pub(crate) struct JsonWriter<W> {
    output: W,
    to: Target,
    types: TableTypes,
    rows: u64,
}

impl<W: Write> JsonWriter<W> {
    pub(crate) fn new(table: &TableInfo, to: Target, output: W) -> Result<Self, Failure> {
        let header = HeaderLine {
            namiki: VERSION,
            table: table.name.clone(),
            key: table.key_type.clone(),
            value: table.value_type.clone(),
            eight_byte_keys: table.fixed_keys,
            room_bytes: Some(table.inline_bytes),
            types: table.types().cloned(),
            schemas: table.schemas().cloned(),
        };
        let mut writer = Self {
            output,
            to,
            types: TableTypes::in_files(table),
            rows: 0,
        };
        let header = serde_json::to_string(&header);
        let header = header.map_err(|error| writer.to.failed(error.into()))?;
        writer.line(format_args!("{header}"))?;
        Ok(writer)
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) -> Result<(), Failure> {
        writeln!(self.output, "{line}").map_err(|error| self.to.failed(error))
    }
}

impl<W: Write> RowWriter for JsonWriter<W> {
    fn row(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.rows += 1;
        let TableTypes {
            key: of_key,
            value: of_value,
        } = &self.types;
        let key = to_json(of_key, &read_key(of_key, key));
        let value = to_json(of_value, &read_value(of_value, value));
        self.line(format_args!("{{\"key\":{key},\"value\":{value}}}"))
    }

    fn finish(&mut self) -> Result<(), Failure> {
        let rows = self.rows;
        self.line(format_args!("{{\"end\":true,\"rows\":{rows}}}"))?;
        self.output.flush().map_err(|error| self.to.failed(error))
    }
}

/// Reads a table.
pub(crate) struct JsonReader<R> {
    input: R,
    header: Header,
    types: TableTypes,
    line: u64,
    rows: u64,
    has_ended: bool,
    bytes: Vec<u8>,
}

impl<R: BufRead> JsonReader<R> {
    pub(crate) fn new(mut input: R) -> Result<Self, ReadError> {
        let mut bytes = Vec::new();
        input.read_until(b'\n', &mut bytes)?;
        let line: HeaderLine = serde_json::from_slice(without_mark(&bytes)).map_err(|error| {
            let why = format!(
                "it is not a header, which is an object with \"namiki\", \"table\", \"key\" and \"value\": {error}"
            );
            ReadError::bad(1, why)
        })?;
        if line.namiki > VERSION {
            let why = format!(
                "it has version {}, and this release reads up to {VERSION}: use a newer release",
                line.namiki
            );
            return Err(ReadError::bad(1, why));
        }
        let header = Header {
            key_type: line.key,
            value_type: line.value,
            eight_byte_keys: line.eight_byte_keys,
            room_bytes: line.room_bytes,
            layouts: line.types,
            schemas: line.schemas,
        };
        Ok(Self {
            input,
            types: header.types(),
            header,
            line: 1,
            rows: 0,
            has_ended: false,
            bytes,
        })
    }
}

impl<R: BufRead> RowReader for JsonReader<R> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_row(&mut self) -> Result<Option<FileRow>, ReadError> {
        loop {
            self.bytes.clear();
            self.line += 1;
            let line = self.line;
            if self.input.read_until(b'\n', &mut self.bytes)? == 0 {
                return if self.has_ended {
                    Ok(None)
                } else {
                    Err(ReadError::bad(
                        line,
                        "the file ends without its last line, which counts the rows: it was cut off",
                    ))
                };
            }
            if self.has_ended {
                if self.bytes.trim_ascii().is_empty() {
                    continue;
                }
                return Err(ReadError::bad(line, "it follows the last line"));
            }
            let found: Line = serde_json::from_slice(&self.bytes).map_err(|error| {
                let why = match serde_json::from_slice::<serde_json::Value>(&self.bytes) {
                    Ok(_) => "it is not an object with only \"key\" and \"value\"".to_owned(),
                    Err(_) => format!("it is not JSON: {error}"),
                };
                ReadError::bad(line, why)
            })?;
            match found {
                Line::Row { key, value } => {
                    self.rows += 1;
                    return row(&self.types, line, &key, &value).map(Some);
                }
                Line::End { end, rows } if end && rows == self.rows => self.has_ended = true,
                Line::End { rows, .. } => {
                    let why = format!("it counts {rows} rows, and there are {}", self.rows);
                    return Err(ReadError::bad(line, why));
                }
            }
        }
    }
}

fn row(
    types: &TableTypes,
    line: u64,
    key: &serde_json::Value,
    value: &serde_json::Value,
) -> Result<FileRow, ReadError> {
    let bad = |why: String| ReadError::bad(line, why);
    let key = from_json(&types.key, key).map_err(|error| bad(format!("the key {error}")))?;
    let value =
        from_json(&types.value, value).map_err(|error| bad(format!("the value {error}")))?;
    let no_value = || bad("it is not a row of its types".to_owned());
    Ok(FileRow {
        line,
        key: key_bytes(&types.key, &key).ok_or_else(no_value)?,
        value: value_bytes(&types.value, &value).ok_or_else(no_value)?,
    })
}
