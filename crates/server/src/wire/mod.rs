//! The PostgreSQL wire protocol, version 3: frames, the messages of clients, the messages to them.
//!
//! | file | contents |
//! |---|---|
//! | `frames.rs` | messages as they are delimited in the stream of bytes |
//! | `startup_packet.rs` | the packets before a session: encryption requests, cancel requests, startup |
//! | `client_message.rs` | the messages of a session, read without copies |
//! | `fields.rs` | numbers and strings of a message, with bounds checks |
//! | `output.rs` | the messages to the client, and the rows |
//! | `protocol_error.rs` | violations of the protocol |
//!
//! Messages to clients are encoded by `pgwire`, except the few that each request needs. Messages of
//! clients are read here: the decoders of `pgwire` 0.42 panic on a message that is shorter than its
//! fields, and replace bytes that are no UTF-8.

mod client_message;
mod fields;
mod frames;
mod output;
mod protocol_error;
mod startup_packet;

pub use client_message::{Bind, ClientMessage, SaslInitial, Target};
pub use frames::{Frame, FrameBuffer, FrameLimits};
pub use output::{Output, Severity};
pub use protocol_error::ProtocolError;
pub use startup_packet::{ProtocolVersion, StartupPacket};
