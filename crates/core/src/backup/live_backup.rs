//! Online backups: the cut of the log while transactions run.

use std::path::Path;

use namiki_log::Log;

use crate::backup::copy::copy_database::back_up;
use crate::backup::copy::source::Source;
use crate::backup::error::BackupError;
use crate::backup::options_and_reports::{BackupOptions, BackupReport};
use crate::catalogue::image_list::ImageList;
use crate::commit::engine::GroupLocks;
use crate::commit::restore_points::now_ms;
use crate::commit::view_opening::OpenView;
use crate::concurrency::cc::NoFaults;
use crate::error::Error;
use crate::live::parts::Parts;

/// A backup that holds the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BackupUnderWay {
    /// It was requested.
    OnDemand,
    /// It follows the database, and is deferred when commits are refused.
    Following,
}

/// Backs up an open database. `list` is that of its image. No checkpoint may run: the files of the
/// image and the log that the manifest names must not be removed. `goes_on` is called periodically.
pub(crate) fn back_up_live(
    parts: &Parts,
    log: &Log<GroupLocks>,
    list: Option<&ImageList>,
    dir: &Path,
    options: &BackupOptions,
    goes_on: &dyn Fn() -> Result<(), BackupError>,
) -> Result<BackupReport, BackupError> {
    // The copying thread does not wait for room: the thread that makes room may be waiting for the
    // backup.
    let _never_waits = parts.engine.room_requests.never_wait_here();
    goes_on()?;
    let source = source(parts, log, list.cloned())?;
    back_up(&source, dir, options, goes_on)
}

/// The database as it is now. The hardened part of its log counts, up to the stamp of a view.
fn source<'p>(
    parts: &'p Parts,
    log: &Log<GroupLocks>,
    list: Option<ImageList>,
) -> Result<Source<'p>, BackupError> {
    // While it is locked, no table is created, dropped or loaded.
    let mut catalogue = parts.catalogue.lock();
    if catalogue.closed.is_some() {
        return Err(Error::Closed.into());
    }
    // The backup's contents must match the position that is written into it.
    catalogue.resolve_doubt(&*parts.disk, &parts.dir)?;
    let taken_at_ms = now_ms();
    let stamp = OpenView::open::<NoFaults>(&parts.engine, false)?.stamp;
    let mut manifest = catalogue.manifest.clone();
    // After the view: everything up to its stamp is hardened.
    let end = log.hardened_end().map_err(Error::LogFailed)?;
    if let Some(written) = manifest.generations.last_mut() {
        written.seal = Some(end);
        written.last_stamp = Some(stamp);
    }
    // After the end, so that no earlier snapshot has the same position with fewer changes.
    let begun = log.harden_begun().map_err(Error::LogFailed)?;
    manifest.history.end_with_frames(begun);
    Source::new(&parts.disk, &parts.dir, manifest, list, taken_at_ms)
}
