//! What a node asks of the network, and what the network brings: the boundary between the node and the transport.
//!
//! The node calls [`Network`]; the transport, or the simulator in its place, calls the node's [`Inbox`].

use bytes::Bytes;
use namiki_client::protocol::{Request, Response};
use serde::{Deserialize, Serialize};

use crate::entry::PayloadRef;

/// A node's number in the cluster, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u64);

/// A client's connection to a node, unique in the life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// What nodes send to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerMessage {
    /// A Raft message, in the adapter's encoding. On the control lane.
    Raft(Bytes),
    /// A payload that was just sealed. On the lane of its worker.
    Payload {
        /// What it is.
        payload: PayloadRef,
        /// Its bytes. A receiver drops them unless they are what it is.
        bytes: Bytes,
    },
    /// Asks for payloads that are missing. On the catch-up lane.
    FetchPayloads {
        /// What they are: few enough for their answers to fit into a few megabytes.
        payloads: Vec<PayloadRef>,
    },
    /// The answer for one payload of [`PeerMessage::FetchPayloads`]: the bytes, or nothing if this node does not have them. On the catch-up lane.
    FetchedPayload {
        /// What it is.
        payload: PayloadRef,
        /// Its bytes.
        bytes: Option<Bytes>,
    },
}

/// Sends. Nothing here blocks or fails: a message to a node may be lost, doubled or late, and messages of one lane may overtake those of
/// another. A transport drops messages to a node that it cannot reach, and the oldest of a lane that holds more than its limit.
pub trait Network: Send + Sync {
    /// To another node.
    fn send(&self, to: NodeId, message: PeerMessage);
    /// To a client. Without effect if the connection is closed. An empty address in [`Response::NotLeader`] is filled in.
    fn reply(&self, to: ConnectionId, response: Response);
}

/// Receives. The transport calls it from its only thread, so nothing here may block for long: an implementation puts what it is given
/// into a queue of the node.
///
/// Messages of one lane arrive in the order in which they were sent. A node may be reported as connected after its first message.
pub trait Inbox: Send + Sync {
    /// A message of another node.
    fn receive(&self, from: NodeId, message: PeerMessage);
    /// The control lane to a node is up: what is sent to it from now on is not dropped at once.
    fn connected(&self, node: NodeId);
    /// The control lane to a node is down.
    fn disconnected(&self, node: NodeId);
    /// A request of a client. [`Request::Hello`] and [`Request::CutLinks`] never arrive here, the transport answers them.
    fn request(&self, from: ConnectionId, request: Request);
    /// A client's connection is closed: replies to it have no effect any more.
    fn client_gone(&self, connection: ConnectionId);
}
