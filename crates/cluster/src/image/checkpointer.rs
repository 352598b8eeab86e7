//! The checkpointer: has images written, and truncates the log for them.
//!
//! An image is due when the log has grown by [`ImageOptions::log_bytes`] since the last one, or by what that one has, if
//! that is more, and at the latest by an eighth of the log's limit; or by a number of entries, as those stay in memory. Nodes
//! begin theirs one after the other, the leader last; they may overlap.
//!
//! The log is then truncated through the image *before*: a node that was away for a moment gets entries, not an image. When
//! space is *short* (half of the limit is used, the leader would refuse commands, or a writer waits for the log or the disk), the log
//! is truncated through the last image. The next one is due soon if the log nears its limit: that has to hold however fast the log
//! fills. A full disk alone does not make one due, as it needs space itself. Otherwise the image is written at a pace (`pace.rs`). The
//! log above an image that another node copies stays until that node follows (`kept_log.rs`); other images make no space then.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use namiki::Error;
use namiki_client::protocol::Response;
use namiki_platform::ErrorSentence;

use crate::events::{ApplierEvent, ImageEvent, ViewForImage};
use crate::failure::NodeFailure;
use crate::fault_injection::Fault;
use crate::image::pace::ImagePace;
use crate::metrics::Count;
use crate::network::ConnectionId;
use crate::raft::RaftEvent;
use crate::shared::Shared;
use crate::storage::{Snapshot, StoreError};

/// Looks after a failure before the next image or truncation.
const PAUSE_LOOKS: u32 = 50;

/// Longest wait before the pace is checked again.
const PACE_WAIT: Duration = Duration::from_millis(10);

/// When images are due, and how fast they are written.
#[derive(Clone, Copy, Debug)]
pub struct ImageOptions {
    /// Growth of the log after which an image is due. Default 1 GiB.
    pub log_bytes: u64,
    /// Number of entries after which one is due. Default 500,000.
    pub entries: u64,
    /// Lowest average rate, in bytes per second since the start of an image, to which its writing is slowed. Writing is not slowed
    /// while another node or a backup waits for an image, or space is short. Default 64 MiB.
    pub bytes_per_second_min: NonZeroU64,
}

impl Default for ImageOptions {
    fn default() -> Self {
        Self {
            log_bytes: 1 << 30,
            entries: 500_000,
            bytes_per_second_min: const { NonZeroU64::new(64 << 20).unwrap() },
        }
    }
}

/// Whether an image is due, whatever has grown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wanted {
    No,
    /// The last one was not written.
    Again,
    /// Another node waits for it.
    Soon,
}

/// Writes images.
pub(crate) struct Checkpointer {
    shared: Arc<Shared>,
    options: ImageOptions,
    /// The images above which the log is not truncated yet, the last one last; never empty.
    taken: Vec<Snapshot>,
    /// Bytes of the last one's files.
    image_bytes: u64,
    /// Bytes of those that were written for it; 0: unknown.
    written_bytes: u64,
    /// The length of the log, with all that was truncated, when the view of the last one was opened.
    log_then: u64,
    /// Bytes that were truncated.
    truncated_bytes: u64,
    /// Views that were asked for.
    waiting: u32,
    /// A client waits for an image as of its request or later.
    backup: Option<ConnectionId>,
    wanted: Wanted,
    /// The same for the views that were asked for.
    asked: Wanted,
    /// Looks before another image is due: the last one has failed.
    pause: u32,
    /// The same for a truncation.
    truncation_pause: u32,
}

impl Checkpointer {
    /// `last`: the image that the node has started from.
    pub(crate) fn new(shared: Arc<Shared>, options: ImageOptions, last: Snapshot) -> Self {
        Self {
            image_bytes: shared.replica.image_bytes(),
            shared,
            options,
            taken: vec![last],
            written_bytes: 0,
            log_then: 0,
            truncated_bytes: 0,
            waiting: 0,
            backup: None,
            wanted: Wanted::No,
            asked: Wanted::No,
            pause: 0,
            truncation_pause: 0,
        }
    }

    /// Handles an event.
    ///
    /// # Errors
    /// [`NodeFailure`]: the contents of the disk are unknown then, and the node has to stop.
    pub(crate) fn handle(&mut self, event: ImageEvent) -> Result<(), NodeFailure> {
        match event {
            ImageEvent::Look => {
                self.shared.pinned_images.lock().look();
                self.pause = self.pause.saturating_sub(1);
                self.truncation_pause = self.truncation_pause.saturating_sub(1);
                self.ask_if_due();
                self.truncate_if_due()
            }
            ImageEvent::NoRoom => {
                self.shared.truncation.looked();
                self.ask_if_due();
                self.truncate_if_due()
            }
            ImageEvent::Wanted => {
                self.wanted = Wanted::Soon;
                Ok(())
            }
            ImageEvent::View(opened) => {
                self.waiting -= 1;
                if let Some(opened) = opened {
                    self.take(*opened)?;
                }
                if self.waiting == 0 {
                    self.asked = Wanted::No;
                    if let Some(client) = self.backup.take() {
                        self.answer(client);
                    }
                }
                Ok(())
            }
            ImageEvent::Backup(client) => {
                // A view that was asked for before may be older than the request.
                self.backup = Some(client);
                self.ask_for_view();
                Ok(())
            }
            ImageEvent::Remembered => {
                self.note_remembered();
                Ok(())
            }
        }
    }

