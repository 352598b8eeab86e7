//! The backup that follows the database of the killed processes. After every kill it is a state of
//! the database, and so is each point to which it can be restored. No point within the retention
//! time is missing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use namiki::files::Manifest;
use namiki::{BackupOptions, Builder, Database, RestorePoint};
use namiki_platform::disk::ReadOnlyDisk;
use namiki_platform::seeded_random::Random;

use super::{Bank, told};

/// Retention time of earlier backups: several lives.
const KEPT: Duration = Duration::from_millis(300);

/// The directory of the backup of a database.
fn copy_of(dir: &Path) -> PathBuf {
    dir.with_file_name("copy")
}

/// Lets a backup follow the database.
pub(super) fn follow(builder: Builder, dir: &Path) -> Builder {
    let options = BackupOptions::default().keep(KEPT);
    builder
        .restore_points(Duration::ZERO)
        .backup_to(copy_of(dir), Duration::ZERO, options)
}

/// The known state of the backup.
#[derive(Debug, Default)]
pub(super) struct FollowedCopy {
    /// The restore points at the last check.
    points: Vec<RestorePoint>,
    payments: BTreeSet<u64>,
}

impl FollowedCopy {
    /// Compares the backup with the payments in the database. Returns the number of states checked.
    ///
    /// # Errors
    /// The first mismatch.
    pub(super) fn check(
        &mut self,
        dir: &Path,
        found: &BTreeSet<u64>,
        random: &mut Random,
    ) -> Result<u64, String> {
        let copy = copy_of(dir);
        let manifest = Manifest::read(&ReadOnlyDisk::new(), &copy).map_err(|it| told(&it))?;
        let Some(mark) = manifest.and_then(|manifest| manifest.backup) else {
            return if self.payments.is_empty() {
                Ok(0)
            } else {
                Err("the backup is gone".to_owned())
            };
        };
        let payments = payments_in(&copy, found)?;
        if !self.payments.is_subset(&payments) {
            return Err("the backup has lost payments that it had".to_owned());
        }
        let points = Database::builder().restore_points_of(&copy);
        let points = points.map_err(|error| told(&error))?;
        let since_ms = mark.taken_at_ms - KEPT.as_millis() as u64;
        for kept in self.points.iter().filter(|it| it.time_ms > since_ms) {
            if !points.iter().any(|point| point.stamp == kept.stamp) {
                return Err(format!("{kept:?} is not kept: {points:?}"));
            }
        }
        let mut states = 1;
        let some = (!points.is_empty()).then(|| random.index(points.len()));
        for at in some.into_iter().chain(some.map(|_| 0)) {
            let stamp = points[at].stamp;
            let new = tempfile::tempdir().map_err(|error| told(&error))?;
            let options = BackupOptions::default();
            let restored = Database::builder().restore_to(&copy, new.path(), stamp, &options);
            restored.map_err(|error| format!("{stamp} cannot be restored: {}", told(&error)))?;
            payments_in(new.path(), found).map_err(|why| format!("at {stamp}: {why}"))?;
            states += 1;
        }
        (self.points, self.payments) = (points, payments);
        Ok(states)
    }
}

/// The payments of a consistent state, all of which the database has.
fn payments_in(dir: &Path, found: &BTreeSet<u64>) -> Result<BTreeSet<u64>, String> {
    let db = Database::builder().open_read_only(dir);
    let db = db.map_err(|error| format!("{} does not open: {}", dir.display(), told(&error)))?;
    // The first backup may be older than the tables.
    if db.tables().len() < Bank::TABLES {
        return Ok(BTreeSet::new());
    }
    let payments = Bank::check(&db)?;
    if payments.is_subset(found) {
        Ok(payments)
    } else {
        Err("it has payments that the database does not have".to_owned())
    }
}
