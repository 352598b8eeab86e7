//! The write-ahead log: parallel streams, group commit, an LSN horizon, and reading it all back.
//!
//! A commit is *pre-committed* once [`Stream::append`] has put it into its stream's buffer, and
//! *hardened* once the frame that carries it is on disk. Under normal lock release hardened is
//! acknowledged; under early release a commit is acknowledged when the log's [horizon] passes its
//! LSN, or when its epoch is [certified], that is when everything it can depend on is hardened too.
//!
//! The log does not know what a commit contains: payloads are bytes, and what a group holds until
//! it is hardened is the caller's [`GroupResource`].
//!
//! [horizon]: Log::horizon
//! [certified]: Log::is_certified
//!
//! Paper: pwal §4, tictoc-pwal §3

mod config;
mod copy;
mod error;
mod format;
mod frame_position;
mod generation;
mod horizon;
#[cfg(feature = "hostile-bytes")]
#[doc(hidden)]
pub mod hostile_bytes;
mod log;
mod log_target;
#[cfg(test)]
#[cfg(loom)]
mod loom_model;
mod read;
mod recycle;
mod shared_state;
mod stream;
mod stream_dirs;
mod streams;

pub use config::{Group, GroupResource, LogConfig, Prepare};
pub use copy::check_copy::{WrongLogFile, WrongLogFileKind, check_copied_files};
pub use copy::copy_stream::{CopiedThrough, CopyError, LogPlace, copy_stream};
pub use error::LogError;
pub use format::frame::{FrameHeader, LogRecord, RECORD_HEADER_BYTES};
pub use frame_position::{FramePosition, log_file_path};
pub use generation::layout_config::{Layout, Placement, Retain};
pub use generation::log_start::{LogStart, StreamStart};
pub use generation::superfluous_files::{
    RemovedFiles, remove_generations, remove_superfluous, remove_unannounced, remove_unneeded,
    split_superfluous,
};
pub use generation::{CutRule, GenerationEnd, GenerationInfo, Records, generations_contradiction};
pub use horizon::async_waiters::AckWaiter;
pub use horizon::epoch_source::EpochSource;
pub use horizon::sequencer::SequencerKind;
pub use log::{Log, LogCounters};
pub use log_target::log_room::{Grant, ImageEffect, LogFiles, LogRoom, RestrictedFile, WantedFile};
pub use log_target::region_use::RegionUse;
pub use log_target::remove_unnumbered;
pub use read::{
    Frame, Merge, MergeEnd, ReadError, SkippedDamage, SortedRun, StreamEnd, StreamReader,
    check_all_announced, durable_epoch, harden_tail, merge_by_stamp, merge_sorted,
};
pub use recycle::RecyclePoint;
pub use stream::{Appended, Entry, OversizeEntry, Stream, Ticket};
pub use stream_dirs::stream_dirs;
