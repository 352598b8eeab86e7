//! Recycling: what an image makes superfluous of a log goes, while the log is written.
//!
//! See `log_start.rs` for the order of things. Nothing of a shared device is recycled: a region keeps all until it is
//! full, for its frames have no files of their own.

use namiki_platform::{Lsn, Stamp};

use crate::config::GroupResource;
use crate::error::LogError;
use crate::log::Log;
use crate::log_start::LogStart;
use crate::log_target::Superfluous;
use crate::superfluous_files::RemovedFiles;

/// How far an image goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecyclePoint {
    /// Every commit with a stamp at or below this one is in the image.
    pub stamp: Stamp,
    /// Nothing at or above this LSN may go, whatever its stamp. For logs of operations: the LSN with which the oldest
    /// transaction begins that had not ended when the stamp was still to be chosen. A transaction that ends after that
    /// may have a stamp above the image's, and is replayed from its beginning.
    pub below_lsn: Option<Lsn>,
}

impl<H: GroupResource> Log<H> {
    /// Where the log may begin once the image of `point` is durable. Changes nothing.
    ///
    /// Of each stream a prefix of its segments goes, never the one that is written, nor the one with the last hardened
    /// frame. Where LSNs are drawn, nothing at or above [`Log::horizon`] goes (L3). The result never begins before what
    /// was recycled already; it is empty for a shared device, and unless segments may be recycled
    /// ([`Retain::UntilRecycled`](crate::Retain::UntilRecycled)).
    ///
    /// # Errors
    /// The error that poisoned the log; [`LogError::Forked`].
    pub fn recyclable(&self, point: RecyclePoint) -> Result<LogStart, LogError> {
        let shared = &*self.streams.shared;
        shared.check_process()?;
        // Before any stream is looked at: what is below it is hardened in all of them.
        let horizon = if shared.horizon.sequencer.draws() {
            self.horizon()
        } else {
            Lsn(u64::MAX)
        };
        let superfluous = Superfluous {
            stamp: point.stamp,
            below_lsn: point.below_lsn.map_or(horizon, |lsn| lsn.min(horizon)),
        };
        let mut start = LogStart::default();
        let mut recycled_lsn = Lsn(0);
        for stream in &self.streams.list {
            let Some(beginning) = stream.beginning(superfluous) else {
                return Ok(LogStart::default());
            };
            recycled_lsn = recycled_lsn.max(beginning.recycled_lsn);
            start.streams.push(beginning.start);
        }
        shared.poison.check()?;
        if start.streams.iter().all(crate::StreamStart::is_first) {
            return Ok(LogStart::default());
        }
        if recycled_lsn > Lsn(0) {
            start.complete_from = recycled_lsn.next();
        }
        Ok(start)
    }

    /// Gives up the segments before `start`, which [`Log::recyclable`] has said and the manifest says durably by now.
    /// Some are kept to be written again, under other names, which spares the next ones the zeros and needs no more room on
    /// the disk: no more than `reuse_bytes` of all streams. The others are removed, and so are those that were made for a
    /// long frame. A segment that cannot be removed is in the way of nothing, and removed at the next
    /// opening. The current segments stay, whatever `start` says.
    ///
    /// # Errors
    /// [`LogError::Forked`].
    pub fn recycle(&self, start: &LogStart, reuse_bytes: u64) -> Result<RemovedFiles, LogError> {
        self.streams.shared.check_process()?;
        let mut files = RemovedFiles::default();
        let mut reuse_bytes = reuse_bytes;
        for (stream, start) in self.streams.list.iter().zip(&start.streams) {
            stream.recycle_before(start.segment, &mut reuse_bytes, |bytes, removed| {
                files.count(bytes, removed);
            });
        }
        Ok(files)
    }

    /// Whether a stream found no room on the disk for its next segment, when it tried last. What the segments that are
    /// there cannot take is refused with [`LogError::DiskFull`] until there is room; recycling makes some. Takes each
    /// stream's lock: meant to be asked a few times a second. Never so on a shared device.
    #[must_use]
    pub fn is_short_of_room(&self) -> bool {
        let mut streams = self.streams.list.iter();
        streams.any(|stream| stream.is_short_of_room())
    }

    /// The bytes of log files of this generation that hold frames, spare segments not counted; of a shared device, the
    /// bytes of frames. One load for each stream.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        let streams = self.streams.list.iter();
        streams.map(|stream| stream.kept_bytes()).sum()
    }
}
