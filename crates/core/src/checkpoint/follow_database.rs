//! The backup that follows a database: taken again in intervals, and before each checkpoint frees the log.
//!
//! ```text
//!   image 1 ──── log ────┬───────────┐
//!                        S           S'      the checkpoint's view, and the end of the backup that is taken before any log goes
//!   image 2 ─────────────┴──── log ──┴────┬──────┐
//! ```
//! S' is not below S. So if it keeps earlier backups (`backup/earlier_backups.rs`), the one with image 1 has each restore point
//! before S, and the one with image 2 each after it. (A point is put into the log with the catalogue locked, as the end of a backup
//! is taken: one that is not in the log by then is not before S'.)
//!
//! The last one is taken once the database is closed in order, so that nothing is missing that was ever acknowledged.
//!
//! What is in the way of a backup is in the way of no checkpoint: the log of a database is bounded, whatever becomes of the
//! directory of its backup. There is a gap then, which is counted: points between the last backup and the image are missing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::stoppable_thread::{Stop, StoppableThread};
use super::take_checkpoint::Work;
use crate::backup::copy::copy_database::{back_up, is_backed_up};
use crate::backup::copy::source::Source;
use crate::backup::error::BackupError;
use crate::backup::followed_backup::{BackupUnderWay, FollowSettings, FollowedBackup};
use crate::catalogue::manifest::Manifest;
use crate::commit::restore_points::now_ms;
use crate::error::Error;
use crate::image::write::image_writer::PresentImage;

/// After a backup that has failed, the next one is taken after so long, or after the interval if that is shorter.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// Between two backups.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Starts the thread that takes it in intervals, the first at once.
pub(super) fn start(work: &Arc<Work>) -> Option<StoppableThread> {
    work.followed.as_ref()?;
    let work = Arc::clone(work);
    let follow = move |stop: &Stop| {
        let Some(followed) = &work.followed else {
            return;
        };
        let interval = followed.settings.interval.max(INTERVAL_MIN);
        let mut pause = Duration::ZERO;
        while !stop.wait(pause) {
            let is_taken = !work.is_over() && work.follow(followed);
            pause = if is_taken {
                interval
            } else {
                interval.min(AFTER_FAILURE)
            };
        }
    };
    Some(StoppableThread::start("namiki-backup", follow))
}

/// Whether the backup has the log that a checkpoint makes superfluous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum BeforeRecycling {
    /// It has, or none of that log has to be in it.
    NothingIsLost,
    /// It could not be brought up to date.
    IsBehind,
}

impl Work {
    /// Brings the backup up to date. Returns whether it is.
    fn follow(&self, followed: &FollowedBackup) -> bool {
        let FollowSettings { dir, options, .. } = &followed.settings;
        let began = Instant::now();
        let done = self.back_up(dir, options, BackupUnderWay::Following);
        followed.tell(began, done).is_ok()
    }

    /// Brings the backup that follows the database up to date with the log that a new image makes superfluous. To be called by the
    /// checkpoint, after its view and before it is announced. `image`: the one before. If earlier backups are not kept, or there
    /// is none yet, nothing would be lost.
    ///
    /// # Errors
    /// [`Error::Closed`] if the database is being closed meanwhile: the log has to stay that is not in the backup.
    pub(super) fn back_up_before_recycling(
        &self,
        image: Option<&PresentImage>,
        is_last: bool,
    ) -> Result<BeforeRecycling, Error> {
        let Some(followed) = &self.followed else {
            return Ok(BeforeRecycling::NothingIsLost);
        };
        let FollowSettings { dir, options, .. } = &followed.settings;
        if !options.keeps_earlier() {
            return Ok(BeforeRecycling::NothingIsLost);
        }
        if !is_backed_up(dir, options) {
            // One that was taken and is gone is out of reach: its file system is not mounted, perhaps.
            return Ok(match followed.stats().taken {
                0 => BeforeRecycling::NothingIsLost,
                _ => BeforeRecycling::IsBehind,
            });
        }
        let goes_on = || {
            self.defer_to_commits()?;
            if is_last {
                Ok(self.parts.engine.check_poison()?)
            } else {
                self.check_open()
            }
        };
        let began = Instant::now();
        let list = image.map(|image| &image.list);
        let done = self.back_up_locked(list, dir, options, &goes_on);
        let is_closing = matches!(done, Err(BackupError::Database(Error::Closed)));
        match followed.tell(began, done) {
            Ok(()) => Ok(BeforeRecycling::NothingIsLost),
            Err(_) if is_closing && !is_last => Err(Error::Closed),
            Err(_) => Ok(BeforeRecycling::IsBehind),
        }
    }

    /// Brings the backup up to date with a database that was closed in order, and has this manifest now.
    ///
    /// # Errors
    /// [`Error::BackupBehind`]: the database is closed.
    pub(super) fn back_up_at_the_end(&self, manifest: &Manifest) -> Result<(), Error> {
        let Some(followed) = &self.followed else {
            return Ok(());
        };
        let FollowSettings { dir, options, .. } = &followed.settings;
        let options = options.clone().at_full_speed();
        let began = Instant::now();
        let image = self.image.lock();
        let list = image.as_ref().map(|image| image.list.clone());
        let parts = &self.parts;
        let source = Source::new(&parts.disk, &parts.dir, manifest.clone(), list, now_ms());
        let done = source.and_then(|source| back_up(&source, dir, &options, &|| Ok(())));
        let told = followed.tell(began, done);
        told.map_err(|source| Error::BackupBehind {
            dir: dir.clone(),
            source,
        })
    }

    /// To be called once the checkpoint is announced: if the backup was behind before, points are missing now.
    pub(super) fn tell_gap(&self, backup: BeforeRecycling) {
        if let (BeforeRecycling::IsBehind, Some(followed)) = (backup, &self.followed) {
            followed.tell_gap();
        }
    }
}
