//! Common parts of both file formats.

use std::path::PathBuf;

use namiki::{SchemaVersions, TypeLayouts};

use crate::failure::{Failure, device};
use crate::typed::TableTypes;

/// The description of a table in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) key_type: String,
    pub(crate) value_type: String,
    pub(crate) eight_byte_keys: bool,
    /// `None` if the file does not contain it.
    pub(crate) room_bytes: Option<usize>,
    /// The layouts of its derived types; `None` if the file does not contain them.
    pub(crate) layouts: Option<TypeLayouts>,
    /// The schema versions of a table by bytes, if it has any.
    pub(crate) schemas: Option<SchemaVersions>,
}

impl Header {
    pub(crate) fn types(&self) -> TableTypes {
        TableTypes::named(&self.key_type, &self.value_type)
    }
}

/// A row with the line that it begins on, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileRow {
    pub(crate) line: u64,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// A line that is not a row.
#[derive(Debug)]
pub(crate) struct BadLine {
    pub(crate) line: u64,
    pub(crate) why: String,
}

/// The reason for which a file yields no more rows.
#[derive(Debug)]
pub(crate) enum ReadError {
    Bad(BadLine),
    Io(std::io::Error),
}

impl From<std::io::Error> for ReadError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl ReadError {
    pub(crate) fn bad(line: u64, why: impl Into<String>) -> Self {
        Self::Bad(BadLine {
            line,
            why: why.into(),
        })
    }
}

/// A file's first line without a byte order mark.
pub(super) fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line)
}

/// The rows of a file.
pub(crate) trait RowReader {
    fn header(&self) -> &Header;

    /// The next row; `None` at the end of a complete file.
    fn next_row(&mut self) -> Result<Option<FileRow>, ReadError>;
}

/// A writer of rows.
pub(crate) trait RowWriter {
    fn row(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure>;

    /// Must be called after the last row.
    fn finish(&mut self) -> Result<(), Failure>;
}

/// The target of a write, for errors.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    StandardOutput,
    File(PathBuf),
}

impl Target {
    pub(crate) fn failed(&self, error: std::io::Error) -> Failure {
        match self {
            Self::StandardOutput => Failure::output(error),
            Self::File(path) => device("write", path)(error),
        }
    }
}
