//! Flush batches: frames that are sealed, or on their way to the device.
//!
//! # Invariants
//! - U1. At most one batch of a stream is under way, from its seal to its completion. Both happen
//!   under the stream's lock.
//! - U2. Batches are numbered from 1 in the order in which they begin; the number is the sequence
//!   of the frame.
//! - U3. A batch that was submitted is under way, and unattended until a thread takes it to
//!   complete it.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use namiki_platform::disk::PendingWrite;
use namiki_platform::{Epoch, Lsn};

use super::log_buffer::Filling;
use crate::frame_position::FramePosition;

/// A frame on its way to the device.
pub(super) struct FlushBatch<H> {
    pub(super) frame: Box<Filling<H>>,
    pub(super) padded: usize,
    pub(super) sequence: u64,
    /// The position of its frame.
    pub(super) position: FramePosition,
    /// The epoch that it closes, if commits are released by epochs.
    pub(super) closed: Epoch,
    /// Everything hardened before it is written: LSNs below this, or epochs through it.
    pub(super) horizon: Lsn,
    pub(super) wants_spare: bool,
    /// The time at which it was sealed, if it is timed.
    pub(super) sealed_at: Option<Instant>,
}

/// An asynchronous flush that no thread attends to.
pub(super) struct SubmittedBatch<H> {
    pub(super) batch: FlushBatch<H>,
    pub(super) path: Arc<Path>,
    pub(super) write: Box<dyn PendingWrite>,
}

/// The batches of a stream.
pub(super) struct Batches<H> {
    /// The number of batches begun: the sequence of the last frame (U2).
    begun: u64,
    under_way: Option<UnderWay>,
    /// The batch under way, while it is unattended (U3).
    submitted: Option<SubmittedBatch<H>>,
}

#[derive(Clone, Copy)]
struct UnderWay {
    /// The last commit that it carries.
    through: u64,
    /// The length of its frame, padded: in no file's rest any more, and not in the counters yet.
    bytes: u64,
}

impl<H> Batches<H> {
    pub(super) fn new() -> Self {
        Self {
            begun: 0,
            under_way: None,
            submitted: None,
        }
    }

    /// The number of the last batch that has begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// The number of the batch that begins next.
    pub(super) fn next(&self) -> u64 {
        self.begun + 1
    }

    /// The last commit of the batch under way.
    #[inline]
    pub(super) fn under_way(&self) -> Option<u64> {
        self.under_way.map(|batch| batch.through)
    }

    /// The bytes of the batch under way; 0 if none is.
    pub(super) fn bytes_under_way(&self) -> u64 {
        self.under_way.map_or(0, |batch| batch.bytes)
    }

    /// The number of the batch that carries commit `number`, which is not hardened.
    pub(super) fn carrier_of(&self, number: u64) -> u64 {
        match self.under_way() {
            Some(through) if number <= through => self.begun,
            _ => self.next(),
        }
    }

    /// The last batch of which it is known that it is hardened. `is_failed`: the log is.
    pub(super) fn last_hardened(&self, is_failed: bool) -> u64 {
        let in_doubt = is_failed || self.under_way.is_some();
        self.begun.saturating_sub(u64::from(in_doubt))
    }

    /// Begins the next batch, with the commits up to `through`, in a frame of this length. None is
    /// under way (U1).
    pub(super) fn begin(&mut self, through: u64, bytes: u64) {
        self.begun += 1;
        self.under_way = Some(UnderWay { through, bytes });
    }

    /// Ends the batch under way. Returns the last commit that it carried.
    pub(super) fn end(&mut self) -> Option<u64> {
        self.under_way.take().map(|batch| batch.through)
    }

    /// Leaves the batch under way to the disk (U3).
    pub(super) fn submit(&mut self, batch: SubmittedBatch<H>) {
        self.submitted = Some(batch);
    }

    /// Whether the batch under way is unattended.
    #[inline]
    pub(super) fn is_unattended(&self) -> bool {
        self.submitted.is_some()
    }

    /// Takes the unattended batch to complete it.
    pub(super) fn join(&mut self) -> Option<SubmittedBatch<H>> {
        self.submitted.take()
    }

    /// The same, if its write has come to its end.
    #[inline]
    pub(super) fn join_if_written(&mut self) -> Option<SubmittedBatch<H>> {
        self.submitted.take_if(|batch| batch.write.is_complete())
    }
}
