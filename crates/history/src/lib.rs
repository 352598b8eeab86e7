//! The serializability checker: given what transactions read and wrote, is there a serial order?
//!
//! The engine under test says, for every committed transaction, which version of each key it saw
//! and which keys it wrote. A version is named by the stamp of the transaction that created it, so
//! the order of a key's versions is known and the question is easy: draw an arrow from each
//! transaction to every one that must come after it, and look for a circle.
//!
//! ```text
//!   ww   T1 wrote k, T2 wrote the next version of k                     T1 ──> T2
//!   wr   T2 read the version of k that T1 wrote                         T1 ──> T2
//!   rw   T1 read a version of k, T2 wrote the next one                  T1 ──> T2
//!   rt   T1 had ended when T2 started      (strict serializability only)  T1 ──> T2
//! ```
//!
//! No circle: any topological order is a serial execution with the same reads and the same final
//! state, and [`Proof::order`] is one. A circle: no such order exists, and [`Cycle`] explains the
//! shortest one found.
//!
//! Test suites go through [`require`], which keeps the history of a failing run in a file.
//!
//! The checker shares no type with the engine, so a mistake there cannot hide itself here.
//!
//! # Rules for recorders
//! - Only committed transactions go in. A transaction with an unknown outcome goes in exactly when recovery
//!   kept it.
//! - A deletion is a write: it creates a version (a tombstone), and reading the key as absent after
//!   it is a read of that version. Only a key that was never written is read as [`NEVER_WRITTEN`].
//! - A scan is written out as one read per key of the range, *also* of the absent keys. That is how
//!   phantoms are seen.
//! - Reads of a transaction's own writes are left out.
//!
//! ```
//! use namiki_history::{History, NEVER_WRITTEN, Promise, Transaction, check};
//!
//! let mut history = History::new();
//! let (x, y) = (history.key(1, b"x"), history.key(1, b"y"));
//! // Each reads what the other writes: a write skew.
//! history.push(Transaction::new(1, 10).read(x, NEVER_WRITTEN).write(y));
//! history.push(Transaction::new(2, 11).read(y, NEVER_WRITTEN).write(x));
//!
//! let violation = check(&history, Promise::Serializable).unwrap_err();
//! assert!(violation.to_string().contains("T1 is before T2"));
//! ```

mod check;
#[cfg(test)]
mod check_fuzz;
#[cfg(test)]
mod check_tests;
mod cycle;
mod file;
mod graph;
mod graph_nodes;
mod hex;
mod keep_failing;
mod real_time_order;
mod transactions;
mod versions;
mod violation;

pub use check::{Promise, Proof, check};
pub use file::HistoryFileError;
pub use keep_failing::require;
pub use transactions::{History, KeyId, NEVER_WRITTEN, Transaction, VersionStamp};
pub use violation::{Cycle, Party, Step, Violation, Why};
