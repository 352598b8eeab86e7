//! The checkpointer: has images written, and truncates the log for them.
//!
//! An image is due when the log has grown by [`ImageOptions::log_bytes`] since the last one, or by what that one has, if
//! that is more, and at the latest by a quarter of the log's limit; or by a number of entries, as those stay in memory. Nodes
//! take theirs at different times: the leader last.
//!
//! The log is then truncated through the image *before*: a node that was away for a moment gets entries, not an image. Only
//! when three quarters of the limit are used, it is truncated through the new image. The log above an image that is being sent
//! stays, too.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use namiki::Error;
use namiki::replica::ReplicaView;
use namiki_platform::ErrorSentence;

use crate::events::ApplierEvent;
use crate::failure::NodeFailure;
use crate::fault_injection::Fault;
use crate::metrics::Count;
use crate::raft::RaftEvent;
use crate::shared::Shared;
use crate::storage::{Snapshot, StoreError};

/// Looks after a failure before the next image is due.
const PAUSE_LOOKS: u32 = 50;

/// When images are due.
#[derive(Clone, Copy, Debug)]
pub struct ImageOptions {
    /// Growth of the log after which an image is due. Default 256 MiB.
    pub log_bytes: u64,
    /// Number of entries after which one is due. Default 500,000.
    pub entries: u64,
}

impl Default for ImageOptions {
    fn default() -> Self {
        Self {
            log_bytes: 256 << 20,
            entries: 500_000,
        }
    }
}

/// An event for the checkpointer.
#[derive(Debug)]
pub(crate) enum ImageEvent {
    /// Looks whether an image is due.
    Look,
    /// An image is due now: another node needs it, or a file of the last one is damaged.
    Wanted,
    /// The view that was asked for; `None`: no entry was applied since the last image, and it is not to be written again.
    View(Option<Box<ViewForImage>>),
}

/// The state of one entry.
#[derive(Debug)]
pub(crate) struct ViewForImage {
    pub(crate) view: ReplicaView,
    /// That entry, and its members.
    pub(crate) snapshot: Snapshot,
}

/// Writes images.
pub(crate) struct Checkpointer {
    shared: Arc<Shared>,
    options: ImageOptions,
    /// The last image.
    last: Snapshot,
    /// Bytes of its files.
    image_bytes: u64,
    /// The length of the log, with all that was truncated, when its view was opened.
    log_then: u64,
    /// Bytes that were truncated.
    truncated_bytes: u64,
    /// A view was asked for.
    is_waiting: bool,
    /// An image is due, whatever has grown.
    is_wanted: bool,
    /// Looks before another image is due.
    pause: u32,
}

impl Checkpointer {
    /// `last`: the image that the node has started from.
    pub(crate) fn new(shared: Arc<Shared>, options: ImageOptions, last: Snapshot) -> Self {
        Self {
            shared,
            options,
            last,
            image_bytes: 0,
            log_then: 0,
            truncated_bytes: 0,
            is_waiting: false,
            is_wanted: false,
            pause: 0,
        }
    }

    /// Handles an event.
    ///
    /// # Errors
    /// [`NodeFailure`]: the contents of the disk are unknown then, and the node has to stop.
    pub(crate) fn handle(&mut self, event: ImageEvent) -> Result<(), NodeFailure> {
        match event {
            ImageEvent::Look => {
                self.shared.pinned_image.lock().look();
                self.pause = self.pause.saturating_sub(1);
                if !self.is_waiting && self.pause == 0 && (self.is_wanted || self.is_due()) {
                    self.is_waiting = true;
                    let again = std::mem::take(&mut self.is_wanted);
                    let event = ApplierEvent::OpenImageView { again };
                    self.shared.applier.put(event);
                }
                Ok(())
            }
            ImageEvent::Wanted => {
                self.is_wanted = true;
                Ok(())
            }
            ImageEvent::View(opened) => {
                self.is_waiting = false;
                match opened {
                    Some(opened) => self.take(*opened),
                    None => Ok(()),
                }
            }
        }
    }

    /// The length of the log, with all that was truncated.
    fn log_grown(&self) -> u64 {
        self.shared.store.log_bytes() + self.truncated_bytes
    }

    fn is_due(&self) -> bool {
        let shared = &self.shared;
        let limit = shared.store.log_bytes_max();
        let growth = self.options.log_bytes.max(self.image_bytes);
        let growth = growth.min(limit / 4);
        // In quarters: nodes one after the other, and the leader last.
        let turn = match shared.leads() {
            true => 5,
            false => 3 + shared.node.number() % 2,
        };
        let later = |all: u64| u128::from(all) * u128::from(turn) / 4;
        let grown = self.log_grown().saturating_sub(self.log_then);
        let entries = shared.applied().saturating_sub(self.last.position.index);
        u128::from(grown) >= later(growth) || u128::from(entries) >= later(self.options.entries)
    }

    fn take(&mut self, opened: ViewForImage) -> Result<(), NodeFailure> {
        let ViewForImage { view, snapshot } = opened;
        self.log_then = self.log_grown();
        if self.shared.planted.has(Fault::TruncateBeforeImage) {
            self.truncate(&snapshot)?;
        }
        let go_on = |_| !self.shared.images.is_closed();
        let written = self.shared.replica.write_image(view, go_on);
        let report = match written {
            Ok(report) => report,
            // The node stops.
            Err(Error::Closed) => return Ok(()),
            Err(error) => {
                self.shared.metrics.increment(Count::ImagesFailed);
                slog::warn!(self.shared.logger, "cannot write an image of the tables, so the log is not truncated; tries again";
                    "error" => %ErrorSentence(&error));
                self.pause = PAUSE_LOOKS;
                return Ok(());
            }
        };
        self.image_bytes = report.file_bytes;
        self.shared.metrics.increment(Count::ImagesWritten);
        (self.shared.metrics).add(Count::ImageBytesWritten, report.bytes);
        let before = std::mem::replace(&mut self.last, snapshot);
        let store = &self.shared.store;
        let is_full = store.log_bytes() > store.log_bytes_max() / 4 * 3;
        let sent_through = self.shared.pinned_image.lock().sent_through();
        let is_unneeded =
            |through: &Snapshot| sent_through.is_none_or(|sent| through.position.index <= sent);
        let through = if is_full {
            Some(self.last.clone())
        } else {
            Some(before).filter(is_unneeded)
        };
        slog::info!(self.shared.logger, "wrote an image of the tables"; "through" => self.last.position.index,
            "rows" => report.rows, "bytes" => report.bytes);
        through.map_or(Ok(()), |through| self.truncate(&through))
    }

    /// Truncates the log through an image, on the disk and then in memory.
    fn truncate(&mut self, through: &Snapshot) -> Result<(), NodeFailure> {
        let index = through.position.index;
        if index <= self.shared.truncated() {
            return Ok(());
        }
        let truncated = match self.shared.store.truncate_to(through) {
            Ok(truncated) => truncated,
            Err(error @ StoreError::FailedLog { .. }) => {
                return Err(NodeFailure::storage("truncating the log", error));
            }
            Err(error) => {
                slog::warn!(self.shared.logger, "cannot truncate the log; tries again with the next image";
                    "error" => %ErrorSentence(&error));
                return Ok(());
            }
        };
        self.truncated_bytes += truncated.bytes;
        self.shared.truncated.store(index, Ordering::Release);
        self.shared.raft.put(RaftEvent::Truncated(index));
        Ok(())
    }
}
