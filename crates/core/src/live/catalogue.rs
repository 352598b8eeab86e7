//! The catalogue of an open database: its manifest, and the changes in progress.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use namiki_platform::Stamp;
use namiki_platform::disk::{DirLock, Disk};
use parking_lot::Mutex;

use crate::catalogue::catalogue_files::{CatalogueFiles, NotWritten};
use crate::catalogue::manifest::Manifest;
use crate::catalogue::table_ids_by_name::TableIds;
use crate::error::Error;
use crate::events;
use crate::live::catalogue_view::CatalogueViews;

/// The catalogue, shared by the database's handles and the background threads that change it.
pub(crate) type CatalogueCell = Arc<Mutex<Catalogue>>;

/// The state that only changes of tables and the end of the database touch.
pub(crate) struct Catalogue {
    pub(crate) manifest: Manifest,
    /// The ids of the manifest's tables.
    pub(crate) ids: TableIds,
    pub(crate) files: CatalogueFiles,
    /// The result of closing; `None` while the database is open.
    pub(crate) closed: Option<Result<(), Error>>,
    pub(crate) loading: Loading,
    /// No restore point has a larger stamp.
    pub(crate) last_point: Stamp,
    /// The open views.
    pub(crate) views: CatalogueViews,
}

/// The running loads.
#[derive(Default)]
pub(crate) struct Loading {
    /// The names of their tables.
    pub(crate) names: BTreeSet<String>,
    /// Once the database was closed: the lock of the directory, until the last load has removed its files.
    pub(crate) dir_lock: Option<DirLock>,
}

/// Releases the directory when dropped. Until then its lock is where a forked child finds it.
pub(crate) struct ReleaseOnDrop<'a>(pub(crate) &'a Mutex<Option<DirLock>>);

impl Drop for ReleaseOnDrop<'_> {
    fn drop(&mut self) {
        drop(self.0.lock().take());
    }
}

/// A change of the manifest that failed.
pub(crate) struct NotChanged {
    pub(crate) why: NotWritten,
    /// The disk has the previous manifest.
    pub(crate) is_as_before: bool,
}

impl Catalogue {
    /// Replaces the manifest by one with this change; if that fails, restores the previous one.
    pub(crate) fn change_manifest(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        change: impl FnOnce(&mut Manifest),
    ) -> Result<(), NotChanged> {
        let Self {
            manifest, files, ..
        } = self;
        let Err(why) = files.change(disk, dir, manifest, change) else {
            return Ok(());
        };
        let is_as_before = match why {
            // It was not touched.
            NotWritten::AnotherWriter => true,
            NotWritten::Device(_) => files.change(disk, dir, manifest, |_| {}).is_ok(),
        };
        Err(NotChanged { why, is_as_before })
    }

    /// Ensures that the disk has the manifest that is in memory: if an earlier change has failed,
    /// it is written again, with a position of its own.
    ///
    /// # Errors
    /// [`Error::Manifest`], in doubt still; [`Error::AnotherWriter`].
    pub(crate) fn resolve_doubt(&mut self, disk: &dyn Disk, dir: &Path) -> Result<(), Error> {
        if !self.files.is_in_doubt() {
            return Ok(());
        }
        let written = self.change_manifest(disk, dir, |_| {});
        written.map_err(|unchanged| not_changed(dir, unchanged))
    }
}

/// A change of the manifest has failed.
pub(crate) fn not_changed(dir: &Path, unchanged: NotChanged) -> Error {
    catalogue_error(dir, unchanged.why, !unchanged.is_as_before)
}

/// The catalogue was not written. `is_in_doubt`: the disk may have the change nevertheless.
pub(crate) fn catalogue_error(dir: &Path, why: NotWritten, is_in_doubt: bool) -> Error {
    let path = Manifest::path(dir);
    let error = match why {
        NotWritten::AnotherWriter => Error::AnotherWriter { path },
        NotWritten::Device(source) => Error::Manifest {
            path,
            is_in_doubt,
            source: Arc::new(source),
        },
    };
    events::catalogue_not_written(&error);
    error
}
