//! A log buffer: the frame that is being filled, and what is known of it.

use namiki_platform::disk::AlignedBuf;
use namiki_platform::{Epoch, Lsn, Stamp};

use crate::config::GroupResource;
use crate::format::frame::{Digest, FRAME_HEADER_BYTES};
use crate::horizon::lsn_horizon::IDLE;

/// A buffer and what is known about its contents. The first bytes are kept for the frame's header,
/// so that the buffer is written as it stands.
pub(super) struct Filling<H> {
    /// Always at its full length; bytes from `used` on mean nothing. Of an oversize frame whose body is written
    /// already, its first block alone.
    pub(super) buf: AlignedBuf,
    /// The block for the region's head, in a shared device.
    pub(super) head: Option<AlignedBuf>,
    pub(super) used: usize,
    /// Of the records, as far as they are summed.
    pub(super) digest: Digest,
    pub(super) records: u32,
    /// Those that are a commit, or the end of one.
    pub(super) commits: u32,
    pub(super) first_lsn: Lsn,
    pub(super) last_lsn: Lsn,
    pub(super) max_stamp: Stamp,
    pub(super) epoch: Epoch,
    /// The smallest epoch; [`IDLE`] without records.
    pub(super) epoch_min: u64,
    pub(super) held: H,
}

impl<H: GroupResource> Filling<H> {
    pub(super) fn new(buf: AlignedBuf, region_block: Option<usize>) -> Self {
        Self {
            buf,
            head: region_block.map(AlignedBuf::zeroed),
            used: FRAME_HEADER_BYTES,
            digest: Digest::NONE,
            records: 0,
            commits: 0,
            first_lsn: Lsn(0),
            last_lsn: Lsn(0),
            max_stamp: Stamp(0),
            epoch: Epoch(0),
            epoch_min: IDLE,
            held: H::default(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.used = FRAME_HEADER_BYTES;
        self.digest = Digest::NONE;
        self.records = 0;
        self.commits = 0;
        self.first_lsn = Lsn(0);
        self.last_lsn = Lsn(0);
        self.max_stamp = Stamp(0);
        self.epoch = Epoch(0);
        self.epoch_min = IDLE;
    }

    /// The low-water mark of a stream that has hardened everything else.
    pub(super) fn low_water_mark(&self) -> u64 {
        if self.records == 0 || self.first_lsn == Lsn(0) {
            IDLE
        } else {
            self.first_lsn.0
        }
    }
}
