//! The state under a stream's lock.

use std::time::Instant;

use namiki_platform::Stamp;

use super::flush_batch::Batches;
use super::flush_timer::FlushTimer;
use super::group_wait::GroupWait;
use super::log_buffer::Buffers;
use crate::config::GroupResource;
use crate::log_target::LogTarget;

/// Classes of groups by their size: no commit, one, 2 or 3, 4 to 7, and so on.
pub(crate) const GROUP_SIZES: usize = 17;

/// The class of a group by its number of commits.
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

/// The state under a stream's lock.
pub(super) struct State<H> {
    pub(super) buffers: Buffers<H>,
    pub(super) batches: Batches<H>,
    pub(super) group_wait: GroupWait,
    pub(super) timer: FlushTimer,
    /// A thread is about to append an oversize entry: no other is appended, and no epoch marker
    /// written (S8).
    pub(super) has_turn: bool,
    pub(super) appended: u64,
    pub(super) hardened: u64,
    pub(super) max_stamp: Stamp,
    /// No commit is accepted any more.
    pub(super) closed: bool,
    /// No frame is begun any more.
    pub(super) ended: bool,
    pub(super) target: LogTarget,
    pub(super) counters: StreamCounters,
}

impl<H: GroupResource> State<H> {
    pub(super) fn new(buffers: Buffers<H>, group_wait: GroupWait, target: LogTarget) -> Self {
        Self {
            buffers,
            batches: Batches::new(),
            timer: FlushTimer::new(group_wait.needs_times()),
            group_wait,
            has_turn: false,
            appended: 0,
            hardened: 0,
            max_stamp: Stamp(0),
            closed: false,
            ended: false,
            target,
            counters: StreamCounters::default(),
        }
    }

    /// The time until which the filling group waits for more commits; `None` if it should be
    /// sealed.
    pub(super) fn waits_until(&mut self) -> Option<Instant> {
        let commits = self.buffers.filling().commits;
        self.group_wait.until(commits, self.hardened)
    }

    /// Whether records wait for a batch, and none is under way.
    pub(super) fn may_lead(&self) -> bool {
        self.batches.under_way().is_none() && self.buffers.filling().records > 0
    }
}
