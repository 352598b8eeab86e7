//! The lock of a database directory: one process at a time.
//!
//! Two locks are held. The one on the directory itself goes with what it protects: no file can be
//! removed to get around it. The one on a file in it keeps out releases that lock nothing else, and
//! all others where a directory cannot be locked.
//!
//! Both are `flock` locks, which belong to the open file and not to the process. A forked child
//! shares the open file, so an unlock in the child would unlock for the parent.
//!
//! # Invariants
//! - L1. A lock is given up explicitly only in the process that took it. A forked child closes its
//!   descriptor, which leaves the lock to the parent's.
//! - L2. A file that is locked has its name after it was locked: one that was removed before would
//!   keep out none.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use super::moved_dir::{DirIdentity, or_here};
use crate::disk::DirLock;
use crate::fork_check::ProcessToken;

/// The file that [`Disk::lock_dir`](crate::disk::Disk::lock_dir) locks in addition to the directory
/// itself.
pub(in crate::disk) const FILE_NAME: &str = "LOCK";

/// A lock file replaced this number of times while it is being locked counts as in use.
const REPLACED_MAX: usize = 16;

/// A locked file or directory.
///
/// The lock would go with the last descriptor of the open file, and a process that another thread
/// starts has one until it runs its program. So the lock is given up by itself.
#[derive(Debug)]
pub(in crate::disk) struct Locked {
    file: File,
    process: ProcessToken,
}

impl Drop for Locked {
    fn drop(&mut self) {
        if self.process.is_current() {
            // It fails only on a file that cannot be locked.
            let _ = self.file.unlock();
        }
    }
}

/// A directory that was opened to be locked.
#[derive(Debug)]
pub(in crate::disk) struct Directory {
    /// `None` where the file system locks only files that can be written, as network file systems
    /// do: the file in the directory has to do there.
    pub(in crate::disk) lock: Option<Locked>,
    pub(in crate::disk) identity: DirIdentity,
}

/// Locks the directory itself.
pub(in crate::disk) fn directory(dir: &Path) -> io::Result<Directory> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(CWD, or_here(dir), flags, Mode::empty())?;
    let opened = File::from(opened);
    let identity = DirIdentity::new(dir, &opened.metadata()?);
    let lock = match file(opened, dir) {
        Ok(locked) => Some(locked),
        Err(error) if is_unsupported(&error) => None,
        Err(error) => return Err(error),
    };
    Ok(Directory { lock, identity })
}

/// Locks the file of `dir` that is there for it, as `open` opens it (L2).
pub(in crate::disk) fn file_in(
    dir: &Path,
    mut open: impl FnMut(&Path) -> io::Result<File>,
) -> io::Result<Locked> {
    let path = dir.join(FILE_NAME);
    for _ in 0..REPLACED_MAX {
        let locked = file(open(&path)?, dir).map_err(|error| not_lockable(dir, error))?;
        if has_its_name(&locked.file, &path)? {
            return Ok(locked);
        }
    }
    Err(busy(dir))
}

