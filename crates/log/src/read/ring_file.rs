//! The ring of a region as a file without an end: what a reader asks for by offsets that count on
//! through all laps.
//!
//! Whatever is read must be of the last lap, or of as much of the one before as is not overwritten:
//! what a stretch of the device holds is its newest content.

use std::io;
use std::sync::Arc;

use namiki_platform::disk::{DiskFile, read_unaligned};

use crate::format::region::Ring;

/// See the module.
#[derive(Debug)]
pub(super) struct RingFile {
    device: Arc<dyn DiskFile>,
    ring: Ring,
}

impl RingFile {
    pub(super) fn new(device: Arc<dyn DiskFile>, ring: Ring) -> Self {
        Self { device, ring }
    }
}

impl DiskFile for RingFile {
    fn write_durable(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let block = self.device.block_bytes() as u64;
        let mut done = 0;
        for (at, bytes) in self.ring.pieces(offset, into.len() as u64) {
            let into = &mut into[done..done + bytes as usize];
            let is_aligned = done == 0 && at.is_multiple_of(block) && bytes.is_multiple_of(block);
            let got = if is_aligned {
                self.device.read_at(at, into)?
            } else {
                let read = read_unaligned(&*self.device, at, into.len())?;
                into[..read.bytes().len()].copy_from_slice(read.bytes());
                read.bytes().len()
            };
            done += got;
            if (got as u64) < bytes {
                break;
            }
        }
        Ok(done)
    }

    fn len_bytes(&self) -> u64 {
        u64::MAX
    }

    fn block_bytes(&self) -> usize {
        self.device.block_bytes()
    }
}
