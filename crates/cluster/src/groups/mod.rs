//! A group of commands on its way through a node.
//!
//! | file | step |
//! |---|---|
//! | `producer.rs` | takes a client's group (TxGrp), and gives its commands to the workers |
//! | `idle_sessions.rs` | closes sessions that were not used for long |
//! | `backlog.rs` | lets sessions take turns |
//! | `worker.rs`, `execute.rs` | locks, executes, and fills a group of its own (LogGrp) |
//! | `log_writer.rs` | makes that group's payload, and Raft's records, durable |
//! | `applier.rs` | installs the changes of committed groups and answers |
//!
//! Paper: raft-pwal §3.1, §3.2

pub(crate) mod applier;
mod backlog;
pub(crate) mod execute;
pub(crate) mod idle_sessions;
pub(crate) mod log_writer;
pub(crate) mod producer;
pub(crate) mod worker;
