//! Where a command puts its files: a folder of the user's, which is kept, or a fresh one.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::args::PlaceArgs;
use crate::error::BenchError;

/// The folder of a command.
#[derive(Debug)]
pub(crate) enum Place {
    /// The user's. Never emptied.
    Given(PathBuf),
    /// One of our own, removed when it is dropped.
    Fresh(TempDir),
}

/// The folder of one run.
#[derive(Debug)]
pub(crate) enum RunPlace {
    /// The user's: all runs share it.
    Given(PathBuf),
    /// This run's alone.
    Fresh(TempDir),
}

impl Place {
    /// Makes the folder.
    pub(crate) fn new(args: &PlaceArgs) -> Result<Self, BenchError> {
        if let Some(dir) = &args.dir {
            std::fs::create_dir_all(dir).map_err(BenchError::file("create", dir))?;
            return Ok(Self::Given(dir.clone()));
        }
        temporary(&std::env::temp_dir()).map(Self::Fresh)
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
            Self::Fresh(dir) => temporary(dir.path()).map(RunPlace::Fresh),
        }
    }

    /// A folder for files that do not outlive their run, whoever the folder belongs to.
    pub(crate) fn scratch(&self) -> Result<TempDir, BenchError> {
        temporary(self.path())
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

    /// Whether nothing of an earlier run can be here.
    pub(crate) fn is_fresh(&self) -> bool {
        matches!(self, Self::Fresh(_))
    }
}

fn temporary(dir: &Path) -> Result<TempDir, BenchError> {
    tempfile::Builder::new()
        .prefix("namiki-bench-")
        .tempdir_in(dir)
        .map_err(BenchError::file("create a folder in", dir))
}
