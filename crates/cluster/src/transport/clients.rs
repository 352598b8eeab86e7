//! Queues of responses to clients: a bounded one for each connection.
//!
//! Any thread of the node pushes; the connection's task encodes and writes. A response counts until
//! it is written. A client that does not read is not read from either, and is disconnected when its
//! queue is full: its requests are known by session and number, so it may ask again. What reads much
//! for a client asks before how long the answer may be.
//!
//! All queues share a budget. A queue may hold as much as is left of it afterwards (a dynamic
//! threshold), so n clients that do not read leave the (n + 1)-th part of the budget for others.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use namiki_client::protocol::{MemberChange, NodeAddresses, NodeStatus, Response};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use tokio::time::sleep_until;

use crate::network::ConnectionId;
use crate::transport::wakeups::Wakeups;

/// Bytes of unread responses that a client may have if the budget is used up.
const SHORT_BYTES: usize = 4096;
/// First and longest pause in reading from a client after it was told that the node is busy.
const BUSY_PAUSE_FIRST: Duration = Duration::from_millis(2);
const BUSY_PAUSE_LONGEST: Duration = Duration::from_millis(128);

/// The open connections of clients.
pub(super) struct ClientRegistry {
    connections: RwLock<HashMap<ConnectionId, Arc<ResponseQueue>>>,
    last: AtomicU64,
    budget: Arc<ResponseBudget>,
}

/// Bytes of unwritten responses of all clients.
struct ResponseBudget {
    used: AtomicUsize,
    bytes_max: usize,
}

impl ResponseBudget {
    fn free(&self) -> usize {
        self.bytes_max
            .saturating_sub(self.used.load(Ordering::Relaxed))
    }
}

impl ClientRegistry {
    /// `bytes_max`: of unwritten responses of all clients.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            connections: RwLock::default(),
            last: AtomicU64::new(0),
            budget: Arc::new(ResponseBudget {
                used: AtomicUsize::new(0),
                bytes_max,
            }),
        }
    }

    /// Makes a queue for a new connection, unless the limit is reached.
    pub(super) fn register(
        &self,
        connections_max: usize,
        bytes_max: usize,
    ) -> Option<(ConnectionId, Arc<ResponseQueue>)> {
        let mut connections = self.connections.write();
        if connections.len() >= connections_max {
            return None;
        }
        let id = ConnectionId(1 + self.last.fetch_add(1, Ordering::Relaxed));
        let queue = Arc::new(ResponseQueue::new(bytes_max, Arc::clone(&self.budget)));
        connections.insert(id, Arc::clone(&queue));
        Some((id, queue))
    }

    pub(super) fn remove(&self, connection: ConnectionId) {
        self.connections.write().remove(&connection);
    }

    pub(super) fn find(&self, connection: ConnectionId) -> Option<Arc<ResponseQueue>> {
        self.connections.read().get(&connection).cloned()
    }

    pub(super) fn count(&self) -> usize {
        self.connections.read().len()
    }

    /// Appends a response for each client.
    pub(super) fn push_to_all(&self, response: &Response, wakeups: &Wakeups) {
        for queue in self.connections.read().values() {
            queue.push(response.clone(), wakeups);
        }
    }
}

/// Responses to one client.
pub(super) struct ResponseQueue {
    state: Mutex<State>,
    /// Tells the connection's task that there are responses.
    pub(super) wake: Arc<Notify>,
    /// Tells the reader of requests that responses were written.
    drained: Notify,
    bytes_max: usize,
    budget: Arc<ResponseBudget>,
}

#[derive(Default)]
struct State {
    responses: VecDeque<(Response, usize)>,
    /// Bytes of all responses that were ever appended.
    appended: u64,
    /// Bytes of `responses`.
    queued: usize,
    /// Bytes that were taken and are not written.
    taken: usize,
    /// The connection's task has been notified, and has not checked yet.
    announced: bool,
    overflowed: bool,
    /// Number of times in a row that the client was told that the node is busy.
    busy: u32,
    paused_until: Option<Instant>,
}

/// The client has more unread responses than it may have.
#[derive(Debug)]
pub(super) struct Overflowed;

impl ResponseQueue {
    fn new(bytes_max: usize, budget: Arc<ResponseBudget>) -> Self {
        Self {
            state: Mutex::default(),
            wake: Arc::default(),
            drained: Notify::new(),
            bytes_max,
            budget,
        }
    }

    /// Appends a response and wakes the connection's task. What was only read and does not fit is
    /// replaced by [`Response::Busy`]: it can be read again.
    pub(super) fn push(&self, response: Response, wakeups: &Wakeups) {
        let bytes = bytes_of(&response);
        let announce = {
            let mut state = self.state.lock();
            self.add(&mut state, response, bytes);
            !std::mem::replace(&mut state.announced, true)
        };
        if announce {
            wakeups.announce(&self.wake);
        }
    }

