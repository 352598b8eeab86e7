//! Errors of backups. The previous backup in the directory is unchanged.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki_log::{CopyError, ReadError};
use namiki_platform::Stamp;
use namiki_platform::debug_as_sentence;
use namiki_platform::disk::is_full;
use namiki_segment::SegmentError;

use crate::error::{Error, OpenError};

debug_as_sentence!(BackupError);

/// Why a backup was not taken, or not restored. The previous backup in the directory is unchanged,
/// and the next one reuses the files that were copied for this one.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The database has no log, and so no files.
    #[error(
        "a database without a log has nothing that could be copied; open it with a protocol that logs"
    )]
    NoLog,
    /// Its log is on a shared device.
    #[error(
        "the log is on the shared device {}, and only logs in files can be copied; export the tables instead",
        path.display()
    )]
    SharedDevice {
        /// The device.
        path: PathBuf,
    },
    /// The directory for the copy is that of the database, lies in it, or has it in it. Nothing was written.
    #[error(
        "{} is in the directory {} that is to be copied, or the other way round; name a directory elsewhere, best on another disk",
        dir.display(), database.display()
    )]
    OwnDirectory {
        /// The directory for the copy.
        dir: PathBuf,
        /// The directory that is to be copied.
        database: PathBuf,
    },
    /// The directory for the backup holds something else.
    #[error(
        "{} is not empty, and holds nothing that this could go on with; name a new or an empty directory",
        dir.display()
    )]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory for the backup holds one of another database.
    #[error("{} holds a backup of another database; name another directory", dir.display())]
    OtherDatabase {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory for the backup holds a database with a history of its own: it was a backup,
    /// and was opened to be written.
    #[error(
        "{} holds a database that was opened to be written, so it is no backup any more; name another directory",
        dir.display()
    )]
    WasOpened {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory keeps earlier backups, but no retention time was given.
    #[error(
        "{} keeps earlier backups, and for how long was not said; say it again, with BackupOptions::keep or --keep",
        dir.display()
    )]
    KeepsEarlier {
        /// The directory.
        dir: PathBuf,
    },
    /// The backup in the directory is of another history of this database: it has changes that this
    /// one does not have. One of the two was restored, or put back from a copy, and both were
    /// written since.
    #[error(
        "the backup in {} has what this database does not have: one of the two was restored or put back from a copy, and \
         has a history of its own since; name another directory",
        dir.display()
    )]
    OtherHistory {
        /// The directory.
        dir: PathBuf,
    },
    /// It is unknown whether the backup in the directory is of this history of the database: it was
    /// taken more than 1,024 openings ago.
    #[error(
        "the backup in {} was taken more than 1,024 openings of the database ago, so that it cannot be told whether this \
         database continues it; name another directory",
        dir.display()
    )]
    UnknownHistory {
        /// The directory.
        dir: PathBuf,
    },
    /// The backup has no complete restore point with this stamp.
    #[error("there is no restore point {stamp}: {}", points(*oldest, *newest))]
    NoSuchPoint {
        /// The requested stamp.
        stamp: Stamp,
        /// The oldest point; none if there are no points.
        oldest: Option<Stamp>,
        /// The newest one.
        newest: Option<Stamp>,
    },
    /// The database cannot be read: it is in use, damaged, or none.
    #[error(transparent)]
    Source(Box<OpenError>),
    /// The log of the database cannot be read, or is damaged.
    #[error("the log cannot be copied")]
    Log(#[source] Box<ReadError>),
    /// A file with rows cannot be read, or is damaged.
    #[error("{} cannot be copied", path.display())]
    Segment {
        /// The file.
        path: PathBuf,
        /// The damage that was found.
        #[source]
        source: Box<SegmentError>,
    },
    /// The copy in the backup reads back differently from what was written, and its source is
    /// sound.
    #[error("the copy {} is not what was written: its device is not to be trusted", path.display())]
    CopyDamaged {
        /// The file of the backup.
        path: PathBuf,
        /// The damage that was found.
        #[source]
        source: Box<SegmentError>,
    },
    /// The directory has lost a file that the new backup would keep: it is missing or was changed.
    /// Nothing was copied.
    #[error(
        "{}, a file of the earlier backup that the new one keeps, {why}; put it back, or name another directory for a new backup",
        path.display()
    )]
    KeptFile {
        /// The file.
        path: PathBuf,
        /// The damage that was found.
        why: KeptFileFault,
    },
    /// A file with rows that the new backup would keep is damaged, see [`BackupOptions::verify`](crate::BackupOptions::verify).
    #[error(
        "{}, a file of the earlier backup that the new one keeps, is damaged; put it back, or name another directory for a new \
         backup",
        path.display()
    )]
    KeptRows {
        /// The file.
        path: PathBuf,
        /// The damage that was found.
        #[source]
        source: Box<SegmentError>,
    },
    /// The log that the new backup would keep is damaged, see [`BackupOptions::verify`](crate::BackupOptions::verify).
    #[error(
        "the log in {} that the new backup keeps is damaged; put the file back, or name another directory for a new backup",
        dir.display()
    )]
    KeptLog {
        /// The directory.
        dir: PathBuf,
        /// The damage that was found, and where.
        #[source]
        source: Box<ReadError>,
    },
    /// There is no room for the backup. Make room; the next backup resumes from the files that were
    /// copied.
    #[error("no room for {}; make room, and take the backup again", path.display())]
    DiskFull {
        /// The path that was to be written.
        path: PathBuf,
        /// The device's error.
        #[source]
        source: Arc<io::Error>,
    },
    /// A device failed.
    #[error("cannot access {}", path.display())]
    Device {
        /// The path that was accessed.
        path: PathBuf,
        /// The device's error.
        #[source]
        source: Arc<io::Error>,
    },
    /// The database failed or was closed during the backup.
    #[error(transparent)]
    Database(#[from] Error),
    /// The disk of the database is full, and a checkpoint that frees log has precedence.
    #[error(
        "the disk of the database is full, and freeing its log comes first; the next backup goes on from what was copied"
    )]
    Deferred,
    /// It was interrupted, see [`BackupOptions::interrupt`](crate::BackupOptions::interrupt).
    #[error("interrupted; the next backup goes on from what was copied")]
    Interrupted,
}

/// The fault of a file that a backup would keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeptFileFault {
    /// It is missing.
    Missing,
    /// It has another length than it was written with.
    Length {
        /// The length that it has, in bytes.
        found: u64,
        /// The length that it was written with.
        expected: u64,
    },
    /// It does not begin with its header.
    Header,
}

impl fmt::Display for KeptFileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("is missing"),
            Self::Length { found, expected } => {
                write!(f, "has {found} bytes, and was written with {expected}")
            }
            Self::Header => f.write_str("does not begin with the header that it was written with"),
        }
    }
}

impl From<OpenError> for BackupError {
    fn from(error: OpenError) -> Self {
        Self::Source(Box::new(error))
    }
}

fn points(oldest: Option<Stamp>, newest: Option<Stamp>) -> String {
    match (oldest, newest) {
        (Some(oldest), Some(newest)) => {
            format!("those of the backup are from {oldest} to {newest}")
        }
        _ => "the backup has none".to_owned(),
    }
}

impl BackupError {
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

impl From<CopyError> for BackupError {
    fn from(error: CopyError) -> Self {
        match error {
            CopyError::Write { path, source } => Self::device(&path, source),
            CopyError::Read(error) => Self::Log(Box::new(error)),
            _ => unreachable!("these are all that there are"),
        }
    }
}
