//! The page cache of a folder's files.

use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};

use crate::error::BenchError;

/// Syncs all files to disk and drops their pages from memory.
pub(crate) fn drop_cached(dir: &Path) -> Result<(), BenchError> {
    for path in files_in(dir)? {
        let file = std::fs::File::open(&path).map_err(BenchError::file("open", &path))?;
        file.sync_all().map_err(BenchError::file("sync", &path))?;
        fadvise(&file, 0, None, Advice::DontNeed)
            .map_err(|error| BenchError::file("drop from memory", &path)(error.into()))?;
    }
    Ok(())
}

/// Reads all files, so that their pages are cached.
pub(crate) fn read_into_cache(dir: &Path) -> Result<(), BenchError> {
    for path in files_in(dir)? {
        let mut file = std::fs::File::open(&path).map_err(BenchError::file("open", &path))?;
        let read = std::io::copy(&mut file, &mut std::io::sink());
        read.map_err(BenchError::file("read", &path))?;
    }
    Ok(())
}

/// The bytes of all files.
pub(crate) fn file_bytes(dir: &Path) -> Result<u64, BenchError> {
    let mut bytes = 0;
    for path in files_in(dir)? {
        match std::fs::metadata(&path) {
            Ok(found) => bytes += found.len(),
            // A store may remove files while it runs.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(BenchError::file("ask about", &path)(error)),
        }
    }
    Ok(bytes)
}

/// All files in a folder and in those inside it.
fn files_in(dir: &Path) -> Result<Vec<PathBuf>, BenchError> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(BenchError::file("list", dir))? {
        let path = entry.map_err(BenchError::file("list", dir))?.path();
        if path.is_dir() {
            match files_in(&path) {
                Ok(found) => files.extend(found),
                // A store may remove folders while it runs.
                Err(_) if !path.exists() => {}
                Err(error) => return Err(error),
            }
        } else {
            files.push(path);
        }
    }
    Ok(files)
}
