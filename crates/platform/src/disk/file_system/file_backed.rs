//! The common part of all disks over real files: everything but the way bytes reach the device.
//!
//! A kind of disk says how a file is opened, how a new one is filled, and how it is written; the
//! names, the lock and the small files are the same for all and live here.
//!
//! # Invariants
//! - F1. A file that [`Disk::list`] shows is whole: it is made under a temporary name, filled,
//!   synced, and only then given its own name.
//! - F2. No file is replaced by less than all of its new contents, for the same reason.
//!
//! One path is created or replaced by one thread at a time; a directory lock keeps other
//! processes out.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::append::{AppendMode, Appender, FileAppender};
use crate::disk::directory::directory_lock;
use crate::disk::directory::moved_dir::or_here;
use crate::disk::file_kind::{self, FileKind};
use crate::disk::file_names::{
    already_exists, is_own, is_unfinished, parent_of, rename_to_new, temporary_path,
};
use crate::disk::preallocation::{FilePreallocation, Preallocation, allocate};
use crate::disk::{
    AlignedBuf, BUFFER_ALIGN_BYTES, DirLock, Disk, DiskFile, DiskLayer, FileEntry, FramePool,
    ReadQueue,
};

/// New files are filled by writes of this size: large enough for a device's full speed.
const FILL_BYTES: usize = 1 << 20;

