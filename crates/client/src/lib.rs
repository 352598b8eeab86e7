//! The client library of a Namiki cluster, and its protocol between client and node.
//!
//! A [`Client`] finds the leader and follows it. Commands go in groups through a [`Session`], which
//! makes them safe to repeat: a group is executed once, in spite of lost connections and changes of
//! the leader, and its results stay the same when they are requested again.
//!
//! | module | contents |
//! |---|---|
//! | `protocol` | messages and frames |
//! | `channel` | a channel to the leader: a state machine without I/O |
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
mod message_buffer;
mod options;
pub mod protocol;
mod requests;
mod security;
#[cfg(feature = "tls")]
pub mod tls;
mod tls_options;

#[cfg(feature = "async")]
pub use asynchronous::{AsyncClient, AsyncSession};
pub use blocking::{BackupSource, Client, Session, cut_links, state_hash, status};
pub use error::ClientError;
pub use options::ClientOptions;
pub use protocol::Scanned;
pub use requests::{Group, Rows};
pub use security::Security;
pub use tls_options::TlsOptions;