    /// Later starts of the node need not ask all others.
    fn note_remembered(&self) {
        let logger = &self.shared.logger;
        match self.shared.store.note_remembered() {
            Ok(()) => {
                slog::info!(
                    logger,
                    "the node has recovered the lost part of its log: all other voters have answered, and it has all of their entries"
                );
            }
            Err(error) => {
                slog::warn!(logger, "the node has recovered the lost part of its log, and cannot note that: the next start asks all other voters again";
                    "error" => %ErrorSentence(&error));
            }
        }
    }

    /// The last entry of the last image.
    fn last(&self) -> u64 {
        self.taken.last().map_or(0, |it| it.position.index)
    }

    /// Truncates the log if that is due: an earlier truncation has failed, or was of an earlier process, or a node that copies
    /// an image needed what it has now.
    fn truncate_if_due(&mut self) -> Result<(), NodeFailure> {
        if self.truncation_pause > 0 || !self.is_space_short() {
            return Ok(());
        }
        self.truncate_within(self.last())
    }

    /// Truncates the log through the last image that is not above this entry, and above which no node needs it.
    fn truncate_within(&mut self, index: u64) -> Result<(), NodeFailure> {
        let taken = self.taken.iter().map(|it| it.position.index);
        let within = taken.filter(|it| *it <= index);
        let through = self.shared.kept_log.lock().truncate(within);
        let through = self
            .taken
            .iter()
            .find(|it| Some(it.position.index) == through)
            .cloned();
        through.map_or(Ok(()), |through| self.truncate(&through))
    }

    fn ask_if_due(&mut self) {
        let may = self.waiting == 0 && self.pause == 0 && !self.shared.tables_lost;
        let is_due = || self.truncation_pause == 0 && self.is_due();
        if may && (self.wanted > Wanted::No || is_due()) {
            self.ask_for_view();
        }
    }

    fn ask_for_view(&mut self) {
        self.waiting += 1;
        let wanted = std::mem::replace(&mut self.wanted, Wanted::No);
        self.asked = self.asked.max(wanted);
        let again = wanted > Wanted::No;
        let event = ApplierEvent::OpenImageView { again };
        self.shared.applier.put(event);
    }

    /// The length of the log, with all that was truncated.
    fn log_grown(&self) -> u64 {
        self.shared.store.log_bytes() + self.truncated_bytes
    }

    /// The log above this entry is kept for nodes that copy an image.
    fn kept_through(&self) -> Option<u64> {
        self.shared.kept_log.lock().through()
    }

    fn is_space_short(&self) -> bool {
        let store = &self.shared.store;
        let writer_waits = self.shared.flow_control.is_full();
        store.log_bytes() > store.log_bytes_max() / 2 || !store.has_room() || writer_waits
    }

    /// Whether another node or a client waits for an image.
    fn is_waited_for(&self) -> bool {
        self.backup.is_some() || self.wanted.max(self.asked) == Wanted::Soon
    }

    /// The growth of the log after which an image is due.
    fn growth(&self) -> u64 {
        let growth = self.options.log_bytes.max(self.image_bytes);
        growth.min(self.shared.store.log_bytes_max() / 8)
    }

    fn is_due(&self) -> bool {
        let shared = &self.shared;
        let limit = shared.store.log_bytes_max();
        let growth = self.growth();
        // In quarters: nodes begin one after the other, and the leader last.
        let turn = if shared.leads() {
            5
        } else {
            3 + shared.node.number() % 2
        };
        let later = |all: u64| u128::from(all) * u128::from(turn) / 4;
        let grown = self.log_grown().saturating_sub(self.log_then);
        let last = self.last();
        let entries = shared.applied().saturating_sub(last);
        let is_short = || !shared.store.has_room() || grown >= limit / 64 && self.is_space_short();
        // The log is not truncated through a newer one then.
        let is_in_vain = || self.kept_through().is_some_and(|kept| kept <= last);
        if entries > 0 && is_short() && !is_in_vain() {
            return true;
        }
        u128::from(grown) >= later(growth) || u128::from(entries) >= later(self.options.entries)
    }

