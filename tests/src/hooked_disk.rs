//! A disk on which a test can observe and delay calls, and run code before them.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use namiki_platform::disk::{
    AlignedBuf, Appender, DirLock, Disk, DiskFile, DiskLayer, FileEntry, FileLayer, PendingWrite,
};

/// An operation of a disk or a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskCall {
    /// [`Disk::open`].
    Open,
    /// [`Disk::create`] and [`Disk::append`].
    Create,
    /// [`Disk::read`].
    Read,
    /// [`Disk::replace`].
    Replace,
    /// [`Disk::list`].
    List,
    /// [`Disk::create_dir_all`].
    CreateDir,
    /// [`DiskFile::write_durable`].
    Write,
}

type Hook = Arc<dyn Fn(DiskCall, &Path) + Send + Sync>;

/// Calls a function of the test before each call that it forwards.
#[derive(Clone)]
pub struct HookedDisk {
    disk: Arc<dyn Disk>,
    before: Hook,
    block_bytes: usize,
    locks: bool,
}

impl HookedDisk {
    /// Wraps this disk.
    pub fn new(
        disk: Arc<dyn Disk>,
        before: impl Fn(DiskCall, &Path) + Send + Sync + 'static,
    ) -> Self {
        Self {
            disk,
            before: Arc::new(before),
            block_bytes: 0,
            locks: true,
        }
    }

    /// Imitates a file system without locks: any number of programs may open a directory.
    #[must_use]
    pub fn without_locks(self) -> Self {
        Self {
            locks: false,
            ..self
        }
    }

    /// Wraps this disk, with files of larger blocks.
    #[must_use]
    pub fn with_blocks(disk: Arc<dyn Disk>, block_bytes: usize) -> Self {
        Self {
            block_bytes,
            ..Self::new(disk, |_, _| ())
        }
    }
}

impl fmt::Debug for HookedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.disk.fmt(f)
    }
}

impl DiskLayer for HookedDisk {
    fn inner(&self) -> &dyn Disk {
        &*self.disk
    }

    fn layer_file(&self, file: Arc<dyn DiskFile>, path: &Path) -> Arc<dyn DiskFile> {
        Arc::new(HookedFile {
            block_bytes: file.block_bytes().max(self.block_bytes),
            file,
            path: path.into(),
            before: Arc::clone(&self.before),
        })
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        (self.before)(DiskCall::Open, path);
        Ok(self.layer_file(self.disk.open(path)?, path))
    }

    fn create(&self, path: &Path, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        (self.before)(DiskCall::Create, path);
        Ok(self.layer_file(self.disk.create(path, len_bytes)?, path))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        (self.before)(DiskCall::Read, path);
        self.disk.read(path)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        (self.before)(DiskCall::Replace, path);
        self.disk.replace(path, bytes)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<FileEntry>> {
        (self.before)(DiskCall::List, dir);
        self.disk.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        (self.before)(DiskCall::CreateDir, dir);
        self.disk.create_dir_all(dir)
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<DirLock> {
        if !self.locks {
            return Ok(DirLock::new(()));
        }
        self.disk.lock_dir(dir)
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn Appender>> {
        (self.before)(DiskCall::Create, path);
        self.disk.append(path)
    }
}

struct HookedFile {
    file: Arc<dyn DiskFile>,
    path: Arc<Path>,
    before: Hook,
    block_bytes: usize,
}

impl fmt::Debug for HookedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

impl FileLayer for HookedFile {
    fn inner(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }

    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        (self.before)(DiskCall::Write, &self.path);
        self.file.write_durable(offset, bytes)
    }

    /// Always writes synchronously, because a hook may block.
    fn begin_write(
        &self,
        _: u64,
        buf: AlignedBuf,
        _: usize,
    ) -> Result<Box<dyn PendingWrite>, AlignedBuf> {
        Err(buf)
    }

    fn block_bytes(&self) -> usize {
        self.block_bytes
    }
}
