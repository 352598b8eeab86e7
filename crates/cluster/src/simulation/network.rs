//! The network of the simulation: collects the messages that nodes send; the world delivers them.

use std::collections::HashSet;
use std::sync::Arc;

use namiki_client::protocol::Response;
use namiki_platform::seeded_random::Random;
use parking_lot::Mutex;

use crate::membership::Membership;
use crate::network::{ConnectionId, Network, NodeId, PeerMessage};

/// The operator's connection, to any node.
pub(super) const OPERATOR: ConnectionId = ConnectionId(u64::MAX);

/// A sent message.
#[derive(Clone, Debug)]
pub(super) enum Sent {
    Peer {
        from: NodeId,
        to: NodeId,
        message: PeerMessage,
    },
    Client {
        to: ConnectionId,
        response: Response,
    },
}

/// Messages that were sent and not yet scheduled.
pub(super) type Outbox = Arc<Mutex<Vec<Sent>>>;

/// The members that a node's network lets in and dials.
pub(super) type Admitted = Arc<Mutex<Membership>>;

/// The network as one node sees it.
pub(super) struct SimNetwork {
    pub(super) node: NodeId,
    pub(super) outbox: Outbox,
    pub(super) admitted: Admitted,
}

impl Network for SimNetwork {
    fn send(&self, to: NodeId, message: PeerMessage) {
        let from = self.node;
        self.outbox.lock().push(Sent::Peer { from, to, message });
    }

    fn set_members(&self, members: &Membership) {
        self.admitted.lock().clone_from(members);
    }

    fn reply(&self, to: ConnectionId, response: Response) {
        self.outbox.lock().push(Sent::Client { to, response });
    }

    fn response_bytes_free(&self, _: ConnectionId) -> usize {
        usize::MAX
    }
}

/// Whether a network that knows these members, and has these numbers in its configuration, has a connection with a node: as the
/// transport decides.
pub(super) fn admits(members: &Membership, configured: &[u64], other: NodeId) -> bool {
    let number = other.number();
    let is_known = members.of_number(number).is_some() || configured.contains(&number);
    is_known && !members.has_gone(other)
}

/// The behaviour of links.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// Nothing gets through in this direction.
    pub(super) cut: HashSet<(NodeId, NodeId)>,
    pub(super) loss: f64,
    pub(super) doubling: f64,
    pub(super) delay_ns_max: u64,
}

impl Links {
    /// Delays of the copies of a message, from now on.
    pub(super) fn delays(&self, from: NodeId, to: NodeId, random: &mut Random) -> Vec<u64> {
        if self.cut.contains(&(from, to)) || random.chance(self.loss) {
            return Vec::new();
        }
        let copies = 1 + usize::from(random.chance(self.doubling));
        let mut delays = Vec::with_capacity(copies);
        for _ in 0..copies {
            // Occasionally one is very late.
            let max = if random.chance(0.01) {
                self.delay_ns_max * 50
            } else {
                self.delay_ns_max
            };
            delays.push(10_000 + random.below(max));
        }
        delays
    }
}
