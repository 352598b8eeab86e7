//! All streams of a log. What has to look at several of them is in `cover.rs`, `certify.rs` and `serve.rs`.

use std::sync::Arc;

use crossbeam_utils::CachePadded;

use crate::config::GroupResource;
use crate::shared::Shared;
use crate::stream::Stream;

/// What the log's threads share with its handle.
pub(crate) struct Streams<H: GroupResource> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) list: Box<[CachePadded<Stream<H>>]>,
}
