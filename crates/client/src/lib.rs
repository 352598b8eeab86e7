//! The client library of a Namiki cluster, and its protocol between client and node.
//!
//! A [`Client`] finds the leader and follows it. Commands go in groups through a [`Session`], which
//! makes them safe to repeat: a group is executed once, in spite of lost connections and changes of
//! the leader, and its results stay the same when they are requested again.
//!
//! A process that died leaves a [`SessionToken`]: [`Client::resume`] continues its session and says
//! what became of its groups. Reads may be answered by any node, see [`ReadOptions`].
//!
//! | module | contents |
//! |---|---|
//! | `protocol` | messages and frames |
//! | `channel` | a channel to the leader, or to any node: a state machine without I/O |
//! | `blocking` | the client for threads |
//! | `asynchronous` | the client for tasks of tokio, with the feature `async` |
//! | `security`, `tls` | protected connections, with the feature `tls` |
//!
//! Paper: raft-pwal §2.2

#[cfg(feature = "async")]
mod asynchronous;
mod blocking;
mod channel;
mod error;
#[cfg(feature = "hostile-bytes")]
#[doc(hidden)]
pub mod hostile_bytes;
mod links;
mod message_buffer;
mod options;
pub mod protocol;
mod read_options;
mod requests;
mod security;
#[cfg(feature = "tls")]
pub mod tls;
mod tls_options;
mod token;

/// The programs in the documentation compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/cluster-clients.md")]
struct DocumentedPrograms;

#[cfg(feature = "async")]
pub use asynchronous::{AsyncClient, AsyncReader, AsyncSession};
pub use blocking::{
    BackupSource, Client, HashAt, NodeState, Reader, Session, StatesAtEntry, close_session,
    cut_links, sessions, state_hash, state_hash_at, states_at_one_entry, status,
};
pub use error::ClientError;
pub use options::ClientOptions;
pub use protocol::Scanned;
pub use read_options::{Consistency, ReadNode, ReadOptions};
pub use requests::{Group, GroupOutcomes, Rows};
pub use security::Security;
pub use tls_options::TlsOptions;
pub use token::{SessionToken, TokenError};
