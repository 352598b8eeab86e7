//! The folder for a command's files: the user's, which is kept, or a fresh one.

use std::path::{Path, PathBuf};

use namiki_platform::machine::Machine;
use tempfile::TempDir;

use crate::device_choice::Device;
use crate::error::BenchError;
use crate::interrupt::{self, ScratchMark};

/// A folder whose files are in memory, on Linux.
const MEMORY_FOLDER: &str = "/dev/shm";

/// The folder of a command.
#[derive(Debug)]
pub(crate) enum Place {
    /// The user's folder, which is never emptied.
    Given(PathBuf),
    /// A folder of our own.
    Fresh(Scratch),
}

/// The folder of one run.
#[derive(Debug)]
pub(crate) enum RunPlace {
    /// The user's folder, which all runs share.
    Given(PathBuf),
    /// A folder of this run alone.
    Fresh(Scratch),
}

/// A folder that is removed on drop, and by a second Ctrl-C, which drops nothing.
#[derive(Debug)]
pub(crate) struct Scratch {
    // Drop order: no other process may remove the folder while it is marked.
    dir: TempDir,
    _mark: ScratchMark,
}

impl Place {
    /// Opens the given folder, or creates one in the system's temporary folder.
    pub(crate) fn new(given: Option<&Path>) -> Result<Self, BenchError> {
        if let Some(dir) = given {
            if std::fs::metadata(dir).is_ok_and(|found| !found.is_dir()) {
                let why = format!("--dir {} is not a folder; name another", dir.display());
                return Err(BenchError::Usage(why));
            }
            std::fs::create_dir_all(dir).map_err(BenchError::file("create", dir))?;
            let absolute = std::path::absolute(dir).map_err(BenchError::file("find", dir))?;
            return Ok(Self::Given(absolute));
        }
        Scratch::new(&std::env::temp_dir()).map(Self::Fresh)
    }

    /// The same, in memory for a device that is memory, if the system has such a folder.
    pub(crate) fn for_device(given: Option<&Path>, device: &Device) -> Result<Self, BenchError> {
        match given {
            None if device.is_memory() && Path::new(MEMORY_FOLDER).is_dir() => {
                Scratch::new(Path::new(MEMORY_FOLDER)).map(Self::Fresh)
            }
            given => Self::new(given),
        }
    }

    /// Creates a folder of our own inside the given one, or in the system's temporary folder.
    pub(crate) fn fresh_in(given: Option<&Path>) -> Result<Self, BenchError> {
        match Self::new(given)? {
            Self::Given(parent) => Scratch::new(&parent).map(Self::Fresh),
            fresh => Ok(fresh),
        }
    }

    /// The folder's path.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Given(path) => path,
            Self::Fresh(dir) => dir.path(),
        }
    }

    /// A folder for one run.
    pub(crate) fn for_run(&self) -> Result<RunPlace, BenchError> {
        match self {
            Self::Given(path) => Ok(RunPlace::Given(path.clone())),
            Self::Fresh(dir) => Scratch::new(dir.path()).map(RunPlace::Fresh),
        }
    }

    /// A folder for files that do not outlive their run, even in the user's folder.
    pub(crate) fn scratch(&self) -> Result<Scratch, BenchError> {
        Scratch::new(self.path())
    }

    /// Prints a note if the folder is in memory and writes reach no device.
    pub(crate) fn note_memory(&self, machine: &Machine) {
        let kind = machine.disk.split(' ').next();
        if matches!(kind, Some("tmpfs" | "ramfs")) {
            eprintln!(
                "{} is in memory ({}): no device is measured; --dir names another place",
                self.path().display(),
                machine.disk
            );
        }
    }
}

impl RunPlace {
    /// The folder's path.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Given(path) => path,
            Self::Fresh(dir) => dir.path(),
        }
    }

    /// Whether the folder cannot contain files of an earlier run.
    pub(crate) fn is_fresh(&self) -> bool {
        matches!(self, Self::Fresh(_))
    }
}

impl Scratch {
    fn new(parent: &Path) -> Result<Self, BenchError> {
        let dir = tempfile::Builder::new()
            .prefix("namiki-bench-")
            .tempdir_in(parent)
            .map_err(|source| BenchError::Scratch {
                parent: parent.to_owned(),
                source,
            })?;
        let _mark = interrupt::remove_at_exit(dir.path());
        Ok(Self { dir, _mark })
    }

    /// The folder's path.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}
