//! The requests that a leader has in flight for its clients.
//!
//! A node is in office from the moment at which it has applied its own first entry, and so the whole log of its predecessors, until it is
//! deposed. Only in office does it look up sessions and accept requests.
//!
//! Requests in flight when leadership ends are answered "outcome unknown": they may or may not be
//! in the log of the next leader.
//!
//! # Fairness
//! Each limit is shared by connections with a dynamic threshold: a connection may have as much under
//! way as is left for all. So n connections that ask without end leave the (n + 1)-th part of the
//! limit free for others. Reads are confirmed in batches, which take a request of each connection
//! in turn.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use namiki_client::protocol::{Response, ScanRange, SessionId};

use crate::control::Control;
use crate::group_in_flight::GroupInFlight;
use crate::network::{ConnectionId, NodeId};
use crate::raft::ReadId;

/// Number of keys after which a batch of reads ends: the applier reads them between two entries, so
/// commits wait for a batch.
const BATCH_KEYS: usize = 32_768;
/// Largest number of reads of a batch.
const BATCH_READS: usize = 4096;

/// A client wants to read.
#[derive(Debug)]
pub(crate) struct ReadRequest {
    pub(crate) connection: ConnectionId,
    pub(crate) request: u64,
    pub(crate) wanted: Wanted,
    /// Size of the keys in memory.
    pub(crate) bytes: usize,
}

/// What a client wants to read.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// Rows by table and key.
    Keys(Vec<(u32, Vec<u8>)>),
    /// All tables.
    Tables,
    /// The rows of a range.
    Scan(ScanRange),
}

impl Wanted {
    /// Number of keys that are looked up.
    pub(crate) fn keys(&self) -> usize {
        match self {
            Self::Keys(keys) => keys.len(),
            Self::Tables | Self::Scan(_) => 1,
        }
    }
}

/// The unanswered requests.
#[derive(Debug, Default)]
pub(crate) struct Office {
    /// The term, while the node is in office.
    pub(crate) term: Option<u64>,
    pub(crate) groups: BTreeMap<(SessionId, u64), Arc<GroupInFlight>>,
    /// Of all groups.
    in_flight: InFlight,
    /// Of the groups of each connection that has some.
    by_connection: BTreeMap<ConnectionId, InFlight>,
    pub(crate) control: BTreeMap<Control, Vec<ConnectionId>>,
    /// Connections in `control`, each as often as it waits.
    pub(crate) control_waiting: usize,
    /// Requested replacements of lost nodes.
    pub(crate) replacements: BTreeMap<NodeId, Vec<ConnectionId>>,
    reads: Reads,
}

/// Commands of groups under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InFlight {
    pub(crate) commands: usize,
    /// Their size in memory.
    pub(crate) bytes: usize,
}

impl InFlight {
    fn add(&mut self, other: Self) {
        self.commands += other.commands;
        self.bytes += other.bytes;
    }

    fn remove(&mut self, other: Self) {
        self.commands -= other.commands;
        self.bytes -= other.bytes;
    }
}

/// Reads that wait for a confirmation of leadership: the reads that arrive during one confirmation
/// share the next ones.
#[derive(Debug, Default)]
struct Reads {
    next: u64,
    confirming: Option<(ReadId, Vec<ReadRequest>)>,
    collected: BTreeMap<ConnectionId, ReadsOfConnection>,
    /// The connections in `collected`, the next one first.
    turns: VecDeque<ConnectionId>,
    /// Of `collected`.
    total: WaitingReads,
}

#[derive(Debug, Default)]
struct ReadsOfConnection {
    requests: VecDeque<ReadRequest>,
    size: WaitingReads,
}

/// Reads that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitingReads {
    pub(crate) requests: usize,
    pub(crate) keys: usize,
    /// Size of the keys in memory.
    pub(crate) bytes: usize,
}