    fn take(&mut self, opened: ViewForImage) -> Result<(), NodeFailure> {
        let ViewForImage { view, snapshot } = opened;
        let log_now = self.log_grown();
        let log_before = std::mem::replace(&mut self.log_then, log_now);
        let expected_bytes = match (self.written_bytes, self.image_bytes) {
            (0, 0) => log_now.saturating_sub(log_before),
            (0, all) => all,
            (written, _) => written,
        };
        if self.shared.planted.has(Fault::TruncateBeforeImage) {
            self.truncate(&snapshot)?;
        }
        let rate_min = if self.is_waited_for() {
            NonZeroU64::MAX
        } else {
            self.options.bytes_per_second_min
        };
        let pace = ImagePace::new(rate_min, expected_bytes, Instant::now());
        let begin = (snapshot.position.index, self.shared.store.bytes_written());
        let is_ahead = |written| pace.is_ahead(written, self.log_fraction(begin), Instant::now());
        let go_on = |written| self.wait_while(|| is_ahead(written));
        let write = || self.shared.replica.write_image(view, go_on);
        let written = self.shared.metrics.during_image(write);
        let report = match written {
            Ok(report) => report,
            // The node stops.
            Err(Error::Closed) => return Ok(()),
            Err(error) => {
                // Also if no entry follows.
                self.wanted = self.wanted.max(self.asked).max(Wanted::Again);
                self.shared.metrics.increment(Count::ImagesFailed);
                self.shared.truncation.note(self.kept_through().is_some());
                slog::warn!(self.shared.logger, "cannot write an image of the tables, so the log is not truncated; tries again";
                    "error" => %ErrorSentence(&error));
                self.pause = PAUSE_LOOKS;
                return Ok(());
            }
        };
        (self.image_bytes, self.written_bytes) = (report.file_bytes, report.written_bytes);
        self.shared.metrics.increment(Count::ImagesWritten);
        (self.shared.metrics).add(Count::ImageBytesWritten, report.bytes);
        let before = self.last();
        self.taken.push(snapshot);
        slog::info!(self.shared.logger, "wrote an image of the tables"; "through" => self.last(),
            "rows" => report.rows, "bytes" => report.bytes);
        self.truncate_within(if self.is_space_short() {
            self.last()
        } else {
            before
        })?;
        // What is left may be the entries behind the image. Without those, no image makes room.
        let grown = self.log_grown().saturating_sub(self.log_then);
        let has_more = grown > self.shared.store.log_bytes_max() / 16;
        let makes_space = self.shared.store.has_room() || has_more || self.kept_through().is_some();
        self.shared.truncation.note(makes_space);
        Ok(())
    }

    /// Growth of the log since it had this last entry and this number of written bytes, as a fraction of the growth that makes
    /// the next image due: bytes or entries, whichever is more.
    fn log_fraction(&self, (index, bytes_then): (u64, u64)) -> f64 {
        let fraction = |grown: u64, all: u64| grown as f64 / all.max(1) as f64;
        // Exactly, and not by whole files.
        let bytes = self.shared.store.bytes_written().saturating_sub(bytes_then);
        let entries = self.shared.applied().saturating_sub(index);
        fraction(bytes, self.growth()).max(fraction(entries, self.options.entries))
    }

    /// Waits while the image is ahead of its pace. Any event ends the wait, because a node or a client may need the image, and
    /// stays in the queue, so the rest is written without waits. Returns false once the node stops.
    fn wait_while(&self, is_ahead: impl Fn() -> bool) -> bool {
        let images = &self.shared.images;
        while is_ahead() && !self.is_space_short() && !images.wait(PACE_WAIT) {}
        !images.is_closed()
    }

    /// Tells a client of the last image, which stays readable for a while.
    fn answer(&self, client: ConnectionId) {
        let shared = &self.shared;
        shared.backups.end();
        let refused = |reason: String| Response::Refused { request: 0, reason };
        let answer = if self.pause > 0 {
            refused("the node cannot write an image of its tables: its log says why".to_owned())
        } else {
            match shared.pinned_images.lock().pin(&shared.replica) {
                Ok(Some(image)) => Response::BackupBegun {
                    image: image.id(),
                    lsn: image.stamp().0,
                    bytes: image.len_bytes(),
                },
                Ok(None) => refused("the node has no entries yet".to_owned()),
                Err(error) => refused(ErrorSentence(&error).to_string()),
            }
        };
        shared.network.reply(client, answer);
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
                slog::warn!(self.shared.logger, "cannot truncate the log; tries again";
                    "error" => %ErrorSentence(&error));
                self.truncation_pause = PAUSE_LOOKS;
                return Ok(());
            }
        };
        self.truncated_bytes += truncated.bytes;
        let last = self.last();
        self.taken
            .retain(|it| it.position.index > index || it.position.index == last);
        self.shared.truncated.store(index, Ordering::Release);
        self.shared.raft.put(RaftEvent::Truncated(index));
        Ok(())
    }
}
