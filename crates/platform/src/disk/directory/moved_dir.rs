//! Whether a directory that was locked is still at its path.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A locked directory is no longer at its path. The source of an [`io::Error`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the directory {} was moved or replaced while it was open: close the database, and open it where it is now",
    path.display()
)]
pub struct DirMoved {
    /// Its path before the move.
    pub path: PathBuf,
}

impl DirMoved {
    /// The reason of an error, if it is this one.
    #[must_use]
    pub fn in_error(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

/// A directory, and the path at which it was locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::disk) struct DirIdentity {
    pub(in crate::disk) path: PathBuf,
    device: u64,
    inode: u64,
}

impl DirIdentity {
    pub(in crate::disk) fn new(path: &Path, found: &Metadata) -> Self {
        Self {
            path: path.to_owned(),
            device: found.dev(),
            inode: found.ino(),
        }
    }

    /// Whether the directory is at its path.
    pub(in crate::disk) fn check(&self) -> io::Result<()> {
        match fs::metadata(or_here(&self.path)) {
            Ok(found) if Self::new(&self.path, &found) == *self => Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => {
                let path = self.path.clone();
                Err(io::Error::other(DirMoved { path }))
            }
        }
    }
}

/// A path that can be opened: the working directory has an empty one.
pub(in crate::disk) fn or_here(dir: &Path) -> &Path {
    if dir.as_os_str().is_empty() {
        Path::new(".")
    } else {
        dir
    }
}
