//! A flush batch: a frame that is sealed, or on its way to the device.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use namiki_platform::disk::PendingWrite;
use namiki_platform::{Epoch, Lsn};

use super::log_buffer::Filling;
use crate::frame_position::FramePosition;

/// A frame on its way to the device.
pub(super) struct FlushBatch<H> {
    pub(super) frame: Filling<H>,
    pub(super) padded: usize,
    pub(super) sequence: u64,
    /// Where it goes.
    pub(super) position: FramePosition,
    /// What it closes, where commits are released by epochs.
    pub(super) closed: Epoch,
    /// What was hardened before it is written: LSNs below this, or epochs through it.
    pub(super) horizon: Lsn,
    pub(super) wants_spare: bool,
    pub(super) sealed_at: Instant,
}

/// An asynchronous flush that no thread attends to.
pub(super) struct SubmittedBatch<H> {
    pub(super) batch: FlushBatch<H>,
    pub(super) path: Arc<Path>,
    pub(super) write: Box<dyn PendingWrite>,
}
