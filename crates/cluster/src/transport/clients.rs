//! Queues of responses to clients: a bounded one for each connection.
//!
//! Any thread of the node pushes; the connection's task encodes and writes. A client that does not read is disconnected when its queue is
//! full: its requests are known by session and number, so it may ask again.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use namiki_client::protocol::Response;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use crate::network::ConnectionId;
use crate::transport::wakeups::Wakeups;

/// The open connections of clients.
#[derive(Default)]
pub(super) struct ClientRegistry {
    connections: RwLock<HashMap<ConnectionId, Arc<ResponseQueue>>>,
    last: AtomicU64,
}

impl ClientRegistry {
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
        let queue = Arc::new(ResponseQueue::new(bytes_max));
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
}

/// Responses to one client.
pub(super) struct ResponseQueue {
    state: Mutex<State>,
    /// Tells the connection's task that there are responses.
    pub(super) wake: Arc<Notify>,
    bytes_max: usize,
}

#[derive(Default)]
struct State {
    responses: VecDeque<Response>,
    bytes: usize,
    /// The connection's task has been notified, and has not checked yet.
    announced: bool,
    overflowed: bool,
}

/// The client has more unread responses than it may have.
#[derive(Debug)]
pub(super) struct Overflowed;

impl ResponseQueue {
    fn new(bytes_max: usize) -> Self {
        Self {
            state: Mutex::default(),
            wake: Arc::default(),
            bytes_max,
        }
    }

    /// Appends a response and wakes the connection's task.
    pub(super) fn push(&self, response: Response, wakeups: &Wakeups) {
        let announce = {
            let mut state = self.state.lock();
            let bytes = bytes_of(&response);
            // A single response is never too much.
            if state.bytes + bytes > self.bytes_max && !state.responses.is_empty() {
                state.overflowed = true;
                state.responses = VecDeque::new();
            }
            if !state.overflowed {
                state.bytes += bytes;
                state.responses.push_back(response);
            }
            !std::mem::replace(&mut state.announced, true)
        };
        if announce {
            wakeups.announce(&self.wake);
        }
    }

    /// Appends all responses to `into`.
    pub(super) fn take(&self, into: &mut VecDeque<Response>) -> Result<(), Overflowed> {
        let mut state = self.state.lock();
        state.announced = false;
        state.bytes = 0;
        if state.overflowed {
            return Err(Overflowed);
        }
        if into.is_empty() {
            std::mem::swap(into, &mut state.responses);
        } else {
            into.append(&mut state.responses);
        }
        Ok(())
    }
}

/// Approximate size of a response, encoded and in memory.
fn bytes_of(response: &Response) -> usize {
    let own = std::mem::size_of::<Response>();
    own + match response {
        Response::Results { outcomes, .. } => outcomes.len(),
        Response::Rows { values, .. } => {
            let row = |value: &Option<Vec<u8>>| {
                std::mem::size_of::<Option<Vec<u8>>>() + value.as_ref().map_or(0, Vec::len)
            };
            values.iter().map(row).sum()
        }
        Response::Refused { reason, .. } => reason.len(),
        Response::Table { name, .. } => name.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use namiki_client::protocol::{Outcome, SessionId};

    use super::*;

    fn results(commands: usize) -> Response {
        Response::Results {
            session: SessionId(1),
            group: 1,
            outcomes: vec![Outcome::Done; commands],
        }
    }

    #[test]
    fn a_client_that_does_not_read_overflows_its_queue() {
        let (registry, wakeups) = (ClientRegistry::default(), Wakeups::default());
        let (_, queue) = registry.register(1, 3000).unwrap();
        let mut taken = VecDeque::new();
        queue.push(results(2000), &wakeups);
        assert!(queue.take(&mut taken).is_ok());
        queue.push(results(5000), &wakeups);
        assert!(queue.take(&mut taken).is_ok(), "one is never too much");
        assert_eq!(taken.len(), 2);
        queue.push(results(2000), &wakeups);
        queue.push(results(2000), &wakeups);
        assert!(queue.take(&mut taken).is_err());
    }

    #[test]
    fn connections_are_limited_and_never_share_a_number() {
        let registry = ClientRegistry::default();
        let (first, _) = registry.register(2, 1).unwrap();
        let (second, _) = registry.register(2, 1).unwrap();
        assert!(registry.register(2, 1).is_none());
        registry.remove(first);
        let (third, _) = registry.register(2, 1).unwrap();
        assert!(first != second && second != third && first != third);
        assert!(registry.find(first).is_none() && registry.find(third).is_some());
    }
}
