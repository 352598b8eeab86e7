//! Settings of a node's transport: addresses and limits.

use std::time::Duration;

use namiki_client::protocol::{NodeAddresses, REQUEST_BYTES_MAX};

use crate::network::NodeId;

/// Another node, as this one sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// Its number. All incarnations have the same addresses.
    pub node: u64,
    /// Its addresses in the configuration. Those in the log come first.
    pub addresses: NodeAddresses,
    /// Delay of all messages to it, for tests. Zero: no delay.
    pub delay: Duration,
    /// Delay of each payload from it in the receiver, one after the other, for tests. Zero: no
    /// delay.
    pub handling: Duration,
}

/// The transport of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportSettings {
    /// The cluster: nodes of other clusters are refused.
    pub cluster: u128,
    /// This node.
    pub node: NodeId,
    /// A hash of the members with which the cluster began: nodes that were made for others are refused.
    pub founders: u64,
    /// Number of workers of every node.
    pub workers: u16,
    /// The other nodes of the configuration. The log may have more.
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

/// Limits on buffered and accepted data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest payload, which bounds the read buffer of a lane. Default 32 MiB.
    pub payload_bytes_max: usize,
    /// The longest Raft message. Default 16 MiB.
    pub raft_bytes_max: usize,
    /// Bytes that wait on one lane to be sent. Default 64 MiB.
    pub lane_bytes_max: usize,
    /// The longest message of a client. Default 8 MiB.
    pub client_message_bytes_max: usize,
    /// Buffered bytes of incomplete messages of all clients together. Default 256 MiB.
    pub client_buffer_bytes_max: usize,
    /// Bytes of unread responses of one client. A client with more is disconnected. Default 16 MiB.
    pub client_response_bytes_max: usize,
    /// Bytes of unread responses of all clients together. Default 256 MiB.
    pub client_responses_bytes_max: usize,
    /// Bytes in memory of one request of a client. Default 128 MiB.
    pub client_request_bytes_max: usize,
    /// Keys of one read of a client. Default 100,000.
    pub read_keys_max: u32,
    /// Connections of clients at the same time. Default 4096.
    pub client_connections_max: usize,
    /// Connections without a completed hello, at each of the two addresses. Default 256.
    pub unauthenticated_max: usize,
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
            client_responses_bytes_max: 256 << 20,
            client_request_bytes_max: 128 << 20,
            read_keys_max: 100_000,
            client_connections_max: 4096,
            unauthenticated_max: 256,
        }
    }
}

/// Timeouts and intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Timeout of a connection and its hello. Default 3 s.
    pub hello_timeout: Duration,
    /// Timeout of the rest of a client's message after its first byte. Default 20 s.
    pub message_timeout: Duration,
    /// Interval of pings to a node. Default 500 ms.
    pub keepalive: Duration,
    /// Silence after which a node counts as dead, or a client that does not read counts as gone.
    /// Default 3 s.
    pub dead_after: Duration,
    /// First backoff before a connection is retried. Default 20 ms.
    pub reconnect_first: Duration,
    /// Longest backoff before a connection is retried. Default 500 ms.
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