    fn add(&self, state: &mut State, response: Response, bytes: usize) {
        if state.overflowed {
            return;
        }
        let unread = state.queued + state.taken;
        if bytes > self.longest(unread) && unread + bytes > SHORT_BYTES {
            if let Some(busy) = busy_instead_of(&response) {
                let bytes = bytes_of(&busy);
                return self.add(state, busy, bytes);
            }
            state.overflowed = true;
            state.responses = VecDeque::new();
            self.budget.used.fetch_sub(state.queued, Ordering::Relaxed);
            state.queued = 0;
            return;
        }
        if matches!(response, Response::Busy { .. }) {
            let pause = BUSY_PAUSE_FIRST * (1 << state.busy.min(6));
            state.busy = state.busy.saturating_add(1);
            state.paused_until = Some(Instant::now() + pause.min(BUSY_PAUSE_LONGEST));
        } else {
            state.busy = 0;
        }
        self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        state.appended += bytes as u64;
        state.queued += bytes;
        state.responses.push_back((response, bytes));
    }

    /// The longest response that a client with `unread` bytes may get.
    fn longest(&self, unread: usize) -> usize {
        // Afterwards, at least as much is left as this client has.
        let share = self.budget.free().saturating_sub(unread) / 2;
        if unread == 0 {
            // A single response may be longer than the limit of a client.
            return share;
        }
        share.min(self.bytes_max.saturating_sub(unread))
    }

    /// The longest contents of a response that would be queued now, in bytes.
    pub(super) fn bytes_free(&self) -> usize {
        let state = self.state.lock();
        if state.overflowed {
            return 0;
        }
        let longest = self.longest(state.queued + state.taken);
        longest.saturating_sub(size_of::<Response>())
    }

    /// Appends the next responses to `into`, up to about `bytes_max` bytes. The caller reports by
    /// [`written`](Self::written) that they are written.
    pub(super) fn take(
        &self,
        into: &mut VecDeque<Response>,
        bytes_max: usize,
    ) -> Result<(), Overflowed> {
        let mut state = self.state.lock();
        state.announced = false;
        if state.overflowed {
            return Err(Overflowed);
        }
        let mut bytes = 0;
        while bytes < bytes_max
            && let Some((response, its_bytes)) = state.responses.pop_front()
        {
            bytes += its_bytes;
            into.push_back(response);
        }
        if state.responses.is_empty() && state.responses.capacity() > 1024 {
            state.responses = VecDeque::new();
        }
        state.queued -= bytes;
        state.taken += bytes;
        Ok(())
    }

    /// Bytes of all responses that were ever appended.
    pub(super) fn appended(&self) -> u64 {
        self.state.lock().appended
    }

    /// Bytes of all responses that were ever written.
    pub(super) fn all_written(&self) -> u64 {
        let state = self.state.lock();
        state.appended - (state.queued + state.taken) as u64
    }

    /// Everything that was taken is written.
    pub(super) fn written(&self) {
        let mut state = self.state.lock();
        let bytes = std::mem::take(&mut state.taken);
        drop(state);
        self.budget.used.fetch_sub(bytes, Ordering::Relaxed);
        self.drained.notify_one();
    }

    /// Waits while the client has many unread responses, or was told that the node is busy: it is
    /// not read from.
    pub(super) async fn until_readable(&self) {
        loop {
            let (is_full, paused_until) = {
                let mut state = self.state.lock();
                let is_full = state.queued + state.taken > self.bytes_max / 2;
                (is_full, state.paused_until.take())
            };
            if is_full {
                self.drained.notified().await;
                continue;
            }
            match paused_until {
                Some(until) if until > Instant::now() => sleep_until(until.into()).await,
                _ => return,
            }
        }
    }
}

