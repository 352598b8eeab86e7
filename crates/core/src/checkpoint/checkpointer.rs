//! The checkpointer of a database: the thread that takes checkpoints, and the last one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use namiki_log::Log;

use super::settings_and_reports::{CheckpointReport, CheckpointSettings, CheckpointStats};
use super::take_checkpoint::Work;
use super::trigger;
use crate::backup::error::BackupError;
use crate::backup::followed_backup::{BackupStats, FollowSettings, FollowedBackup};
use crate::backup::live_backup::BackupUnderWay;
use crate::backup::options_and_reports::{BackupOptions, BackupReport};
use crate::catalogue::image_list::ImageList;
use crate::catalogue::manifest::Manifest;
use crate::checkpoint::horizon_stats::HorizonStats;
use crate::commit::engine::GroupLocks;
use crate::error::Error;
use crate::image::write::image_writer::PresentImage;
use crate::live::parts::Parts;
use crate::live::stoppable_thread::StoppableThread;

/// Takes checkpoints of a database with a log.
pub(crate) struct Checkpointer {
    work: Arc<Work>,
    trigger: StoppableThread,
    /// `None` unless a backup follows the database.
    follower: Option<StoppableThread>,
}

impl Checkpointer {
    /// For a database that was opened with this image, if it has one, and had `log_bytes` bytes of
    /// log to replay.
    pub(crate) fn start(
        parts: Parts,
        log: Arc<Log<GroupLocks>>,
        settings: CheckpointSettings,
        follow: Option<FollowSettings>,
        image: Option<PresentImage>,
        log_bytes: u64,
    ) -> Self {
        let work = Work::new(parts, log, settings, follow, image, log_bytes);
        let work = Arc::new(work);
        let trigger = trigger::start(&work);
        let follower = work.followed.is_some().then(|| {
            let work = Arc::clone(&work);
            StoppableThread::start("namiki-backup", move |stop| work.follow_database(stop))
        });
        Self {
            work,
            trigger,
            follower,
        }
    }

    /// See [`Database::checkpoint`](crate::Database::checkpoint).
    pub(crate) fn checkpoint(&self) -> Result<CheckpointReport, Error> {
        self.work.checkpoint(false)
    }

    /// Stops a running checkpoint, and takes the last one if it pays off: the next opening then has
    /// no log to replay. If it fails, or not all tables are loaded, the log is complete
    /// nevertheless; returns the error. No transaction begins any more.
    pub(crate) fn close(&self) -> Option<Error> {
        let work = &*self.work;
        let mut is_closed = work.is_closed.lock();
        if std::mem::replace(&mut *is_closed, true) {
            return None;
        }
        work.is_closing.store(true, Ordering::SeqCst);
        self.trigger.stop();
        if let Some(follower) = &self.follower {
            follower.stop();
        }
        // Its files have to be removed before another opening gets the directory.
        work.wait();
        // A table that is not loaded has not changed since the opening. Commits to other tables are
        // in the log.
        let is_due = |log_bytes| work.has_all_tables() && work.is_due_from(log_bytes);
        let failed = if work.settings.closing_log_bytes.is_some_and(is_due) {
            work.checkpoint(true).err()
        } else {
            None
        };
        // Handles of the database may be kept for long.
        work.room.give_up();
        failed
    }

    /// Brings the backup that follows the database up to date with its last manifest, if one does.
    ///
    /// # Errors
    /// [`Error::BackupBehind`]
    pub(crate) fn back_up_at_the_end(&self, manifest: &Manifest) -> Result<(), Error> {
        self.work.back_up_at_the_end(manifest)
    }

    /// See [`Database::backup`](crate::Database::backup).
    pub(crate) fn back_up(
        &self,
        dir: &Path,
        options: &BackupOptions,
    ) -> Result<BackupReport, BackupError> {
        self.work.back_up(dir, options, BackupUnderWay::OnDemand)
    }

    /// Runs `body` while no checkpoint runs, with the list of the image. The list that it returns
    /// is that of the image from then on.
    pub(crate) fn replace_image<E>(
        &self,
        body: impl FnOnce(Option<&ImageList>) -> Result<ImageList, E>,
    ) -> Result<(), E> {
        self.work.replace_image(body)
    }

    /// `None` unless a backup follows the database.
    pub(crate) fn backup_stats(&self) -> Option<BackupStats> {
        self.work.followed.as_ref().map(FollowedBackup::stats)
    }

    pub(crate) fn stats(&self) -> CheckpointStats {
        self.work.stats()
    }

    pub(crate) fn horizon(&self) -> HorizonStats {
        self.work.watch.lock().horizon()
    }

    /// In a forked child, the thread does not exist, and its locks may be held.
    pub(crate) fn abandon(self) {
        std::mem::forget(self);
    }
}
