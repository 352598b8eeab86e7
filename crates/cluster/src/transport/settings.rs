//! What the transport of a node is told: addresses, and limits.

use std::time::Duration;

use namiki_client::protocol::REQUEST_BYTES_MAX;

use crate::network::NodeId;

/// Another node, as this one sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// Its number. Every incarnation has its addresses.
    pub node: u64,
    /// Where it listens for nodes: a name or a number, and a port.
    pub address: String,
    /// Where it listens for clients: where a client is sent if that node leads.
    pub client_address: String,
    /// How much later everything that is sent to it leaves, for tests. Zero: no delay.
    pub delay: Duration,
    /// How long each payload of it is held up here, one after the other, for tests. Zero: it is not.
    pub handling: Duration,
}

/// The transport of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportSettings {
    /// The cluster: nodes of others are refused.
    pub cluster: u128,
    /// This node.
    pub node: NodeId,
    /// Of every node.
    pub workers: u16,
    /// All other nodes.
    pub peers: Vec<PeerSettings>,
    /// The longest group of commands that is accepted.
    pub group_commands_max: u32,
    /// Whether clients may cut links ([`Request::CutLinks`](namiki_client::protocol::Request::CutLinks)). For tests only.
    pub allow_cuts: bool,
    /// Limits in bytes.
    pub limits: Limits,
    /// Limits in time.
    pub timing: Timing,
}

/// How much of what is kept, and accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest payload, and so how much a lane buffers of what it reads. Default 32 MiB.
    pub payload_bytes_max: usize,
    /// The longest Raft message. Default 16 MiB.
    pub raft_bytes_max: usize,
    /// What waits on one lane to be sent. Default 64 MiB.
    pub lane_bytes_max: usize,
    /// The longest message of a client. Default 8 MiB.
    pub client_message_bytes_max: usize,
    /// What is buffered of messages of all clients that have not arrived completely. Default 256 MiB.
    pub client_buffer_bytes_max: usize,
    /// What waits for one client to be read. A client that has more to read is disconnected. Default 16 MiB.
    pub client_response_bytes_max: usize,
    /// Connections of clients at the same time. Default 4096.
    pub client_connections_max: usize,
    /// Connections that have not said their hello, at each of the two addresses. Default 256.
    pub strangers_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            payload_bytes_max: 32 << 20,
            raft_bytes_max: 16 << 20,
            lane_bytes_max: 64 << 20,
            client_message_bytes_max: REQUEST_BYTES_MAX,
            client_buffer_bytes_max: 256 << 20,
            client_response_bytes_max: 16 << 20,
            client_connections_max: 4096,
            strangers_max: 256,
        }
    }
}

/// How long to wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// For a connection and its hello. Default 3 s.
    pub hello_timeout: Duration,
    /// For the rest of a client's message after its first byte. Default 20 s.
    pub message_timeout: Duration,
    /// Between two questions whether a node is alive. Default 500 ms.
    pub keepalive: Duration,
    /// Silence after which a node counts as dead, or a client that does not read as gone. Default 3 s.
    pub dead_after: Duration,
    /// Before a connection is tried again, at first. Default 20 ms.
    pub reconnect_first: Duration,
    /// Before a connection is tried again, at last. Default 500 ms.
    pub reconnect_longest: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        let ms = Duration::from_millis;
        Self {
            hello_timeout: ms(3000),
            message_timeout: ms(20_000),
            keepalive: ms(500),
            dead_after: ms(3000),
            reconnect_first: ms(20),
            reconnect_longest: ms(500),
        }
    }
}
