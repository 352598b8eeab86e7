//! Reads that wait for a confirmation by the leader: those that arrive during one confirmation share
//! the next ones.
//!
//! A leader has such a queue for the reads that only it answers, and every node has one for strong
//! reads, which it answers in any role.

use std::collections::{BTreeMap, VecDeque};

use namiki_client::protocol::{ScanRange, SessionId};

use crate::fair_share::is_share;
use crate::network::ConnectionId;
use crate::raft::ReadId;

/// Number of keys after which a batch of reads ends: the applier reads them between two entries, so
/// commits wait for a batch.
pub(crate) const BATCH_KEYS: usize = 32_768;
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
    /// For a read that the node answers in any role: the tick at which it is given up.
    pub(crate) until: u64,
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
    /// Whether a session exists that was unknown when the request came.
    UnknownSession(SessionId),
    /// That a group of which no command was known when the request came is refused for ever.
    Refusal {
        session: SessionId,
        group: u64,
        refusal: crate::refusal::Refusal,
    },
    /// The outcomes of a group, for the holder of its session.
    Outcomes {
        session: SessionId,
        fence: u64,
        group: u64,
    },
}

impl Wanted {
    /// Number of keys that are looked up.
    pub(crate) fn keys(&self) -> usize {
        match self {
            Self::Keys(keys) => keys.len(),
            Self::Tables
            | Self::Scan(_)
            | Self::UnknownSession(_)
            | Self::Refusal { .. }
            | Self::Outcomes { .. } => 1,
        }
    }
}

/// Reads that wait for a confirmation.
#[derive(Debug, Default)]
pub(crate) struct ReadQueue {
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
    pub(crate) fn of(request: &ReadRequest) -> Self {
        Self {
            requests: 1,
            keys: request.wanted.keys(),
            bytes: request.bytes,
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.keys += other.keys;
        self.bytes += other.bytes;
    }

    pub(crate) fn remove(&mut self, other: Self) {
        self.requests -= other.requests;
        self.keys -= other.keys;
        self.bytes -= other.bytes;
    }

    /// Whether a connection with these of `total` may have `more`, within limits on all.
    pub(crate) fn may_grow(self, more: Self, total: Self, max: Self) -> bool {
        is_share(self.requests, more.requests, total.requests, max.requests)
            && is_share(self.keys, more.keys, total.keys, max.keys)
            && is_share(self.bytes, more.bytes, total.bytes, max.bytes)
    }
}

impl ReadQueue {
    /// A queue that numbers its confirmations behind this one.
    pub(crate) fn behind(id: ReadId) -> Self {
        Self {
            next: id.0,
            ..Self::default()
        }
    }

    /// Whether a connection may add a read, within limits on all.
    pub(crate) fn has_room(&self, request: &ReadRequest, max: WaitingReads) -> bool {
        let own = self.collected.get(&request.connection);
        let own = own.map(|it| it.size).unwrap_or_default();
        own.may_grow(WaitingReads::of(request), self.total, max)
    }

    /// Adds a read request. Returns the confirmation to request from Raft, if one is needed.
    pub(crate) fn add(&mut self, request: ReadRequest) -> Option<ReadId> {
        let (connection, size) = (request.connection, WaitingReads::of(&request));
        let own = self.collected.entry(connection).or_insert_with(|| {
            self.turns.push_back(connection);
            ReadsOfConnection::default()
        });
        own.requests.push_back(request);
        own.size.add(size);
        self.total.add(size);
        self.begin_confirming()
    }

    fn begin_confirming(&mut self) -> Option<ReadId> {
        if self.confirming.is_some() || self.turns.is_empty() {
            return None;
        }
        self.next += 1;
        let id = ReadId(self.next);
        self.confirming = Some((id, self.take_batch()));
        Some(id)
    }

    /// The confirmation that is under way.
    pub(crate) fn confirming(&self) -> Option<ReadId> {
        self.confirming.as_ref().map(|(id, _)| *id)
    }

    /// Raft has confirmed. Returns the requests, and the next confirmation to request.
    pub(crate) fn confirmed(&mut self, id: ReadId) -> (Vec<ReadRequest>, Option<ReadId>) {
        let requests = match self.confirming.take() {
            Some((confirming, requests)) if confirming == id => requests,
            // The confirmation was requested before, and is not waited for any more.
            other => {
                self.confirming = other;
                return (Vec::new(), None);
            }
        };
        (requests, self.begin_confirming())
    }

