//! Emulated non-volatile memory: a write is a copy into memory followed by a pause of fixed length.
//!
//! Files are mapped into memory and shared with the page cache, so what was written survives the
//! death of the process (`kill -9`) but **not** a power cut: this disk is for experiments, where
//! it takes the place of memory that keeps its contents. A write makes no system call and costs
//! little more than its pause. The files belong on a file system in memory (`/dev/shm`): a disk
//! writes changed pages back now and then, and the next write to such a page takes a fault.
//!
//! Blocks are as long as a disk's unless [`DelayedDisk::with_blocks`] says otherwise: those of 64
//! bytes are a line of a processor's cache, the least that memory writes.
//!
//! # Invariants
//! - D1. A mapping covers its file exactly and the file never changes its length, so no access
//!   lies beyond the file's end.
//! - D2. Mapped bytes are only ever written through relaxed atomic words, so writers that overlap
//!   mix their words but race on nothing.
//!
//! Paper: tictoc-pwal §4
#![expect(unsafe_code, reason = "files mapped into memory")]

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use super::file_backed::{self, FileBacked};
use crate::clock::Pause;
use crate::disk::append::AppendMode;
use crate::disk::async_read::ImmediateReads;
use crate::disk::unnamed_file;
use crate::disk::{DiskFile, FramePool, ReadQueue, SECTOR_BYTES};

/// A disk that is as fast as memory plus a fixed delay per write.
#[derive(Clone, Copy, Debug)]
pub struct DelayedDisk {
    pause: Pause,
    block_bytes: usize,
}

impl DelayedDisk {
    /// The delay of the paper's experiments.
    pub const PAUSE_DEFAULT: Duration = Duration::from_nanos(50);
    /// The blocks of a disk, the default.
    pub const BLOCK_BYTES_DEFAULT: usize = SECTOR_BYTES;
    /// The lengths that a block can have, all powers of two among them: from a line of a processor's
    /// cache to the blocks of a disk.
    pub const BLOCK_BYTES: RangeInclusive<usize> = 64..=SECTOR_BYTES;

    /// A disk that pauses for `pause` in each write. Calibrates the pause, which takes a few
    /// milliseconds.
    #[must_use]
    pub fn new(pause: Duration) -> Self {
        Self {
            pause: Pause::calibrated(pause),
            block_bytes: Self::BLOCK_BYTES_DEFAULT,
        }
    }

    /// The same in blocks of this length: a short write then copies little more than its bytes.
    ///
    /// # Panics
    /// If it is not one of [`DelayedDisk::BLOCK_BYTES`].
    #[must_use]
    pub fn with_blocks(self, block_bytes: usize) -> Self {
        let is_known = Self::BLOCK_BYTES.contains(&block_bytes) && block_bytes.is_power_of_two();
        assert!(is_known, "blocks of {block_bytes} bytes");
        Self {
            block_bytes,
            ..self
        }
    }

    /// The pause asked for.
    #[must_use]
    pub fn pause(&self) -> Duration {
        self.pause.wanted()
    }

    /// Nanoseconds that one pause really takes, measured now: what a result should report together
    /// with the pause asked for.
    #[must_use]
    pub fn measure_pause(&self) -> f64 {
        self.pause.measure_ns()
    }
}

impl Default for DelayedDisk {
    fn default() -> Self {
        Self::new(Self::PAUSE_DEFAULT)
    }
}

impl FileBacked for DelayedDisk {
    fn open_file(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let map = Map::of(&file)?;
        Ok(Arc::new(DelayedFile {
            file,
            map,
            disk: *self,
        }))
    }

    fn create_file(&self, path: &Path, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        self.filled(file, len_bytes)
    }

    fn create_unnamed_file(&self, dir: &Path, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        self.filled(unnamed_file::open(dir, OFlags::empty())?, len_bytes)
    }

