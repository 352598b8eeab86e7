//! A layer for tests: its hook runs before the calls of the disk below, and may observe, delay or
//! fail them.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use super::{
    AlignedBuf, Appender, DirLock, Disk, DiskFile, DiskLayer, FileEntry, FileLayer, PendingWrite,
    read_unaligned,
};

/// A call of a disk, or of one of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskCall {
    /// [`Disk::open`].
    Open,
    /// [`Disk::create`], with the length of the file.
    Create(u64),
    /// [`Disk::append`].
    Append,
    /// [`Disk::read`].
    Read,
    /// [`Disk::replace`], with the number of bytes.
    Replace(usize),
    /// [`Disk::rename`], with the old name.
    Rename,
    /// [`Disk::list`].
    List,
    /// [`Disk::create_dir_all`].
    CreateDir,
    /// [`Disk::sync_dir`].
    SyncDir,
    /// [`DiskFile::write_durable`].
    Write {
        /// Position in the file.
        offset: u64,
        /// Length in bytes.
        len: usize,
    },
    /// A [`DiskFile::write_durable`] at this offset is done.
    Wrote(u64),
    /// [`DiskFile::begin_write`] at this offset. An error means that the disk does not support it.
    BeginWrite(u64),
}

type Hook = Arc<dyn Fn(DiskCall, &Path) -> io::Result<()> + Send + Sync>;

/// Calls a hook before each [`DiskCall`] (after it, for [`DiskCall::Wrote`]), with the path of the file or directory. The call fails
/// with the hook's error.
#[derive(Clone)]
pub struct HookedDisk {
    disk: Arc<dyn Disk>,
    hook: Hook,
    block_bytes: Option<usize>,
    begins_writes: bool,
    locks: bool,
}

impl HookedDisk {
    /// Wraps `disk`. All writes to files are synchronous, so the hook sees each one as a
    /// [`DiskCall::Write`], except for those of an [`Appender`].
    pub fn new(
        disk: Arc<dyn Disk>,
        hook: impl Fn(DiskCall, &Path) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            disk,
            hook: Arc::new(hook),
            block_bytes: None,
            begins_writes: false,
            locks: true,
        }
    }

    /// Wraps `disk` without a hook, as a device of blocks of `block_bytes`; it refuses parts of
    /// blocks. Where its blocks are shorter than those of `disk`, it reads and writes whole ones
    /// there.
    #[must_use]
    pub fn with_blocks(disk: Arc<dyn Disk>, block_bytes: usize) -> Self {
        Self {
            block_bytes: Some(block_bytes),
            ..Self::new(disk, |_, _| Ok(()))
        }
    }

    /// Supports asynchronous writes if the disk below does.
    #[must_use]
    pub fn begin_writes(self) -> Self {
        Self {
            begins_writes: true,
            ..self
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
            file,
            path: path.into(),
            disk: self.clone(),
        })
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        (self.hook)(DiskCall::Open, path)?;
        Ok(self.layer_file(self.disk.open(path)?, path))
    }

    fn create(&self, path: &Path, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        (self.hook)(DiskCall::Create(len_bytes), path)?;
        Ok(self.layer_file(self.disk.create(path, len_bytes)?, path))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        (self.hook)(DiskCall::Read, path)?;
        self.disk.read(path)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        (self.hook)(DiskCall::Replace(bytes.len()), path)?;
        self.disk.replace(path, bytes)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<FileEntry>> {
        (self.hook)(DiskCall::List, dir)?;
        self.disk.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        (self.hook)(DiskCall::CreateDir, dir)?;
        self.disk.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        (self.hook)(DiskCall::Rename, from)?;
        self.disk.rename(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        (self.hook)(DiskCall::SyncDir, dir)?;
        self.disk.sync_dir(dir)
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<DirLock> {
        if self.locks {
            self.disk.lock_dir(dir)
        } else {
            Ok(DirLock::new(()))
        }
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn Appender>> {
        (self.hook)(DiskCall::Append, path)?;
        self.disk.append(path)
    }
}

#[derive(Debug)]
struct HookedFile {
    file: Arc<dyn DiskFile>,
    path: Arc<Path>,
    disk: HookedDisk,
}

impl HookedFile {
    fn check(&self, offset: u64, len: usize) -> io::Result<()> {
        match self.disk.block_bytes.map(|bytes| bytes as u64) {
            Some(block) if !(offset | len as u64).is_multiple_of(block) => {
                Err(io::ErrorKind::InvalidInput.into())
            }
            _ => Ok(()),
        }
    }

    /// Writes to the disk below. If its blocks are longer, the write includes the rest of those
    /// blocks.
    fn write_below(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let block = self.file.block_bytes() as u64;
        let end = offset + bytes.len() as u64;
        if self.disk.block_bytes.is_none()
            || offset.is_multiple_of(block) && end.is_multiple_of(block)
        {
            return self.file.write_durable(offset, bytes);
        }
        let start = offset / block * block;
        let mut whole = AlignedBuf::zeroed((end.next_multiple_of(block) - start) as usize);
        self.file.read_at(start, &mut whole)?;
        whole[(offset - start) as usize..][..bytes.len()].copy_from_slice(bytes);
        self.file.write_durable(start, &whole)
    }

    fn call(&self, call: DiskCall) -> io::Result<()> {
        (self.disk.hook)(call, &self.path)
    }
}

impl FileLayer for HookedFile {
    fn inner(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }

    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let len = bytes.len();
        self.check(offset, len)?;
        self.call(DiskCall::Write { offset, len })?;
        self.write_below(offset, bytes)?;
        self.call(DiskCall::Wrote(offset))
    }

    fn begin_write(
        &self,
        offset: u64,
        buf: AlignedBuf,
        len: usize,
    ) -> Result<Box<dyn PendingWrite>, AlignedBuf> {
        let begins = self.disk.begins_writes
            && FileLayer::block_bytes(self) >= self.file.block_bytes()
            && self.check(offset, len).is_ok()
            && self.call(DiskCall::BeginWrite(offset)).is_ok();
        if begins {
            self.file.begin_write(offset, buf, len)
        } else {
            Err(buf)
        }
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        if self.disk.block_bytes.is_none() {
            return self.file.read_at(offset, into);
        }
        self.check(offset, into.len())?;
        let read = read_unaligned(&*self.file, offset, into.len())?;
        into[..read.bytes().len()].copy_from_slice(read.bytes());
        Ok(read.bytes().len())
    }

    fn block_bytes(&self) -> usize {
        self.disk
            .block_bytes
            .unwrap_or_else(|| self.file.block_bytes())
    }

    fn os_file(&self) -> Option<BorrowedFd<'_>> {
        // The kernel would read past the check.
        if self.disk.block_bytes.is_some() {
            return None;
        }
        self.file.os_file()
    }
}
