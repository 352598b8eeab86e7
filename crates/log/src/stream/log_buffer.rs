//! The log buffers of a stream: one fills, the other one is here or is the frame of a batch.
//!
//! # Invariants
//! - B1. One buffer always fills. The other one is here exactly while no batch is under way.
//! - B2. An oversize frame takes the place of the buffer that fills. That buffer is set aside until
//!   the frame is written, and then takes its place again.
//! - B3. After a failed write the frame stays as it is: what its group held stays held.

use namiki_platform::disk::AlignedBuf;
use namiki_platform::{Epoch, Lsn, Stamp};

use crate::config::GroupResource;
use crate::format::frame::{Digest, FRAME_HEADER_BYTES};
use crate::horizon::lsn_horizon::IDLE;

/// A buffer and what is known about its contents. The first bytes are kept for the frame's header,
/// so that the buffer is written as it stands.
pub(super) struct Filling<H> {
    /// Always at its full length; bytes from `used` on mean nothing. For an oversize frame whose
    /// body is written already, only its head.
    pub(super) buf: AlignedBuf,
    /// The block for the region's head, in a shared device.
    pub(super) head: Option<AlignedBuf>,
    pub(super) used: usize,
    /// The checksum of the first records.
    pub(super) digest: Digest,
    pub(super) records: u32,
    /// The number of entries that are a commit, or the end of one.
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

/// See the module. In boxes, because a flush moves a buffer several times.
pub(super) struct Buffers<H> {
    filling: Box<Filling<H>>,
    /// The other buffer, while no batch has it (B1).
    other: Option<Box<Filling<H>>>,
    /// The buffer that an oversize frame has replaced (B2).
    replaced: Option<Box<Filling<H>>>,
}

impl<H: GroupResource> Buffers<H> {
    pub(super) fn new(buffers: [AlignedBuf; 2], region_block: Option<usize>) -> Self {
        let [one, other] = buffers.map(|buf| Box::new(Filling::new(buf, region_block)));
        Self {
            filling: one,
            other: Some(other),
            replaced: None,
        }
    }

    /// The buffer that fills.
    #[inline]
    pub(super) fn filling(&self) -> &Filling<H> {
        &self.filling
    }

    #[inline]
    pub(super) fn filling_mut(&mut self) -> &mut Filling<H> {
        &mut self.filling
    }

    /// Takes what fills as the frame of a batch; the other buffer fills from now on. No batch is
    /// under way.
    pub(super) fn seal(&mut self) -> Box<Filling<H>> {
        let other = self.other.take();
        let other = other.expect("no batch is under way, so the other buffer is here (B1)");
        std::mem::replace(&mut self.filling, other)
    }

    /// Puts an oversize frame into the place of the buffer that fills, which has no records (B2).
    pub(super) fn replace(&mut self, frame: Filling<H>) {
        self.replaced = Some(std::mem::replace(&mut self.filling, Box::new(frame)));
    }

    /// Takes back the frame of a batch that is written.
    pub(super) fn written(&mut self, mut frame: Box<Filling<H>>) {
        match self.replaced.take() {
            // The memory of an oversize frame is freed.
            Some(buffer) => frame = buffer,
            None => frame.clear(),
        }
        if self.filling.records == 0 {
            // Nothing was appended during the flush, as when a worker waits for its own: the next
            // commits go where the last went, which the caches still hold.
            std::mem::swap(&mut frame, &mut self.filling);
        }
        self.other = Some(frame);
    }

    /// Takes back the frame of a batch whose write has failed (B3).
    pub(super) fn failed(&mut self, frame: Box<Filling<H>>) {
        self.other = Some(frame);
    }
}
