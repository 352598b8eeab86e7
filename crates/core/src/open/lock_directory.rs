//! The lock of a database's directory, which one process holds at a time.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use namiki_platform::disk::{DirLock, Disk};

use crate::error::OpenError;
use crate::settings::builder::Builder;

/// The pause between two attempts to lock a directory that is in use.
const LOCK_DIR_POLL: Duration = Duration::from_millis(5);

impl Builder {
    /// Acquires the lock of the directory, which another process may hold for a while.
    pub(crate) fn wait_for_lock(&self, disk: &dyn Disk, dir: &Path) -> Result<DirLock, OpenError> {
        let began = Instant::now();
        loop {
            match lock(disk, dir) {
                Err(OpenError::InUse { .. }) if began.elapsed() < self.tuning.lock_dir_wait => {
                    std::thread::sleep(LOCK_DIR_POLL);
                }
                locked => return locked,
            }
        }
    }
}

pub(crate) fn lock(disk: &dyn Disk, dir: &Path) -> Result<DirLock, OpenError> {
    disk.lock_dir(dir).map_err(|source| match source.kind() {
        io::ErrorKind::ResourceBusy => OpenError::InUse {
            dir: dir.to_owned(),
        },
        _ => failed(dir, source),
    })
}

/// The directory of the database could not be used.
pub(crate) fn failed(dir: &Path, source: io::Error) -> OpenError {
    let dir = dir.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound => OpenError::Missing { dir },
        _ => OpenError::Device { path: dir, source },
    }
}
