//! Durable writes through the page cache: `pwrite`, then `fdatasync`.
//!
//! Works on every file system, and is what most databases do, so it is also the yardstick for
//! [`DirectDisk`](crate::disk::DirectDisk). Files are filled with zeros when they are created, so
//! that a sync writes data only.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::OFlags;

use super::file_backed::{self, FileBacked};
use crate::disk::append::AppendMode;
use crate::disk::async_read::system_reads;
use crate::disk::unnamed_file;
use crate::disk::{DiskFile, FramePool, ReadQueue};

/// A disk that syncs each write.
#[derive(Clone, Copy, Debug, Default)]
pub struct SyncedDisk;

impl SyncedDisk {
    /// The disk; it has no state.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl FileBacked for SyncedDisk {
    fn open_file(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let len_bytes = file_backed::length_of(&file)?;
        Ok(Arc::new(SyncedFile { file, len_bytes }))
    }

    fn create_file(&self, path: &Path, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        file_backed::fill_with_zeros(&file, len_bytes)?;
        file.sync_all()?;
        Ok(Arc::new(SyncedFile { file, len_bytes }))
    }

    fn create_unnamed_file(&self, dir: &Path, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        let file = unnamed_file::open(dir, OFlags::empty())?;
        file_backed::fill_with_zeros(&file, len_bytes)?;
        file.sync_all()?;
        Ok(Arc::new(SyncedFile { file, len_bytes }))
    }

    fn read_queue(&self, depth: usize, pool: &Arc<FramePool>) -> io::Result<Box<dyn ReadQueue>> {
        Ok(system_reads(depth, pool))
    }

    fn append_mode(&self) -> AppendMode {
        AppendMode::Cached
    }
}

#[derive(Debug)]
struct SyncedFile {
    file: File,
    len_bytes: u64,
}

impl DiskFile for SyncedFile {
    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        file_backed::check_write(self, offset, bytes)?;
        self.file.write_all_at(bytes, offset)?;
        self.file.sync_data()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        file_backed::check_alignment(self, offset, into.len(), into.as_ptr())?;
        file_backed::read_full_at(&self.file, offset, into)
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        file_backed::next_data(&self.file, self.len_bytes(), offset)
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn block_bytes(&self) -> usize {
        512
    }

    fn os_file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}
