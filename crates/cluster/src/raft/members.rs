//! The members, as the Raft of one node sees them: which exist, which respond, and what was
//! announced.

use std::collections::HashMap;

use crate::entry::{EntryBody, LogEntry};
use crate::membership::{Membership, MembershipChange};
use crate::network::NodeId;

/// The reason for which a node is not replaced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReplaceRefusal {
    /// The node does not exist.
    #[error("the cluster has no node {number}: name one of its configuration")]
    NoSuchNode {
        /// Its number.
        number: u64,
    },
    /// Incarnations are consecutive.
    #[error(
        "node {number} has incarnation {current}, so its replacement has {}, not {asked}: make its directory with \
         `namiki node init --replacement`",
        current + 1
    )]
    Incarnation {
        /// Its number.
        number: u64,
        /// The current incarnation.
        current: u64,
        /// The requested incarnation.
        asked: u64,
    },
    /// It is the leader.
    #[error(
        "node {number} leads, so its directory is not lost: stop it first, and another node leads"
    )]
    Leads {
        /// Its number.
        number: u64,
    },
    /// The cluster would stop.
    #[error(
        "without node {number}, {needed} voters must run, and {running} answer: start those that are down, or wait until learners vote"
    )]
    TooFewRunning {
        /// Its number.
        number: u64,
        /// Number of voters that answer, without the lost node.
        running: usize,
        /// A majority of the voters, including the lost node if it votes.
        needed: usize,
    },
    /// Another change, or a change of the leader, is under way: the request may be repeated at
    /// once.
    #[error("another change is under way: ask again")]
    Busy,
}

/// The members, as one node's Raft sees them.
pub(super) struct Members {
    node: NodeId,
    pub(super) current: Membership,
    /// The batch of stream 0 after which the current members are durable. `None`: that was
    /// reported.
    pub(super) durable_after: Option<u64>,
    /// The durable members.
    #[cfg(any(test, feature = "simulation"))]
    pub(super) durable: Membership,
    /// A replacement that this node has proposed in its term.
    pub(super) proposed: Option<NodeId>,
    ticks: u64,
    /// Tick of the last message of each member.
    pub(super) heard: HashMap<NodeId, u64>,
}

impl Members {
    pub(super) fn new(node: NodeId, current: Membership) -> Self {
        Self {
            node,
            #[cfg(any(test, feature = "simulation"))]
            durable: current.clone(),
            current,
            durable_after: Some(0),
            proposed: None,
            ticks: 0,
            heard: HashMap::new(),
        }
    }

    /// Whether messages of a node are accepted.
    pub(super) fn admits(&self, from: NodeId) -> bool {
        from.number() != self.node.number() && self.current.admits(from)
    }

    /// All members but this node.
    pub(super) fn others(&self) -> impl Iterator<Item = NodeId> {
        self.current.nodes().filter(|it| *it != self.node)
    }

    pub(super) fn heard(&mut self, from: NodeId) {
        if self.current.nodes().any(|it| it == from) {
            self.heard.insert(from, self.ticks);
        }
    }

    pub(super) fn tick(&mut self) {
        self.ticks += 1;
    }

    /// Whether a node has sent a message within the last `ticks` ticks.
    pub(super) fn is_running(&self, node: NodeId, ticks: usize) -> bool {
        let heard = self.heard.get(&node);
        node == self.node || heard.is_some_and(|at| self.ticks - at <= ticks as u64)
    }
}

/// The change that an entry makes.
pub(super) fn change_of(entry: &LogEntry) -> Option<MembershipChange> {
    match &entry.body {
        EntryBody::Membership(bytes) => MembershipChange::decode(bytes),
        _ => None,
    }
}
