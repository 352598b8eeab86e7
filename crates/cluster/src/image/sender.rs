//! Sends images: pins the one that an opening would begin with, and answers for its files.
//!
//! One image is pinned at a time. As long as a node asks for its files, another node is offered the same one.

use bytes::Bytes;
use namiki::replica::PinnedImage;

use super::checkpointer::ImageEvent;
use super::message::{ImageContent, ImageMessage, PART_BYTES};
use crate::metrics::Count;
use crate::network::{NodeId, PeerMessage};
use crate::shared::Shared;

/// Bytes that answer one request, at most.
pub(crate) const REQUEST_BYTES: u64 = 4 << 20;
/// Looks of the checkpointer without a request, after which another image may be pinned.
const BUSY_LOOKS: u32 = 10;
/// Looks without a request after which an image is not pinned any more.
const PINNED_LOOKS: u32 = 150;

/// The pinned image.
#[derive(Debug, Default)]
pub(crate) struct PinnedForOthers {
    image: Option<PinnedImage>,
    /// Looks of the checkpointer since the last request.
    looks: u32,
}

impl PinnedForOthers {
    /// The last entry of the image that is being sent: the log above it is still needed.
    pub(crate) fn sent_through(&self) -> Option<u64> {
        let image = self.image.as_ref().filter(|_| self.looks < BUSY_LOOKS);
        image.map(|image| image.stamp().0)
    }

    /// Some time has passed. Files of an image that was not asked for any more are closed.
    pub(crate) fn look(&mut self) {
        self.looks = self.looks.saturating_add(1);
        if self.looks > PINNED_LOOKS {
            self.image = None;
        }
    }
}

/// Offers a node that has lost data an image, which has to be above an entry. If only a newer one has all that the node
/// needs, through another entry, one is written first: the node asks again.
pub(crate) fn answer_ask(shared: &Shared, to: NodeId, above: u64, through: u64) {
    let index = pin(shared, to, through);
    if index < through && index < shared.applied() {
        shared.images.put(ImageEvent::Wanted);
    } else if index > above {
        send_offer(shared, to);
    }
}

/// Offers a node an image.
pub(crate) fn offer(shared: &Shared, to: NodeId) {
    pin(shared, to, shared.truncated());
    send_offer(shared, to);
}

/// Pins the newest image, unless one that is being sent goes as far as this. Returns its last entry; 0 without an image.
fn pin(shared: &Shared, to: NodeId, through: u64) -> u64 {
    let mut pinned = shared.pinned_image.lock();
    let continues = |sent: u64| sent >= through;
    if !pinned.sent_through().is_some_and(continues) {
        match shared.replica.pin_image() {
            Ok(image) => pinned.image = image,
            Err(error) => {
                slog::warn!(shared.logger, "the own image cannot be read for another node, so another one is written"; "node" => %to,
                    "error" => %error);
                shared.metrics.increment(Count::ImageFilesDamaged);
                shared.images.put(ImageEvent::Wanted);
                return 0;
            }
        }
        pinned.looks = 0;
    }
    pinned.image.as_ref().map_or(0, |image| image.stamp().0)
}

fn send_offer(shared: &Shared, to: NodeId) {
    if let Some(image) = &shared.pinned_image.lock().image {
        let content = ImageContent::Offer {
            index: image.stamp().0,
            bytes: image.len_bytes(),
        };
        let image = image.id();
        let message = ImageMessage { image, content };
        (shared.network).send(to, PeerMessage::Image(message));
    }
}

/// Answers a request for a file, from an offset on.
pub(crate) fn send_parts(shared: &Shared, to: NodeId, id: u128, file: u32, from: u64) {
    let send = |content| {
        let message = ImageMessage { image: id, content };
        shared.network.send(to, PeerMessage::Image(message));
    };
    let mut pinned = shared.pinned_image.lock();
    pinned.looks = 0;
    let image = pinned.image.as_ref().filter(|image| image.id() == id);
    let Some((image, file_bytes)) = image.and_then(|it| Some((it, it.file_bytes(file)?))) else {
        return send(ImageContent::Gone);
    };
    if from == 0 && !image.is_whole(file) {
        // It would be refused at the other end. The next image has its rows from memory.
        slog::warn!(shared.logger, "a file of the own image is damaged, so another image is written"; "file" => file);
        shared.metrics.increment(Count::ImageFilesDamaged);
        shared.replica.rewrite_file(image, file);
        pinned.image = None;
        shared.images.put(ImageEvent::Wanted);
        return send(ImageContent::Gone);
    }
    let until = file_bytes.min(from.saturating_add(REQUEST_BYTES));
    let mut offset = from;
    loop {
        let bytes = match image.read(file, offset, PART_BYTES) {
            Ok(bytes) => Bytes::from(bytes),
            Err(error) => {
                slog::warn!(shared.logger, "cannot read the own image for another node"; "node" => %to, "error" => %error);
                return;
            }
        };
        let read = bytes.len() as u64;
        send(ImageContent::Part {
            file,
            offset,
            file_bytes,
            bytes,
        });
        offset += read;
        if read == 0 || offset >= until {
            return;
        }
    }
}
