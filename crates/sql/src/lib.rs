//! SQL over a Namiki database, as PostgreSQL's clients speak it.
//!
//! An [`Engine`] is opened over a [`namiki::Database`]; each client has a [`Connection`]. The crate knows no sockets: a
//! server reads messages, and gives the engine a [`RowSink`] for the rows.
//!
//! ```text
//!  connection   transaction blocks, portals, COPY, settings; runs programs, and plans on the second pool
//!  front_end    the only folder that names DataFusion: text → plan → row program
//!  ddl          CREATE, DROP, ALTER, TRUNCATE; storage made before, and dropped after, the transaction that names it
//!  change       INSERT, UPDATE, DELETE: constraints, indexes, ON CONFLICT, RETURNING
//!  program      row programs: expressions, paths to rows, SELECT
//!  catalogue    tables, indexes and sequences as rows of a core table
//!  storage      core tables by number, rows as bytes, their readers
//!  syntax       tokens, literals to be lifted out, commands without a plan
//!  types        SQL's types; text and binary formats
//! ```
//!
//! # Isolation
//!
//! Every transaction is serializable, whatever level it asks for. A statement outside of a block is repeated on a
//! conflict; inside a block the client gets 40001.

mod cancel;
mod catalogue;
mod change;
mod connection;
mod ddl;
mod ddl_command;
mod engine;
mod engine_options;
mod error;
mod front_end;
mod pools;
mod program;
mod row_counts;
mod row_locks;
mod setting_time;
mod settings;
mod shared;
mod sink;
pub mod sqlstate;
mod stats;
mod storage;
mod syntax;
#[cfg(test)]
mod tests;
mod text_cache;
mod types;
mod views;

pub use cancel::CancelHandle;
pub use connection::{
    ColumnDescription, CommandTag, Connection, Deallocated, Portal, Progress, Scope, Statement,
    TransactionStatus,
};
pub use engine::Engine;
pub use engine_options::EngineOptions;
pub use error::{Notice, SqlError, SqlResult};
pub use sink::{RowBuffer, RowSink};
pub use stats::EngineStats;
