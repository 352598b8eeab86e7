//! Settings and reports of checkpoints.

use std::num::NonZeroU64;
use std::time::Duration;

use namiki_log::RegionUse;
use namiki_platform::Stamp;

use crate::error::Error;
use crate::image::write::image_writer::RUN_BYTES;

/// Settings of checkpoints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckpointSettings {
    /// A checkpoint is taken after this many bytes of log, or after half the bytes of the image if
    /// that is more.
    pub(crate) log_bytes: u64,
    /// A checkpoint is also taken at this interval, if anything was written.
    pub(crate) interval: Option<Duration>,
    /// A checkpoint is also taken when the database is closed, if at least this many bytes of log
    /// were written since the last one.
    pub(crate) closing_log_bytes: Option<u64>,
    /// While there are commits, a restore point is written to the log at this interval; `None`: no
    /// restore points.
    pub(crate) restore_points: Option<Duration>,
    /// The rate limit, in bytes of keys and values for each second.
    pub(crate) bytes_per_second: Option<NonZeroU64>,
    /// How long a run of an image gets: the key range that is kept or written as a whole.
    pub(crate) run_bytes: u64,
}

impl Default for CheckpointSettings {
    fn default() -> Self {
        Self {
            log_bytes: 1 << 30,
            interval: None,
            closing_log_bytes: Some(16 << 20),
            restore_points: None,
            bytes_per_second: None,
            run_bytes: RUN_BYTES,
        }
    }
}

/// The report of a checkpoint, see [`Database::checkpoint`](crate::Database::checkpoint).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CheckpointReport {
    /// The image has exactly the commits with this stamp or a lower one.
    pub stamp: Stamp,
    /// Tables in the image.
    pub tables: u64,
    /// Rows that were written; those of key ranges without changes since the previous image were
    /// not.
    pub rows: u64,
    /// The bytes of their keys and values.
    pub bytes: u64,
    /// The bytes of the files that they were written to.
    pub file_bytes: u64,
    /// Files of the previous image that were kept.
    pub files_kept: u64,
    /// Log files that were removed. Others were kept to be written again.
    pub log_files_freed: u64,
    /// How long it took.
    pub took: Duration,
}

/// Statistics of checkpoints, see [`Stats`](crate::Stats).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckpointStats {
    /// How many were taken since the database was opened.
    pub taken: u64,
    /// How many failed.
    pub failed: u64,
    /// The error of the last failed one, unless one was taken since.
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
    /// Bytes of the files that they were written to.
    pub file_bytes_written: u64,
    /// Bytes of keys and values in the image.
    pub image_bytes: u64,
    /// Disk space that is reserved for the next one, in bytes of files without names.
    pub preallocated_bytes: u64,
    /// Whether the reserved space was less than is expected to be needed. Checkpoints are then
    /// taken more often.
    pub is_short_of_room: bool,
    /// The fullest region of a shared device, if the log lies in one: half full, it makes a checkpoint due, and full, it
    /// refuses commits.
    pub region: Option<RegionUse>,
    /// How long the present checkpoint has been running.
    pub under_way_for: Option<Duration>,
}
