//! The lock of the image: a checkpoint or a backup holds it, one at a time.
//!
//! A backup delays every checkpoint, and so the room for which commits may have been refused. The
//! backup that follows the database yields to such commits: it is deferred. A requested backup
//! continues, and commits that need a checkpoint are refused at once (`make_room.rs`).

use std::path::Path;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use super::take_checkpoint::Work;
use crate::backup::copy::copy_database::back_up;
use crate::backup::copy::source::Source;
use crate::backup::error::BackupError;
use crate::backup::followed_backup::BeforeRecycling;
use crate::backup::live_backup::{BackupUnderWay, back_up_live};
use crate::backup::options_and_reports::{BackupOptions, BackupReport};
use crate::catalogue::manifest::Manifest;
use crate::commit::restore_points::now_ms;
use crate::error::Error;
use crate::image::write::image_writer::PresentImage;
use crate::live::stoppable_thread::Stop;

/// The interval at which a waiter checks the holder of the image.
const LOOK: Duration = Duration::from_millis(50);
/// The longest wait for the backup that follows the database to yield. It checks for that between
/// two pieces.
const GIVES_WAY: Duration = Duration::from_secs(10);

/// A backup holds the image until this is dropped.
struct UnderWay<'w>(&'w Work);

impl<'w> UnderWay<'w> {
    fn begin(work: &'w Work, backup: BackupUnderWay) -> Self {
        *work.backup_under_way.lock() = Some(backup);
        work.room.set_backed_up(backup == BackupUnderWay::OnDemand);
        Self(work)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        *self.0.backup_under_way.lock() = None;
        self.0.room.set_backed_up(false);
    }
}

impl Work {
    /// Backs the database up while no checkpoint runs: no file of the log or the image that its
    /// manifest names is removed.
    pub(super) fn back_up(
        &self,
        dir: &Path,
        options: &BackupOptions,
        backup: BackupUnderWay,
    ) -> Result<BackupReport, BackupError> {
        let image = self.image.lock();
        let _under_way = UnderWay::begin(self, backup);
        let list = image.as_ref().map(|image| &image.list);
        back_up_live(&self.parts, &self.log, list, dir, options, &|| {
            if backup == BackupUnderWay::Following {
                self.defer_to_commits()?;
            }
            self.check_open()
        })
    }

    /// Fails if commits are refused, and a checkpoint is to make room for them.
    pub(super) fn defer_to_commits(&self) -> Result<(), BackupError> {
        let is_asked = self.parts.engine.room_requests.pending().is_some();
        if is_asked || self.is_making_room() || self.refuses_commits() {
            Err(BackupError::Deferred)
        } else {
            Ok(())
        }
    }

    /// Locks the image, after a checkpoint that holds it; fails if a requested backup holds it.
    pub(super) fn lock_image_for_room(&self) -> Option<MutexGuard<'_, Option<PresentImage>>> {
        let until = Instant::now() + GIVES_WAY;
        loop {
            let image = self.image.try_lock_for(LOOK);
            if image.is_some() {
                return image;
            }
            match *self.backup_under_way.lock() {
                Some(BackupUnderWay::OnDemand) => return None,
                Some(BackupUnderWay::Following) if Instant::now() >= until => return None,
                Some(BackupUnderWay::Following) | None => {}
            }
        }
    }

    /// [`FollowedBackup::take_in_intervals`], for the thread that does so.
    pub(super) fn follow_database(&self, stop: &Stop) {
        let Some(followed) = &self.followed else {
            return;
        };
        let back_up = |dir: &Path, options: &BackupOptions| {
            self.back_up(dir, options, BackupUnderWay::Following)
        };
        followed.take_in_intervals(stop, || self.is_over(), back_up);
    }

    /// [`FollowedBackup::take_before_recycling`], for the checkpoint, which has the image locked.
    /// `image`: the previous one.
    pub(super) fn back_up_before_recycling(
        &self,
        image: Option<&PresentImage>,
        is_last: bool,
    ) -> Result<BeforeRecycling, Error> {
        let Some(followed) = &self.followed else {
            return Ok(BeforeRecycling::NothingIsLost);
        };
        let goes_on = || {
            self.defer_to_commits()?;
            if is_last {
                Ok(self.parts.engine.check_poison()?)
            } else {
                self.check_open()
            }
        };
        let list = image.map(|image| &image.list);
        followed.take_before_recycling(is_last, |dir, options| {
            back_up_live(&self.parts, &self.log, list, dir, options, &goes_on)
        })
    }

    /// Brings the backup that follows the database up to date with its last manifest, if one does.
    ///
    /// # Errors
    /// [`Error::BackupBehind`]: the database is closed.
    pub(super) fn back_up_at_the_end(&self, manifest: &Manifest) -> Result<(), Error> {
        let Some(followed) = &self.followed else {
            return Ok(());
        };
        let image = self.image.lock();
        let list = image.as_ref().map(|image| image.list.clone());
        let parts = &self.parts;
        followed.take_at_the_end(|dir, options| {
            let source = Source::new(&parts.disk, &parts.dir, manifest.clone(), list, now_ms())?;
            back_up(&source, dir, options, &|| Ok(()))
        })
    }

    /// Fails if the database is being closed, or its log has failed.
    pub(super) fn check_open(&self) -> Result<(), BackupError> {
        self.parts.engine.check_process()?;
        if self.is_over() {
            self.parts.engine.check_poison()?;
            return Err(Error::Closed.into());
        }
        Ok(())
    }
}
