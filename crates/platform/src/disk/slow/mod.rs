//! **Emulation**: an array of slow drives in front of a fast disk, for experiments that need a paper's hardware.
//!
//! A drive serves one read at a time and takes a fixed time for each. Which one serves a read, its offset
//! says: page number modulo number of drives. So reads of one drive wait for each other, and reads of different
//! drives overlap, whichever threads and queues they come from. The bytes come from the disk below, whose
//! own time is hidden as long as it is shorter.
//!
//! A read takes that time whatever its length, as a drive's does that moves its arm. Writes, and small files
//! that are read as a whole, are not slowed down.
//!
//! No thread stands for a drive. A drive is a number: until when it is busy.
//!
//! Paper: oode §3 (192 drives, pages of 4 KiB evenly over all of them)

mod drives;
mod file;
mod queue;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::drives::Drives;
use self::file::SlowFile;
use self::queue::SlowReads;
use super::{Appender, DirLock, Disk, DiskFile, FileEntry, FramePool, Preallocation, ReadQueue};

pub use self::drives::SlowDrives;

/// A disk whose reads are served by emulated slow drives. Its clones share the drives.
#[derive(Clone, Debug)]
pub struct SlowDisk {
    disk: Arc<dyn Disk>,
    drives: Arc<Drives>,
}

impl SlowDisk {
    /// Such drives in front of `disk`.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, drives: SlowDrives) -> Self {
        Self {
            disk,
            drives: Arc::new(Drives::new(drives)),
        }
    }

    /// Which drives they are.
    #[must_use]
    pub fn drives(&self) -> SlowDrives {
        self.drives.kind()
    }

    fn slowed(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(SlowFile {
            file,
            drives: Arc::clone(&self.drives),
        })
    }
}

impl Disk for SlowDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.slowed(self.disk.open(path)?))
    }

    fn create(&self, path: &Path, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.slowed(self.disk.create(path, len_bytes)?))
    }

    fn create_unnamed(&self, dir: &Path, len_bytes: u64) -> io::Result<Option<Arc<dyn DiskFile>>> {
        let made = self.disk.create_unnamed(dir, len_bytes)?;
        Ok(made.map(|file| self.slowed(file)))
    }

    fn preallocation(&self, dir: &Path) -> io::Result<Option<Box<dyn Preallocation>>> {
        self.disk.preallocation(dir)
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

    fn unfinished(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.disk.unfinished(dir)
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

    fn reads(&self, depth: usize, pool: &Arc<FramePool>) -> io::Result<Box<dyn ReadQueue>> {
        let below = self.disk.reads(depth, pool)?;
        Ok(Box::new(SlowReads::new(
            below,
            depth,
            Arc::clone(&self.drives),
        )))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn Appender>> {
        self.disk.append(path)
    }
}
