//! What both forms of files have in common.

use std::path::PathBuf;

use namiki::TypeLayouts;

use crate::failure::{Failure, device};
use crate::typed::TableTypes;

/// What a file says of its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) key_type: String,
    pub(crate) value_type: String,
    pub(crate) eight_byte_keys: bool,
    /// Nothing if the file does not say it.
    pub(crate) room_bytes: Option<usize>,
    /// What its derived types are made of. Nothing if the file does not say it.
    pub(crate) layouts: Option<TypeLayouts>,
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

/// What a line is not.
#[derive(Debug)]
pub(crate) struct BadLine {
    pub(crate) line: u64,
    pub(crate) why: String,
}

/// Why a file gives no more rows.
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

/// A file's first line without the mark of UTF-8 that some programs put before it.
pub(super) fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line)
}

/// The rows of a file.
pub(crate) trait RowReader {
    fn header(&self) -> &Header;

    /// The next row; nothing at the end of a file that is whole.
    fn next_row(&mut self) -> Result<Option<FileRow>, ReadError>;
}

/// Where rows are written to.
pub(crate) trait RowWriter {
    fn row(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure>;

    /// After the last row.
    fn finish(&mut self) -> Result<(), Failure>;
}

/// What is written to, for errors.
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
