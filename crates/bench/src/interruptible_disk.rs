//! A disk that creates no files after Ctrl-C while a log is being started.
//!
//! A stream's log files are filled with zeros at creation: ahead of need, or by a commit, during
//! the load or the warm-up. With many streams this takes a while, and an interruption then loses
//! nothing. Once the clock has started, file creation must go on: commits in progress need files to
//! be acknowledged, and the interrupted run needs them for its check.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use namiki_platform::disk::{Disk, DiskFile, DiskLayer};

use crate::error::BenchError;
use crate::interrupt;

/// The disk; only the creation of files is intercepted.
#[derive(Debug)]
pub(crate) struct OpeningDisk {
    disk: Arc<dyn Disk>,
    started: AtomicBool,
}

impl OpeningDisk {
    /// Refuses to create files after Ctrl-C until [`OpeningDisk::started`].
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self {
            disk,
            started: AtomicBool::new(false),
        }
    }

    /// The clock starts: from now on, files are created even after Ctrl-C, unless it was pressed
    /// before.
    pub(crate) fn started(&self) {
        if !interrupt::asked() {
            // Relaxed: the flag carries no other data.
            self.started.store(true, Ordering::Relaxed);
        }
    }

    /// Attributes a failure before the start of the clock to Ctrl-C, if that was pressed.
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
