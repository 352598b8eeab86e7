//! Copies an image of another node, for a node that needs entries which that one has truncated: one that was away for long,
//! or a new one. A node that has lost data asks for an offer (decision 0084): payloads that no other node has in its log any more, or its
//! own image.
//!
//! The copy is made beside the node's own tables, which go on meanwhile; it also votes and acknowledges. Parts that are lost
//! are asked for again. When everything is durable, the directory names the copy, and the node starts again with it.

use std::sync::Arc;

use namiki::replica::{ImageCopy, ImageCopyError};

use super::sender::REQUEST_BYTES;
use crate::events::CopyEvent;
use crate::failure::NodeFailure;
use crate::image_message::{ImageContent, ImageMessage};
use crate::metrics::Count;
use crate::network::{NodeId, PeerMessage};
use crate::shared::Shared;

/// Ticks without a part after which it is asked for again.
const SILENT_TICKS: u32 = 10;
/// Requests without an answer after which the copy is given up, until the next offer.
const REQUESTS_MAX: u32 = 10;
/// Ticks after a failure before the next copy begins.
const PAUSE_TICKS: u32 = 50;
/// Ticks without an offer after which the files of an unfinished copy are removed.
const LEFT_TICKS: u32 = 100;

/// Copies images.
pub(crate) struct ImageReceiver {
    shared: Arc<Shared>,
    copying: Option<Copying>,
    /// Ticks before another copy begins.
    pause: u32,
    /// A copy may have left files, with which the next one begins: the ticks since then without the offer of an image.
    left: Option<u32>,
}

struct Copying {
    from: NodeId,
    /// The last entry of the image.
    index: u64,
    copy: ImageCopy,
    /// What was asked for last: the file, and the offset behind it.
    asked: (u32, u64),
    silent_ticks: u32,
    /// Since the last part.
    requests: u32,
}

