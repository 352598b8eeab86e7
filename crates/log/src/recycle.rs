//! Recycling: what an image makes superfluous of a log goes, while the log is written.
//!
//! See `generation/log_start.rs` for the order of things. A region of a shared device is a ring, in
//! which the frames that are given up are overwritten (`log_target/region.rs`).

use std::sync::Arc;

use namiki_platform::{Generation, Lsn, Stamp};

use crate::config::GroupResource;
use crate::error::LogError;
use crate::generation::log_start::{LogStart, StreamStart};
use crate::generation::superfluous_files::RemovedFiles;
use crate::log::Log;
use crate::log_target::Superfluous;
use crate::log_target::log_room::{LogFiles, LogRoom, RestrictedFile};
use crate::log_target::region_use::RegionUse;

/// The extent of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecyclePoint {
    /// Every commit with a stamp at or below this one is in the image.
    pub stamp: Stamp,
    /// Nothing at or above this LSN may go, whatever its stamp. For logs of operations: the LSN
    /// with which the oldest transaction begins that had not ended when the stamp was still to be
    /// chosen. A transaction that ends after that may have a stamp above the image's, and is
    /// replayed from its beginning.
    pub below_lsn: Option<Lsn>,
}

impl<H: GroupResource> Log<H> {
    /// Where the log may begin once the image of `point` is durable. Changes nothing.
    ///
    /// A prefix of each stream may be removed: log files, or stretches of a region, except the
    /// current one and the one with the last hardened frame. Where LSNs are drawn, nothing at or
    /// above [`Log::horizon`] is removed (L3). The result never begins before the part that was
    /// already recycled. It is empty if the log is in files and none may be removed, and unless
    /// frames may be recycled ([`Retain::UntilRecycled`](crate::Retain::UntilRecycled)).
    ///
    /// # Errors
    /// The error that poisoned the log; [`LogError::Forked`].
    pub fn recyclable(&self, point: RecyclePoint) -> Result<LogStart, LogError> {
        let shared = &*self.streams.shared;
        shared.check_process()?;
        let start = self.begun(self.superfluous(point));
        shared.poison.check()?;
        Ok(start)
    }

    /// Where the log may begin if the caller needs no log file before these, one number for each
    /// stream. Changes nothing; [`Log::recycle`] gives up the rest. As [`Log::recyclable`] otherwise:
    /// the current log file of a stream stays, and so does the one with its last hardened frame. For
    /// callers that know what is in which file; no LSN may be drawn.
    ///
    /// # Errors
    /// The error that poisoned the log; [`LogError::Forked`].
    pub fn recyclable_before(&self, file_numbers: &[u64]) -> Result<LogStart, LogError> {
        let shared = &*self.streams.shared;
        shared.check_process()?;
        debug_assert!(!shared.horizon.sequencer.draws());
        let streams = self.streams.list.iter().zip(file_numbers);
        let mut start = LogStart::default();
        start
            .streams
            .extend(streams.map(|(stream, number)| stream.beginning_at(*number)));
        shared.poison.check()?;
        if start.streams.iter().all(|it| *it == StreamStart::FIRST) {
            return Ok(LogStart::default());
        }
        Ok(start)
    }

    fn superfluous(&self, point: RecyclePoint) -> Superfluous {
        // Before any stream is looked at: what is below it is hardened in all of them.
        let horizon = if self.streams.shared.horizon.sequencer.draws() {
            self.horizon()
        } else {
            Lsn(u64::MAX)
        };
        Superfluous {
            stamp: point.stamp,
            below_lsn: point.below_lsn.map_or(horizon, |lsn| lsn.min(horizon)),
        }
    }

    /// Where the log begins now: of a log that was just created, what its generation is to be
    /// announced with ([`GenerationInfo::begin_at`](crate::GenerationInfo::begin_at)). Empty if
    /// that is the first log file of each stream.
    #[must_use]
    pub fn beginning(&self) -> LogStart {
        self.begun(Superfluous {
            stamp: Stamp(0),
            below_lsn: Lsn(0),
        })
    }

    fn begun(&self, superfluous: Superfluous) -> LogStart {
        let mut start = LogStart::default();
        let mut recycled_lsn = Lsn(0);
        for stream in &self.streams.list {
            let beginning = stream.beginning(superfluous);
            recycled_lsn = recycled_lsn.max(beginning.recycled_lsn);
            start.streams.push(beginning.start);
        }
        if start.streams.iter().all(|it| *it == StreamStart::FIRST) {
            return LogStart::default();
        }
        if recycled_lsn > Lsn(0) {
            start.complete_from = recycled_lsn.next();
        }
        start
    }

