//! The protocol between a client and a node.
//!
//! A message is a length of four bytes (little-endian, of what follows) and a [`Request`] or a [`Response`] in postcard's
//! encoding. The first message of a connection is [`Request::Hello`]; before it is answered, a node accepts no message longer than
//! [`HELLO_BYTES_MAX`], and afterwards none longer than [`MESSAGE_BYTES_MAX`]. It names the
//! client's cluster: addresses may be reused by another cluster, and a client of one cluster must
//! not continue with another.
//!
//! Commands are sent in groups (the paper's TxGrp). A group has a number in its session. A group
//! that is sent again under its number is not executed again: each of its commands has one outcome
//! for ever.
//!
//! A session is held by one process at a time. A [`Request::ResumeSession`] hands it to another one:
//! its entry is the session's new *fence*, and requests with an earlier fence are refused.
//!
//! Paper: raft-pwal §2.2

mod command;
mod decoded_size;
mod frame;
mod message;

pub use command::{Command, Condition, Outcome, Write};
pub use decoded_size::{DecodedSize, decoded_size};
pub use frame::{
    ClaimedGroup, FrameError, LENGTH_BYTES, claimed_group, claimed_version, decode, encode,
    encoded, encoded_request, is_tls,
};
pub use message::{
    DisconnectReason, Freshness, HELLO_BYTES_MAX, MAGIC, MESSAGE_BYTES_MAX, MemberChange,
    MemberStatus, NodeAddresses, NodeStatus, PROTOCOL_VERSION, REQUEST_BYTES_MAX, Request,
    Response, Role, ScanRange, Scanned, SessionEntry, SessionId, SessionLimit, TableEntry,
};
