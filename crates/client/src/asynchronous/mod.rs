//! The client for tasks of tokio.

mod client;
mod connection;
mod link;
mod session;
mod stream;
#[cfg(test)]
mod tests;

pub use client::AsyncClient;
pub use session::AsyncSession;
