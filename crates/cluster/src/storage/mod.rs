//! A node's durable storage: Raft's records, and the payloads of all workers.
//!
//! ```text
//! DIR/
//!   LOCK   NODE             the manifest: the node's identity, and the generations of its log
//!   log/0000/               stream 0: votes, entries, the commit index, truncations
//!   log/0001/ …             stream 1 + w: payloads of worker w, each with its name
//!   db/  or  db2/           the tables, a database in replica mode: NODE names the folder
//! ```
//! The log is one [`namiki_log::Log`] with one more stream than workers, and a generation for each
//! opening. An entry in stream 0 names its payload; different threads write the two, in any order.
//! An entry is *persisted* when both are durable, and after a restart it counts only then:
//! `recovery.rs` has the rules.
//!
//! A frame's sequence number is local to a node, a stream and a generation. A new leader's 57th
//! frame of worker 2 may coincide with an old leader's on another node. So payloads are named by
//! the term of the leader that sealed them, the worker, and its number in the term, and found by
//! that name alone.
//!
//! The log is bounded by truncation (`truncate.rs`): once an image of the entries through S is
//! durable, they and their payloads are superfluous. A start then finds the image, and the log above
//! S.
//!
//! # Invariants
//! - NS1. Every later opening finds the data for which a flush has returned.
//! - NS2. The data that an opening has returned is durable, and the next one finds it again: the
//!   tails are hardened, and if entries were cut off, a truncation is durable.
//!   What was lost by damage to stream 0 is noted in the manifest, together with the cut.
//! - NS3. A failed append has changed nothing. An accepted record has its place on the disk.
//! - NS4. A directory without a manifest is never opened.
//!
//! Paper: raft-pwal §3.2 (a log file for each worker, put in order by the LSN)

mod base;
mod error;
mod forgotten;
mod install;
mod log_budget;
mod log_suffix;
mod manifest;
mod node_identity;
mod open;
mod open_files;
mod payload_index;
mod raft_record;
mod raft_stream;
mod read_ahead;
mod recovery;
mod store;
mod tables_folder;
mod truncate;

pub use error::StoreError;
pub use log_suffix::LogPosition;
pub(crate) use log_suffix::{HasTerm, LogSuffix};
pub use node_identity::NodeIdentity;
pub(crate) use open::NodeDir;
pub(crate) use open::TablesFound;
pub use open::{Recovered, StoreOptions};
pub use raft_record::{Base, RaftRecord, Snapshot};
pub use read_ahead::ReadAhead;
pub use recovery::LogDamage;
pub use store::NodeStore;
pub use truncate::Truncated;
