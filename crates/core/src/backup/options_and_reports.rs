//! Options and reports of backups.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use namiki_platform::Stamp;
use namiki_platform::disk::Disk;

/// Called periodically while a backup is taken or restored.
pub type OnBackupProgress = Arc<dyn Fn(BackupProgress) + Send + Sync>;

/// The progress of a backup. Data segments, those of loaded tables and of the image, are copied
/// first, then the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupProgress {
    /// Bytes of data segments that were copied.
    pub segment_bytes: u64,
    /// The total of these bytes, without the segments that the backup had already.
    pub segment_bytes_total: u64,
    /// Bytes of log that were copied.
    pub log_bytes: u64,
}

/// The report of a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BackupReport {
    /// The backup has exactly the commits with this stamp or a lower one.
    pub stamp: Stamp,
    /// Data segments that were copied.
    pub files_copied: u64,
    /// Data segments that the directory had already.
    pub files_kept: u64,
    /// Bytes of data segments that were copied.
    pub segment_bytes: u64,
    /// Bytes of log that were copied.
    pub log_bytes: u64,
    /// The number of earlier backups that the directory keeps in addition to this one.
    pub earlier_kept: u64,
    /// By how much the computer's clock is behind the time at which an earlier backup in the directory was taken: one of the two is
    /// wrong. Ages are not certain then; no backup is removed because of a time that is later than that of this one.
    pub clock_behind: Option<Duration>,
    /// How long it took.
    pub took: Duration,
}

/// Options of a backup or a restore. The defaults suit most.
#[derive(Clone, Default)]
pub struct BackupOptions {
    pub(crate) bytes_per_second: Option<NonZeroU64>,
    pub(crate) interrupt: Option<Arc<AtomicBool>>,
    pub(crate) on_progress: Option<OnBackupProgress>,
    pub(crate) disk: Option<Arc<dyn Disk>>,
    pub(crate) keep: Option<Duration>,
    pub(crate) verifies: bool,
}

impl BackupOptions {
    /// The rate limit, in bytes for each second, so that the disk has capacity for other writes.
    /// Default: no limit.
    #[must_use]
    pub fn bytes_per_second(mut self, bytes: NonZeroU64) -> Self {
        self.bytes_per_second = Some(bytes);
        self
    }

    /// Keeps earlier backups in the directory for this time, in addition to the new one: a restore
    /// can go back to any [restore point](crate::Builder::restore_points) that was written to the
    /// directory in that time, and to the end of each backup. Backups share the files that they
    /// have in common. The newest of the older ones is kept, too, so that every moment since then
    /// has a state.
    ///
    /// Default: none is kept. If the directory keeps some, every further backup has to set this.
    #[must_use]
    pub fn keep(mut self, longest: Duration) -> Self {
        self.keep = Some(longest);
        self
    }

    /// Whether the files that the directory has already are read, and every checksum verified,
    /// before any file is copied. Default: no. Names, lengths and headers of files are compared
    /// each time; other damage is found by this, by `namiki check`, or by the restore.
    #[must_use]
    pub fn verify(mut self, verifies: bool) -> Self {
        self.verifies = verifies;
        self
    }

    /// Whether the directory keeps earlier backups.
    pub(crate) fn keeps_earlier(&self) -> bool {
        self.keep.is_some_and(|longest| longest > Duration::ZERO)
    }

    /// The same without a rate limit: a caller waits for the end.
    pub(crate) fn at_full_speed(mut self) -> Self {
        self.bytes_per_second = None;
        self
    }

    /// The backup ends with [`BackupError::Interrupted`](crate::BackupError::Interrupted) soon after this becomes true.
    #[must_use]
    pub fn interrupt(mut self, asked: Arc<AtomicBool>) -> Self {
        self.interrupt = Some(asked);
        self
    }

    /// Called periodically, by the copying thread. Transactions may be run in it, but on a full
    /// disk they do not wait for room. It must not call functions that wait for the backup's end:
    /// checkpoints, other backups, loads, and [`Database::close`](crate::Database::close). The
    /// callback of a backup that follows the database must not wait for transactions of other
    /// threads ([`Builder::backup_to`](crate::Builder::backup_to)): on a full disk, these may wait
    /// for it.
    #[must_use]
    pub fn on_progress(mut self, on_progress: OnBackupProgress) -> Self {
        self.on_progress = Some(on_progress);
        self
    }

    /// The disk that the new directory is on, for programs with a [`disk`](crate::disk) of their own. Default: the file
    /// system.
    #[must_use]
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = Some(disk);
        self
    }
}

impl fmt::Debug for BackupOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackupOptions")
            .field("bytes_per_second", &self.bytes_per_second)
            .field("keep", &self.keep)
            .field("verifies", &self.verifies)
            .finish_non_exhaustive()
    }
}
