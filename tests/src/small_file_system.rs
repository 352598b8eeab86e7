//! Small file systems of the operating system, for tests that depend on how a real one accounts for
//! space. They need root.

use std::path::{Path, PathBuf};

use crate::kill::{PowerCut, run};

/// A file system, mounted during the lifetime of the value.
#[derive(Debug)]
pub enum SmallFileSystem {
    /// An ext4 in a file.
    Ext4(PowerCut),
    /// One in memory.
    Tmpfs(Tmpfs),
}

/// A tmpfs.
#[derive(Debug)]
pub struct Tmpfs {
    mounted: PathBuf,
    _dir: tempfile::TempDir,
}

impl SmallFileSystem {
    /// An ext4.
    ///
    /// # Errors
    /// If this machine does not allow it: it needs root, `mkfs.ext4` and a loop device.
    pub fn ext4(bytes: u64) -> Result<Self, String> {
        PowerCut::of_bytes(bytes).map(Self::Ext4)
    }

    /// A tmpfs.
    ///
    /// # Errors
    /// If this machine does not allow it: it needs root.
    pub fn tmpfs(bytes: u64) -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mounted = dir.path().to_owned();
        let size = format!("size={bytes}");
        let flags = ["-t", "tmpfs", "-o", &size, "none"];
        run("mount", &flags, &[&mounted])?;
        Ok(Self::Tmpfs(Tmpfs { mounted, _dir: dir }))
    }

    /// The mount point.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Ext4(ext4) => ext4.path(),
            Self::Tmpfs(tmpfs) => &tmpfs.mounted,
        }
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = run("umount", &[], &[&self.mounted]);
    }
}
