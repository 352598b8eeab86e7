//! Durable writes in one system call: `O_DIRECT | O_DSYNC` on files that are full from the start.
//!
//! The file is allocated and really written with zeros when it is created, so a later write changes
//! no metadata and the file system's journal stays out of the way. This is the fastest measured way
//! to make a small write durable; a write followed by `fdatasync` is about a fifth slower, and
//! files that grow are four times slower.
//!
//! # Invariants
//! - R1. `write_durable` reports success only when every byte was accepted under `O_DSYNC`:
//!   interrupted and short writes are continued, anything else is returned as it is.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, OFlags, StatxFlags};

use super::file_backed::{self, FileBacked};
use super::uring::RingPool;
use crate::disk::append::AppendMode;
use crate::disk::async_read::system_reads;
use crate::disk::unnamed_file;
use crate::disk::{
    AlignedBuf, BUFFER_ALIGN_BYTES, Disk, DiskFile, FramePool, PendingWrite, ReadQueue,
    SECTOR_BYTES, SyncedDisk, is_full,
};

/// A disk with writes that bypass the page cache and return when durable. Opens block devices as
/// well.
///
/// Opening or creating a file fails with `Unsupported` where the file system has no direct I/O;
/// [`open_best`] then finds the next best.
#[derive(Clone, Debug, Default)]
pub struct DirectDisk {
    rings: Arc<RingPool>,
}

impl DirectDisk {
    /// The disk. All its clones' writes that go on by themselves share what carries them.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// The method by which a real disk makes a write durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// `O_DIRECT | O_DSYNC`: [`DirectDisk`].
    Direct,
    /// Through the page cache, then `fdatasync`: [`SyncedDisk`].
    Synced,
}

impl std::fmt::Display for WriteMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Direct => "O_DIRECT|O_DSYNC",
            Self::Synced => "fdatasync",
        })
    }
}

/// The fastest durable disk that works in `dir`, which must exist, and which one it is. Tries one
/// direct write on a file of its own, which has no name. A disk without room for that passes for
/// one that writes so: a file system without direct I/O refuses to open a file for it, in all that
/// are known.
///
/// # Errors
/// Whatever the device says, other than that it has no direct I/O.
pub fn open_best(dir: &Path) -> io::Result<(Arc<dyn Disk>, WriteMode)> {
    let direct = DirectDisk::new();
    let tried = direct
        .create_unnamed_file(dir, BUFFER_ALIGN_BYTES as u64)
        .and_then(|file| file.write_durable(0, &AlignedBuf::zeroed(BUFFER_ALIGN_BYTES)));
    match tried {
        Ok(()) => Ok((Arc::new(direct), WriteMode::Direct)),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            Ok((Arc::new(SyncedDisk::new()), WriteMode::Synced))
        }
        Err(error) if is_full(&error) => match unnamed_file::open(dir, OFlags::DIRECT) {
            Ok(_) => Ok((Arc::new(direct), WriteMode::Direct)),
            // Not even for a file without a byte.
            Err(_) => Ok((Arc::new(SyncedDisk::new()), WriteMode::Synced)),
        },
        Err(error) => Err(error),
    }
}

impl FileBacked for DirectDisk {
    fn open_file(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = options().open(path).map_err(|e| unsupported(path, e))?;
        Ok(Arc::new(DirectFile {
            len_bytes: file_backed::length_of(&file)?,
            block_bytes: block_of(&file, path)?,
            file: Arc::new(file),
            rings: Arc::clone(&self.rings),
        }))
    }

    fn create_file(&self, path: &Path, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        // Filled without O_DSYNC and synced once, which is faster than a sync per megabyte. The
        // flag cannot be added to an open file, so it is opened a second time.
        let filling = OpenOptions::new()
            .write(true)
            .create_new(true)
            .custom_flags(libc::O_DIRECT)
            .open(path)
            .map_err(|e| unsupported(path, e))?;
        file_backed::fill_with_zeros(&filling, len_bytes).map_err(|e| unsupported(path, e))?;
        filling.sync_all()?;
        self.open_file(path)
    }

