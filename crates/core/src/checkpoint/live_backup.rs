//! Backups of a database while transactions run, and no checkpoint.
//!
//! A backup holds the image, so it holds up every checkpoint, and with it the room that commits may have been refused for. The
//! one that follows the database gives way to them: it is deferred. One that was asked for goes on, and commits that only a
//! checkpoint could help are refused at once (`make_room.rs`). A thread that copies waits for no room: what makes some may be
//! waiting for the backup.

use std::path::Path;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use super::take_checkpoint::Work;
use crate::backup::copy::copy_database::back_up;
use crate::backup::copy::source::Source;
use crate::backup::error::BackupError;
use crate::backup::followed_backup::BackupUnderWay;
use crate::backup::options_and_reports::{BackupOptions, BackupReport};
use crate::catalogue::image_list::ImageList;
use crate::commit::restore_points::now_ms;
use crate::commit::view_opening::OpenView;
use crate::concurrency::cc::NoFaults;
use crate::error::Error;
use crate::image::write::image_writer::PresentImage;

/// Between two looks at what holds the image.
const LOOK: Duration = Duration::from_millis(50);
/// The longest wait for the backup that follows the database to give way. It looks whether it is to between two pieces.
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
    /// Backs the database up while no checkpoint runs: nothing goes that its manifest names of the log and of the image.
    pub(super) fn back_up(
        &self,
        dir: &Path,
        options: &BackupOptions,
        backup: BackupUnderWay,
    ) -> Result<BackupReport, BackupError> {
        let image = self.image.lock();
        let _under_way = UnderWay::begin(self, backup);
        let list = image.as_ref().map(|image| &image.list);
        self.back_up_locked(list, dir, options, &|| {
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

    /// Locks the image, after a checkpoint that has it locked; not if a backup that was asked for has.
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

    /// The same for callers that have the image locked, which has this list. `goes_on` is asked now and then.
    pub(super) fn back_up_locked(
        &self,
        list: Option<&ImageList>,
        dir: &Path,
        options: &BackupOptions,
        goes_on: &dyn Fn() -> Result<(), BackupError>,
    ) -> Result<BackupReport, BackupError> {
        let _never_waits = self.parts.engine.room_requests.never_wait_here();
        goes_on()?;
        let source = self.source(list.cloned())?;
        back_up(&source, dir, options, goes_on)
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

    /// The database as it is now. Of its log, what is hardened counts up to the stamp of a view.
    fn source(&self, list: Option<ImageList>) -> Result<Source<'_>, BackupError> {
        let parts = &self.parts;
        // As long as it is locked, no table is created, dropped or loaded.
        let mut catalogue = parts.catalogue.lock();
        if catalogue.closed.is_some() {
            return Err(Error::Closed.into());
        }
        // What the backup has must be what the position stands for that is written into it.
        catalogue.resolve_doubt(&*parts.disk, &parts.dir)?;
        let taken_at_ms = now_ms();
        let stamp = OpenView::open::<NoFaults>(&parts.engine, false)?.stamp;
        let mut manifest = catalogue.manifest.clone();
        // After the view: everything up to its stamp is hardened.
        let end = self.log.hardened_end().map_err(Error::LogFailed)?;
        if let Some(written) = manifest.generations.last_mut() {
            written.seal = Some(end);
            written.last_stamp = Some(stamp);
        }
        // After the end, so that no snapshot from before it has as many, and not all that it has.
        let begun = self.log.harden_begun().map_err(Error::LogFailed)?;
        manifest.history.end_with_frames(begun);
        Source::new(&parts.disk, &parts.dir, manifest, list, taken_at_ms)
    }
}
