//! A disk that makes no more files once Ctrl-C was pressed, as long as a log is being started.
//!
//! A stream's log files are filled with zeros when they are made: ahead of need, or by a commit, in the
//! load or in the warm-up. With many streams that takes a while. Nothing is lost by an interruption then.
//! Once the clock has started, files have to be made for the commits under way to be acknowledged, and for
//! the run that was interrupted to be checked.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use namiki_platform::disk::{Disk, DiskFile, DiskLayer};

use crate::error::BenchError;
use crate::interrupt;

/// The disk itself but for making files.
#[derive(Debug)]
pub(crate) struct OpeningDisk {
    disk: Arc<dyn Disk>,
    started: AtomicBool,
}

impl OpeningDisk {
    /// Stops at Ctrl-C until [`OpeningDisk::started`].
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self {
            disk,
            started: AtomicBool::new(false),
        }
    }

    /// The clock starts: from now on, files are made whatever happens, if they still were so far.
    pub(crate) fn started(&self) {
        if !interrupt::asked() {
            // Relaxed: the flag carries no other data.
            self.started.store(true, Ordering::Relaxed);
        }
    }

    /// What failed before the clock started failed because of Ctrl-C, if that was pressed.
    pub(crate) fn explain(&self, error: BenchError) -> BenchError {
        if self.has_given_up() {
            BenchError::Interrupted
        } else {
            error
        }
    }

    fn has_given_up(&self) -> bool {
        !self.started.load(Ordering::Relaxed) && interrupt::asked()
    }
}

impl DiskLayer for OpeningDisk {
    fn inner(&self) -> &dyn Disk {
        &*self.disk
    }

    fn create(&self, path: &Path, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        if self.has_given_up() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        self.disk.create(path, len_bytes)
    }
}
