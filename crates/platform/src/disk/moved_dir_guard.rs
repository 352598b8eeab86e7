//! Names in a locked directory are changed only while the directory is where it was locked.
//!
//! A lock belongs to the directory, and names are looked up by its path. If the directory is moved
//! and another stands in its place, which another program may have open, new files would go there.
//! So each change of a name is preceded by a comparison of the two. Files that are open are not
//! affected: they went with the directory.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::directory::moved_dir::DirIdentity;
use super::{Appender, DirLock, Disk, DiskFile, DiskLayer};

/// The disk, made to refuse every change of a name in a directory that it has locked, with
/// [`DirMoved`](super::DirMoved), while the directory is not at the path at which it was locked. It
/// does not hold the lock.
#[must_use]
pub fn guarded(disk: Arc<dyn Disk>, lock: &DirLock) -> Arc<dyn Disk> {
    match lock.dir.clone() {
        Some(dir) => Arc::new(HeldDirDisk { disk, dir }),
        None => disk,
    }
}

struct HeldDirDisk {
    disk: Arc<dyn Disk>,
    dir: DirIdentity,
}

impl HeldDirDisk {
    fn check(&self, path: &Path) -> io::Result<()> {
        if path.starts_with(&self.dir.path) {
            self.dir.check()
        } else {
            Ok(())
        }
    }
}

impl fmt::Debug for HeldDirDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.disk.fmt(f)
    }
}

impl DiskLayer for HeldDirDisk {
    fn inner(&self) -> &dyn Disk {
        &*self.disk
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.check(path)?;
        self.disk.open(path)
    }

    fn create(&self, path: &Path, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        self.check(path)?;
        self.disk.create(path, len_bytes)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.check(path)?;
        self.disk.replace(path, bytes)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.check(dir)?;
        self.disk.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(to)?;
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check(path)?;
        self.disk.remove(path)
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn Appender>> {
        self.check(path)?;
        let inner = self.disk.append(path)?;
        let dir = self.dir.clone();
        Ok(Box::new(GuardedAppender { inner, dir }))
    }
}

/// A file gets its name only while the directory is where it was.
struct GuardedAppender {
    inner: Box<dyn Appender>,
    dir: DirIdentity,
}

impl Appender for GuardedAppender {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inner.append(bytes)
    }

    fn len_bytes(&self) -> u64 {
        self.inner.len_bytes()
    }

    fn finish(self: Box<Self>) -> io::Result<u64> {
        self.dir.check()?;
        self.inner.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::disk::{DirMoved, SyncedDisk};

    #[test]
    fn names_in_a_directory_that_was_moved_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("db"), dir.path().join("old"));
        fs::create_dir(&path).unwrap();
        let disk: Arc<dyn Disk> = Arc::new(SyncedDisk::new());
        let lock = disk.lock_dir(&path).unwrap();
        let disk = guarded(disk, &lock);
        let (first, second) = (path.join("first"), path.join("second"));
        disk.create(&first, 512).unwrap();
        fs::rename(&path, &moved).unwrap();
        let attempts = || {
            [
                disk.create(&second, 512).map(drop),
                disk.open(&first).map(drop),
                disk.replace(&first, b"x"),
                disk.remove(&first),
                disk.rename(&first, &second),
                disk.create_dir_all(&path.join("sub")),
                disk.append(&second).map(drop),
            ]
        };
        let refused = |attempt: io::Result<()>| {
            let error = attempt.unwrap_err();
            let path = path.clone();
            assert_eq!(DirMoved::in_error(&error), Some(&DirMoved { path }));
        };
        attempts().into_iter().for_each(refused);
        fs::create_dir(&path).unwrap();
        fs::write(&first, "of another").unwrap();
        attempts().into_iter().for_each(refused);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(&first).unwrap(), "of another");
        // Elsewhere, and where it is again.
        disk.replace(&dir.path().join("other"), b"x").unwrap();
        fs::rename(&path, dir.path().join("away")).unwrap();
        fs::rename(&moved, &path).unwrap();
        disk.create(&second, 512).unwrap();
    }
}
