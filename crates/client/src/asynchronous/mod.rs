//! The client for tasks of tokio.

mod client;
mod connection;
mod link;
mod pending;
mod reader;
mod session;
mod stream;
#[cfg(test)]
mod tests;

pub use client::AsyncClient;
pub use reader::AsyncReader;
pub use session::AsyncSession;
