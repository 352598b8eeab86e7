//! Read-only access to a database directory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki::files::{Manifest, image_dir};
use namiki::{OpenError, WorkerId};
use namiki_log::{GenerationInfo, StreamReader};
use namiki_platform::checked_text;
use namiki_platform::disk::{DirLock, Disk, PROBE_FILES, PROFILE_FILES, ReadOnlyDisk};
use serde::Deserialize;

use crate::failure::{Failure, device};

/// Prefixes of the files that an interrupted creation can leave: the lock, the first manifest while
/// it is written, and the files for probing direct I/O and measuring the disk.
const LEFT_BY_INTERRUPTED_CREATION: [&str; 4] = ["LOCK", "MANIFEST", PROBE_FILES, PROFILE_FILES];

/// A directory that no other process uses for as long as this is held.
pub(crate) struct Directory {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) wal: PathBuf,
    pub(crate) manifest: Manifest,
    _lock: DirLock,
}

impl Directory {
    pub(crate) fn open(dir: &Path) -> Result<Self, Failure> {
        let disk: Arc<dyn Disk> = Arc::new(ReadOnlyDisk::new());
        let lock = disk.lock_dir(dir).map_err(|error| match error.kind() {
            io::ErrorKind::ResourceBusy => Failure::Open(OpenError::InUse {
                dir: dir.to_owned(),
            }),
            _ => device("read", dir)(error),
        })?;
        let wal = dir.join("wal");
        let Some(manifest) = Manifest::read(&*disk, dir)? else {
            return Err(without_manifest(dir, &wal)?);
        };
        Ok(Self {
            disk,
            wal,
            manifest,
            _lock: lock,
        })
    }

    /// A reader for one stream of a generation that the manifest announces.
    pub(crate) fn stream(
        &self,
        manifest: &Manifest,
        info: &GenerationInfo,
        worker: WorkerId,
    ) -> Result<StreamReader, Failure> {
        Ok(StreamReader::open(
            Arc::clone(&self.disk),
            &self.wal,
            manifest.identity(),
            info,
            worker,
        )?)
    }
}

/// The database in a directory: in that of a cluster's node it is a folder, which the file `NODE` names.
pub(crate) fn database_in(dir: &Path) -> Result<PathBuf, Failure> {
    check_directory(dir)?;
    let node = dir.join("NODE");
    if !node.exists() || Manifest::path(dir).exists() {
        return Ok(dir.to_owned());
    }
    let bytes = std::fs::read(&node).map_err(device("read", &node))?;
    let text = checked_text::decode(&bytes, "namiki-node", 4);
    let found = text.ok().and_then(|text| serde_json::from_str(text).ok());
    let found: NodeFile = found.ok_or_else(|| Failure::NodeFile(node))?;
    Ok(dir.join(match found.tables {
        TablesFolder::First => "db",
        TablesFolder::Second => "db2",
    }))
}

/// What `NODE` says of the tables.
#[derive(Deserialize)]
struct NodeFile {
    #[serde(default)]
    tables: TablesFolder,
}

#[derive(Default, Deserialize)]
enum TablesFolder {
    #[default]
    #[serde(rename = "db")]
    First,
    #[serde(rename = "db2")]
    Second,
}

/// Fails if the directory does not exist.
pub(crate) fn check_directory(dir: &Path) -> Result<(), Failure> {
    match std::fs::metadata(dir) {
        Ok(found) if !found.is_dir() => Err(Failure::NotADirectory(dir.to_owned())),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(Failure::NoDirectory(dir.to_owned()))
        }
        Err(source) => Err(device("read", dir)(source)),
    }
}

/// The failure for a directory without a manifest: it is empty, a creation was interrupted in it,
/// it is not a database's, or the manifest is lost.
pub(crate) fn without_manifest(dir: &Path, wal: &Path) -> Result<Failure, Failure> {
    let entries = |dir: &Path| -> Result<Vec<PathBuf>, Failure> {
        std::fs::read_dir(dir)
            .map_err(device("read", dir))?
            .map(|entry| entry.map(|entry| entry.path()).map_err(device("read", dir)))
            .collect()
    };
    // The manifest is created before the log and the table journal.
    let missing = |left: PathBuf| {
        Ok(Failure::ManifestMissing {
            manifest: Manifest::path(dir),
            left,
        })
    };
    if wal.is_dir() && !entries(wal)?.is_empty() {
        return missing(wal.to_owned());
    }
    let image = image_dir(dir);
    if image.is_dir() && !entries(&image)?.is_empty() {
        return missing(image);
    }
    let journal = Manifest::table_journal_path(dir);
    if entries(dir)?.contains(&journal) {
        return missing(journal);
    }
    let foreign = entries(dir)?.into_iter().any(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !LEFT_BY_INTERRUPTED_CREATION
            .iter()
            .any(|left| name.starts_with(left))
    });
    Ok(if foreign {
        Failure::NotADatabase(dir.to_owned())
    } else {
        Failure::NoDatabase(dir.to_owned())
    })
}
