//! A disk that makes no more files once Ctrl-C was pressed, as long as a log is being started.
//!
//! Before the first transaction, a log file for each stream is filled with zeros, which takes as
//! long as the disk takes. Nothing is lost by giving up then. Later, files have to be made for the
//! commits under way to be acknowledged, and a run that was interrupted to be checked.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use namiki_platform::disk::{DirLock, Disk, DiskFile, FileEntry};

use crate::interrupt;

/// The disk itself but for making files.
#[derive(Debug)]
pub(crate) struct OpeningDisk {
    disk: Arc<dyn Disk>,
    opened: AtomicBool,
}

impl OpeningDisk {
    /// Gives up at Ctrl-C until [`OpeningDisk::opened`].
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self {
            disk,
            opened: AtomicBool::new(false),
        }
    }

    /// From now on, files are made whatever happens.
    pub(crate) fn opened(&self) {
        // Relaxed: the flag carries no other data.
        self.opened.store(true, Ordering::Relaxed);
    }
}

impl Disk for OpeningDisk {
    fn create(&self, path: &Path, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        if !self.opened.load(Ordering::Relaxed) && interrupt::asked() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        self.disk.create(path, len_bytes)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(path)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.disk.read(path)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.disk.replace(path, bytes)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<FileEntry>> {
        self.disk.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<DirLock> {
        self.disk.lock_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.disk.free_bytes(dir)
    }
}
