//! Formats of files, with their readers and writers.

use std::io::{BufRead, Write};
use std::path::Path;

use clap::ValueEnum;
use namiki::TableInfo;

use super::csv_rows::{CsvReader, CsvWriter};
use super::jsonl::{JsonReader, JsonWriter};
use super::row_file::{ReadError, RowReader, RowWriter, Target};
use crate::failure::Failure;

/// The formats of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileFormat {
    /// JSON lines: a header, a row on each line, and a last line that counts them
    Jsonl,
    /// CSV: a line of names with types, and a row on each line; each part of a tuple is a column
    Csv,
}

impl FileFormat {
    /// The given format, or that of the file's name.
    pub(crate) fn of(given: Option<Self>, path: Option<&Path>) -> Self {
        let extension = path.and_then(Path::extension);
        given.unwrap_or(match extension {
            Some(extension) if extension.eq_ignore_ascii_case("csv") => Self::Csv,
            _ => Self::Jsonl,
        })
    }
}

/// Opens a reader.
pub(crate) fn reader<'r>(
    format: FileFormat,
    input: Box<dyn BufRead + 'r>,
) -> Result<Box<dyn RowReader + 'r>, ReadError> {
    Ok(match format {
        FileFormat::Jsonl => Box::new(JsonReader::new(input)?),
        FileFormat::Csv => Box::new(CsvReader::new(input)?),
    })
}

/// Opens a writer.
pub(crate) fn writer<'w>(
    format: FileFormat,
    table: &TableInfo,
    to: &Target,
    output: Box<dyn Write + 'w>,
) -> Result<Box<dyn RowWriter + 'w>, Failure> {
    Ok(match format {
        FileFormat::Jsonl => Box::new(JsonWriter::new(table, to.clone(), output)?),
        FileFormat::Csv => Box::new(CsvWriter::new(table, to.clone(), output)?),
    })
}
