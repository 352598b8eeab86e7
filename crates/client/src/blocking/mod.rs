//! The blocking client.

mod backup;
mod client;
mod connection;
mod link;
mod one_node;
mod reader;
mod resolve;
mod session;
mod states;
mod stream;
#[cfg(test)]
mod tests;

pub use backup::BackupSource;
pub use client::Client;
pub use one_node::{HashAt, close_session, cut_links, sessions, state_hash, state_hash_at, status};
pub use reader::Reader;
pub use session::Session;
pub use states::{NodeState, StatesAtEntry, states_at_one_entry};
