//! The write-ahead log: parallel streams, group commit, an LSN horizon, and reading it all back.
//!
//! A commit is *pre-committed* once [`Stream::append`] has put it into its stream's buffer, and
//! *hardened* once the frame that carries it is on disk. Under normal lock release hardened is
//! acknowledged; under early release a commit is acknowledged when the log's [horizon]
//! passes its LSN, or when its epoch is [certified], that is when everything it can depend on is hardened
//! too.
//!
//! The log does not know what a commit contains: payloads are bytes, and what a group holds until
//! it is hardened is the caller's [`GroupResource`].
//!
//! [horizon]: Log::horizon
//! [certified]: Log::is_certified
//!
//! Paper: pwal §4, tictoc-pwal §3

mod ack_waiter;
mod background_threads;
mod certify_epoch;
mod config;
mod cover_lsn;
mod epoch_horizon;
#[cfg(test)]
#[cfg(loom)]
mod epoch_horizon_model;
mod epoch_source;
mod error;
mod format;
mod generation_info;
mod horizon;
mod log;
mod log_target;
#[cfg(test)]
#[cfg(loom)]
mod loom_model;
mod read;
mod sequencer;
mod serve_tasks;
#[cfg(test)]
#[cfg(loom)]
mod serve_tasks_model;
mod shared_state;
mod stream;
mod stream_layout;
mod streams;
mod sync;

pub use ack_waiter::AckWaiter;
pub use config::{Group, GroupResource, LogConfig, Prepare};
pub use epoch_source::EpochSource;
pub use error::LogError;
pub use format::frame::{FrameHeader, LogRecord, RECORD_HEADER_BYTES};
pub use generation_info::{CutRule, GenerationEnd, GenerationInfo, Records};
pub use log::{Log, LogCounters};
pub use read::{
    Frame, Merge, MergeEnd, ReadError, SortedRun, StreamEnd, StreamReader, check_all_announced,
    durable_epoch, harden_tail, merge_by_stamp, merge_sorted,
};
pub use sequencer::SequencerKind;
pub use stream::{Appended, Entry, Stream, Ticket};
pub use stream_layout::{Layout, Placement, Retain};
