//! Where a stream's frames go, and whether there is room for the next one.
//!
//! # Invariants
//! - P1. A commit is accepted into the buffer only if the frame that will hold it has its place:
//!   the rest of the current log file, a spare log file that is ready, or room in the ring of a
//!   region. So what was accepted can always be written, however full the disk is.

mod contents;
mod log_files;
pub(crate) mod log_room;
mod oversize_file;
mod region;
pub(crate) mod region_use;

use std::path::Path;
use std::sync::Arc;

use namiki_platform::disk::{AlignedBuf, DiskFile, PendingWrite};
use namiki_platform::{Lsn, Stamp};

use crate::error::LogError;
use crate::format::frame::Salt;
use crate::generation::log_start::StreamStart;
use crate::log_target::log_room::Grant;
pub(crate) use contents::{Beginning, FrameFacts, Superfluous};
pub(crate) use log_files::{FileLengths, Job, LogFile, LogFileMaker, LogFileTarget};
pub(crate) use oversize_file::UnnumberedFile;
pub use oversize_file::remove_unnumbered;
pub(crate) use region::{RegionOptions, RegionTarget, STRETCHES, open_shared};

/// The place of one frame.
pub(crate) struct WritePosition {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) path: Arc<Path>,
    /// The log file's number; 0 in a shared device.
    pub(crate) file_number: u64,
    pub(crate) offset: u64,
    /// The position of the rest, if the end of a ring cuts the frame in two.
    pub(crate) rest: Option<FrameRest>,
    pub(crate) salt: Salt,
    /// The head to write once the frame is durable, and where.
    pub(crate) head: Option<(u64, crate::format::region::RegionHeader)>,
}

/// The second piece of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameRest {
    /// The index of the first byte in the frame.
    pub(crate) from: usize,
    pub(crate) offset: u64,
}

impl WritePosition {
    /// Writes a frame, padded, or the unwritten part of its beginning, and the bytes that have to
    /// follow it. On return it is durable, and the contents of `padded` are undefined.
    pub(crate) fn write(
        &self,
        padded: &mut [u8],
        head: Option<&mut AlignedBuf>,
    ) -> Result<(), LogError> {
        let failed = |source| LogError::device("writing", &self.path, source);
        let write = |offset, bytes: &[u8]| self.file.write_durable(offset, bytes).map_err(failed);
        match self.rest {
            None => write(self.offset, padded)?,
            Some(rest) => {
                write(self.offset, &padded[..rest.from])?;
                // Moves the rest to an offset at which a write may begin.
                padded.copy_within(rest.from.., 0);
                write(rest.offset, &padded[..padded.len() - rest.from])?;
            }
        }
        if let (Some((offset, header)), Some(block)) = (&self.head, head) {
            header.write(block);
            write(*offset, block)?;
        }
        Ok(())
    }

    /// Begins to write a frame, the first `padded` bytes of `buf`. Gives the buffer back if the
    /// disk can only write while its caller waits, and in a region: a process that is killed may
    /// leave such a write under way, and the next opener of a shared device writes to the same
    /// place. Log files are of one generation, and what comes late into one lies behind its seal.
    pub(crate) fn begin(
        &self,
        buf: AlignedBuf,
        padded: usize,
    ) -> Result<Box<dyn PendingWrite>, AlignedBuf> {
        match self.head {
            None => self.file.begin_write(self.offset, buf, padded),
            Some(_) => Err(buf),
        }
    }
}

/// The place of a stream's frames.
pub(crate) enum LogTarget {
    Files(LogFileTarget),
    Region(RegionTarget),
}

impl LogTarget {
    /// The unit of frames.
    pub(crate) fn block_bytes(&self) -> usize {
        match self {
            Self::Files(target) => target.block_bytes,
            Self::Region(target) => target.block_bytes,
        }
    }

    /// The padded length of a frame of `bytes`. Blocks are powers of two; a division would cost
    /// every commit as much as its lock.
    pub(crate) fn padded(&self, bytes: usize) -> usize {
        let block = self.block_bytes();
        debug_assert!(block.is_power_of_two());
        (bytes + block - 1) & !(block - 1)
    }