    /// Gives up what is before `start`, which [`Log::recyclable`] has said and the manifest says
    /// durably by now; and of the regions of a shared device the generations before `oldest`, the
    /// first that the manifest names. Room in a region can be overwritten from now on.
    ///
    /// Of log files, some are kept to be written again, under other names, which spares the next
    /// ones the zeros and needs no more room on the disk: no more than `reuse_bytes` of all
    /// streams. The others are removed, and so are those that were made for a long frame. A log
    /// file that cannot be removed is in the way of nothing, and removed at the next opening. The
    /// current log files stay, whatever `start` says.
    ///
    /// # Errors
    /// [`LogError::Forked`].
    pub fn recycle(
        &self,
        start: &LogStart,
        oldest: Generation,
        reuse_bytes: u64,
    ) -> Result<RemovedFiles, LogError> {
        self.streams.shared.check_process()?;
        let mut files = RemovedFiles::default();
        let mut reuse_bytes = reuse_bytes;
        for (stream, start) in self.streams.list.iter().zip(&start.streams) {
            stream.recycle_before(start, oldest, &mut reuse_bytes, |bytes, removed| {
                files.count(bytes, removed);
            });
        }
        Ok(files)
    }

    /// Whether a stream was refused room on the disk for a log file, since it has made one, or for
    /// a frame, since [`Log::forget_refusals`] was called; or has none in its region since
    /// something was recycled, or less than a quarter of it is left. A commit without room is
    /// refused with [`LogError::DiskFull`] or [`LogError::RegionFull`] until there is room;
    /// recycling makes some. Takes each stream's lock: meant to be asked a few times a second.
    /// Never so of a region unless frames may be recycled.
    #[must_use]
    pub fn is_short_of_room(&self) -> bool {
        let mut streams = self.streams.list.iter();
        streams.any(|stream| stream.is_short_of_room())
    }

    /// Room on the disk is being sought: from now on [`Log::is_short_of_room`] tells of what is
    /// refused later, and of nothing that was refused before. Of regions nothing is forgotten.
    pub fn forget_refusals(&self) {
        for stream in &self.streams.list {
            stream.forget_refusals();
        }
    }

    /// Sets the source of permissions: from now on it is asked before a file is made for frames.
    /// Call it once.
    pub fn keep_room(&self, room: Arc<dyn LogRoom>) {
        // One that was there before stays.
        let _ = self.streams.shared.room.set(room);
    }

    /// The image of `point` is durable, and what it frees was given up.
    pub fn imaged(&self, point: RecyclePoint) {
        let superfluous = self.superfluous(point);
        for stream in &self.streams.list {
            stream.imaged(superfluous);
        }
    }

    /// Removes the files that were to be written again.
    ///
    /// # Errors
    /// [`LogError::Forked`].
    pub fn release_unused(&self) -> Result<RemovedFiles, LogError> {
        let start = LogStart {
            streams: vec![StreamStart::FIRST; self.streams()],
            ..LogStart::default()
        };
        self.recycle(&start, Generation(0), 0)
    }

    /// The files that frames can be written to. Takes each stream's lock.
    #[must_use]
    pub fn files(&self) -> LogFiles {
        let mut files = LogFiles {
            streams: self.streams() as u64,
            ..LogFiles::default()
        };
        for stream in &self.streams.list {
            stream.count_files(&mut files);
        }
        files
    }

    /// The files that take deletions alone. Takes each stream's lock.
    #[must_use]
    pub fn restricted(&self) -> Vec<RestrictedFile> {
        let streams = self.streams.list.iter();
        streams.flat_map(|stream| stream.restricted()).collect()
    }

    /// These files take any commit from now on.
    pub fn accept_all(&self, files: &[RestrictedFile]) {
        for file in files {
            self.streams.list[file.stream].accept_all(file);
        }
    }

    /// The bytes of log files of this generation that hold frames, spare log files not counted; of
    /// a shared device, the bytes of frames that are kept, also of earlier generations. One load
    /// for each stream.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        let streams = self.streams.list.iter();
        streams.map(|stream| stream.kept_bytes()).sum()
    }

    /// The region of a shared device that has the most frames; nothing without a shared device, or
    /// if no frames may be recycled. One load for each stream.
    #[must_use]
    pub fn fullest_region(&self) -> Option<RegionUse> {
        let streams = self.streams.list.iter();
        let regions = streams.filter_map(|stream| stream.region_use());
        regions.max_by_key(|region| region.kept_bytes)
    }
}