/// A disk with files of the operating system.
pub(in crate::disk) trait FileBacked: Send + Sync + std::fmt::Debug {
    /// Opens a file that exists.
    fn open_file(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Makes a file of `len_bytes` zeros at `path`, which must not exist, with contents as durable
    /// as this disk makes them. After a failure the caller removes the remains.
    fn create_file(&self, path: &Path, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>>;

    /// Makes a file of `len_bytes` zeros that has no name in `dir`.
    fn create_unnamed_file(&self, dir: &Path, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>>;

    /// A queue of reads of its files.
    fn read_queue(&self, depth: usize, pool: &Arc<FramePool>) -> io::Result<Box<dyn ReadQueue>>;

    /// The method of appending to files.
    fn append_mode(&self) -> AppendMode;
}

impl<T: FileBacked> DiskLayer for T {
    fn inner(&self) -> &dyn Disk {
        &FileNames
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        file_kind::expect_data(path)?;
        self.open_file(path)
    }

    fn create(&self, path: &Path, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        if path.try_exists()? {
            return Err(already_exists(path));
        }
        let temporary = temporary_path(path);
        remove_if_there(&temporary)?;
        let made = self
            .create_file(&temporary, len_bytes)
            .and_then(|file| rename_to_new(&temporary, path).map(|()| file));
        if made.is_err() {
            // The first failure is the one to report; a left-over is overwritten next time.
            let _ = fs::remove_file(&temporary);
        }
        made
    }

    fn create_unnamed(&self, dir: &Path, len_bytes: u64) -> io::Result<Option<Arc<dyn DiskFile>>> {
        self.create_unnamed_file(dir, len_bytes).map(Some)
    }

    fn reads(&self, depth: usize, pool: &Arc<FramePool>) -> io::Result<Box<dyn ReadQueue>> {
        self.read_queue(depth, pool)
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn Appender>> {
        Ok(Box::new(FileAppender::new(path, self.append_mode())?))
    }
}

/// Names, directories, locks and small files, which are the same for every kind of disk here. Large
/// files it has none: those are what the kinds differ in.
#[derive(Debug)]
struct FileNames;

impl FileNames {
    fn no_large_files() -> io::Error {
        io::Error::new(
            io::ErrorKind::Unsupported,
            "how large files are opened, the kind of disk says",
        )
    }
}

impl Disk for FileNames {
    fn open(&self, _: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Err(Self::no_large_files())
    }

    fn create(&self, _: &Path, _: u64) -> io::Result<Arc<dyn DiskFile>> {
        Err(Self::no_large_files())
    }

    fn preallocation(&self, dir: &Path) -> io::Result<Option<Box<dyn Preallocation>>> {
        Ok(Some(Box::new(FilePreallocation::in_dir(dir)?)))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        file_kind::read(path)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let temporary = temporary_path(path);
        let written = (|| {
            // The leftover of an interruption is not opened: it may be a FIFO, or a link to
            // something else.
            remove_if_there(&temporary)?;
            let file = File::create_new(&temporary)?;
            file.write_all_at(bytes, 0)?;
            file.sync_all()?;
            fs::rename(&temporary, path)
        })();
        if let Err(error) = written {
            let _ = fs::remove_file(&temporary);
            return Err(error);
        }
        self.sync_dir(parent_of(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<FileEntry>> {
        let mut entries = Vec::new();
        let listed = fs::read_dir(dir);
        for entry in listed.map_err(|error| file_kind::name_what_is_no_directory(dir, error))? {
            let entry = entry?;
            let path = entry.path();
            if is_own(&path) {
                continue;
            }
            match file_kind::look(&path) {
                Ok((kind, len_bytes)) => entries.push(FileEntry {
                    path,
                    kind,
                    len_bytes: match kind {
                        FileKind::Regular => len_bytes,
                        _ => 0,
                    },
                }),
                // Removed since the directory was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(entries)
    }

    fn unfinished(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let listed = fs::read_dir(dir);
        let mut found = Vec::new();
        for entry in listed.map_err(|error| file_kind::name_what_is_no_directory(dir, error))? {
            let entry = entry?;
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            if is_file && is_unfinished(&entry.path()) {
                found.push(entry.path());
            }
        }
        found.sort();
        Ok(found)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let missing = dir
            .ancestors()
            .take_while(|at| !at.as_os_str().is_empty() && !at.is_dir())
            .count();
        // The last name is synced even if it is there: a crash may have come between its
        // creation and its sync.
        let levels: Vec<&Path> = dir
            .ancestors()
            .take(missing.max(1))
            .filter(|at| !at.as_os_str().is_empty())
            .collect();
        for level in levels.into_iter().rev() {
            match fs::create_dir(level) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Err(error) if !level.is_dir() => {
                    return Err(file_kind::name_what_is_no_directory(level, error));
                }
                _ => {}
            }
            if level.parent().is_some() {
                self.sync_dir(parent_of(level))?;
            }
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(or_here(dir))?.sync_all()
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<DirLock> {
        let itself = directory_lock::directory(dir)?;
        let file = directory_lock::file_in(dir, |path| {
            file_kind::expect_data_or_nothing(path)?;
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)
        })?;
        Ok(DirLock::of_dir((file, itself.lock), itself.identity))
    }
}

/// A file's length, or a block device's, which its metadata do not tell.
pub(in crate::disk) fn length_of(file: &File) -> io::Result<u64> {
    let mut file = file;
    file.seek(SeekFrom::End(0))
}

/// Fails with `InvalidInput` unless a transfer lies in the file and on its blocks.
pub(in crate::disk) fn check_write(
    file: &dyn DiskFile,
    offset: u64,
    bytes: &[u8],
) -> io::Result<()> {
    check_alignment(file, offset, bytes.len(), bytes.as_ptr())?;
    let end = offset.checked_add(bytes.len() as u64);
    if end.is_none_or(|end| end > file.len_bytes()) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "a write of {} bytes at {offset} leaves a file of {} bytes",
                bytes.len(),
                file.len_bytes()
            ),
        ));
    }
    Ok(())
}

/// Fails with `InvalidInput` unless offset, length and address suit direct I/O.
pub(in crate::disk) fn check_alignment(
    file: &dyn DiskFile,
    offset: u64,
    len: usize,
    address: *const u8,
) -> io::Result<()> {
    let block = file.block_bytes();
    debug_assert!(block.is_power_of_two());
    // Two divisions would cost as much as a short copy.
    if (offset | len as u64) & (block as u64 - 1) == 0
        && address.addr().is_multiple_of(BUFFER_ALIGN_BYTES)
    {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!(
            "{len} bytes at offset {offset} from address {address:p} do not lie on blocks of {block}"
        ),
    ))
}

/// Reads until `into` is full or the file ends.
pub(in crate::disk) fn read_full_at(
    file: &File,
    offset: u64,
    into: &mut [u8],
) -> io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(&mut into[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => {
                done += read;
                // Within a direct read only the end of the file cuts a sector; going on from
                // there would be misaligned.
                if !done.is_multiple_of(512) {
                    break;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// For [`DiskFile::next_data`]: the first byte of a file of `len_bytes` from `offset` on that lies
/// in no hole.
///
/// # Errors
/// The error of the device. One that knows no holes has none.
pub fn next_data(file: &File, len_bytes: u64, offset: u64) -> io::Result<Option<u64>> {
    use rustix::fs::SeekFrom as From;
    use rustix::io::Errno;
    if offset >= len_bytes {
        return Ok(None);
    }
    match rustix::fs::seek(file, From::Data(offset)) {
        Ok(data) => Ok((data < len_bytes).then_some(data)),
        Err(Errno::NXIO) => Ok(None),
        // A block device, or a file system that does not say.
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(Some(offset)),
        Err(error) => Err(error.into()),
    }
}

/// Gives a new file `len_bytes`, all zeros, without a write where the file system can reserve them.
pub(in crate::disk) fn reserve_zeros(file: &File, len_bytes: u64) -> io::Result<()> {
    allocate(file, 0, len_bytes)?;
    if file.metadata()?.len() == len_bytes {
        return Ok(());
    }
    fill_with_zeros(file, len_bytes)
}

/// Reserves `len_bytes` and writes zeros over all of them. A reserved extent that was never
/// written costs a journal commit at its first durable write; a written one does not.
pub(in crate::disk) fn fill_with_zeros(file: &File, len_bytes: u64) -> io::Result<()> {
    // So that a full disk is met before anything is written.
    allocate(file, 0, len_bytes)?;
    let whole_blocks = len_bytes.next_multiple_of(BUFFER_ALIGN_BYTES as u64);
    let zeros = AlignedBuf::zeroed(FILL_BYTES.min(whole_blocks as usize));
    let mut at = 0;
    while at < whole_blocks {
        let now = (whole_blocks - at).min(zeros.len() as u64);
        file.write_all_at(&zeros[..now as usize], at)?;
        at += now;
    }
    if file.metadata()?.len() != len_bytes {
        file.set_len(len_bytes)?;
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{NotADirectory, SyncedDisk};

    /// The system says "File exists" of a link that leads nowhere.
    #[test]
    fn what_stands_in_the_place_of_a_directory_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let (link, file) = (dir.path().join("link"), dir.path().join("file"));
        std::os::unix::fs::symlink(dir.path().join("nowhere"), &link).unwrap();
        File::create(&file).unwrap();
        for (path, kind) in [
            (link.clone(), FileKind::DanglingLink),
            (link.join("db"), FileKind::DanglingLink),
            (file.join("db"), FileKind::Regular),
        ] {
            let disk: &dyn Disk = &SyncedDisk::new();
            let error = disk.create_dir_all(&path).unwrap_err();
            let found = NotADirectory::in_error(&error).map(|it| it.kind);
            assert_eq!(found, Some(kind), "{}: {error}", path.display());
        }
    }
}
