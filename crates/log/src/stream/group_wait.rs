//! How long the group that fills waits for more commits.
//!
//! # Invariants
//! - G1. A group waits only while no batch is under way, and only for commits that no thread wants
//!   hardened at once.
//! - G2. At most one waiter has the deadline of a group; the others wait without one (`stream/mod.rs`, S3).
//! - G3. The deadline of a group by count begins with its first waiter, and ends with its seal.

use std::time::{Duration, Instant};

use super::group_policy::{BatchCompleted, GroupPolicy};
use crate::config::Group;

/// See the module. Under the stream's lock.
pub(super) struct GroupWait {
    group: Group,
    wait_max: Duration,
    /// The deadline of the group that fills, if it is one by count and has a waiter (G3).
    deadline: Option<Instant>,
    policy: GroupPolicy,
    /// The last commit that is wanted hardened without waiting for a group (G1).
    wanted: u64,
    /// The batch for which a waiter has the deadline (G2); 0 if none has.
    timed: u64,
    /// The batch for which the flusher watches the time, on behalf of tasks; 0 if it watches none.
    served: u64,
}

impl GroupWait {
    pub(super) fn new(group: Group, wait_max: Duration) -> Self {
        Self {
            group,
            wait_max,
            deadline: None,
            policy: GroupPolicy::default(),
            wanted: 0,
            timed: 0,
            served: 0,
        }
    }

    /// Whether the last of `commits` commits completes its group.
    #[inline]
    pub(super) fn is_completed_by(&self, commits: u32) -> bool {
        match self.group {
            Group::Count(n) => commits == n.get(),
            Group::Auto => false,
        }
    }

    /// The time until which a group of `commits` waits for more; `None` if it should be sealed.
    pub(super) fn until(&mut self, commits: u32, hardened: u64) -> Option<Instant> {
        if self.wait_max == Duration::MAX || self.wanted > hardened {
            return None;
        }
        let deadline = match self.group {
            Group::Count(n) if commits >= n.get() => None,
            Group::Count(_) => {
                if self.deadline.is_none() {
                    self.deadline = Instant::now().checked_add(self.wait_max);
                }
                self.deadline
            }
            Group::Auto => self.policy.deadline(commits),
        };
        deadline.filter(|deadline| Instant::now() < *deadline)
    }

    /// The commits up to `through` are wanted hardened at once.
    pub(super) fn want(&mut self, through: u64) {
        self.wanted = self.wanted.max(through);
    }

    /// The group that fills is sealed.
    pub(super) fn sealed(&mut self) {
        self.deadline = None;
    }

    /// Whether the time of each batch decides something.
    pub(super) fn needs_times(&self) -> bool {
        self.group == Group::Auto
    }

    /// A batch has completed.
    pub(super) fn completed(&mut self, batch: BatchCompleted) {
        if self.needs_times() {
            self.policy.completed(batch, self.wait_max);
        }
    }

    /// A waiter takes the deadline of `batch`, unless another one has it (G2).
    pub(super) fn take_deadline(&mut self, batch: u64) -> bool {
        let is_free = self.timed != batch;
        self.timed = batch;
        is_free
    }

    /// The waiter that had the deadline of `batch` no longer waits for it.
    pub(super) fn leave_deadline(&mut self, batch: u64) {
        if self.timed == batch {
            self.timed = 0;
        }
    }

    /// The flusher watches the time for `batch`.
    pub(super) fn serve(&mut self, batch: u64) {
        self.served = batch;
    }

    pub(super) fn is_served(&self, batch: u64) -> bool {
        self.served == batch
    }
}
