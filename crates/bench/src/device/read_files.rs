//! The files to read, addressed as one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki_platform::disk::{Disk, DiskFile};

use crate::error::BenchError;

/// The files, as one address space.
pub(crate) struct ReadFiles {
    files: Vec<ReadFile>,
}

struct ReadFile {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    /// The end of this file, counted from the start of the first.
    end_bytes: u64,
}

impl ReadFiles {
    /// Creates one new file in `dir`.
    pub(crate) fn create(disk: &dyn Disk, dir: &Path, len_bytes: u64) -> Result<Self, BenchError> {
        let path = dir.join("probe");
        let file = disk.create(&path, len_bytes);
        let file = file.map_err(BenchError::file("create", &path))?;
        let end_bytes = len_bytes;
        let files = vec![ReadFile {
            path,
            file,
            end_bytes,
        }];
        Ok(Self { files })
    }

    /// Opens these files, limited to whole reads of this size at multiples of it.
    pub(crate) fn open(
        disk: &dyn Disk,
        paths: impl IntoIterator<Item = PathBuf>,
        read_bytes: u32,
    ) -> Result<Self, BenchError> {
        let (mut files, mut end_bytes) = (Vec::new(), 0);
        for path in paths {
            let file = disk.open(&path).map_err(BenchError::file("open", &path))?;
            let read = u64::from(read_bytes);
            end_bytes += file.len_bytes() / read * read;
            files.push(ReadFile {
                path,
                file,
                end_bytes,
            });
        }
        Ok(Self { files })
    }

    /// Total length of all files.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.files.last().map_or(0, |last| last.end_bytes)
    }

    /// The file's index, and the offset in it.
    pub(super) fn find(&self, at: u64) -> (usize, u64) {
        let file = self.files.partition_point(|file| file.end_bytes <= at);
        let begin = file
            .checked_sub(1)
            .map_or(0, |before| self.files[before].end_bytes);
        (file, at - begin)
    }

    /// The file with this index.
    pub(super) fn file(&self, place: usize) -> &Arc<dyn DiskFile> {
        &self.files[place].file
    }

    /// The paths of the files.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| &*file.path)
    }

    /// The path for error messages.
    pub(super) fn path(&self) -> &Path {
        self.paths().next().unwrap_or(Path::new(""))
    }
}
