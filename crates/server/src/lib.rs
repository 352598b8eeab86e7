//! A server of SQL over the PostgreSQL wire: `psql`, `pgbench`, psycopg and SQLAlchemy connect to it.
//!
//! The program is `namiki-server`; `namiki serve` starts it. The statements themselves are the work of
//! `namiki-sql`, which knows no sockets; this crate knows no plans.
//!
//! | file | contents |
//! |---|---|
//! | `server.rs` | start and stop |
//! | `server_error.rs` | why a server does not start |
//! | `settings.rs` | addresses, threads, limits |
//! | `worker.rs` | the threads that serve clients |
//! | `flush.rs` | when a thread flushes the log, or has it flushed |
//! | `listen.rs` | the sockets |
//! | `client/` | a client's connection, from its first byte to its last |
//! | `access/` | roles, passwords, cancel requests |
//! | `wire/` | the protocol's messages |
//! | `http.rs`, `metrics.rs` | `/metrics` and `/healthz` |
//! | `shared.rs` | what the threads share |
//! | `main.rs`, `program/` | the program |

mod access;
mod client;
mod flush;
mod http;
mod listen;
mod metrics;
mod server;
mod server_error;
mod settings;
mod shared;
pub mod wire;
mod worker;

pub use access::role_file::RoleError;
pub use server::{NewRole, Server};
pub use server_error::ServerError;
pub use settings::{Limits, Settings};

/// The name of a server's only database.
pub const DATABASE: &str = client::DATABASE;
