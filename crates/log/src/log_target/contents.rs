//! What is known of the frames in a segment, so that it can be told when an image has made it superfluous.

use namiki_platform::{Lsn, Stamp};

/// What a frame says about itself before it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameFacts {
    pub(crate) sequence: u64,
    pub(crate) max_stamp: Stamp,
    /// 0 if none are drawn.
    pub(crate) last_lsn: Lsn,
}

/// The frames of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentContents {
    pub(super) number: u64,
    /// The segment's length.
    pub(super) bytes: u64,
    pub(super) is_oversize: bool,
    pub(super) first_sequence: u64,
    pub(super) max_stamp: Stamp,
    pub(super) last_lsn: Lsn,
}

impl SegmentContents {
    /// Takes in the next frame of the segment.
    pub(super) fn add(&mut self, frame: &FrameFacts) {
        self.max_stamp = self.max_stamp.max(frame.max_stamp);
        self.last_lsn = self.last_lsn.max(frame.last_lsn);
    }
}

/// Up to where an image makes a log superfluous: a frame is if its stamps are at or below `stamp`, and its LSNs below
/// `below_lsn`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Superfluous {
    pub(crate) stamp: Stamp,
    pub(crate) below_lsn: Lsn,
}

impl Superfluous {
    pub(super) fn has(&self, contents: &SegmentContents) -> bool {
        contents.max_stamp <= self.stamp && contents.last_lsn < self.below_lsn
    }
}
