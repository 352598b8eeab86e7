//! What a stream's lock protects.

use std::time::Instant;

use namiki_platform::disk::AlignedBuf;
use namiki_platform::{Epoch, Lsn, Stamp};

use super::flush::SubmittedBatch;
use super::group_policy::GroupPolicy;
use crate::config::GroupResource;
use crate::format::frame::{Digest, FRAME_HEADER_BYTES};
use crate::horizon::IDLE;
use crate::log_target::LogTarget;

/// A buffer and what is known about its contents. The first bytes are kept for the frame's header,
/// so that the buffer is written as it stands.
pub(super) struct Filling<H> {
    /// Always at its full length; bytes from `used` on mean nothing.
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
    fn new(buf: AlignedBuf, region_block: Option<usize>) -> Self {
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

    /// The mark of a stream that has hardened everything else.
    pub(super) fn low_water_mark(&self) -> u64 {
        if self.records == 0 || self.first_lsn == Lsn(0) {
            IDLE
        } else {
            self.first_lsn.0
        }
    }
}

/// Sums of one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StreamCounters {
    pub(crate) flushes: u64,
    pub(crate) submitted: u64,
    pub(crate) frame_bytes: u64,
    pub(crate) commits: u64,
    pub(crate) cas_misses: u64,
    pub(crate) flush_ns: u64,
}

/// What a stream's lock protects.
pub(super) struct State<H> {
    pub(super) filling: Filling<H>,
    /// The other buffer, while no batch has it.
    pub(super) other: Option<Filling<H>>,
    /// Batches begun so far.
    pub(super) batches: u64,
    /// While a batch is under way: the last commit it carries.
    pub(super) in_flight: Option<u64>,
    /// That flush, if it is unattended.
    pub(super) submitted: Option<SubmittedBatch<H>>,
    /// The flush for which a waiter has a deadline; 0 if none has.
    pub(super) timed: u64,
    /// The batch for which the flusher has an eye on the time, on behalf of tasks; 0 if it has none.
    pub(super) served_batch: u64,
    /// The deadline until which the group that fills waits for its expected size, once it has a waiter.
    pub(super) deadline: Option<Instant>,
    pub(super) group_policy: GroupPolicy,
    /// The last commit that is wanted hardened without waiting for a group.
    pub(super) wanted: u64,
    pub(super) appended: u64,
    pub(super) hardened: u64,
    /// Sequence of the last frame begun.
    pub(super) sequence: u64,
    pub(super) max_stamp: Stamp,
    /// No commit is accepted any more.
    pub(super) closed: bool,
    /// No frame is begun any more.
    pub(super) ended: bool,
    pub(super) target: LogTarget,
    pub(super) counters: StreamCounters,
}

impl<H: GroupResource> State<H> {
    pub(super) fn new(
        buffers: [AlignedBuf; 2],
        region_block: Option<usize>,
        target: LogTarget,
    ) -> Self {
        let [one, other] = buffers.map(|buf| Filling::new(buf, region_block));
        Self {
            filling: one,
            other: Some(other),
            batches: 0,
            in_flight: None,
            submitted: None,
            timed: 0,
            served_batch: 0,
            deadline: None,
            group_policy: GroupPolicy::default(),
            wanted: 0,
            appended: 0,
            hardened: 0,
            sequence: 0,
            max_stamp: Stamp(0),
            closed: false,
            ended: false,
            target,
            counters: StreamCounters::default(),
        }
    }

    /// Which batch carries commit `number`, which is not hardened.
    pub(super) fn batch_of(&self, number: u64) -> u64 {
        match self.in_flight {
            Some(through) if number <= through => self.batches,
            _ => self.batches + 1,
        }
    }
}
