//! What the log and the manifest ask of a disk, and the disks that answer.
//!
//! Two traits: a [`Disk`] names, creates and removes files; a [`DiskFile`] is written and read at
//! offsets. A write returns from [`DiskFile::write_durable`] only when a power cut can no longer
//! undo it, which is the one promise everything above is built on.

mod aligned_buffer;
mod append;
mod async_read;
mod directory;
mod file_kind;
mod file_names;
mod file_system;
mod full_disk;
mod hooked;
mod layer;
mod memory;
mod moved_dir_guard;
mod null;
mod preallocation;
mod read_only;
pub mod sim;
mod slow;
mod unaligned_read;
mod unnamed_file;

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use directory::moved_dir::DirIdentity;

pub use aligned_buffer::AlignedBuf;
pub use append::Appender;
pub use async_read::{
    BlockingThreads, Completion, Frame, FramePool, Frames, PAGE_BYTES, ReadQueue,
};
pub use directory::directory_lock::lock_to_read;
pub use directory::moved_dir::DirMoved;
pub use directory::nested_dirs::is_one_in_the_other;
pub use file_kind::{FileKind, NotADirectory, NotAFile, open_for_reading};
pub use file_system::direct::{DirectDisk, WriteMode, open_best};
pub use file_system::file_backed::next_data;
pub use file_system::nvm_emulation::DelayedDisk;
pub use file_system::profile::{DeviceProfile, PROFILE_FILES};
pub use file_system::synced::SyncedDisk;
pub use full_disk::is_full;
pub use hooked::{DiskCall, HookedDisk};
pub use layer::{DiskLayer, FileLayer};
pub use memory::MemoryDisk;
pub use moved_dir_guard::guarded;
pub use null::NullDisk;
pub use preallocation::{DiskSpace, Preallocation};
pub use read_only::ReadOnlyDisk;
pub use sim::SimDisk;
pub use slow::{SlowDisk, SlowDrives};
pub use unaligned_read::{UnalignedRead, read_unaligned};
pub use unnamed_file::PROBE_FILES;

/// Addresses, offsets and lengths that a direct write needs are multiples of a file's block; this
/// is an alignment that satisfies every device's *address* requirement.
pub const BUFFER_ALIGN_BYTES: usize = 4096;

/// The unit that a power cut keeps or loses on a device. Memory has shorter ones, those of its
/// blocks.
pub const SECTOR_BYTES: usize = 512;

/// A place that holds files.
pub trait Disk: Send + Sync + Debug {
    /// Opens a file that exists, for reading and writing.
    ///
    /// # Errors
    /// `NotFound` for a missing file; [`NotAFile`] for an entry of another kind; whatever the
    /// device says otherwise.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Creates a file of `len_bytes` zeros, allocated for real so that later writes change no
    /// metadata. Its contents are durable on return, its name only after [`Disk::sync_dir`].
    ///
    /// # Errors
    /// `AlreadyExists`; `StorageFull` before anything is promised; the device's own otherwise. A
    /// file that could not be made whole is removed again.
    fn create(&self, path: &Path, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>>;

    /// Creates a file of `len_bytes` zeros on the device of `dir` that has no name, and is gone
    /// with its last handle or its process. `None` where the disk has none.
    ///
    /// # Errors
    /// As [`Disk::create`].
    fn create_unnamed(&self, dir: &Path, len_bytes: u64) -> io::Result<Option<Arc<dyn DiskFile>>> {
        let _ = (dir, len_bytes);
        Ok(None)
    }

    /// Room on the device of `dir` that can be taken ahead, none yet. `None` where the disk cannot
    /// do so.
    ///
    /// # Errors
    /// The error of the device.
    fn preallocation(&self, dir: &Path) -> io::Result<Option<Box<dyn Preallocation>>> {
        let _ = dir;
        Ok(None)
    }

    /// The whole of a small file.
    ///
    /// # Errors
    /// `NotFound` for a missing file; [`NotAFile`] for an entry of another kind; whatever the
    /// device says otherwise.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Puts `bytes` in the place of the file at `path`: afterwards, whatever happens, the file
    /// holds either what it held before or all of `bytes`, and on return durably `bytes`.
    ///
    /// # Errors
    /// Whatever the device says; the old contents are then still there unless the failure was in
    /// the very last directory sync, after which either is.
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// The entries of `dir` in order of name: files and all others, with links followed. The disk's
    /// own entries (the lock, unfinished files) are left out. The simulated disk leaves out
    /// directories.
    ///
    /// # Errors
    /// `NotFound` when `dir` does not exist; [`NotADirectory`] for an entry of another kind;
    /// otherwise the error of the device.
    fn list(&self, dir: &Path) -> io::Result<Vec<FileEntry>>;

    /// The unfinished files that [`Disk::list`] leaves out: files that are being written, or were
    /// when a process ended. Empty on a disk that has none, or does not report them.
    ///
    /// # Errors
    /// As [`Disk::list`].
    fn unfinished(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let _ = dir;
        Ok(Vec::new())
    }

    /// Creates `dir` and the directories above it, durably. No error if it exists.
    ///
    /// # Errors
    /// The error of the device.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Gives the file at `from` the name `to`, replacing what had it. Durable after `sync_dir`.
    ///
    /// # Errors
    /// `NotFound`; otherwise the error of the device.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Durable after `sync_dir`.
    ///
    /// # Errors
    /// `NotFound`; otherwise the error of the device.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes creations, renames and removals in `dir` durable.
    ///
    /// # Errors
    /// The error of the device.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Takes `dir` for this process until the returned lock is dropped. The lock does not depend on
    /// a file that can be removed or replaced. Dropped in a forked child, it leaves the parent's
    /// lock as it is.
    ///
    /// # Errors
    /// `ResourceBusy` when it is held; otherwise the error of the device.
    fn lock_dir(&self, dir: &Path) -> io::Result<DirLock>;

    /// A queue for one thread that keeps up to `depth` reads of this disk's files in flight, all
    /// into frames of `pool`. Frames of other pools are read as well, more slowly.
    ///
    /// A disk that says nothing of its own has threads that block.
    ///
    /// # Errors
    /// Whatever the system says, such as a lack of memory.
    fn reads(&self, depth: usize, pool: &Arc<FramePool>) -> io::Result<Box<dyn ReadQueue>> {
        let _ = pool;
        let why = "this kind of disk has no other reads";
        Ok(Box::new(BlockingThreads::new(depth, why)))
    }

    /// Begins a file that is written once, from front to back, with one sync at the end. It has its
    /// name when it is finished, and durably after [`Disk::sync_dir`].
    ///
    /// # Errors
    /// `AlreadyExists`; `Unsupported` on a disk that says nothing of its own; whatever the device
    /// says otherwise.
    fn append(&self, path: &Path) -> io::Result<Box<dyn Appender>> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("{self:?} cannot append to {}", path.display()),
        ))
    }
}