impl WaitingReads {
    fn of(request: &ReadRequest) -> Self {
        Self {
            requests: 1,
            keys: request.wanted.keys(),
            bytes: request.bytes,
        }
    }

    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.keys += other.keys;
        self.bytes += other.bytes;
    }

    fn remove(&mut self, other: Self) {
        self.requests -= other.requests;
        self.keys -= other.keys;
        self.bytes -= other.bytes;
    }
}

/// Whether a connection with `own` of `total` may have `more`: as much as is left of `limit` for all
/// afterwards.
pub(crate) fn is_share(own: usize, more: usize, total: usize, limit: usize) -> bool {
    own + more <= limit.saturating_sub(total + more)
}

impl Office {
    /// Whether a connection may add a group, within limits on all.
    pub(crate) fn has_room(&self, connection: ConnectionId, more: InFlight, max: InFlight) -> bool {
        let total = self.in_flight;
        let own = self.by_connection.get(&connection);
        let own = own.copied().unwrap_or_default();
        // A lone group may be as long as the limit.
        own == InFlight::default()
            && total == InFlight::default()
            && more.commands <= max.commands
            && more.bytes <= max.bytes
            || is_share(own.commands, more.commands, total.commands, max.commands)
                && is_share(own.bytes, more.bytes, total.bytes, max.bytes)
    }

    /// Number of commands of all groups.
    pub(crate) fn commands_in_flight(&self) -> usize {
        self.in_flight.commands
    }

    /// Adds a group.
    pub(crate) fn begin(&mut self, group: &Arc<GroupInFlight>) {
        let key = (group.session, group.group);
        self.groups.insert(key, Arc::clone(group));
        let size = in_flight(group);
        self.in_flight.add(size);
        self.by_connection.entry(group.owner).or_default().add(size);
    }

    /// Whether a connection may add a read, within limits on all.
    pub(crate) fn has_room_for_read(&self, request: &ReadRequest, max: WaitingReads) -> bool {
        let (more, total) = (WaitingReads::of(request), self.reads.total);
        let own = self.reads.collected.get(&request.connection);
        let own = own.map(|it| it.size).unwrap_or_default();
        is_share(own.requests, more.requests, total.requests, max.requests)
            && is_share(own.keys, more.keys, total.keys, max.keys)
            && is_share(own.bytes, more.bytes, total.bytes, max.bytes)
    }

    /// Adds a read request. Returns the confirmation to request from Raft, if one is needed.
    pub(crate) fn read(&mut self, request: ReadRequest) -> Option<ReadId> {
        let (reads, size) = (&mut self.reads, WaitingReads::of(&request));
        let connection = request.connection;
        let own = reads.collected.entry(connection).or_insert_with(|| {
            reads.turns.push_back(connection);
            ReadsOfConnection::default()
        });
        own.requests.push_back(request);
        own.size.add(size);
        reads.total.add(size);
        self.begin_confirming()
    }

