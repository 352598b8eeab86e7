//! Continuous backup: the backup that follows a database is updated periodically, and before each
//! checkpoint frees log.
//!
//! ```text
//!   image 1 ──── log ────┬───────────┐
//!                        S           S'      the checkpoint's view, and the end of the backup taken before log is freed
//!   image 2 ─────────────┴──── log ──┴────┬──────┐
//! ```
//! S' is not below S. So if it keeps earlier backups (`backup/retention.rs`), the one with image 1 has each
//! restore point before S, and the one with image 2 each after it. (A point is put into the log with the catalogue
//! locked, as the end of a backup is taken: one that is not in the log by then is not before S'.)
//!
//! The last one is taken once the database is closed in order, so that nothing is missing that was acknowledged.
//!
//! A backup that fails delays no checkpoint: the log of a database is bounded, whatever happens to the directory of
//! its backup. The gap is counted: restore points between the last backup and the image are missing.
//!
//! This file decides when a backup is taken and keeps its statistics; the checkpointer takes it
//! (`checkpoint/image_lock.rs`), because it holds the image.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use namiki_platform::disk::is_one_in_the_other;
use parking_lot::Mutex;

use crate::backup::copy::copy_database::is_backed_up;
use crate::backup::error::BackupError;
use crate::backup::options_and_reports::{BackupOptions, BackupReport};
use crate::error::{Error, OpenError};
use crate::events;
use crate::live::stoppable_thread::Stop;

/// The pause after a backup that failed, if the interval is not shorter.
const AFTER_FAILURE: Duration = Duration::from_secs(10);
/// The shortest interval.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// The destination, the interval and the options.
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

/// Statistics of the backup that follows a database, see
/// [`Builder::backup_to`](crate::Builder::backup_to).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BackupStats {
    /// How many were taken since the database was opened.
    pub taken: u64,
    /// How many failed.
    pub failed: u64,
    /// The error of the last failed one, unless one was taken since.
    pub last_error: Option<Arc<BackupError>>,
    /// The last one.
    pub last: Option<BackupReport>,
    /// How long ago it was begun: what was acknowledged before that is in the backup.
    pub last_ago: Option<Duration>,
    /// Checkpoints before which it could not be brought up to date: restore points between the backup and the checkpoint are
    /// missing.
    pub gaps: u64,
}

/// Whether the backup has the log that a checkpoint makes superfluous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum BeforeRecycling {
    /// It has that log, or does not need it.
    NothingIsLost,
    /// It could not be brought up to date.
    IsBehind,
}

/// The backup.
pub(crate) struct FollowedBackup {
    settings: FollowSettings,
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

    /// Takes the backup in intervals until the thread is stopped, the first at once. `is_over`: none can be taken.
    pub(crate) fn take_in_intervals(
        &self,
        stop: &Stop,
        is_over: impl Fn() -> bool,
        back_up: impl Fn(&Path, &BackupOptions) -> Result<BackupReport, BackupError>,
    ) {
        let interval = self.settings.interval.max(INTERVAL_MIN);
        let mut pause = Duration::ZERO;
        while !stop.wait(pause) {
            let is_taken = !is_over() && self.take(&back_up).is_ok();
            pause = if is_taken {
                interval
            } else {
                interval.min(AFTER_FAILURE)
            };
        }
    }

    /// Brings the backup up to date with the log that a new image makes superfluous. The checkpoint
    /// calls it after its view and before it is announced. It does nothing if earlier backups are
    /// not kept, or no backup exists yet: no restore point would be lost.
    ///
    /// # Errors
    /// [`Error::Closed`] if the database is being closed, and this is not the last checkpoint: the log that is not in
    /// the backup has to stay.
    pub(crate) fn take_before_recycling(
        &self,
        is_last: bool,
        back_up: impl FnOnce(&Path, &BackupOptions) -> Result<BackupReport, BackupError>,
    ) -> Result<BeforeRecycling, Error> {
        let FollowSettings { dir, options, .. } = &self.settings;
        if !options.keeps_earlier() {
            return Ok(BeforeRecycling::NothingIsLost);
        }
        if !is_backed_up(dir, options) {
            // A backup that was taken and is missing is unreachable: perhaps its file system is not
            // mounted.
            return Ok(match self.stats().taken {
                0 => BeforeRecycling::NothingIsLost,
                _ => BeforeRecycling::IsBehind,
            });
        }
        match self.take(back_up) {
            Ok(()) => Ok(BeforeRecycling::NothingIsLost),
            Err(why) if !is_last && is_closed(&why) => Err(Error::Closed),
            Err(_) => Ok(BeforeRecycling::IsBehind),
        }
    }

    /// Brings the backup up to date with a database that was closed in order.
    ///
    /// # Errors
    /// [`Error::BackupBehind`]: the database is closed.
    pub(crate) fn take_at_the_end(
        &self,
        back_up: impl FnOnce(&Path, &BackupOptions) -> Result<BackupReport, BackupError>,
    ) -> Result<(), Error> {
        let taken = self.take(|dir, options| back_up(dir, &options.clone().at_full_speed()));
        taken.map_err(|source| Error::BackupBehind {
            dir: self.settings.dir.clone(),
            source,
        })
    }

    /// Takes the backup now.
    fn take(
        &self,
        back_up: impl FnOnce(&Path, &BackupOptions) -> Result<BackupReport, BackupError>,
    ) -> Result<(), Arc<BackupError>> {
        let began = Instant::now();
        let done = back_up(&self.settings.dir, &self.settings.options);
        self.tell(began, done)
    }

    /// Counts a checkpoint before which it could not be brought up to date.
    pub(crate) fn tell_gap(&self) {
        self.told.lock().stats.gaps += 1;
    }

    /// Notes whether one was taken, and returns why not.
    fn tell(
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
            // Not a failure: it was cancelled.
            Err(error) if is_closed(&error) => Err(Arc::new(error)),
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

/// Whether a backup ended because the database is being closed.
fn is_closed(error: &BackupError) -> bool {
    matches!(error, BackupError::Database(Error::Closed))
}
