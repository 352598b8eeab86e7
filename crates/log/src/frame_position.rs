//! The position of a frame: for callers that read single records back, by a position that they
//! remember.

use std::path::{Path, PathBuf};

use namiki_platform::{Generation, WorkerId};

use crate::format::frame::{FRAME_HEADER_BYTES, RECORD_HEADER_BYTES};
use crate::format::log_file::{file_name, stream_dir};

/// The position of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePosition {
    /// The generation that wrote it.
    pub generation: Generation,
    /// The stream that it is in.
    pub worker: WorkerId,
    /// The log file that it is in; 0 in a shared device.
    pub file_number: u64,
    /// Where it starts, in the log file or in the device. In a device, the end of its region may
    /// cut a frame in two: its rest is at the beginning of the region's ring.
    pub offset: u64,
    /// Its length, without the padding.
    pub length: u32,
}

impl FramePosition {
    /// The log file of the frame. `dir` is the log's directory.
    #[must_use]
    pub fn log_file_path(&self, dir: &Path) -> PathBuf {
        log_file_path(dir, self.generation, self.worker, self.file_number)
    }

    /// The offsets of the payloads of the frame's records in the file, given the payloads' lengths
    /// in the order in which they were appended.
    pub fn payload_offsets(
        &self,
        payload_bytes: impl IntoIterator<Item = usize>,
    ) -> impl Iterator<Item = u64> {
        let mut at = self.offset + FRAME_HEADER_BYTES as u64;
        payload_bytes.into_iter().map(move |bytes| {
            let payload = at + RECORD_HEADER_BYTES as u64;
            at = payload + bytes as u64;
            payload
        })
    }
}

/// The log file. `dir` is the log's directory.
#[must_use]
pub fn log_file_path(
    dir: &Path,
    generation: Generation,
    worker: WorkerId,
    file_number: u64,
) -> PathBuf {
    stream_dir(dir, worker).join(file_name(generation, file_number))
}