    /// A client is gone: its reads are not executed.
    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        if let Some(own) = self.collected.remove(&connection) {
            self.total.remove(own.size);
            self.turns.retain(|it| *it != connection);
        }
        if let Some((_, requests)) = &mut self.confirming {
            requests.retain(|it| it.connection != connection);
        }
    }

    /// Takes all requests.
    pub(crate) fn take_all(&mut self) -> Vec<ReadRequest> {
        let confirming = self.confirming.take().into_iter();
        let mut all: Vec<_> = confirming.flat_map(|(_, requests)| requests).collect();
        let collected = std::mem::take(&mut self.collected).into_values();
        all.extend(collected.flat_map(|own| own.requests));
        self.turns.clear();
        self.total = WaitingReads::default();
        all
    }

    /// Takes the requests that are given up at this tick.
    pub(crate) fn take_late(&mut self, now: u64) -> Vec<ReadRequest> {
        let is_late = |it: &ReadRequest| it.until <= now;
        let mut late = Vec::new();
        if let Some((_, requests)) = &mut self.confirming {
            late.extend(requests.extract_if(.., |it| is_late(it)));
        }
        let total = &mut self.total;
        self.collected.retain(|_, own| {
            // They are in the order of their arrival.
            while let Some(first) = own.requests.front()
                && is_late(first)
                && let Some(request) = own.requests.pop_front()
            {
                let size = WaitingReads::of(&request);
                own.size.remove(size);
                total.remove(size);
                late.push(request);
            }
            !own.requests.is_empty()
        });
        let collected = &self.collected;
        self.turns.retain(|it| collected.contains_key(it));
        late
    }

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
            until: request,
        }
    }

    fn numbers(requests: &[ReadRequest]) -> Vec<(u64, u64)> {
        let number = |it: &ReadRequest| (it.connection.0, it.request);
        requests.iter().map(number).collect()
    }

    #[test]
    fn reads_of_all_connections_take_turns() {
        let mut queue = ReadQueue::default();
        let first = queue.add(read(1, 0, 1)).expect("none is under way");
        for request in 1..=5 {
            assert_eq!(queue.add(read(1, request, 20_000)), None);
        }
        assert_eq!(queue.add(read(2, 1, 1)), None);
        let (requests, second) = queue.confirmed(first);
        assert_eq!(numbers(&requests), [(1, 0)]);
        let (requests, third) = queue.confirmed(second.expect("more reads wait"));
        assert_eq!(numbers(&requests), [(1, 1), (2, 1), (1, 2)]);
        queue.forget(ConnectionId(1));
        let (requests, fourth) = queue.confirmed(third.expect("more reads wait"));
        assert_eq!((requests.len(), fourth), (0, None));
        assert_eq!(queue.total, WaitingReads::default());
    }

    #[test]
    fn a_connection_may_fill_half_of_a_limit() {
        let mut queue = ReadQueue::default();
        let mut fill = |connection| {
            let mut filled = 0;
            while queue.has_room(&read(connection, filled, 1), MAX) {
                queue.add(read(connection, filled, 1));
                filled += 1;
            }
            filled
        };
        // The first of them is confirmed at once, and does not wait.
        assert_eq!(fill(1), 51);
        assert_eq!(fill(2), 25);
        assert_eq!(fill(3), 12);
    }

    #[test]
    fn late_reads_leave_the_queue() {
        let mut queue = ReadQueue::behind(ReadId(7));
        assert_eq!(queue.add(read(1, 1, 1)), Some(ReadId(8)));
        for request in [2, 4] {
            queue.add(read(1, request, 1));
        }
        queue.add(read(2, 2, 1));
        assert!(queue.take_late(0).is_empty());
        assert_eq!(numbers(&queue.take_late(2)), [(1, 1), (1, 2), (2, 2)]);
        assert_eq!(queue.confirming(), Some(ReadId(8)));
        let (requests, next) = queue.confirmed(ReadId(8));
        assert_eq!((requests.len(), next), (0, Some(ReadId(9))));
        assert_eq!(numbers(&queue.take_all()), [(1, 4)]);
        assert_eq!(queue.total, WaitingReads::default());
    }
}
