//! The checkpoints of a run, and which of its events were within one.

use std::ops::{AddAssign, Range};

use namiki::{Database, Error};
use namiki_platform::disk::SimDisk;

/// What there was of checkpoints.
#[derive(Clone, Debug, Default)]
pub(super) struct Checkpoints {
    /// From how many events to how many, of each that was taken or failed.
    spans: Vec<Range<usize>>,
    /// Why some of them failed.
    pub(super) failures: Vec<Error>,
    /// Files of the log that they have freed.
    pub(super) log_files_freed: u64,
}

impl Checkpoints {
    /// Takes one. The database goes on if it fails.
    pub(super) fn take(&mut self, db: &Database, disk: &SimDisk) -> Result<(), Error> {
        let before = disk.events();
        let taken = db.checkpoint();
        self.spans.push(before..disk.events());
        match taken {
            Ok(report) => self.log_files_freed += report.log_files_freed,
            Err(
                error @ (Error::CheckpointFailed(_) | Error::Manifest { .. } | Error::DiskFull(_)),
            ) => self.failures.push(error),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// How many were taken.
    pub(super) fn taken(&self) -> u64 {
        (self.spans.len() - self.failures.len()) as u64
    }

    /// Whether a crash after so many events was in the middle of one.
    pub(super) fn has_within(&self, events: usize) -> bool {
        let mut spans = self.spans.iter();
        spans.any(|span| span.start < events && events < span.end)
    }
}

impl AddAssign for Checkpoints {
    fn add_assign(&mut self, other: Self) {
        self.spans.extend(other.spans);
        self.failures.extend(other.failures);
        self.log_files_freed += other.log_files_freed;
    }
}