/// A file of fixed length.
pub trait DiskFile: Send + Sync + Debug {
    /// Writes and returns when it is durable. `offset` and the length of `bytes` are multiples of
    /// [`DiskFile::block_bytes`], and `bytes` starts at a multiple of [`BUFFER_ALIGN_BYTES`]
    /// (an [`AlignedBuf`] does). A write that a power cut interrupts leaves any subset of its
    /// 512-byte sectors, or of its blocks if they are shorter.
    ///
    /// # Errors
    /// `InvalidInput` for a misaligned or out-of-range write; the device's own otherwise, after
    /// which it is unknown what the device kept.
    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Begins to write the first `len` bytes of `buf` durably, as [`DiskFile::write_durable`] does,
    /// and lets the caller do something else.
    ///
    /// # Errors
    /// The buffer, untouched, where the disk can only write while its caller waits, and for a write
    /// that [`DiskFile::write_durable`] would refuse. What goes wrong later, the end says.
    ///
    /// # Panics
    /// If the buffer is shorter than `len`.
    fn begin_write(
        &self,
        offset: u64,
        buf: AlignedBuf,
        len: usize,
    ) -> Result<Box<dyn PendingWrite>, AlignedBuf> {
        let _ = (offset, len);
        Err(buf)
    }

    /// Reads up to `into.len()` bytes at `offset`; fewer only at the end of the file. Alignment as
    /// for writing.
    ///
    /// # Errors
    /// The error of the device.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;

    /// The first byte from `offset` on that may be non-zero: holes, which were never written, are
    /// skipped. `None` without such a byte. The default implementation reports no holes.
    ///
    /// # Errors
    /// The error of the device.
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok((offset < self.len_bytes()).then_some(offset))
    }

    /// The file's length, as created.
    fn len_bytes(&self) -> u64;

    /// The unit of offsets and lengths: 512 or 4096; of memory, 64 or more.
    fn block_bytes(&self) -> usize;

    /// The file of the operating system behind it, if reading that one is all that reading is: for
    /// reads that the kernel carries out.
    fn os_file(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The file of the disk below that this one leads to, for a disk that leads to another one: its
    /// queue reads that file.
    fn below(&self) -> Option<&Arc<dyn DiskFile>> {
        None
    }
}

/// A durable write that has begun. Dropped, it is waited for, and its result is lost. A process
/// that is killed may leave it under way.
pub trait PendingWrite: Send {
    /// Whether it has come to its end, good or bad. Does not wait.
    fn is_complete(&mut self) -> bool;

    /// Waits for the end, and gives the buffer back with what [`DiskFile::write_durable`] would
    /// have returned.
    fn wait(self: Box<Self>) -> (AlignedBuf, io::Result<()>);
}

/// An entry of [`Disk::list`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Full path.
    pub path: PathBuf,
    /// Its kind.
    pub kind: FileKind,
    /// Length in bytes, of a file.
    pub len_bytes: u64,
}

/// Holds a directory for one process; dropping it releases the directory.
pub struct DirLock {
    #[expect(dead_code, reason = "held for its Drop")]
    held: Box<dyn Send + Sync>,
    /// `None` on a disk with directories that cannot be moved.
    dir: Option<DirIdentity>,
}

impl DirLock {
    /// Wraps whatever releases the directory when dropped.
    pub fn new(held: impl Send + Sync + 'static) -> Self {
        Self {
            held: Box::new(held),
            dir: None,
        }
    }

    /// The same for a directory of the operating system.
    fn of_dir(held: impl Send + Sync + 'static, dir: DirIdentity) -> Self {
        Self {
            dir: Some(dir),
            ..Self::new(held)
        }
    }
}

impl Debug for DirLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DirLock")
    }
}
