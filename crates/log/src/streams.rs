//! All streams of a log. What has to look at several of them is in `cover_lsn.rs`, `certify_epoch.rs` and `flush_for_tasks.rs`.

use std::sync::Arc;

use crossbeam_utils::CachePadded;

use crate::config::GroupResource;
use crate::shared_state::Shared;
use crate::stream::Stream;

/// What the log's threads share with its handle.
pub(crate) struct Streams<H: GroupResource> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) list: Box<[CachePadded<Stream<H>>]>,
}