    /// Whether a frame of `bytes` with an entry that needs this grant has its place.
    pub(crate) fn fits(&self, bytes: usize, needs: Grant) -> bool {
        let padded = self.padded(bytes) as u64;
        match self {
            Self::Files(target) => padded <= target.left_for(needs) || target.spares() > 0,
            Self::Region(target) => padded <= target.left(),
        }
    }

    /// Whether a frame of `bytes`, for which there is a place, may not have an entry that needs this
    /// grant: the file that it will be in takes no more than deletions.
    pub(crate) fn is_restricted(&self, bytes: usize, needs: Grant) -> bool {
        match self {
            Self::Files(target) if needs == Grant::All => {
                target.grant_for(self.padded(bytes) as u64, needs) == Grant::Deletions
            }
            Self::Files(_) | Self::Region(_) => false,
        }
    }

    /// The frame that fills has an entry that needs this grant, in a place that is not restricted.
    pub(crate) fn accept(&mut self, needs: Grant) {
        if let Self::Files(target) = self {
            target.accept(needs);
        }
    }

    /// Whether a thread is making the next log file ready.
    pub(crate) fn is_preparing(&self) -> bool {
        match self {
            Self::Files(target) => target.preparing,
            Self::Region(_) => false,
        }
    }

    /// No thread is making the next log file ready any more, and it is not.
    pub(crate) fn stop_preparing(&mut self) {
        if let Self::Files(target) = self {
            target.stop_preparing();
        }
    }

    /// The bytes of files, or of the region, that hold frames.
    pub(crate) fn kept_bytes(&self) -> u64 {
        match self {
            Self::Files(target) => target.kept_bytes(),
            Self::Region(target) => target.kept_bytes(),
        }
    }

    /// The length of the region's ring, if its frames may be recycled.
    pub(crate) fn ring_bytes(&self) -> Option<u64> {
        match self {
            Self::Files(_) => None,
            Self::Region(target) => target.ring_bytes_recycled(),
        }
    }

    /// The earliest beginning of the stream, if the superfluous part is removed; `hardened` is the
    /// sequence of the last hardened frame.
    pub(crate) fn beginning(&self, superfluous: Superfluous, hardened: u64) -> Beginning {
        match self {
            Self::Files(target) => target.beginning(superfluous, hardened),
            Self::Region(target) => target.beginning(superfluous, hardened),
        }
    }

    /// The beginning of the stream without the log files before `file_number`.
    pub(crate) fn beginning_at(&self, file_number: u64, hardened: u64) -> StreamStart {
        match self {
            Self::Files(target) => target.beginning_at(file_number, hardened),
            Self::Region(target) => {
                let nothing = Superfluous {
                    stamp: Stamp(0),
                    below_lsn: Lsn(0),
                };
                target.beginning(nothing, hardened).start
            }
        }
    }

    /// Whether there was no room for a frame when one was to be accepted last.
    pub(crate) fn is_short_of_room(&self) -> bool {
        match self {
            Self::Files(target) => target.is_short_of_room || target.has_refused_frame,
            Self::Region(target) => target.is_short_of_room(),
        }
    }

    /// A frame that needs a file of its own was refused because the disk is full.
    pub(crate) fn set_short_of_room(&mut self) {
        if let Self::Files(target) = self {
            target.has_refused_frame = true;
        }
    }

    /// Nothing was refused since room was sought last.
    pub(crate) fn forget_refusals(&mut self) {
        if let Self::Files(target) = self {
            target.is_short_of_room = false;
            target.has_refused_frame = false;
        }
    }

    /// Takes the place of a frame, `padded` bytes, which must fit.
    pub(crate) fn assign(&mut self, padded: u64, frame: &FrameFacts) -> WritePosition {
        match self {
            Self::Files(target) => target.assign(padded, frame),
            Self::Region(target) => target.assign(padded, frame),
        }
    }
}
