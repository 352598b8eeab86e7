//! Checks of the directory before it is opened: its disk, and whether a database may be created in
//! it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use namiki_log::stream_dirs;
use namiki_platform::disk::{Disk, FileKind, PROBE_FILES, PROFILE_FILES, open_best};

use crate::catalogue::image_files::{ImageFileName, image_dir};
use crate::catalogue::kept_room;
use crate::catalogue::manifest::Manifest;
use crate::error::OpenError;
use crate::open::lock_directory::failed;
use crate::settings::builder::Builder;

/// Prefixes of the files that an interrupted creation may leave in a directory: the lock, the first
/// manifest while it is written, the room that is kept for it, and the probe files for direct I/O
/// and for measurements.
const LEFT_BY_INTERRUPTED_CREATION: [&str; 5] = [
    "LOCK",
    "MANIFEST",
    kept_room::NAME,
    PROBE_FILES,
    PROFILE_FILES,
];

impl Builder {
    /// The disk that the directory is on.
    pub(super) fn disk_for(&self, dir: &Path) -> Result<Arc<dyn Disk>, OpenError> {
        if let Some(disk) = &self.testing.disk {
            return Ok(Arc::clone(disk));
        }
        // The directory need not exist yet; its file system is that of its parent.
        let existing = dir
            .ancestors()
            .find(|dir| dir.is_dir())
            .unwrap_or(Path::new("."));
        let (disk, _) = open_best(existing).map_err(|source| OpenError::Device {
            path: existing.to_owned(),
            source,
        })?;
        Ok(disk)
    }

    /// Whether a database may be created in a directory that has no manifest.
    pub(crate) fn may_create(&self, disk: &dyn Disk, dir: &Path) -> Result<(), OpenError> {
        let files = disk.list(dir).map_err(|source| failed(dir, source))?;
        let journal = Manifest::table_journal_path(dir);
        if files.iter().any(|file| file.path == journal) {
            return Err(OpenError::DamagedManifest {
                path: Manifest::path(dir),
                why: "it is missing, although there is a table journal".to_owned(),
            });
        }
        let foreign = files.iter().any(|file| {
            if file.kind == FileKind::Directory {
                return false;
            }
            let name = file.path.file_name().unwrap_or_default().to_string_lossy();
            !LEFT_BY_INTERRUPTED_CREATION
                .iter()
                .any(|left| name.starts_with(left))
        });
        if foreign {
            return Err(OpenError::NotADatabase {
                dir: dir.to_owned(),
            });
        }
        // The manifest is created before the first file of an image.
        let image = disk.list(&image_dir(dir)).unwrap_or_default();
        if image
            .iter()
            .any(|file| ImageFileName::of(&file.path).is_some())
        {
            return Err(OpenError::DamagedManifest {
                path: Manifest::path(dir),
                why: "it is missing, although there is an image".to_owned(),
            });
        }
        // The manifest is created before the first log file.
        let wal = dir.join("wal");
        let streams = stream_dirs(disk, &wal, 0).map_err(|source| failed(&wal, source))?;
        for (_, stream) in streams {
            let files = disk.list(&stream);
            if !files.map_err(|source| failed(&stream, source))?.is_empty() {
                return Err(OpenError::DamagedManifest {
                    path: Manifest::path(dir),
                    why: "it is missing, although there is a log".to_owned(),
                });
            }
        }
        if !self.create {
            return Err(OpenError::Missing {
                dir: dir.to_owned(),
            });
        }
        Ok(())
    }
}

/// Removes probe files left behind by a killed process.
pub(super) fn remove_left(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    for file in disk.list(dir)? {
        let name = file.path.file_name().unwrap_or_default();
        let name = name.to_string_lossy();
        if name.starts_with(PROBE_FILES) || name.starts_with(PROFILE_FILES) {
            disk.remove(&file.path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use namiki_platform::disk::SyncedDisk;

    use super::*;
    use crate::api::database::Database;

    /// Neither the whole log, nor the remainder after directories of streams were lost.
    #[test]
    fn no_database_is_made_over_a_log() {
        let dir = tempfile::tempdir().unwrap();
        let stream = dir.path().join("wal/0003");
        std::fs::create_dir_all(&stream).unwrap();
        let may_create = || Builder::default().may_create(&SyncedDisk::new(), dir.path());
        may_create().unwrap();
        std::fs::write(stream.join("000001-00000001.log"), "").unwrap();
        let refused = may_create();
        assert!(
            matches!(refused, Err(OpenError::DamagedManifest { .. })),
            "{refused:?}"
        );
    }

    #[test]
    fn only_leftovers_of_an_interrupted_creation_are_accepted() {
        let dir = tempfile::tempdir().unwrap();
        for left in ["LOCK", "MANIFEST.tmp", "direct-io-probe-1"] {
            std::fs::write(dir.path().join(left), "").unwrap();
        }
        Database::open(dir.path()).unwrap().close().unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("holiday.jpg"), "").unwrap();
        let refused = Database::open(dir.path());
        assert!(matches!(refused, Err(OpenError::NotADatabase { .. })));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    /// A new manifest in place of a lost one would make the log unreadable, which a copy of the old
    /// manifest could still open.
    #[test]
    fn a_log_without_a_manifest_is_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let table = db.table::<u64, u64>("t").unwrap();
        db.transact(|tx| tx.put(&table, &1, &2)).unwrap();
        db.close().unwrap();
        let path = Manifest::path(dir.path());
        let manifest = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let refused = Database::open(dir.path());
        assert!(matches!(refused, Err(OpenError::DamagedManifest { .. })));
        assert!(!path.exists());
        std::fs::write(&path, manifest).unwrap();
        let db = Database::open(dir.path()).unwrap();
        let table = db.table::<u64, u64>("t").unwrap();
        assert_eq!(db.transact(|tx| tx.get(&table, &1)).unwrap(), Some(2));
    }
}
