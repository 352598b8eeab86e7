//! The backup that follows a database: where it goes, and what it tells (`follow_database.rs`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use namiki_platform::disk::is_one_in_the_other;
use parking_lot::Mutex;

use crate::backup::error::BackupError;
use crate::backup::options_and_reports::{BackupOptions, BackupReport};
use crate::error::{Error, OpenError};
use crate::events;

/// Where, how often and how.
#[derive(Clone, Debug)]
pub(crate) struct FollowSettings {
    pub(crate) dir: PathBuf,
    pub(crate) interval: Duration,
    pub(crate) options: BackupOptions,
}

impl FollowSettings {
    /// Fails if the backup would be in the directory of its database, or the other way round.
    ///
    /// # Errors
    /// [`OpenError::Settings`]; [`OpenError::Device`].
    pub(crate) fn check_elsewhere(&self, database: &Path) -> Result<(), OpenError> {
        let is_own = is_one_in_the_other(database, &self.dir);
        let is_own = is_own.map_err(|source| OpenError::Device {
            path: self.dir.clone(),
            source,
        })?;
        if !is_own {
            return Ok(());
        }
        let refused = BackupError::OwnDirectory {
            dir: self.dir.clone(),
            database: database.to_owned(),
        };
        Err(OpenError::Settings(refused.to_string()))
    }
}

/// What there is to be told of the backup that follows a database, see [`Builder::backup_to`](crate::Builder::backup_to).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BackupStats {
    /// How many were taken since the database was opened.
    pub taken: u64,
    /// How many failed.
    pub failed: u64,
    /// What the last one said that failed, unless one was taken since.
    pub last_error: Option<Arc<BackupError>>,
    /// The last one.
    pub last: Option<BackupReport>,
    /// How long ago it was begun: what was acknowledged before that is in the backup.
    pub last_ago: Option<Duration>,
    /// Checkpoints before which it could not be brought up to date: restore points between the backup and the checkpoint are
    /// missing.
    pub gaps: u64,
}

/// A backup that holds the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BackupUnderWay {
    /// It was asked for.
    OnDemand,
    /// It follows the database, and is deferred when commits are refused.
    Following,
}

/// The backup.
pub(crate) struct FollowedBackup {
    pub(crate) settings: FollowSettings,
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    stats: BackupStats,
    last: Option<Instant>,
}

impl FollowedBackup {
    pub(crate) fn new(settings: FollowSettings) -> Self {
        Self {
            settings,
            told: Mutex::default(),
        }
    }

    pub(crate) fn stats(&self) -> BackupStats {
        let told = self.told.lock();
        BackupStats {
            last_ago: told.last.map(|last| last.elapsed()),
            ..told.stats.clone()
        }
    }

    /// Counts a checkpoint before which it could not be brought up to date.
    pub(crate) fn tell_gap(&self) {
        self.told.lock().stats.gaps += 1;
    }

    /// Notes whether one was taken, and returns why not.
    pub(crate) fn tell(
        &self,
        began: Instant,
        done: Result<BackupReport, BackupError>,
    ) -> Result<(), Arc<BackupError>> {
        let mut told = self.told.lock();
        match done {
            Ok(report) => {
                told.last = Some(began);
                told.stats.taken += 1;
                told.stats.last = Some(report);
                told.stats.last_error = None;
                Ok(())
            }
            // Not a failure: it was told to end.
            Err(error @ BackupError::Database(Error::Closed)) => Err(Arc::new(error)),
            Err(error) => {
                events::followed_backup_failed(&error);
                let error = Arc::new(error);
                told.stats.failed += 1;
                told.stats.last_error = Some(Arc::clone(&error));
                Err(error)
            }
        }
    }
}
