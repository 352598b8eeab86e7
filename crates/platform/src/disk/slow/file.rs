//! A file on slow drives, as a thread reads it that waits.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::drives::{Drives, sleep_until};
use crate::disk::{AlignedBuf, DiskFile, PendingWrite};

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

impl DiskFile for SlowFile {
    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_durable(offset, bytes)
    }

    fn begin_write(
        &self,
        offset: u64,
        buf: AlignedBuf,
        len: usize,
    ) -> Result<Box<dyn PendingWrite>, AlignedBuf> {
        self.file.begin_write(offset, buf, len)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let due_ns = self.drives.assign(offset);
        let read = self.file.read_at(offset, into);
        sleep_until(due_ns);
        read
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        self.file.next_data(offset)
    }

    fn len_bytes(&self) -> u64 {
        self.file.len_bytes()
    }

    fn block_bytes(&self) -> usize {
        self.file.block_bytes()
    }

    fn below(&self) -> Option<&Arc<dyn DiskFile>> {
        Some(&self.file)
    }
}