impl Drop for ResponseQueue {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let bytes = state.queued + state.taken;
        self.budget.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The answer to a client that has no place for what it has read; `None` if the request has changed
/// something, or its answer is short.
fn busy_instead_of(response: &Response) -> Option<Response> {
    let request = match response {
        Response::Rows { request, .. }
        | Response::Scanned { request, .. }
        | Response::Tables { request, .. }
        | Response::GroupOutcomes { request, .. } => *request,
        Response::BackupPart { .. } => 0,
        _ => return None,
    };
    Some(Response::Busy { request })
}

/// Approximate size of a response, encoded and in memory. Every variant is named, so that none is
/// queued that does not count.
fn bytes_of(response: &Response) -> usize {
    size_of::<Response>()
        + match response {
            Response::Results { outcomes, .. } => outcomes.capacity(),
            Response::Rows { values, .. } => {
                bytes_of_items(values) + values.iter().flatten().map(Vec::capacity).sum::<usize>()
            }
            Response::Scanned { scanned, .. } => {
                let row = |(key, value): &(Vec<u8>, Vec<u8>)| key.capacity() + value.capacity();
                bytes_of_items(&scanned.rows) + scanned.rows.iter().map(row).sum::<usize>()
            }
            Response::BackupPart { bytes, .. } => bytes.capacity(),
            Response::Tables { tables, .. } => {
                let names = tables.iter().map(|it| it.name.capacity());
                bytes_of_items(tables) + names.sum::<usize>()
            }
            Response::Refused { reason, .. } => reason.capacity(),
            Response::Table { name, .. } => name.capacity(),
            Response::Status(status) => bytes_of_status(status),
            Response::SessionResumed { groups, .. } => bytes_of_items(groups),
            Response::GroupOutcomes { outcomes, .. } => outcomes.as_ref().map_or(0, bytes_of_items),
            Response::LinksCut { nodes } => bytes_of_items(nodes),
            Response::Sessions { sessions, .. } => {
                let clients = sessions.iter().map(|it| it.client.capacity());
                bytes_of_items(sessions) + clients.sum::<usize>()
            }
            Response::Welcome { addresses, .. } | Response::Nodes { addresses } => {
                bytes_of_items(addresses) + addresses.iter().map(String::capacity).sum::<usize>()
            }
            Response::NotLeader { leader, .. } => {
                leader.as_ref().map_or(0, |(_, address)| address.capacity())
            }
            Response::MembersChanged(change) => match change {
                MemberChange::Add { addresses, .. } | MemberChange::Move { addresses, .. } => {
                    bytes_of_addresses(addresses)
                }
                MemberChange::Replace { .. } | MemberChange::Remove { .. } => 0,
            },
            Response::SessionOpened { .. }
            | Response::SessionClosed { .. }
            | Response::OutcomeUnknown { .. }
            | Response::NoSuchSession { .. }
            | Response::Busy { .. }
            | Response::OtherCluster { .. }
            | Response::SessionsFull { .. }
            | Response::Disconnected { .. }
            | Response::TableDropped { .. }
            | Response::TableCleared { .. }
            | Response::BackupBegun { .. }
            | Response::SessionTaken { .. }
            | Response::Behind { .. }
            | Response::EntryPassed { .. } => 0,
        }
}

fn bytes_of_items<T>(items: &Vec<T>) -> usize {
    items.capacity() * size_of::<T>()
}

fn bytes_of_addresses(addresses: &NodeAddresses) -> usize {
    addresses.peer.capacity() + addresses.client.capacity()
}

fn bytes_of_status(status: &NodeStatus) -> usize {
    let addresses = status.members.iter().filter_map(|it| it.addresses.as_ref());
    size_of::<NodeStatus>()
        + bytes_of_items(&status.members)
        + addresses.map(bytes_of_addresses).sum::<usize>()
        + bytes_of_items(&status.removed)
        + bytes_of_items(&status.founders)
        + bytes_of_items(&status.matched)
        + status.version.capacity()
}

#[cfg(test)]
mod tests {
    use namiki_client::protocol::{Outcome, Scanned, SessionId, TableEntry};

    use super::*;

    fn results(commands: usize) -> Response {
        Response::Results {
            session: SessionId(1),
            group: 1,
            outcomes: vec![Outcome::Done; commands],
            lsn: 1,
        }
    }

    fn rows(bytes: usize) -> Response {
        Response::Rows {
            request: 1,
            values: vec![Some(vec![0; bytes])],
            lsn: 1,
        }
    }

    #[test]
    fn a_client_that_does_not_read_overflows_its_queue() {
        let (registry, wakeups) = (ClientRegistry::new(1 << 20), Wakeups::default());
        let (_, queue) = registry.register(1, 6000).unwrap();
        let mut taken = VecDeque::new();
        queue.push(results(10_000), &wakeups);
        assert!(queue.take(&mut taken, 1).is_ok(), "one is never too much");
        assert_eq!(taken.len(), 1);
        queue.written();
        queue.push(results(4000), &wakeups);
        assert!(queue.take(&mut taken, 1).is_ok());
        // It was taken, and is not written.
        queue.push(results(4000), &wakeups);
        assert!(queue.take(&mut taken, 1).is_err());
        drop((queue, registry.connections.write().drain()));
        assert_eq!(registry.budget.free(), 1 << 20);
    }

