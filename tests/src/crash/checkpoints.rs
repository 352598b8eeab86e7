//! The checkpoints of a run, and the events within them.

use std::ops::{AddAssign, Range};

use namiki::{Database, Error};
use namiki_platform::disk::SimDisk;

/// The checkpoints taken in a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Checkpoints {
    /// The numbers of events at the beginning and the end of each checkpoint, failed ones included.
    spans: Vec<Range<usize>>,
    /// The errors of the failed checkpoints.
    pub(super) failures: Vec<Error>,
    /// Log files that the checkpoints have freed.
    pub(super) log_files_freed: u64,
}

impl Checkpoints {
    /// Takes a checkpoint. The database continues if it fails.
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

    /// Number of checkpoints taken.
    pub(super) fn taken(&self) -> u64 {
        (self.spans.len() - self.failures.len()) as u64
    }

    /// Whether a crash after `events` events was in the middle of a checkpoint.
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
