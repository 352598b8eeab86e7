//! A moving window over a file: few large reads, no copy.

use std::io;
use std::sync::Arc;

use namiki_platform::disk::{AlignedBuf, DiskFile};

use crate::format::BLOCK_BYTES_MAX;

/// Length of a read, unless a frame is longer.
const READ_BYTES: usize = 1 << 20;

/// Longest read for several frames at a time.
const READ_BYTES_MAX: usize = 16 << 20;

pub(super) struct Window {
    file: Arc<dyn DiskFile>,
    buf: AlignedBuf,
    /// Offset in the file of the first byte held.
    start: u64,
    /// Bytes held.
    len: usize,
}

impl Window {
    pub(super) fn new(file: Arc<dyn DiskFile>) -> Self {
        Self {
            file,
            buf: AlignedBuf::with_capacity(0),
            start: 0,
            len: 0,
        }
    }

    /// Goes to another file; the memory stays.
    pub(super) fn move_to(&mut self, file: Arc<dyn DiskFile>) {
        self.file = file;
        self.len = 0;
    }

    /// The bytes from `offset`, `len` of them or what the file still has.
    pub(super) fn get(&mut self, offset: u64, len: usize) -> io::Result<&[u8]> {
        let end = offset + len as u64;
        let held = self.start..self.start + self.len as u64;
        if !(held.contains(&offset) && end <= held.end) {
            self.fill(offset, len)?;
        }
        Ok(self.held(offset, len))
    }

    /// Bytes that [`Window::get`] has fetched and nothing has displaced since.
    pub(super) fn held(&self, offset: u64, len: usize) -> &[u8] {
        let from = (offset.saturating_sub(self.start) as usize).min(self.len);
        let to = (from + len).min(self.len);
        &self.buf[from..to]
    }

    fn fill(&mut self, offset: u64, len: usize) -> io::Result<()> {
        let block = BLOCK_BYTES_MAX as u64;
        let start = offset / block * block;
        let wanted = (offset - start) as usize + len;
        let whole = self.file.len_bytes().saturating_sub(start);
        // Of long frames several at a time, or much would be read twice.
        let bytes = READ_BYTES.max(wanted).max((wanted * 4).min(READ_BYTES_MAX));
        let bytes = (bytes as u64).min(whole) as usize;
        let bytes = bytes.next_multiple_of(BLOCK_BYTES_MAX);
        self.len = 0;
        self.buf.resize(bytes);
        self.start = start;
        self.len = self.file.read_at(start, &mut self.buf[..bytes])?;
        Ok(())
    }
}
