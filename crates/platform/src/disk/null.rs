//! A disk that forgets: what an engine could do if durability cost nothing.
//!
//! Files have names and lengths, but a write to one is dropped and a read sees zeros. Small files
//! written by [`Disk::replace`](super::Disk::replace) are kept. Nothing survives reopening, so
//! this is for measuring only.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::append::AppendMode;
use super::async_read::ImmediateReads;
use super::file_system::file_backed::{self, FileBacked};
use super::{DiskFile, FramePool, ReadQueue};

/// A disk that drops what is written to its files.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullDisk;

impl NullDisk {
    /// The disk; it has no state.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl FileBacked for NullDisk {
    fn open_file(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let len_bytes = File::open(path)?.metadata()?.len();
        Ok(Arc::new(NullFile { len_bytes }))
    }

    fn create_file(&self, path: &Path, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        // A length without blocks: no space is used.
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)?
            .set_len(len_bytes)?;
        Ok(Arc::new(NullFile { len_bytes }))
    }

    fn create_unnamed_file(&self, _: &Path, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(NullFile { len_bytes }))
    }

    fn read_queue(&self, depth: usize, _: &Arc<FramePool>) -> io::Result<Box<dyn ReadQueue>> {
        let what = "zeros, read at once (a disk that forgets)";
        Ok(Box::new(ImmediateReads::new(depth, what)))
    }

    fn append_mode(&self) -> AppendMode {
        AppendMode::Forgotten
    }
}

#[derive(Debug)]
struct NullFile {
    len_bytes: u64,
}

impl DiskFile for NullFile {
    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        file_backed::check_write(self, offset, bytes)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        file_backed::check_alignment(self, offset, into.len(), into.as_ptr())?;
        let left = self.len_bytes.saturating_sub(offset);
        let read = into.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        into[..read].fill(0);
        Ok(read)
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn block_bytes(&self) -> usize {
        512
    }
}