    fn begin_confirming(&mut self) -> Option<ReadId> {
        let reads = &mut self.reads;
        if reads.confirming.is_some() || reads.turns.is_empty() {
            return None;
        }
        reads.next += 1;
        let id = ReadId(reads.next);
        reads.confirming = Some((id, reads.take_batch()));
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

    /// A client is gone: its reads are not executed.
    pub(crate) fn forget_reads(&mut self, connection: ConnectionId) {
        let reads = &mut self.reads;
        if let Some(own) = reads.collected.remove(&connection) {
            reads.total.remove(own.size);
            reads.turns.retain(|it| *it != connection);
        }
        if let Some((_, requests)) = &mut reads.confirming {
            requests.retain(|it| it.connection != connection);
        }
    }

    /// A group is answered.
    pub(crate) fn finish(&mut self, group: &GroupInFlight) {
        if self.groups.remove(&(group.session, group.group)).is_none() {
            return;
        }
        let size = in_flight(group);
        self.in_flight.remove(size);
        if let Some(own) = self.by_connection.get_mut(&group.owner) {
            own.remove(size);
            if *own == InFlight::default() {
                self.by_connection.remove(&group.owner);
            }
        }
    }

    /// Takes the connections that wait for a control entry.
    pub(crate) fn take_waiting(&mut self, control: &Control) -> Vec<ConnectionId> {
        let waiting = self.control.remove(control).unwrap_or_default();
        self.control_waiting -= waiting.len();
        waiting
    }

    /// Ends the office. Returns the responses for the clients.
    pub(crate) fn leave(&mut self) -> Vec<(ConnectionId, Response)> {
        self.term = None;
        self.in_flight = InFlight::default();
        self.by_connection.clear();
        self.control_waiting = 0;
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
        let collected = std::mem::take(&mut self.reads.collected).into_values();
        let reads = reads.chain(collected.flat_map(|own| own.requests));
        answers.extend(reads.map(|read| (read.connection, not_leader(read.request))));
        self.reads.turns.clear();
        self.reads.total = WaitingReads::default();
        answers
    }
}

impl Reads {
    /// Takes requests of all connections in turn.
    fn take_batch(&mut self) -> Vec<ReadRequest> {
        let (mut batch, mut keys) = (Vec::new(), 0);
        while keys < BATCH_KEYS
            && batch.len() < BATCH_READS
            && let Some(connection) = self.turns.pop_front()
        {
            let Some(own) = self.collected.get_mut(&connection) else {
                continue;
            };
            if let Some(request) = own.requests.pop_front() {
                let size = WaitingReads::of(&request);
                own.size.remove(size);
                self.total.remove(size);
                keys += request.wanted.keys();
                batch.push(request);
            }
            if own.requests.is_empty() {
                self.collected.remove(&connection);
            } else {
                self.turns.push_back(connection);
            }
        }
        batch
    }
}

fn in_flight(group: &GroupInFlight) -> InFlight {
    InFlight {
        commands: group.commands.len(),
        bytes: group.bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: WaitingReads = WaitingReads {
        requests: 100,
        keys: 1_000_000,
        bytes: 1 << 30,
    };

    fn read(connection: u64, request: u64, keys: usize) -> ReadRequest {
        ReadRequest {
            connection: ConnectionId(connection),
            request,
            wanted: Wanted::Keys(vec![(1, Vec::new()); keys]),
            bytes: 32 * keys,
        }
    }

    fn numbers(requests: &[ReadRequest]) -> Vec<(u64, u64)> {
        let number = |it: &ReadRequest| (it.connection.0, it.request);
        requests.iter().map(number).collect()
    }

    #[test]
    fn reads_of_all_connections_take_turns() {
        let mut office = Office::default();
        let first = office.read(read(1, 0, 1)).expect("none is under way");
        for request in 1..=5 {
            assert_eq!(office.read(read(1, request, 20_000)), None);
        }
        assert_eq!(office.read(read(2, 1, 1)), None);
        let (requests, second) = office.confirmed(first);
        assert_eq!(numbers(&requests), [(1, 0)]);
        let (requests, third) = office.confirmed(second.expect("more reads wait"));
        assert_eq!(numbers(&requests), [(1, 1), (2, 1), (1, 2)]);
        office.forget_reads(ConnectionId(1));
        let (requests, fourth) = office.confirmed(third.expect("more reads wait"));
        assert_eq!((requests.len(), fourth), (0, None));
        assert_eq!(office.reads.total, WaitingReads::default());
    }

    #[test]
    fn a_connection_may_fill_half_of_a_limit() {
        let mut office = Office::default();
        let mut fill = |connection| {
            let mut filled = 0;
            while office.has_room_for_read(&read(connection, filled, 1), MAX) {
                office.read(read(connection, filled, 1));
                filled += 1;
            }
            filled
        };
        // The first of them is confirmed at once, and does not wait.
        assert_eq!(fill(1), 51);
        assert_eq!(fill(2), 25);
        assert_eq!(fill(3), 12);
    }
}