    fn create_unnamed_file(&self, dir: &Path, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        // It cannot be opened a second time, so it is filled durably, which takes longer.
        let file = unnamed_file::open(dir, OFlags::DIRECT | OFlags::DSYNC);
        let file = file.map_err(|e| unsupported(dir, e))?;
        file_backed::fill_with_zeros(&file, len_bytes).map_err(|e| unsupported(dir, e))?;
        Ok(Arc::new(DirectFile {
            len_bytes: file_backed::length_of(&file)?,
            block_bytes: block_of(&file, dir)?,
            file: Arc::new(file),
            rings: Arc::clone(&self.rings),
        }))
    }

    fn read_queue(&self, depth: usize, pool: &Arc<FramePool>) -> io::Result<Box<dyn ReadQueue>> {
        Ok(system_reads(depth, pool))
    }

    fn append_mode(&self) -> AppendMode {
        AppendMode::Direct
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .custom_flags(libc::O_DIRECT | libc::O_DSYNC);
    options
}

/// `EINVAL` is how a file system says that it has no direct I/O.
fn unsupported(path: &Path, error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(libc::EINVAL) {
        no_direct_io(path)
    } else {
        error
    }
}

fn no_direct_io(path: &Path) -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        format!("no direct I/O on the file system of {}", path.display()),
    )
}

#[derive(Debug)]
struct DirectFile {
    file: Arc<File>,
    len_bytes: u64,
    block_bytes: usize,
    rings: Arc<RingPool>,
}

/// The unit of direct transfers: what the file system says, or the smallest one it takes.
fn block_of(file: &File, path: &Path) -> io::Result<usize> {
    let told = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        .ok()
        .filter(|facts| StatxFlags::from_bits_retain(facts.stx_mask).contains(StatxFlags::DIOALIGN))
        .map(|facts| (facts.stx_dio_mem_align, facts.stx_dio_offset_align));
    match told {
        Some((memory, offset)) => {
            let usable = offset != 0
                && memory as usize <= BUFFER_ALIGN_BYTES
                && offset as usize <= BUFFER_ALIGN_BYTES;
            if !usable {
                return Err(no_direct_io(path));
            }
            Ok(if offset as usize <= SECTOR_BYTES {
                SECTOR_BYTES
            } else {
                BUFFER_ALIGN_BYTES
            })
        }
        None => {
            let mut buf = AlignedBuf::zeroed(BUFFER_ALIGN_BYTES);
            for block in [SECTOR_BYTES, BUFFER_ALIGN_BYTES] {
                match file_backed::read_full_at(file, 0, &mut buf[..block]) {
                    Ok(_) => return Ok(block),
                    Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                    Err(error) => return Err(error),
                }
            }
            Err(no_direct_io(path))
        }
    }
}

impl DiskFile for DirectFile {
    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        file_backed::check_write(self, offset, bytes)?;
        // Continues after EINTR and after a short write, and returns every other error (R1).
        self.file.write_all_at(bytes, offset)
    }

    fn begin_write(
        &self,
        offset: u64,
        buf: AlignedBuf,
        len: usize,
    ) -> Result<Box<dyn PendingWrite>, AlignedBuf> {
        match file_backed::check_write(self, offset, &buf[..len]) {
            Ok(()) => self.rings.begin(&self.file, offset, buf, len),
            // The caller's own attempt says what is wrong.
            Err(_) => Err(buf),
        }
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
        self.block_bytes
    }

    fn os_file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No test can look into a device's write cache; without this flag nothing empties it.
    #[test]
    fn a_written_file_asks_for_durability() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, []).unwrap();
        let Ok(file) = options().open(&path) else {
            return; // no direct I/O here
        };
        let flags = rustix::fs::fcntl_getfl(&file).unwrap().bits() as i32;
        let needed = libc::O_DIRECT | libc::O_DSYNC;
        assert_eq!(flags & needed, needed);
    }

    #[test]
    fn a_file_system_without_direct_io_is_named_as_such() {
        let path = Path::new("/proc/self/comm");
        let error = DirectDisk::new().open(path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(error.to_string().contains("/proc/self/comm"), "{error}");
    }
}