    fn read_queue(&self, depth: usize, _: &Arc<FramePool>) -> io::Result<Box<dyn ReadQueue>> {
        let what = "memory, read at once (emulated non-volatile memory)";
        Ok(Box::new(ImmediateReads::new(depth, what)))
    }

    fn append_mode(&self) -> AppendMode {
        AppendMode::Cached
    }
}

impl DelayedDisk {
    fn filled(&self, file: File, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        // Nothing is written through the file, so no write is saved by writing zeros now.
        file_backed::reserve_zeros(&file, len_bytes)?;
        let map = Map::of(&file)?;
        map.populate();
        Ok(Arc::new(DelayedFile {
            file,
            map,
            disk: *self,
        }))
    }
}

#[derive(Debug)]
struct DelayedFile {
    file: File,
    map: Map,
    disk: DelayedDisk,
}

impl DiskFile for DelayedFile {
    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        file_backed::check_write(self, offset, bytes)?;
        self.map.write(offset as usize, bytes);
        self.disk.pause.wait();
        Ok(())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        file_backed::check_alignment(self, offset, into.len(), into.as_ptr())?;
        // The page cache and a shared mapping are the same memory.
        file_backed::read_full_at(&self.file, offset, into)
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        file_backed::next_data(&self.file, self.len_bytes(), offset)
    }

    fn len_bytes(&self) -> u64 {
        self.map.len as u64
    }

    fn block_bytes(&self) -> usize {
        self.disk.block_bytes
    }

    fn os_file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

/// A whole file, mapped shared. An empty file has no mapping.
#[derive(Debug)]
struct Map {
    start: Option<NonNull<u8>>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; `Map` owns it.
unsafe impl Send for Map {}
// SAFETY: `&Map` writes only atomically (D2) and never reads.
unsafe impl Sync for Map {}

impl Map {
    fn of(file: &File) -> io::Result<Self> {
        let len = usize::try_from(file.metadata()?.len())
            .map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        if len == 0 {
            return Ok(Self { start: None, len });
        }
        // SAFETY: a new mapping at an address of the kernel's choice overlaps no other memory.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                0,
            )?
        };
        Ok(Self {
            start: NonNull::new(start.cast()),
            len,
        })
    }

    /// Takes the page faults now. Only a matter of speed: refusal is ignored.
    fn populate(&self) {
        if let Some(start) = self.start {
            // SAFETY: exactly the mapping that we own; populating changes no bytes.
            let _ = unsafe { madvise(start.as_ptr().cast(), self.len, Advice::LinuxPopulateWrite) };
        }
    }

    /// Copies `bytes` to `offset`. Both are multiples of a block's length and the range lies within
    /// the file, established by `check_write`.
    fn write(&self, offset: usize, bytes: &[u8]) {
        const WORD: usize = size_of::<u64>();
        assert!(
            offset.is_multiple_of(WORD)
                && bytes.len().is_multiple_of(WORD)
                && offset <= self.len
                && bytes.len() <= self.len - offset
        );
        let Some(start) = self.start else { return };
        // SAFETY: `offset <= len` (asserted), inside the mapping (D1) or one past its end.
        let target = unsafe { start.as_ptr().add(offset) }.cast::<AtomicU64>();
        // SAFETY: the range lies in the mapping (asserted, D1), which lives as long as `self`. It
        // is aligned: mappings start on pages and `offset` is a multiple of eight. All threads of
        // this process write it through such words only (D2); the kernel is no party to our memory
        // model.
        let words = unsafe { std::slice::from_raw_parts(target, bytes.len() / WORD) };
        let (chunks, _) = bytes.as_chunks::<WORD>();
        for (word, chunk) in words.iter().zip(chunks) {
            // Relaxed: these bytes synchronise no threads; their reader is the kernel, or a later
            // process.
            word.store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if let Some(start) = self.start {
            // SAFETY: exactly the range mapped in `of`; no reference into it outlives `self`.
            // It can only fail on a range that was never mapped.
            let _ = unsafe { munmap(start.as_ptr().cast(), self.len) };
        }
    }
}
