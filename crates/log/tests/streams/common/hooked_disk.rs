//! A disk that calls the test before each step, with blocks of a length that the test chooses.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use namiki_platform::disk::{
    AlignedBuf, Disk, DiskFile, DiskLayer, FileLayer, PendingWrite, SimDisk, read_unaligned,
};

/// The next step of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Create,
    /// At this offset.
    Write(u64),
    /// A write has been done.
    Wrote(u64),
    /// A write is begun at this offset; an error means that the disk does not support it.
    Begin(u64),
}

type Hook = dyn Fn(Step) -> io::Result<()> + Send + Sync;

#[derive(Clone)]
pub(crate) struct HookedDisk {
    inner: SimDisk,
    block_bytes: usize,
    hook: Arc<Hook>,
}

impl HookedDisk {
    pub(crate) fn new(
        inner: &SimDisk,
        hook: impl Fn(Step) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner: inner.clone(),
            block_bytes: 512,
            hook: Arc::new(hook),
        }
    }

    /// The same contents on a device that takes only whole blocks of `block_bytes`.
    pub(crate) fn with_blocks(inner: &SimDisk, block_bytes: usize) -> Self {
        Self {
            block_bytes,
            ..Self::new(inner, |_| Ok(()))
        }
    }
}

impl std::fmt::Debug for HookedDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HookedDisk")
    }
}

#[derive(Debug)]
struct HookedFile {
    file: Arc<dyn DiskFile>,
    disk: HookedDisk,
}

impl HookedFile {
    fn check(&self, offset: u64, len: usize) -> io::Result<()> {
        let block = self.disk.block_bytes as u64;
        if !offset.is_multiple_of(block) || !(len as u64).is_multiple_of(block) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(())
    }

    /// Writes to the disk below. If its blocks are longer, the write includes the rest of those
    /// blocks.
    fn write_below(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let block = self.file.block_bytes() as u64;
        let end = offset + bytes.len() as u64;
        if offset.is_multiple_of(block) && end.is_multiple_of(block) {
            return self.file.write_durable(offset, bytes);
        }
        let start = offset / block * block;
        let mut whole = AlignedBuf::zeroed((end.next_multiple_of(block) - start) as usize);
        self.file.read_at(start, &mut whole)?;
        whole[(offset - start) as usize..][..bytes.len()].copy_from_slice(bytes);
        self.file.write_durable(start, &whole)
    }
}

impl FileLayer for HookedFile {
    fn inner(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }

    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.check(offset, bytes.len())?;
        (self.disk.hook)(Step::Write(offset))?;
        self.write_below(offset, bytes)?;
        (self.disk.hook)(Step::Wrote(offset))
    }

    fn begin_write(
        &self,
        offset: u64,
        buf: AlignedBuf,
        len: usize,
    ) -> Result<Box<dyn PendingWrite>, AlignedBuf> {
        if self.disk.block_bytes < self.file.block_bytes() {
            return Err(buf);
        }
        let may = self.check(offset, len);
        match may.and_then(|()| (self.disk.hook)(Step::Begin(offset))) {
            Ok(()) => self.file.begin_write(offset, buf, len),
            Err(_) => Err(buf),
        }
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.check(offset, into.len())?;
        let read = read_unaligned(&*self.file, offset, into.len())?;
        into[..read.bytes().len()].copy_from_slice(read.bytes());
        Ok(read.bytes().len())
    }

    fn block_bytes(&self) -> usize {
        self.disk.block_bytes
    }

    fn os_file(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl DiskLayer for HookedDisk {
    fn inner(&self) -> &dyn Disk {
        &self.inner
    }

    fn layer_file(&self, file: Arc<dyn DiskFile>, _: &Path) -> Arc<dyn DiskFile> {
        Arc::new(HookedFile {
            file,
            disk: self.clone(),
        })
    }

    fn create(&self, path: &Path, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        (self.hook)(Step::Create)?;
        Ok(self.layer_file(self.inner.create(path, len_bytes)?, path))
    }
}
