//! The task store: groups of commands (LogGrps) that are sealed and not yet committed.
//!
//! A worker puts a group in before its entry is proposed; the applier takes it out when the entry is committed, installs its changes, releases
//! its locks and answers its clients. When leadership ends, all groups are taken out: their locks are released, nothing is installed.
//!
//! Paper: raft-pwal §3.2, §3.3, Algorithms 2 and 3

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use namiki::replica::HeldLocks;
use namiki_client::protocol::Outcome;
use parking_lot::Mutex;

use crate::entry::PayloadName;
use crate::group_in_flight::GroupInFlight;

/// Commands of one client's group that were executed one after the other, with their outcomes.
#[derive(Debug)]
pub(crate) struct Members {
    pub(crate) group: Arc<GroupInFlight>,
    pub(crate) outcomes: Vec<(u32, Outcome)>,
}

/// A sealed group.
#[derive(Debug)]
pub(crate) struct SealedGroup {
    /// The term of the leader.
    pub(crate) term: u64,
    pub(crate) name: PayloadName,
    pub(crate) payload: Bytes,
    pub(crate) locks: HeldLocks,
    pub(crate) members: Vec<Members>,
    pub(crate) sealed_at: Instant,
}

/// The sealed groups of one worker, in the order of their numbers.
#[derive(Debug, Default)]
pub(crate) struct TaskStore {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The term of the groups that are accepted.
    term: Option<u64>,
    groups: VecDeque<SealedGroup>,
}

impl TaskStore {
    /// Accepts groups of this term, or none, and gives up the present ones.
    pub(crate) fn open(&self, term: Option<u64>) {
        let mut state = self.state.lock();
        state.term = term;
        let abandoned = std::mem::take(&mut state.groups);
        drop(state);
        // Their locks are released.
        drop(abandoned);
    }

    /// Adds a group. Returns false if leadership of its term is over; its locks are released then.
    pub(crate) fn put(&self, group: SealedGroup) -> bool {
        let mut state = self.state.lock();
        let is_of_term = state.term == Some(group.term);
        if is_of_term {
            state.groups.push_back(group);
        }
        is_of_term
    }

    /// Removes the group of this name, if it is here.
    pub(crate) fn take(&self, name: PayloadName) -> Option<SealedGroup> {
        let mut state = self.state.lock();
        let at = state.groups.iter().position(|it| it.name == name)?;
        state.groups.remove(at)
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().groups.len()
    }
}
