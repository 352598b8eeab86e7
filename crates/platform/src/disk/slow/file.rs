//! A file on slow drives, as a thread reads it that waits.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::drives::{Drives, sleep_until};
use crate::disk::{DiskFile, FileLayer};

/// A file whose reads take their time.
pub(super) struct SlowFile {
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) drives: Arc<Drives>,
}

impl fmt::Debug for SlowFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} on {:?}", self.file, self.drives)
    }
}

impl FileLayer for SlowFile {
    fn inner(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let due_ns = self.drives.assign(offset);
        let read = self.file.read_at(offset, into);
        sleep_until(due_ns);
        read
    }

    /// The kernel would read at once.
    fn os_file(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn below(&self) -> Option<&Arc<dyn DiskFile>> {
        Some(&self.file)
    }
}
