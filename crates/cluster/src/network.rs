//! The boundary between a node and the transport: messages to send and messages received.
//!
//! The node calls [`Network`]; the transport, or the simulator in its place, calls the node's [`Inbox`].

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use bytes::Bytes;
use namiki_client::protocol::{Request, Response};
use namiki_platform::hash::hash_of;
use serde::{Deserialize, Serialize};

use crate::entry::PayloadRef;
use crate::image_message::ImageMessage;
use crate::log_space::LogSpace;
use crate::membership::Membership;
pub use crate::node_id::NodeId;

/// A client's connection to a node, unique in the life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// The name under which a client's sessions are counted: its certificate's key if it has shown one,
/// otherwise its address.
///
/// Addresses of IPv6 count by their network of 64 bits, since a machine may have any address of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClientName(Box<str>);

impl ClientName {
    /// A client at this address.
    #[must_use]
    pub fn of_address(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => address.to_string().into(),
            IpAddr::V6(address) => {
                let network = u128::from(address) >> 64 << 64;
                format!("{}/64", Ipv6Addr::from(network)).into()
            }
        })
    }

    /// A client with this public key in its certificate.
    #[must_use]
    pub fn of_key(public_key: &[u8]) -> Self {
        let [high, low] = [1, 2].map(|seed| hash_of(seed, public_key));
        Self(format!("key {high:016x}{low:016x}").into())
    }
}

impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {self}")
    }
}

/// Messages between nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerMessage {
    /// A Raft message, in the adapter's encoding. On the control lane.
    Raft(Bytes),
    /// A message of a node that has started, or an answer to one, in the adapter's encoding. On the
    /// control lane.
    Start(Bytes),
    /// The space of a node's log, for the leader. On the control lane.
    LogSpace(LogSpace),
    /// A payload that was just sealed. On the lane of its worker.
    Payload {
        /// Its name, length and digest.
        payload: PayloadRef,
        /// Its bytes. A receiver drops them unless they match.
        bytes: Bytes,
    },
    /// Asks for payloads that are missing. On the catch-up lane.
    FetchPayloads {
        /// The payloads: few enough for their answers to fit into a few megabytes.
        payloads: Vec<PayloadRef>,
    },
    /// The answer for one payload of [`PeerMessage::FetchPayloads`]: the bytes, or `None` if this
    /// node does not have them. On the catch-up lane.
    FetchedPayload {
        /// Its name, length and digest.
        payload: PayloadRef,
        /// Its bytes.
        bytes: Option<Bytes>,
    },
    /// About an image of a node's tables. On the catch-up lane.
    Image(ImageMessage),
}

/// Sends messages. Nothing here blocks or fails: a message to a node may be lost, duplicated or
/// late, and messages of one lane may overtake those of another. A transport drops messages to a
/// node that it cannot reach, and the oldest ones of a lane that exceeds its limit.
pub trait Network: Send + Sync {
    /// Sends a message to another node.
    fn send(&self, to: NodeId, message: PeerMessage);
    /// Sets the members, as far as this node knows: unknown ones are dialled, and those that were
    /// replaced or removed are disconnected.
    fn set_members(&self, members: &Membership);
    /// Sends a response to a client. Has no effect if the connection is closed. An empty address in
    /// [`Response::NotLeader`] is filled in.
    fn reply(&self, to: ConnectionId, response: Response);
    /// Bytes of the longest contents of a response to a client that would be queued now. What reads
    /// much for a client asks before, and answers [`Response::Busy`] at 0.
    fn response_bytes_free(&self, to: ConnectionId) -> usize;
}

/// Receives messages. The transport calls it from its threads, one for nodes and one for clients, so
/// nothing here may block for long: an implementation queues the message for a part of the node.
///
/// Messages of one lane arrive in the order in which they were sent. A node may be reported as connected after its first message.
pub trait Inbox: Send + Sync {
    /// A message of another node.
    fn receive(&self, from: NodeId, message: PeerMessage);
    /// The control lane to a node is up: messages to it are no longer dropped at once.
    fn connected(&self, node: NodeId);
    /// The control lane to a node is down.
    fn disconnected(&self, node: NodeId);
    /// A node refuses this one: it was removed, or replaced by another directory, and never becomes a
    /// member again.
    fn gone(&self, according_to: NodeId);
    /// A request of a client. [`Request::Hello`] and [`Request::CutLinks`] never arrive here; the
    /// transport answers them.
    fn request(&self, from: ConnectionId, client: &ClientName, request: Request);
    /// A client's connection is closed: replies to it have no more effect.
    fn client_gone(&self, connection: ConnectionId);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_are_one_client() {
        let name = |text: &str| ClientName::of_address(text.parse().unwrap());
        assert_eq!(name("10.0.0.1").to_string(), "10.0.0.1");
        assert_eq!(name("::ffff:10.0.0.1"), name("10.0.0.1"));
        assert_ne!(name("10.0.0.1"), name("10.0.0.2"));
        assert_eq!(name("2001:db8::1:2:3:4"), name("2001:db8::5"));
        assert_ne!(name("2001:db8::1"), name("2001:db8:0:1::1"));
    }
}