fn has_its_name(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match fs::metadata(path) {
        Ok(found) => Ok((own.dev(), own.ino()) == (found.dev(), found.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Locks a file of `dir`.
pub(in crate::disk) fn file(file: File, dir: &Path) -> io::Result<Locked> {
    match file.try_lock() {
        Ok(()) => Ok(Locked {
            file,
            process: ProcessToken::current(),
        }),
        Err(TryLockError::WouldBlock) => Err(busy(dir)),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The locks of [`Disk::lock_dir`](crate::disk::Disk::lock_dir) for one that only reads: nothing is
/// created, and nothing needs to be writable.
///
/// # Errors
/// `ResourceBusy` when the directory is locked; otherwise the error of the device.
pub fn lock_to_read(dir: &Path) -> io::Result<DirLock> {
    let itself = directory(dir)?;
    let file_in_it = match file_in(dir, crate::disk::open_for_reading) {
        Ok(locked) => Some(locked),
        // A file system that locks only what can be written.
        Err(error) if error.kind() == io::ErrorKind::Unsupported && itself.lock.is_some() => None,
        // No release that locks this file alone has the directory open.
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    Ok(DirLock::of_dir((file_in_it, itself.lock), itself.identity))
}

/// The error of a directory that is locked already.
pub(in crate::disk) fn busy(dir: &Path) -> io::Error {
    io::Error::new(
        io::ErrorKind::ResourceBusy,
        format!("the directory {} is in use", dir.display()),
    )
}

/// A directory that cannot be locked, and is not opened without its lock. The source of an
/// [`io::Error`].
#[derive(Debug, thiserror::Error)]
#[error(
    "{} cannot be locked ({source}), and without its lock two programs could write it at the same time: turn the locks of \
     its file system on (on NFS its lock service, and no `nolock`), or put the directory on a disk of this machine",
    dir.display()
)]
struct CannotLock {
    dir: PathBuf,
    source: io::Error,
}

/// Says of an error of locking the file of `dir`, where that is not in use, what it means.
fn not_lockable(dir: &Path, source: io::Error) -> io::Error {
    if is_unsupported(&source) {
        let dir = dir.to_owned();
        io::Error::new(io::ErrorKind::Unsupported, CannotLock { dir, source })
    } else {
        source
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    let unsupported = [
        Errno::BADF,
        Errno::OPNOTSUPP,
        Errno::NOSYS,
        Errno::NOLCK,
        Errno::INVAL,
        Errno::NOTTY,
    ];
    unsupported
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, SyncedDisk};

    #[test]
    fn an_inherited_descriptor_does_not_keep_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let lock = file(File::create(&path).unwrap(), dir.path()).unwrap();
        let _inherited = lock.file.try_clone().unwrap();
        let another = File::open(&path).unwrap();
        assert!(another.try_lock().is_err());
        drop(lock);
        another.try_lock().unwrap();
    }

    #[test]
    fn removing_the_lock_file_does_not_free_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let disk = SyncedDisk::new();
        let held = disk.lock_dir(dir.path()).unwrap();
        std::fs::remove_file(dir.path().join("LOCK")).unwrap();
        let busy = disk.lock_dir(dir.path()).unwrap_err();
        assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy);
        let busy = lock_to_read(dir.path()).unwrap_err();
        assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy);
        drop(held);
        disk.lock_dir(dir.path()).unwrap();
    }

    /// Another program removes it in between, and where directories cannot be locked, one more
    /// makes another.
    #[test]
    fn a_lock_file_that_lost_its_name_is_locked_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE_NAME);
        let mut spoilers: Vec<fn(&Path)> = vec![|path| fs::remove_file(path).unwrap(), |path| {
            fs::remove_file(path).unwrap();
            File::create(path).unwrap();
        }];
        let _held = file_in(dir.path(), |path| {
            let opened = File::create(path);
            if let Some(spoil) = spoilers.pop() {
                spoil(path);
            }
            opened
        });
        assert!(File::open(&path).unwrap().try_lock().is_err());
        // Without an end, it is in use.
        fs::remove_file(&path).unwrap();
        let busy = file_in(dir.path(), |path| {
            let opened = File::create_new(path);
            fs::remove_file(path).unwrap();
            opened
        });
        assert_eq!(busy.unwrap_err().kind(), io::ErrorKind::ResourceBusy);
    }

    #[test]
    fn a_file_system_without_locks_is_no_failure() {
        for errno in [Errno::INVAL, Errno::NOTTY, Errno::BADF] {
            assert!(is_unsupported(&errno.into()), "{errno:?}");
        }
        assert!(!is_unsupported(&Errno::IO.into()));
    }

    /// As on a network file system without its lock service.
    #[test]
    fn an_error_of_a_lock_says_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let error = file_in(dir.path(), |path| {
            File::create(path)?;
            // A descriptor that takes no lock.
            let opened = rustix::fs::openat(CWD, path, OFlags::PATH, Mode::empty())?;
            Ok(File::from(opened))
        });
        let error = error.unwrap_err();
        let said = error.to_string();
        let named = dir.path().display().to_string();
        assert!(said.contains(&named) && said.contains("nolock"), "{said}");
        let no_locks = not_lockable(dir.path(), Errno::NOLCK.into());
        assert!(no_locks.to_string().contains("os error 37"), "{no_locks}");
    }

    /// As a release does that locks the file alone.
    #[test]
    fn a_lock_of_the_file_alone_keeps_the_directory_busy() {
        let dir = tempfile::tempdir().unwrap();
        let held = File::create(dir.path().join("LOCK")).unwrap();
        held.try_lock().unwrap();
        let busy = SyncedDisk::new().lock_dir(dir.path()).unwrap_err();
        assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy);
        drop(held);
        SyncedDisk::new().lock_dir(dir.path()).unwrap();
    }
}
