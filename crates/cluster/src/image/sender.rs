//! Sends images: pins the one that an opening would begin with, and answers for its files.
//!
//! One image is pinned at a time. As long as a node asks for its files, another node is offered the same one.

use bytes::Bytes;
use namiki::replica::PinnedImage;

use super::message::{ImageContent, ImageMessage, PART_BYTES};
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

/// Offers a node an image.
pub(crate) fn offer(shared: &Shared, to: NodeId) {
    let mut pinned = shared.pinned_image.lock();
    let truncated = shared.truncated();
    let continues = |through: u64| through >= truncated;
    if !pinned.sent_through().is_some_and(continues) {
        match shared.replica.pin_image() {
            Ok(image) => pinned.image = image,
            Err(error) => {
                slog::warn!(shared.logger, "cannot read the own image for another node"; "node" => %to, "error" => %error);
                return;
            }
        }
        pinned.looks = 0;
    }
    if let Some(image) = &pinned.image {
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
