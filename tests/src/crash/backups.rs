//! The backups of a run, each into the directory of the one before.

use std::ops::{AddAssign, Range};
use std::sync::Arc;
use std::time::Duration;

use namiki::{BackupError, BackupOptions, Database, Error, Stamp};
use namiki_platform::disk::{Disk, SimDisk};

/// The directory.
pub(super) const COPY: &str = "/copy";
/// Longer than any run: no earlier backup goes.
const KEPT: Duration = Duration::from_hours(24);

/// What there was of backups.
#[derive(Clone, Debug, Default)]
pub(super) struct Backups {
    /// From how many events to how many, and the stamp, of each that was taken.
    taken: Vec<(Range<usize>, Stamp)>,
    /// Why some of them failed.
    failures: Vec<Arc<BackupError>>,
}

impl Backups {
    /// Takes one. The database goes on if it fails.
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

    /// Why one failed, if any did.
    pub(super) fn failure(&self) -> Option<&BackupError> {
        self.failures.first().map(|error| &**error)
    }

    /// Whether a crash after so many events was in the middle of one.
    pub(super) fn has_within(&self, events: usize) -> bool {
        let mut spans = self.taken.iter().map(|(span, _)| span);
        spans.any(|span| span.start < events && events < span.end)
    }

    /// The stamp of the last one that had been taken after so many events.
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

/// Takes one; nothing where the log, or a part of it, is on a shared device.
///
/// # Errors
/// Why there is none.
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
