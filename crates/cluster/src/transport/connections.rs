//! The state of a transport's connections, for an observer.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::network::NodeId;
use crate::transport::connection_security::NodeSecurity;
use crate::transport::lane::Lane;
use crate::transport::shared::Shared;

/// A view of the connections that stays valid after the transport has stopped.
#[derive(Clone)]
pub(crate) struct Connections(Arc<Shared>);

/// The connections to one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeerConnections {
    /// Its address for nodes.
    pub(crate) address: String,
    /// Whether the lane of Raft's messages is open.
    pub(crate) is_reached: bool,
    /// Open lanes.
    pub(crate) lanes_up: u64,
    /// All lanes.
    pub(crate) lanes: u64,
    /// Messages that were dropped for lack of room or of a connection.
    pub(crate) dropped: u64,
}

impl Connections {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// The connections to a node.
    pub(crate) fn of(&self, node: NodeId) -> PeerConnections {
        let lanes = || Lane::all(self.0.identity.workers);
        let Some(peer) = self.0.peer(node) else {
            return PeerConnections {
                lanes: lanes().count() as u64,
                ..PeerConnections::default()
            };
        };
        let is_open = |lane| peer.lane(lane).is_some_and(|queue| queue.is_open());
        PeerConnections {
            address: peer.site.peer_address(0).unwrap_or_default(),
            is_reached: is_open(Lane::Control),
            lanes_up: lanes().filter(|lane| is_open(*lane)).count() as u64,
            lanes: lanes().count() as u64,
            dropped: self.0.dropped(node),
        }
    }

    /// Number of connected clients.
    pub(crate) fn clients(&self) -> u64 {
        self.0.clients.count() as u64
    }

    /// Whether connections are encrypted and authenticated.
    pub(crate) fn are_secured(&self) -> bool {
        !matches!(self.0.security, NodeSecurity::Plain)
    }

    /// When the node's certificate expires, in seconds of the Unix time, if it has one.
    pub(crate) fn certificate_expires_s(&self) -> Option<u64> {
        match &self.0.security {
            NodeSecurity::Plain => None,
            #[cfg(feature = "tls")]
            NodeSecurity::Tls(tls) => tls.expires_s(),
        }
    }

    /// Whether a task of the transport has panicked.
    pub(crate) fn have_failed(&self) -> bool {
        self.0.stop.failed.load(Ordering::Relaxed)
    }
}
