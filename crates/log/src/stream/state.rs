//! What a stream's lock protects.

use std::time::Instant;

use namiki_platform::Stamp;
use namiki_platform::disk::AlignedBuf;

use super::flush_batch::SubmittedBatch;
use super::group_policy::GroupPolicy;
use super::log_buffer::Filling;
use crate::config::GroupResource;
use crate::log_target::LogTarget;

/// Classes of groups by their size: no commit, one, 2 or 3, 4 to 7, and so on.
pub(crate) const GROUP_SIZES: usize = 17;

/// The class of a group with so many commits.
pub(super) fn group_size_class(commits: u32) -> usize {
    let bits = u32::BITS - commits.leading_zeros();
    (bits as usize).min(GROUP_SIZES - 1)
}

/// Sums of one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StreamCounters {
    pub(crate) flushes: u64,
    pub(crate) submitted: u64,
    pub(crate) frame_bytes: u64,
    pub(crate) zero_bytes: u64,
    pub(crate) commits: u64,
    pub(crate) cas_misses: u64,
    pub(crate) flush_ns: u64,
    pub(crate) group_sizes: [u64; GROUP_SIZES],
}

/// What a stream's lock protects.
pub(super) struct State<H> {
    pub(super) filling: Filling<H>,
    /// The other buffer, while no batch has it.
    pub(super) other: Option<Filling<H>>,
    /// The buffer in whose place an oversize frame fills, or is in flight.
    pub(super) replaced: Option<Filling<H>>,
    /// A thread is about to append an oversize entry: no other is appended, and no epoch marker written.
    pub(super) has_turn: bool,
    /// Batches begun so far.
    pub(super) batches: u64,
    /// While a batch is under way: the last commit it carries.
    pub(super) in_flight: Option<u64>,
    /// The bytes of its frame: they are in no file's rest any more, and not in the counters yet.
    pub(super) in_flight_bytes: u64,
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
            replaced: None,
            has_turn: false,
            batches: 0,
            in_flight: None,
            in_flight_bytes: 0,
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