    #[test]
    fn clients_that_do_not_read_leave_room_for_others() {
        let (registry, wakeups) = (ClientRegistry::new(1 << 20), Wakeups::default());
        let queues: Vec<_> = (0..7)
            .map(|_| registry.register(8, 1 << 20).unwrap().1)
            .collect();
        for _ in 0..1000 {
            for queue in &queues {
                queue.push(results(1000), &wakeups);
            }
        }
        // Each has a share, or has lost everything when it asked for more.
        assert!(registry.budget.free() >= (1 << 20) / 8);
        let (_, honest) = registry.register(8, 1 << 20).unwrap();
        honest.push(results(50_000), &wakeups);
        let mut taken = VecDeque::new();
        honest.take(&mut taken, usize::MAX).unwrap();
        assert_eq!(taken, [results(50_000)]);
    }

    #[test]
    fn rows_without_room_are_to_be_read_again() {
        let (registry, wakeups) = (ClientRegistry::new(1 << 20), Wakeups::default());
        let (_, queue) = registry.register(1, 10_000).unwrap();
        queue.push(rows(9000), &wakeups);
        queue.push(rows(9000), &wakeups);
        let mut taken = VecDeque::new();
        queue.take(&mut taken, usize::MAX).unwrap();
        assert_eq!(taken, [rows(9000), Response::Busy { request: 1 }]);
    }

    /// Every answer with contents of any length counts with them.
    #[test]
    fn long_answers_are_read_again_or_overflow() {
        const BYTES: usize = 9000;
        let name = || "n".repeat(BYTES);
        let scanned = Response::Scanned {
            request: 2,
            scanned: Scanned {
                rows: vec![(vec![0; BYTES / 2], vec![0; BYTES / 2])],
                ..Scanned::default()
            },
        };
        let part = Response::BackupPart {
            file_bytes: 1,
            bytes: vec![0; BYTES],
        };
        let tables = Response::Tables {
            request: 3,
            tables: vec![TableEntry {
                table: 1,
                name: name(),
                eight_byte_keys: false,
            }],
            lsn: 1,
        };
        let nodes = Response::Nodes {
            addresses: vec![name()],
        };
        let moved = Response::MembersChanged(MemberChange::Move {
            node: 1,
            addresses: NodeAddresses {
                peer: name(),
                client: name(),
            },
        });
        let not_leader = Response::NotLeader {
            request: 4,
            leader: Some((1, name())),
        };
        for (answer, busy) in [
            (scanned, Some(2)),
            (part, Some(0)),
            (tables, Some(3)),
            (nodes, None),
            (moved, None),
            (not_leader, None),
        ] {
            let (registry, wakeups) = (ClientRegistry::new(1 << 20), Wakeups::default());
            let (_, queue) = registry.register(1, 10_000).unwrap();
            assert!(queue.bytes_free() > BYTES);
            queue.push(rows(9000), &wakeups);
            assert!(queue.bytes_free() < BYTES);
            queue.push(answer.clone(), &wakeups);
            let mut taken = VecDeque::new();
            let is_taken = queue.take(&mut taken, usize::MAX).is_ok();
            let expected = busy.map(|request| Response::Busy { request });
            assert_eq!(taken.get(1), expected.as_ref(), "{answer:?}");
            assert_eq!(is_taken, busy.is_some(), "{answer:?}");
        }
    }

    #[test]
    fn what_is_free_is_what_is_queued() {
        let (registry, wakeups) = (ClientRegistry::new(1 << 20), Wakeups::default());
        let queues = [0; 2].map(|_| registry.register(2, 1 << 18).unwrap().1);
        let mut taken = VecDeque::new();
        loop {
            let free = queues[0].bytes_free();
            if free == 0 {
                break;
            }
            let part = Response::BackupPart {
                file_bytes: 1,
                bytes: vec![0; free],
            };
            queues[0].push(part.clone(), &wakeups);
            queues[0].take(&mut taken, usize::MAX).unwrap();
            assert_eq!(taken.pop_back(), Some(part));
        }
        // A single answer may take half of everything, and others have a share of the rest.
        assert!(queues[1].bytes_free() >= (1 << 18) - 200);
        queues[0].written();
        assert!(queues[0].bytes_free() > (1 << 18));
        assert_eq!(queues[0].appended(), queues[0].all_written());
    }

    #[test]
    fn connections_are_limited_and_never_share_a_number() {
        let registry = ClientRegistry::new(1 << 20);
        let (first, _) = registry.register(2, 1).unwrap();
        let (second, _) = registry.register(2, 1).unwrap();
        assert!(registry.register(2, 1).is_none());
        registry.remove(first);
        let (third, _) = registry.register(2, 1).unwrap();
        assert!(first != second && second != third && first != third);
        assert!(registry.find(first).is_none() && registry.find(third).is_some());
    }
}
