//! Checkpoints: the tables in memory are written to the disk as of one moment, and the log before that moment goes.
//!
//! ```text
//!   a view at stamp S  ──►  the image of S, beside running transactions (image_writer.rs)
//!     one replacement of the manifest: it names the image, and where the log begins now
//!       the list of the image gets its lasting name; what only the image before had is removed
//!       segments of the log with nothing above S are written again, generations before are removed
//! ```
//! A crash at any point leaves one image or the other, with the log that belongs to it: what the manifest no longer names,
//! the next opening removes. A checkpoint that fails leaves the database as it was, running.
//!
//! One thread does so when the log has become long (`trigger.rs`); any other may ask for one.

mod checkpointer;
mod rows_of_view;
mod trigger;

use std::time::Duration;

use namiki_platform::Stamp;

pub(crate) use self::checkpointer::{CatalogueCell, Checkpointer, Parts};
use crate::api::database::Database;
use crate::error::Error;

/// When checkpoints are taken, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckpointSettings {
    /// One is taken when so many bytes of log were written since the last one, or half as many as the image has.
    pub(crate) log_bytes: u64,
    /// And after so long, if anything was written.
    pub(crate) interval: Option<Duration>,
    /// And when the database is closed, if so many bytes of log were written since the last one.
    pub(crate) closing_log_bytes: Option<u64>,
    /// Bytes of keys and values that are written in a second at most.
    pub(crate) bytes_per_second: Option<std::num::NonZeroU64>,
}

impl Default for CheckpointSettings {
    fn default() -> Self {
        Self {
            log_bytes: 1 << 30,
            interval: None,
            closing_log_bytes: Some(16 << 20),
            bytes_per_second: None,
        }
    }
}

/// What a checkpoint did, see [`Database::checkpoint`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CheckpointReport {
    /// The image has what commits with this stamp or a lower one have left, and nothing else.
    pub stamp: Stamp,
    /// Tables in the image.
    pub tables: u64,
    /// Rows that were written; those of key ranges without changes since the image before were not.
    pub rows: u64,
    /// The bytes of their keys and values.
    pub bytes: u64,
    /// Files of the image before that were kept.
    pub files_kept: u64,
    /// Log files that were removed or given to be written again, and their bytes.
    pub log_files_freed: u64,
    /// How long it took.
    pub took: Duration,
}

/// What there is to be told of checkpoints, see [`Stats`](crate::Stats).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckpointStats {
    /// How many were taken since the database was opened.
    pub taken: u64,
    /// How many failed.
    pub failed: u64,
    /// What the last one said that failed, unless one was taken since.
    pub last_error: Option<Error>,
    /// The last one.
    pub last: Option<CheckpointReport>,
    /// How long ago the last one was taken.
    pub last_ago: Option<Duration>,
    /// The stamp of the image that is there, taken by this opening or before it.
    pub image_stamp: Option<Stamp>,
    /// The bytes of its files.
    pub image_file_bytes: u64,
    /// Bytes of log since it.
    pub log_bytes_since: u64,
    /// Bytes of keys and values that all checkpoints have written.
    pub bytes_written: u64,
}

impl Database {
    /// Takes a checkpoint now: writes what has changed in the tables in memory since the last one, and frees the log before
    /// it. The database does so by itself when the log has become long, see
    /// [`Builder::checkpoint_log_bytes`](crate::Builder::checkpoint_log_bytes), and when it is closed. Transactions go on
    /// meanwhile; what they overwrite is kept in memory until the checkpoint has written it, each key once at most.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let db = namiki::Database::open(dir.path().join("data"))?;
    /// let accounts = db.table::<u64, i64>("accounts")?;
    /// db.transact(|tx| tx.put(&accounts, &1, &100))?;
    /// let report = db.checkpoint()?;
    /// assert_eq!((report.tables, report.rows), (1, 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A database without a log has nothing to free; its tables are in memory alone, and this does nothing.
    ///
    /// # Errors
    /// [`Error::CheckpointFailed`], [`Error::Manifest`], [`Error::AnotherWriter`]: the database goes on as before.
    /// [`Error::LogFailed`], [`Error::OutcomeUnknown`], [`Error::ReadOnly`], [`Error::Closed`], [`Error::Forked`].
    pub fn checkpoint(&self) -> Result<CheckpointReport, Error> {
        let shared = &*self.shared;
        shared.engine.check_open()?;
        if shared.engine.read_only {
            return Err(Error::ReadOnly);
        }
        match &shared.checkpointer {
            Some(checkpointer) => checkpointer.checkpoint(),
            None => Ok(CheckpointReport::default()),
        }
    }
}
