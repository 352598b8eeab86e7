//! Clients that ask for the hash of the state at an entry which is not applied yet.
//!
//! Nodes that hash the state at one entry can be compared while they serve. So the hash is taken when exactly that entry is applied,
//! before the next one.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::network::ConnectionId;

/// Most requests that wait.
const WAITING_MAX: usize = 16;

/// A client, and the entry.
pub(crate) type HashRequest = (ConnectionId, u64);

/// The requests that wait.
#[derive(Debug)]
pub(crate) struct HashRequests {
    waiting: Mutex<Waiting>,
    /// The first entry that is waited for; `u64::MAX`: none is.
    next: AtomicU64,
    /// Ticks after which a request is given up.
    wait_ticks: u64,
}

#[derive(Debug, Default)]
struct Waiting {
    now: u64,
    /// Each with the tick at which it is given up.
    requests: Vec<(HashRequest, u64)>,
}

impl HashRequests {
    pub(crate) fn new(wait_ticks: u64) -> Self {
        Self {
            waiting: Mutex::default(),
            next: AtomicU64::new(u64::MAX),
            wait_ticks,
        }
    }

    /// Adds a request, if there is room; a connection has one.
    pub(crate) fn add(&self, request: HashRequest) -> bool {
        let waiting = &mut *self.waiting.lock();
        let is_new = |it: &(HashRequest, u64)| it.0.0 != request.0;
        if waiting.requests.len() >= WAITING_MAX || !waiting.requests.iter().all(is_new) {
            return false;
        }
        let until = waiting.now + self.wait_ticks;
        waiting.requests.push((request, until));
        self.note_next(waiting);
        true
    }

    /// The first entry that is waited for. A request that is being added may be missed: its client is told that the entry has passed.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Takes the requests for entries through `applied`.
    pub(crate) fn take_due(&self, applied: u64) -> Vec<HashRequest> {
        self.take(|_, (_, entry), _| entry <= applied)
    }

    /// Time has passed. Takes the requests that are given up.
    pub(crate) fn tick(&self) -> Vec<HashRequest> {
        if self.next() == u64::MAX {
            return Vec::new();
        }
        self.waiting.lock().now += 1;
        self.take(|now, _, until| until <= now)
    }

    /// A client is gone.
    pub(crate) fn forget(&self, connection: ConnectionId) {
        self.take(|_, (of, _), _| of == connection);
    }

    fn take(&self, is_taken: impl Fn(u64, HashRequest, u64) -> bool) -> Vec<HashRequest> {
        let waiting = &mut *self.waiting.lock();
        let now = waiting.now;
        let requests = &mut waiting.requests;
        let taken = requests.extract_if(.., |(request, until)| is_taken(now, *request, *until));
        let taken = taken.map(|(request, _)| request).collect();
        self.note_next(waiting);
        taken
    }

    fn note_next(&self, waiting: &Waiting) {
        let entries = waiting.requests.iter().map(|((_, entry), _)| *entry);
        let next = entries.min().unwrap_or(u64::MAX);
        self.next.store(next, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_wait_for_their_entries() {
        let requests = HashRequests::new(3);
        assert_eq!(requests.next(), u64::MAX);
        for (connection, entry) in [(1, 20), (2, 10), (3, 30), (4, 10)] {
            assert!(requests.add((ConnectionId(connection), entry)));
        }
        assert_eq!(requests.next(), 10);
        assert_eq!(requests.take_due(9), []);
        let due = [(ConnectionId(2), 10), (ConnectionId(4), 10)];
        assert_eq!(requests.take_due(10), due);
        assert_eq!(requests.next(), 20);
        requests.forget(ConnectionId(1));
        assert_eq!(requests.next(), 30);
        assert_eq!([requests.tick(), requests.tick()], [[], []]);
        assert_eq!(requests.tick(), [(ConnectionId(3), 30)]);
        assert_eq!(requests.next(), u64::MAX);
    }

    #[test]
    fn requests_are_bounded() {
        let requests = HashRequests::new(3);
        let add = |connection| requests.add((ConnectionId(connection), 9));
        assert!(add(0) && !add(0), "one for each connection");
        let added = (1..100).filter(|connection| add(*connection)).count();
        assert_eq!(added + 1, WAITING_MAX);
    }
}
