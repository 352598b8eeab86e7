//! Why a table was not loaded. After any of these errors, the table does not exist.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki_data::columns::key_codec::EncodeError;
use namiki_platform::debug_as_sentence;
use namiki_platform::disk::is_full;
use namiki_segment::SegmentError;

debug_as_sentence!(LoadError);

/// Why a table was not loaded. Except for [`LoadError::Manifest`], neither the table nor any of its
/// files exists then.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A table of this name takes part in transactions. Load under another name.
    #[error("table {table:?} exists, in memory; load under another name")]
    InMemory {
        /// The table's name.
        table: String,
    },
    /// A table of this name was loaded before. It cannot be changed; load under another name.
    #[error("table {table:?} was loaded before and cannot be changed; load under another name")]
    AlreadyLoaded {
        /// The table's name.
        table: String,
    },
    /// The database was opened read-only
    /// ([`Builder::open_read_only`](crate::Builder::open_read_only)).
    #[error(
        "the database was opened to be read alone; open it with Database::open to load a table"
    )]
    ReadOnly,
    /// Another load of this name is running.
    #[error("table {table:?} is being loaded; wait for the end of that load")]
    BeingLoaded {
        /// The table's name.
        table: String,
    },
    /// The description of the table is invalid.
    #[error("there can be no such table: it {why}")]
    Definition {
        /// The fault, including the table's name.
        why: String,
    },
    /// The source of the rows has failed, or has ended before it had given all of them. Fix it and
    /// load again.
    #[error("the rows of table {table:?} cannot be had from row {row} on")]
    Source {
        /// The table's name.
        table: String,
        /// The requested row, counted from 1.
        row: u64,
        /// The error of the source.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
    /// A row does not fit the columns. Rows before it were valid.
    #[error("row {row} of table {table:?} does not fit its columns")]
    Row {
        /// The table's name.
        table: String,
        /// The row, counted from 1.
        row: u64,
        /// The fault of the row.
        #[source]
        source: EncodeError,
    },
    /// A row's key, or its key in an index, is longer than a segment can hold. Leave the row out, or the index.
    #[error(
        "the key of row {row} of table {table:?}{} has {bytes} bytes, and a segment's keys have at most {bytes_max}",
        in_index(index.as_deref())
    )]
    KeyTooLong {
        /// The table's name.
        table: String,
        /// The index's name; `None` if it is the table's own key.
        index: Option<String>,
        /// The row, counted from 1.
        row: u64,
        /// The length of the key as it is encoded.
        bytes: usize,
        /// The longest that fits.
        bytes_max: usize,
    },
    /// A row's key is not above that of the row before. Sort the rows by key, and leave each key in once.
    #[error(
        "row {row} of table {table:?} does not come after the row before it; sort the rows by key, each key once"
    )]
    OutOfOrder {
        /// The table's name.
        table: String,
        /// The row, counted from 1.
        row: u64,
    },
    /// There is no room for the files. They were removed; make room and load again.
    #[error("no room for {}; make room and load again", path.display())]
    DiskFull {
        /// The path that was to be written.
        path: PathBuf,
        /// The device's error.
        #[source]
        source: Arc<io::Error>,
    },
    /// The device failed.
    #[error("cannot access {}", path.display())]
    Device {
        /// The path that was accessed.
        path: PathBuf,
        /// The device's error.
        #[source]
        source: Arc<io::Error>,
    },
    /// A segment could not be written.
    #[error("cannot write a segment")]
    Segment(#[source] SegmentError),
    /// The manifest could not be replaced. If that failed at its very end, the next opening may find the table.
    #[error("cannot write the manifest {}", path.display())]
    Manifest {
        /// The manifest's file.
        path: PathBuf,
        /// The device's error.
        #[source]
        source: Arc<io::Error>,
    },
    /// Another program has opened the database during the load, in spite of the lock: the directory
    /// was moved, or the file system does not lock.
    #[error(
        "{} was written by another program while the database was open; close all but one, then open it again",
        path.display()
    )]
    AnotherWriter {
        /// The manifest's file.
        path: PathBuf,
    },
    /// The load was interrupted, see [`LoadOptions::interrupt`](crate::LoadOptions::interrupt).
    #[error("the load was interrupted; nothing of the table is left")]
    Interrupted,
    /// The database was closed before the end of the load.
    #[error("the database is closed")]
    Closed,
    /// This process was forked from the one that opened the database.
    #[error(
        "the database was opened by the parent of this process; let the parent load, or fork before opening it"
    )]
    Forked,
}

fn in_index(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!(" in index {name:?}"))
}

impl LoadError {
    /// Which row was wrong, counted from 1, where one was.
    #[must_use]
    pub fn row(&self) -> Option<u64> {
        match self {
            Self::Row { row, .. } | Self::KeyTooLong { row, .. } | Self::OutOfOrder { row, .. } => {
                Some(*row)
            }
            _ => None,
        }
    }

    /// The device's error for a file.
    pub(crate) fn device(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        let source = Arc::new(source);
        if is_full(&source) {
            Self::DiskFull { path, source }
        } else {
            Self::Device { path, source }
        }
    }
}

impl From<SegmentError> for LoadError {
    fn from(error: SegmentError) -> Self {
        match error {
            SegmentError::DiskFull { path, source } => Self::DiskFull { path, source },
            other => Self::Segment(other),
        }
    }
}
