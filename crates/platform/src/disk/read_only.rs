//! A disk that cannot write, so that what looks through it cannot change anything.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directory::directory_lock::lock_to_read;
use super::{
    Appender, DirLock, Disk, DiskFile, FileEntry, FramePool, ReadQueue, SyncedDisk, next_data,
    open_for_reading,
};

/// Reads files and nothing else; works on a read-only file system, too.
#[derive(Debug)]
pub struct ReadOnlyDisk {
    /// For what it does by reading alone.
    inner: SyncedDisk,
}

impl ReadOnlyDisk {
    /// One that reads through the page cache.
    #[must_use]
    pub fn new() -> Self {
        Self {
            inner: SyncedDisk::new(),
        }
    }
}

impl Default for ReadOnlyDisk {
    fn default() -> Self {
        Self::new()
    }
}

fn refused() -> io::Error {
    io::ErrorKind::ReadOnlyFilesystem.into()
}

impl Disk for ReadOnlyDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = open_for_reading(path)?;
        // A block device's metadata have no length; an end to seek to it has.
        let len_bytes = io::Seek::seek(&mut &file, io::SeekFrom::End(0))?;
        Ok(Arc::new(ReadOnlyFile { file, len_bytes }))
    }

    fn create(&self, _: &Path, _: u64) -> io::Result<Arc<dyn DiskFile>> {
        Err(refused())
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.inner.read(path)
    }

    fn replace(&self, _: &Path, _: &[u8]) -> io::Result<()> {
        Err(refused())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<FileEntry>> {
        self.inner.list(dir)
    }

    fn unfinished(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.inner.unfinished(dir)
    }

    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    /// Takes the same locks as the disks that write, without creating anything.
    fn lock_dir(&self, dir: &Path) -> io::Result<DirLock> {
        lock_to_read(dir)
    }

    fn reads(&self, depth: usize, pool: &Arc<FramePool>) -> io::Result<Box<dyn ReadQueue>> {
        self.inner.reads(depth, pool)
    }

    fn append(&self, _: &Path) -> io::Result<Box<dyn Appender>> {
        Err(refused())
    }
}

#[derive(Debug)]
struct ReadOnlyFile {
    file: File,
    len_bytes: u64,
}

impl DiskFile for ReadOnlyFile {
    fn write_durable(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(refused())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < into.len() {
            match self.file.read_at(&mut into[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        next_data(&self.file, self.len_bytes(), offset)
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// The smallest there is: reading through the page cache takes any, and what was written says
    /// itself which blocks it has.
    fn block_bytes(&self) -> usize {
        512
    }

    fn os_file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_what_others_wrote_and_writes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, b"namiki").unwrap();
        let disk = ReadOnlyDisk::new();
        let file = disk.open(&path).unwrap();
        let mut bytes = [0; 8];
        assert_eq!(file.read_at(0, &mut bytes).unwrap(), 6);
        assert_eq!(&bytes[..6], b"namiki");
        assert_eq!(file.len_bytes(), 6);
        assert!(file.write_durable(0, &[0; 512]).is_err());
        assert!(disk.replace(&path, b"x").is_err());
        assert!(disk.remove(&path).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"namiki");
    }

    #[test]
    fn its_lock_and_a_writers_lock_exclude_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let reading = ReadOnlyDisk::new();
        drop(reading.lock_dir(dir.path()).unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let writing = SyncedDisk::new();
        let held = writing.lock_dir(dir.path()).unwrap();
        let error = reading.lock_dir(dir.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        drop(held);
        let held = reading.lock_dir(dir.path()).unwrap();
        assert!(writing.lock_dir(dir.path()).is_err());
        drop(held);
    }
}
