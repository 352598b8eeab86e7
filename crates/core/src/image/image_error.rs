//! Why the image of the tables in memory was not written. None of its files remains then, and the
//! previous image is unchanged.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki_platform::Stamp;
use namiki_platform::debug_as_sentence;
use namiki_platform::disk::is_full;
use namiki_segment::SegmentError;

use crate::error::Error;
use crate::table::raw_table::TableId;

debug_as_sentence!(ImageError);

/// Why an image was not written. Its files were removed; the previous image and the log are
/// unchanged.
#[derive(Clone, thiserror::Error)]
pub(crate) enum ImageError {
    /// The rows of a table could not be read.
    #[error("the rows of table {} cannot be read for the image", table.0)]
    Rows {
        /// The table's number.
        table: TableId,
        /// The cause.
        #[source]
        source: Error,
    },
    /// A row came with a stamp that no row of the image has. This is a bug: an image with it would be wrong.
    #[error(
        "a row of table {} has {stamp}, and the image is of {image}; it was not written, and the log has all rows",
        table.0
    )]
    RowStamp {
        /// The table's number.
        table: TableId,
        /// The row's stamp.
        stamp: Stamp,
        /// That of the image.
        image: Stamp,
    },
    /// There is no room for the files. They were removed; make room.
    #[error("no room for {}; make room", path.display())]
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
    /// A run of rows could not be written.
    #[error("cannot write rows of table {}", table.0)]
    Segment {
        /// The table's number.
        table: TableId,
        /// The cause.
        #[source]
        source: SegmentError,
    },
    /// All 2^32 numbers of files are used up. Opening the database again begins with the lowest that is free.
    #[error("all file numbers are used up; open the database again")]
    NumbersUsedUp,
    /// It was cancelled.
    #[error("the checkpoint was interrupted; nothing of its image is left")]
    Interrupted,
}

impl ImageError {
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

    /// The error of a segment's writer.
    pub(crate) fn segment(table: TableId, source: SegmentError) -> Self {
        match source {
            SegmentError::DiskFull { path, source } => Self::DiskFull { path, source },
            source => Self::Segment { table, source },
        }
    }
}
