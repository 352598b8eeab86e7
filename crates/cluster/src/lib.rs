//! Replication under Raft with a log per worker.
//!
//! One Raft group orders the log. One group of commands (the paper's LogGrp) is one Raft entry, and its bytes live in the log of the worker
//! that executed it: the *payload*. An entry is small; it refers to its payload.
//!
//! ```text
//! client ── TxGrp ──> producer ──> queue w ──> worker w: lock, execute, buffer the changes
//!                                              at the group's size or time: seal → log w on disk  ┐ in parallel
//!                                                                           lane w to followers   ┘
//! raft: index, term, acknowledgements by LSN ── committed ──> apply, unlock, reply (task store)
//! follower: lane w → log w on disk;   raft: append, acknowledge;   apply committed groups
//! ```
//!
//! Paper: raft-pwal

mod clusters;
mod command_size;
pub mod config;
mod control;
mod entry;
mod events;
mod failure;
mod fair_share;
mod fault_injection;
mod flow_control;
mod group_in_flight;
mod groups;
mod hash_requests;
mod image;
mod image_message;
mod kept_log;
mod log_space;
mod mailbox;
mod membership;
mod metrics;
mod monitor;
pub mod network;
mod node;
mod node_id;
mod node_reads;
mod office;
mod pacing;
mod payload;
mod payload_cache;
mod pinned_images;
mod raft;
mod read_queue;
mod refusal;
mod restore;
mod scan_slots;
mod scans;
mod security;
mod server;
mod session;
mod session_ages;
mod shared;
#[cfg(any(test, feature = "simulation"))]
pub mod simulation;
mod status;
pub mod storage;
pub mod transport;
mod uncommitted_groups;
mod unix_time;

pub use control::SessionLimits;
pub use entry::{ENTRY_VERSION, EntryBody, LogEntry, PayloadName, PayloadRef};
pub use failure::NodeFailure;
pub use fault_injection::{Fault, FaultInjection};
pub use groups::producer::RequestLimits;
pub use groups::worker::GroupOptions;
pub use image::checkpointer::ImageOptions;
pub use image_message::{ImageContent, ImageMessage};
pub use log_space::LogSpace;
pub use membership::Membership;
pub use monitor::MonitorError;
pub use namiki::replica::{ImageCopy, ImageCopyError};
pub use network::{ConnectionId, Network, NodeId, PeerMessage};
pub use node::{Node, NodeOptions, OpenError, OpenedNode};
pub use restore::{RestoreError, Restored, RestoredRows, restore_directory};
pub use security::SecurityFailure;
pub use server::{Server, ServerError, create_directory};
