//! All streams of a log, and the operations that look at several of them.
//!
//! | file | content |
//! |---|---|
//! | `cover_lsn.rs` | hardens everything at or below an LSN: flushes the streams that lag |
//! | `certify_epoch.rs` | certifies an epoch: flushes streams, writes markers |
//! | `flush_for_tasks.rs` | flushes that tasks have asked for |
//! | `background_threads.rs` | the flusher, and the thread that makes log files ready |

pub(crate) mod background_threads;
mod certify_epoch;
mod cover_lsn;
mod flush_for_tasks;
#[cfg(test)]
#[cfg(loom)]
pub(crate) mod flush_for_tasks_loom_model;

use std::sync::Arc;

use crossbeam_utils::CachePadded;

use crate::config::GroupResource;
use crate::shared_state::Shared;
use crate::stream::Stream;

/// The state that the log's threads share with its handle.
pub(crate) struct Streams<H: GroupResource> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) list: Box<[CachePadded<Stream<H>>]>,
}
