//! Write amplification and space amplification on the disk.

use crate::checkpoint::settings_and_reports::CheckpointStats;
use crate::stats::counters::Counters;

/// Write and space amplification: bytes on the disk, against those of keys and values. Covers what
/// this opening of the database has written, without manifests and tables loaded into segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiskUse {
    /// Bytes of keys and values that commits have changed.
    pub changed_bytes: u64,
    /// Bytes of log frames written for them, padding included.
    pub frame_bytes: u64,
    /// Bytes of zeros written to prepare log files. A file that is reused after a checkpoint needs
    /// none.
    pub zero_bytes: u64,
    /// Bytes of files that checkpoints have written.
    pub checkpoint_file_bytes: u64,
    /// Bytes of keys and values in the image; 0 before the first checkpoint.
    pub image_bytes: u64,
    /// Bytes of the files of the log and of the image. The log holds at most the commits between
    /// two checkpoints and those during a checkpoint. During a checkpoint, the image's files take at
    /// most twice [`DiskUse::image_bytes`], plus the overhead of pages.
    pub file_bytes: u64,
}

impl DiskUse {
    pub(super) fn new(counters: &Counters, checkpoints: &CheckpointStats, log_files: u64) -> Self {
        Self {
            changed_bytes: counters.changed_bytes,
            frame_bytes: counters.log.frame_bytes,
            zero_bytes: counters.log.zero_bytes,
            checkpoint_file_bytes: checkpoints.file_bytes_written,
            image_bytes: checkpoints.image_bytes,
            file_bytes: log_files + checkpoints.image_file_bytes,
        }
    }

    /// Bytes written to the device for each byte of keys and values that was changed. `None` before
    /// the first change.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        let written = self.frame_bytes + self.zero_bytes + self.checkpoint_file_bytes;
        (self.changed_bytes > 0).then(|| written as f64 / self.changed_bytes as f64)
    }

    /// Bytes of files for each byte of keys and values in the image. `None` before the first
    /// checkpoint.
    #[must_use]
    pub fn space_amplification(&self) -> Option<f64> {
        (self.image_bytes > 0).then(|| self.file_bytes as f64 / self.image_bytes as f64)
    }
}
