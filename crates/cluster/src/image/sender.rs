//! Sends images: pins the one that an opening would begin with, and answers for its files.

use bytes::Bytes;
use namiki::OpenError;
use namiki::replica::{PinnedImage, Replica};
use namiki_client::protocol::Response;
use namiki_platform::ErrorSentence;

use super::message::{ImageContent, ImageMessage, PART_BYTES};
use crate::network::{NodeId, PeerMessage};
use crate::shared::Shared;

/// Bytes that answer one request, at most.
pub(crate) const REQUEST_BYTES: u64 = 4 << 20;
/// Bytes that answer one request of a client, at most.
const CLIENT_PART_BYTES: usize = 1 << 20;
/// Looks of the checkpointer without a request, after which an image is not being sent any more.
const BUSY_LOOKS: u32 = 10;
/// Looks without a request after which its files are closed.
const PINNED_LOOKS: u32 = 150;
/// Images that are pinned at once: each keeps files that newer ones have superseded.
const PINNED_MAX: usize = 3;

/// The pinned images, the latest last.
#[derive(Debug, Default)]
pub(crate) struct PinnedImages {
    images: Vec<Pinned>,
}

#[derive(Debug)]
struct Pinned {
    image: PinnedImage,
    /// Looks of the checkpointer since the last request.
    looks: u32,
}

impl PinnedImages {
    /// The last entry of the oldest pinned image: the log above it is still needed, also while the other node starts with it.
    pub(crate) fn sent_through(&self) -> Option<u64> {
        self.images.iter().map(|it| it.image.stamp().0).min()
    }

    /// Some time has passed. Files of images that were not asked for any more are closed.
    pub(crate) fn look(&mut self) {
        for pinned in &mut self.images {
            pinned.looks += 1;
        }
        self.images.retain(|it| it.looks <= PINNED_LOOKS);
    }

    /// An image that is being sent, if it has this entry.
    fn being_sent(&mut self, from: u64) -> Option<&PinnedImage> {
        let is_such = |it: &&Pinned| it.looks < BUSY_LOOKS && it.image.stamp().0 >= from;
        self.images.iter().rev().find(is_such).map(|it| &it.image)
    }

    /// Pins the replica's image; `None` if it has none.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(crate) fn pin(&mut self, replica: &Replica) -> Result<Option<&PinnedImage>, OpenError> {
        let Some(image) = replica.pin_image()? else {
            return Ok(None);
        };
        self.images.retain(|it| it.image.id() != image.id());
        if self.images.len() >= PINNED_MAX
            && let Some(idle) = self.images.iter().map(|it| it.looks).max()
            && let Some(at) = self.images.iter().position(|it| it.looks == idle)
        {
            self.images.remove(at);
        }
        self.images.push(Pinned { image, looks: 0 });
        Ok(self.images.last().map(|it| &it.image))
    }

    /// The image of this identity, which is asked for.
    pub(crate) fn get(&mut self, id: u128) -> Option<&PinnedImage> {
        let pinned = self.images.iter_mut().find(|it| it.image.id() == id)?;
        pinned.looks = 0;
        Some(&pinned.image)
    }
}

/// Offers a node an image.
pub(crate) fn offer(shared: &Shared, to: NodeId) {
    let mut pinned = shared.pinned_images.lock();
    // Another node gets the same one.
    let offered = match pinned.being_sent(shared.truncated()) {
        Some(image) => Some((image.id(), image.stamp().0, image.len_bytes())),
        None => match pinned.pin(&shared.replica) {
            Ok(image) => image.map(|image| (image.id(), image.stamp().0, image.len_bytes())),
            Err(error) => return cannot_read(shared, to, &error),
        },
    };
    if let Some((image, index, bytes)) = offered {
        let content = ImageContent::Offer { index, bytes };
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
    let mut pinned = shared.pinned_images.lock();
    let image = pinned.get(id);
    let Some((image, file_bytes)) = image.and_then(|it| Some((it, it.file_bytes(file)?))) else {
        return send(ImageContent::Gone);
    };
    let until = file_bytes.min(from.saturating_add(REQUEST_BYTES));
    let mut offset = from;
    loop {
        let bytes = match image.read(file, offset, PART_BYTES) {
            Ok(bytes) => Bytes::from(bytes),
            Err(error) => return cannot_read(shared, to, &error),
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

/// The part of a file that a client asks for.
pub(crate) fn client_part(shared: &Shared, id: u128, file: u32, offset: u64) -> Response {
    let refused = |reason: String| Response::Refused { request: 0, reason };
    let mut pinned = shared.pinned_images.lock();
    let image = pinned.get(id);
    let Some((image, file_bytes)) = image.and_then(|it| Some((it, it.file_bytes(file)?))) else {
        return refused("the node has this image no more: begin the backup again".to_owned());
    };
    match image.read(file, offset, CLIENT_PART_BYTES) {
        Ok(bytes) => Response::BackupPart { file_bytes, bytes },
        Err(error) => refused(format!("the image cannot be read: {error}")),
    }
}

fn cannot_read(shared: &Shared, to: NodeId, error: &dyn std::error::Error) {
    slog::warn!(shared.logger, "cannot read the own image for another node"; "node" => %to,
        "error" => %ErrorSentence(error));
}