impl ImageReceiver {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        // If the disk fails here, it is tried again.
        let has_left = shared.store.has_unfinished_copy().unwrap_or(true);
        let left = has_left.then_some(0);
        Self {
            shared,
            copying: None,
            pause: 0,
            left,
        }
    }

    /// Whether it wants [`CopyEvent::Tick`].
    pub(crate) fn is_waiting(&self) -> bool {
        self.copying.is_some() || self.pause > 0 || self.left.is_some()
    }

    /// Handles an event.
    ///
    /// # Errors
    /// [`NodeFailure::ImageInstalled`] when an image has taken the place of the node's tables: it has to start again.
    /// [`NodeFailure::Storage`] if the directory cannot be switched.
    pub(crate) fn handle(&mut self, event: CopyEvent) -> Result<(), NodeFailure> {
        match event {
            CopyEvent::Tick => self.tick(),
            CopyEvent::Message(from, message) => {
                let id = message.image;
                match message.content {
                    ImageContent::Offer { index, bytes } => self.offered(from, id, index, bytes),
                    ImageContent::Part {
                        file,
                        offset,
                        file_bytes,
                        bytes,
                    } => return self.take(id, (file, offset), file_bytes, &bytes),
                    ImageContent::Gone => {
                        if self.copying.as_ref().is_some_and(|it| it.copy.id() == id) {
                            self.leave();
                        }
                    }
                    // The fetch thread answers them.
                    ImageContent::Fetch { .. } | ImageContent::Ask { .. } => {}
                }
            }
        }
        Ok(())
    }

    fn offered(&mut self, from: NodeId, id: u128, index: u64, bytes: u64) {
        if self.pause > 0 || !self.is_newer(index) {
            return;
        }
        match &mut self.copying {
            Some(copying) if copying.copy.id() == id => {
                copying.from = from;
                return;
            }
            // It goes on until its node does not answer any more.
            Some(_) => return,
            None => {}
        }
        let mut copy = match self.shared.store.begin_copy(id) {
            Ok(copy) => copy,
            Err(error) => return self.give_up(&error),
        };
        let shared = Arc::clone(&self.shared);
        copy.stop_when(move || shared.copies.is_closed());
        slog::info!(self.shared.logger, "copies an image of another node, which has what this one lacks";
            "node" => %from, "through" => index, "bytes" => bytes);
        self.left = None;
        self.copying = Some(Copying {
            from,
            index,
            copy,
            asked: (0, 0),
            silent_ticks: 0,
            requests: 0,
        });
        self.ask();
    }

    /// Whether an image through this entry has more than the node.
    fn is_newer(&self, index: u64) -> bool {
        let applied = self.shared.applied();
        // Without tables, the log goes on behind the entry.
        index > applied || self.shared.tables_lost && index == applied
    }

    /// Asks for what comes next.
    fn ask(&mut self) {
        let Some(copying) = &mut self.copying else {
            return;
        };
        let Some((file, offset)) = copying.copy.wanted() else {
            return;
        };
        copying.asked = (file, offset.saturating_add(REQUEST_BYTES));
        copying.silent_ticks = 0;
        copying.requests += 1;
        let content = ImageContent::Fetch { file, offset };
        let image = copying.copy.id();
        let message = PeerMessage::Image(ImageMessage { image, content });
        self.shared.network.send(copying.from, message);
    }

    fn tick(&mut self) {
        self.pause = self.pause.saturating_sub(1);
        let Some(copying) = &mut self.copying else {
            return self.remove_what_is_left();
        };
        copying.silent_ticks += 1;
        if copying.silent_ticks < SILENT_TICKS {
            return;
        }
        if copying.requests >= REQUESTS_MAX {
            slog::warn!(self.shared.logger, "a node does not send its image any more"; "node" => %copying.from);
            self.leave();
        } else {
            self.ask();
        }
    }

    fn take(
        &mut self,
        id: u128,
        at: (u32, u64),
        file_bytes: u64,
        bytes: &[u8],
    ) -> Result<(), NodeFailure> {
        let copying = self.copying.as_mut().filter(|it| it.copy.id() == id);
        let Some(copying) = copying else {
            return Ok(());
        };
        match copying.copy.put(at, file_bytes, bytes) {
            Ok(true) => {}
            // One that came twice, or after a lost one.
            Ok(false) => return Ok(()),
            Err(error) => {
                self.give_up(&error);
                return Ok(());
            }
        }
        (self.shared.metrics).add(Count::ImageBytesCopied, bytes.len() as u64);
        (copying.silent_ticks, copying.requests) = (0, 0);
        match copying.copy.wanted() {
            None => self.install(),
            Some((file, offset)) => {
                if file != copying.asked.0 || offset >= copying.asked.1 {
                    self.ask();
                }
                Ok(())
            }
        }
    }

    fn install(&mut self) -> Result<(), NodeFailure> {
        let Some(copying) = self.copying.take() else {
            return Ok(());
        };
        let index = copying.index;
        if !self.is_newer(index) {
            // The log came nevertheless.
            self.leave();
            return Ok(());
        }
        if let Err(error) = copying.copy.finish() {
            self.give_up(&error);
            return Ok(());
        }
        let is_installed = (self.shared.store.switch_folders(index))
            .map_err(|error| NodeFailure::storage("installing an image", error))?;
        if is_installed {
            return Err(NodeFailure::ImageInstalled { index });
        }
        // The log came nevertheless, and was truncated.
        self.leave();
        Ok(())
    }

    fn give_up(&mut self, error: &ImageCopyError) {
        slog::warn!(self.shared.logger, "cannot copy an image of another node; tries again";
            "error" => %namiki_platform::ErrorSentence(error));
        self.leave();
        self.pause = PAUSE_TICKS;
    }

    /// Ends the copy. Another one begins with its files.
    fn leave(&mut self) {
        self.copying = None;
        self.left = Some(0);
    }

    /// Removes the files of a copy that is not needed any more, as the log came nevertheless: a node that lacks entries would
    /// be offered an image.
    fn remove_what_is_left(&mut self) {
        let Some(ticks) = &mut self.left else {
            return;
        };
        *ticks += 1;
        if *ticks < LEFT_TICKS || !self.shared.has_everything() {
            return;
        }
        match self.shared.store.remove_unfinished_copy() {
            Ok(()) => self.left = None,
            Err(error) => {
                slog::warn!(self.shared.logger, "cannot remove an unfinished copy of an image; tries again";
                    "error" => %namiki_platform::ErrorSentence(&error));
                self.left = Some(0);
            }
        }
    }
}
