//! A client's connection, from its first byte to its last.
//!
//! | file | contents |
//! |---|---|
//! | `stream.rs` | TCP or a Unix socket |
//! | `login.rs` | startup, authentication, cancel requests |
//! | `connection.rs` | reading and sending; the ends of a connection |
//! | `session.rs` | the loop over messages, batches, repetition after a conflict |
//! | `simple_query.rs` | the simple protocol |
//! | `portals.rs` | running a portal, with its rows and with COPY |
//! | `presence.rs` | whether the client of a long statement is still there |
//! | `batch.rs` | the state between two Syncs: the engine's connection, statements, portals, output |
//! | `statements.rs` | prepared statements |
//!
//! ```text
//!  accepted ──► startup ──► authentication ──► loop: read ─► messages ─► send ──► end
//!      │           │              │                  ▲__________________│
//!      └ too many  └ cancel       └ wrong password: delay
//! ```
//!
//! # Invariants
//! - C1. Output is sent when no complete message is left to read, when the client asks for it, and
//!   when the buffer is full: one write for a request.
//! - C2. Output that was sent is never part of a repetition.
//! - C3. A session waits for its client in two places: for a message, and for room to send. Neither
//!   holds the thread.

mod batch;
mod connection;
mod login;
mod portals;
mod presence;
mod session;
mod simple_query;
mod statements;
mod stream;

pub(crate) use connection::serve;
pub(crate) use login::DATABASE;
pub(crate) use stream::Accepted;
