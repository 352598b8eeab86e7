//! The mark of a backup that was opened for writing.
//!
//! A backup's manifest may be older than its log: an interrupted next backup leaves frames in it.
//! Once the backup is opened for writing, it is as with any other database: frames that the
//! manifest does not announce mean that a later manifest was lost. The manifest alone cannot
//! distinguish the two cases, since the present one may be the backup's, put back. So a file marks
//! an opened backup. It is durable before the first frame is written, and after all leftovers of
//! backups are removed.

use std::io;
use std::path::{Path, PathBuf};

use namiki_platform::disk::Disk;

use crate::catalogue::kept_room;
use crate::catalogue::manifest::Manifest;
use crate::error::OpenError;

fn mark(dir: &Path) -> PathBuf {
    dir.join("OPENED")
}

/// Marks a backup that is about to be written, durably.
///
/// # Errors
/// [`OpenError::Device`].
pub(crate) fn mark_opened(
    disk: &dyn Disk,
    dir: &Path,
    manifest: &Manifest,
) -> Result<(), OpenError> {
    let path = mark(dir);
    let write = || disk.replace(&path, manifest.database.as_bytes());
    let written = kept_room::with(disk, dir, write);
    written.map_err(|source| OpenError::Device { path, source })
}

/// Whether a directory was a backup and was opened for writing.
///
/// # Errors
/// [`OpenError::Device`].
pub(crate) fn was_opened(disk: &dyn Disk, dir: &Path) -> Result<bool, OpenError> {
    let path = mark(dir);
    match disk.read(&path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(OpenError::Device { path, source }),
    }
}

/// Whether the manifest of a directory has to announce all frames of its log. A backup's has not.
///
/// # Errors
/// [`OpenError::Device`].
pub fn announces_all(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> Result<bool, OpenError> {
    Ok(manifest.backup.is_none() || was_opened(disk, dir)?)
}
