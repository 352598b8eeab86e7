//! The backups of a run, each into the same directory as the one before.

use std::ops::{AddAssign, Range};
use std::sync::Arc;
use std::time::Duration;

use namiki::{BackupError, BackupOptions, Database, Error, Stamp};
use namiki_platform::disk::{Disk, SimDisk};

/// The directory of the backups.
pub(super) const COPY: &str = "/copy";
/// Longer than any run, so that no earlier backup is deleted.
const KEPT: Duration = Duration::from_hours(24);

/// The backups taken in a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Backups {
    /// For each backup taken: the numbers of events at its beginning and end, and its stamp.
    taken: Vec<(Range<usize>, Stamp)>,
    /// The errors of the failed backups.
    failures: Vec<Arc<BackupError>>,
}

impl Backups {
    /// Takes a backup. The database continues if it fails.
    pub(super) fn take(&mut self, db: &Database, disk: &SimDisk) -> Result<(), Error> {
        let before = disk.events();
        match back_up(db, disk) {
            Ok(Some(stamp)) => self.taken.push((before..disk.events(), stamp)),
            Ok(None) => {}
            Err(BackupError::Database(error)) => return Err(error),
            Err(error) => self.failures.push(Arc::new(error)),
        }
        Ok(())
    }

    /// The error of a failed backup, if there is one.
    pub(super) fn failure(&self) -> Option<&BackupError> {
        self.failures.first().map(|error| &**error)
    }

    /// Whether a crash after `events` events was in the middle of a backup.
    pub(super) fn has_within(&self, events: usize) -> bool {
        let mut spans = self.taken.iter().map(|(span, _)| span);
        spans.any(|span| span.start < events && events < span.end)
    }

    /// The stamp of the last backup that was complete after `events` events.
    pub(super) fn acknowledged(&self, events: usize) -> Option<Stamp> {
        let taken = self.taken.iter().filter(|(span, _)| span.end <= events);
        taken.map(|(_, stamp)| *stamp).max()
    }
}

impl AddAssign for Backups {
    fn add_assign(&mut self, other: Self) {
        self.taken.extend(other.taken);
        self.failures.extend(other.failures);
    }
}

/// Takes a backup; `None` if the log, or a part of it, is on a shared device.
///
/// # Errors
/// The error of the backup.
pub(super) fn back_up(db: &Database, disk: &SimDisk) -> Result<Option<Stamp>, BackupError> {
    let options = BackupOptions::default().disk(arc(disk)).keep(KEPT);
    match db.backup_with(COPY, &options) {
        Ok(report) => Ok(Some(report.stamp)),
        Err(BackupError::SharedDevice { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn arc(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}
