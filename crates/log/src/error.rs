//! Errors of writing the log: why it refuses a commit, or refuses everything. Why a log cannot be
//! read back is in `read/error.rs`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki_platform::debug_as_sentence;
use namiki_platform::disk::is_full;
use namiki_platform::{Generation, Lsn, WorkerId};

use crate::format::VERSION;

debug_as_sentence!(LogError);

/// An error of writing the log. Cheap to clone, because every waiter of a failed flush gets one.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The commit can never be appended. No LSN was drawn, nothing was written; the transaction
    /// has to become smaller or the log be opened with larger buffers.
    #[error(
        "a commit of {bytes} bytes exceeds the log's limit of {bytes_max} bytes; make it smaller, or buffer_bytes larger"
    )]
    CommitTooLarge {
        /// Its payload.
        bytes: usize,
        /// The largest payload that fits.
        bytes_max: usize,
    },
    /// There is no space for another log file. The commit was refused before anything of it was
    /// written; commits accepted earlier have their space. Free some space and try again.
    #[error("no space left on the disk for log file {}", path.display())]
    DiskFull {
        /// The log file that could not be created.
        path: PathBuf,
        /// The error of the disk.
        source: Arc<io::Error>,
    },
    /// The next log file could not be made: no right to write, a file system that is mounted to be
    /// read, no file descriptor or memory left. The commit was refused before anything of it was
    /// written; commits accepted earlier have their space. When the cause has gone, commits are
    /// accepted again.
    #[error("cannot make the log file {}", path.display())]
    NotPrepared {
        /// The file.
        path: PathBuf,
        /// The error of the disk.
        source: Arc<io::Error>,
    },
    /// The stream's region of a shared device is used up. The commit was refused before anything
    /// of it was written. Where frames may be recycled, the next checkpoint frees room.
    #[error(
        "the region of {worker} in {} ({region_bytes} bytes) is full; it has room again after a checkpoint, unless an old \
         transaction or a failing checkpoint is in the way; else export the tables, and import them into a database with \
         larger regions",
        path.display()
    )]
    RegionFull {
        /// The device or file.
        path: PathBuf,
        /// The worker of the region.
        worker: WorkerId,
        /// Its size.
        region_bytes: u64,
    },
    /// Reading, writing or naming a file failed. If this error poisoned the log, it is unknown what
    /// the device kept: reopen to find out.
    #[error("{doing} {} failed", path.display())]
    Device {
        /// The operation, such as "writing".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the disk.
        source: Arc<io::Error>,
    },
    /// A caller's closure, or the disk, panicked while the stream was in the middle of something.
    #[error("the log stream of {worker} was abandoned by a panic")]
    Panicked {
        /// The worker of the stream.
        worker: WorkerId,
    },
    /// This process was forked from the one that writes the log, and must not write into it.
    #[error("the log belongs to the parent of this process, which was forked from it")]
    Forked,
    /// The log was closed.
    #[error("the log is closed")]
    Closed,
    /// The ticket was given out by another stream or another log. Nothing was waited for.
    #[error(
        "commit {number} of {worker} was never appended to the log stream of {asked}, which has {appended} commits"
    )]
    ForeignTicket {
        /// The ticket's stream.
        worker: WorkerId,
        /// The ticket's number.
        number: u64,
        /// The stream that was asked.
        asked: WorkerId,
        /// Number of commits in that stream.
        appended: u64,
    },
    /// The LSN was not drawn from this log, so waiting for it would not end.
    #[error("{lsn} was never drawn from this log, whose next is {next}")]
    NeverDrawn {
        /// The requested LSN.
        lsn: Lsn,
        /// The LSN that will be drawn next.
        next: Lsn,
    },
    /// There are files of this generation already, so it is not a new one.
    #[error("{generation} of the log was used before: {} exists; it is of a newer manifest, which belongs beside it", path.display())]
    GenerationExists {
        /// The generation that was asked for.
        generation: Generation,
        /// A file that belongs to it.
        path: PathBuf,
    },
    /// The shared device belongs to another database.
    #[error("{} holds the log of another database; name another device", path.display())]
    Foreign {
        /// The device or file.
        path: PathBuf,
    },
    /// The shared device holds a log that another Namiki wrote.
    #[error(
        "{} holds a log in format {version}, and this program writes format {VERSION} alone: export its tables with the \
         program that wrote it and import them with this one, or name another device",
        path.display()
    )]
    OtherVersion {
        /// The device or file.
        path: PathBuf,
        /// Its format.
        version: u32,
    },
    /// The shared device is too short for the regions. A file was made for as many streams as there
    /// were then.
    #[error(
        "{} of {bytes} bytes has room for {} regions of {region_bytes} bytes, and there are to be {streams}; open with as many \
         streams as it has room for, or make it longer (fallocate -l {} on a file)",
        path.display(), bytes / region_bytes, region_bytes.saturating_mul(*streams as u64)
    )]
    DeviceTooSmall {
        /// The device or file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// Number of streams.
        streams: usize,
        /// The required length of each region.
        region_bytes: u64,
    },
    /// The configuration contradicts itself.
    #[error("invalid log configuration: {reason}")]
    InvalidConfig {
        /// The contradiction.
        reason: String,
    },
}

impl LogError {
    /// True of errors after which the log accepts and acknowledges nothing: the outcome of every
    /// commit that was not yet hardened is unknown until the log is read again.
    #[must_use]
    pub fn is_poison(&self) -> bool {
        matches!(self, Self::Device { .. } | Self::Panicked { .. })
    }

    /// True if there is no place for a frame here, and nothing was written: there may be one
    /// elsewhere, or later.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::RegionFull { .. } | Self::DiskFull { .. } | Self::NotPrepared { .. }
        )
    }

    /// True if what is missing is room.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::RegionFull { .. } | Self::DiskFull { .. })
    }

    /// True if the disk has no room for a file or a directory of the log.
    #[must_use]
    pub fn is_for_want_of_room(&self) -> bool {
        match self {
            Self::DiskFull { .. } => true,
            Self::Device { source, .. } => is_full(source),
            _ => false,
        }
    }

    pub(crate) fn device(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Device {
            doing,
            path: path.to_owned(),
            source: Arc::new(source),
        }
    }

    /// The error for a log file that could not be made. No frame is in it, so the log stays usable.
    pub(crate) fn preparing(path: &Path, source: io::Error) -> Self {
        if is_full(&source) {
            Self::DiskFull {
                path: path.to_owned(),
                source: Arc::new(source),
            }
        } else {
            Self::NotPrepared {
                path: path.to_owned(),
                source: Arc::new(source),
            }
        }
    }
}
