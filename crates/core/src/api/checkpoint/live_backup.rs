//! Backups of a database while transactions run, and no checkpoint.

use std::path::Path;

use super::take_checkpoint::Work;
use crate::backup::copy_database::back_up;
use crate::backup::error::BackupError;
use crate::backup::options_and_reports::{BackupOptions, BackupReport};
use crate::backup::source::Source;
use crate::catalogue::image_list::ImageList;
use crate::commit::restore_points::now_ms;
use crate::commit::view_opening::OpenView;
use crate::concurrency::cc::NoFaults;
use crate::error::Error;

impl Work {
    /// Backs the database up while no checkpoint runs: nothing goes that its manifest names of the log and of the image.
    pub(super) fn back_up(
        &self,
        dir: &Path,
        options: &BackupOptions,
    ) -> Result<BackupReport, BackupError> {
        let image = self.image.lock();
        let list = image.as_ref().map(|image| &image.list);
        self.back_up_locked(list, dir, options, &|| self.check_open())
    }

    /// The same for callers that have the image locked, which has this list. `goes_on` is asked now and then.
    pub(super) fn back_up_locked(
        &self,
        list: Option<&ImageList>,
        dir: &Path,
        options: &BackupOptions,
        goes_on: &dyn Fn() -> Result<(), BackupError>,
    ) -> Result<BackupReport, BackupError> {
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
