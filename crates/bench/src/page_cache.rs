//! Pages of files that the system keeps in memory.

use std::path::Path;

use rustix::fs::{Advice, fadvise};

use crate::error::BenchError;

/// Sees all files of a folder on the disk, and their pages dropped from memory.
pub(crate) fn drop_cached(dir: &Path) -> Result<(), BenchError> {
    let entries = std::fs::read_dir(dir).map_err(BenchError::file("list", dir))?;
    for entry in entries {
        let path = entry.map_err(BenchError::file("list", dir))?.path();
        if path.is_dir() {
            drop_cached(&path)?;
            continue;
        }
        let file = std::fs::File::open(&path).map_err(BenchError::file("open", &path))?;
        file.sync_all().map_err(BenchError::file("sync", &path))?;
        fadvise(&file, 0, None, Advice::DontNeed)
            .map_err(|error| BenchError::file("drop from memory", &path)(error.into()))?;
    }
    Ok(())
}

/// The bytes of all files of a folder.
pub(crate) fn file_bytes(dir: &Path) -> Result<u64, BenchError> {
    let mut bytes = 0;
    let entries = std::fs::read_dir(dir).map_err(BenchError::file("list", dir))?;
    for entry in entries {
        let path = entry.map_err(BenchError::file("list", dir))?.path();
        match std::fs::metadata(&path) {
            Ok(found) if found.is_dir() => bytes += file_bytes(&path)?,
            Ok(found) => bytes += found.len(),
            // A store removes files while it runs.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(BenchError::file("ask about", &path)(error)),
        }
    }
    Ok(bytes)
}
