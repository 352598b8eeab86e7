//! The blocking client.

mod backup;
mod client;
mod connection;
mod link;
mod one_node;
mod reader;
mod resolve;
mod session;
mod stream;
#[cfg(test)]
mod tests;

pub use backup::BackupSource;
pub use client::Client;
pub use one_node::{cut_links, state_hash, status};
pub use reader::Reader;
pub use session::Session;
