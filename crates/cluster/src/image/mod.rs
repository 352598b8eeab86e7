//! Images of a node's tables: what bounds its log, and what it begins with.
//!
//! An image at entry S has the state after that entry: the clients' tables, and rows of the cluster's own (`rows.rs`) with the
//! sessions, the members and S's term. So one replacement of a manifest makes everything of one entry durable.
//!
//! ```text
//!   own      checkpointer ── OpenView ──> applier ── view at S ──> checkpointer: image durable, log truncated
//!   other's  leader ── Offer ──> receiver ── Fetch ──> sender (fetch thread)
//!                                receiver <── Part …   all durable: the other folder is the node's tables, and it starts again
//! ```
//!
//! | file | content |
//! |---|---|
//! | `rows.rs` | the rows of the cluster's own |
//! | `checkpointer.rs` | when an image is written, and how far the log is truncated for it |
//! | `pace.rs` | how its writing is spread over time |
//! | `sender.rs` | pins an image, and answers for its files |
//! | `receiver.rs` | copies an image of another node |
//!
//! # Invariants
//! - IM1. The log is truncated through an entry only when an image at or above it is durable (`TruncateBeforeImage`).
//! - IM2. An image has the sessions exactly as of its entry: the applier writes their rows between two entries, when it opens the
//!   view.
//! - IM3. An installed image is whole and durable before the directory names it; until then the node goes on with what it has.

pub(crate) mod checkpointer;
mod pace;
pub(crate) mod receiver;
pub(crate) mod rows;
pub(crate) mod sender;
