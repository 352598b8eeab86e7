//! The requests that a leader has in flight for its clients.
//!
//! A node is in office from the moment at which it has applied its own first entry, and so the whole log of its predecessors, until it is
//! deposed. Only in office does it look up sessions and accept requests.
//!
//! Requests in flight when leadership ends are answered "outcome unknown": they may or may not be
//! in the log of the next leader.

use std::collections::BTreeMap;
use std::sync::Arc;

use namiki_client::protocol::{Response, SessionId};

use crate::control::Control;
use crate::group_in_flight::GroupInFlight;
use crate::network::{ConnectionId, NodeId};
use crate::raft::ReadId;

/// A client wants to read.
#[derive(Debug)]
pub(crate) struct ReadRequest {
    pub(crate) connection: ConnectionId,
    pub(crate) request: u64,
    pub(crate) keys: Vec<(u32, Vec<u8>)>,
}

/// The unanswered requests.
#[derive(Debug, Default)]
pub(crate) struct Office {
    /// The term, while the node is in office.
    pub(crate) term: Option<u64>,
    pub(crate) groups: BTreeMap<(SessionId, u64), Arc<GroupInFlight>>,
    /// Commands of those groups.
    pub(crate) commands: usize,
    /// Their size in memory.
    pub(crate) bytes: usize,
    pub(crate) control: BTreeMap<Control, Vec<ConnectionId>>,
    /// Requested replacements of lost nodes.
    pub(crate) replacements: BTreeMap<NodeId, Vec<ConnectionId>>,
    reads: Reads,
}

/// Reads that wait for a confirmation of leadership: all reads that arrive during one confirmation
/// share the next.
#[derive(Debug, Default)]
struct Reads {
    next: u64,
    confirming: Option<(ReadId, Vec<ReadRequest>)>,
    collected: Vec<ReadRequest>,
}

impl Office {
    /// Adds a read request. Returns the confirmation to request from Raft, if one is needed.
    pub(crate) fn read(&mut self, request: ReadRequest) -> Option<ReadId> {
        self.reads.collected.push(request);
        self.begin_confirming()
    }

    fn begin_confirming(&mut self) -> Option<ReadId> {
        let reads = &mut self.reads;
        if reads.confirming.is_some() || reads.collected.is_empty() {
            return None;
        }
        reads.next += 1;
        let id = ReadId(reads.next);
        reads.confirming = Some((id, std::mem::take(&mut reads.collected)));
        Some(id)
    }

    /// Raft has confirmed. Returns the requests, and the next confirmation to request.
    pub(crate) fn confirmed(&mut self, id: ReadId) -> (Vec<ReadRequest>, Option<ReadId>) {
        let requests = match self.reads.confirming.take() {
            Some((confirming, requests)) if confirming == id => requests,
            // The confirmation belongs to an earlier term.
            other => {
                self.reads.confirming = other;
                return (Vec::new(), None);
            }
        };
        (requests, self.begin_confirming())
    }

    /// Number of waiting read requests.
    pub(crate) fn reads(&self) -> usize {
        let confirming = self.reads.confirming.as_ref();
        self.reads.collected.len() + confirming.map_or(0, |(_, requests)| requests.len())
    }

    /// A group is answered.
    pub(crate) fn finish(&mut self, group: &GroupInFlight) {
        if self.groups.remove(&(group.session, group.group)).is_some() {
            self.commands -= group.commands.len();
            self.bytes -= group.bytes;
        }
    }

    /// Ends the office. Returns the responses for the clients.
    pub(crate) fn leave(&mut self) -> Vec<(ConnectionId, Response)> {
        self.term = None;
        (self.commands, self.bytes) = (0, 0);
        let mut answers = Vec::new();
        for ((session, number), group) in std::mem::take(&mut self.groups) {
            for connection in group.take_connections() {
                let group = number;
                answers.push((connection, Response::OutcomeUnknown { session, group }));
            }
        }
        // These requests are idempotent.
        let not_leader = |request| Response::NotLeader {
            request,
            leader: None,
        };
        let control = std::mem::take(&mut self.control).into_values().flatten();
        let replacements = std::mem::take(&mut self.replacements).into_values();
        let control = control.chain(replacements.flatten());
        answers.extend(control.map(|connection| (connection, not_leader(0))));
        let confirming = self.reads.confirming.take().into_iter();
        let reads = confirming.flat_map(|(_, requests)| requests);
        let reads = reads.chain(self.reads.collected.drain(..));
        answers.extend(reads.map(|read| (read.connection, not_leader(read.request))));
        answers
    }
}
