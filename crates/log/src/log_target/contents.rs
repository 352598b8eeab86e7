//! The facts about the frames in a log file, or in a stretch of a ring, that tell when an image has
//! made them superfluous.

use namiki_platform::{Lsn, Stamp};

use crate::generation::log_start::StreamStart;

/// Facts of a frame, known before it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameFacts {
    pub(crate) sequence: u64,
    pub(crate) max_stamp: Stamp,
    /// 0 if none are drawn.
    pub(crate) last_lsn: Lsn,
}

/// Frames that follow each other, and go together.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameRun {
    pub(super) first_sequence: u64,
    max_stamp: Stamp,
    last_lsn: Lsn,
}

impl FrameRun {
    /// Begins with the frame of this number, which is to be added.
    pub(super) fn begins_with(sequence: u64) -> Self {
        Self {
            first_sequence: sequence,
            max_stamp: Stamp(0),
            last_lsn: Lsn(0),
        }
    }

    /// Takes in the next frame.
    pub(super) fn add(&mut self, frame: &FrameFacts) {
        self.max_stamp = self.max_stamp.max(frame.max_stamp);
        self.last_lsn = self.last_lsn.max(frame.last_lsn);
    }

    /// The largest LSN in it; 0 if none was drawn.
    pub(super) fn last_lsn(&self) -> Lsn {
        self.last_lsn
    }
}

/// The frames of a log file.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogFileContents {
    pub(super) number: u64,
    /// The log file's length.
    pub(super) bytes: u64,
    pub(super) frames: FrameRun,
}

/// The limits of the part of a log that an image makes superfluous: a frame is superfluous if its
/// stamps are at or below `stamp`, and its LSNs below `below_lsn`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Superfluous {
    pub(crate) stamp: Stamp,
    pub(crate) below_lsn: Lsn,
}

impl Superfluous {
    pub(super) fn has(&self, frames: &FrameRun) -> bool {
        frames.max_stamp <= self.stamp && frames.last_lsn < self.below_lsn
    }

    /// How many of the runs of a stream, in their order, are superfluous: always a prefix. The last
    /// one stays, and so does the one with the last hardened frame, `hardened`: what that says of
    /// epochs is not said again.
    pub(super) fn prefix<'a>(
        &self,
        runs: impl Iterator<Item = &'a FrameRun> + Clone,
        hardened: u64,
    ) -> usize {
        let pairs = runs.clone().zip(runs.skip(1));
        let goes = pairs.take_while(|(run, next)| self.has(run) && next.first_sequence <= hardened);
        goes.count()
    }
}

/// The earliest beginning of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning {
    pub(crate) start: StreamStart,
    /// The largest LSN before it; 0 without one.
    pub(crate) recycled_lsn: Lsn,
}
