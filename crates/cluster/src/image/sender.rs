//! Sends images: pins the one that an opening would begin with, and answers for its files.

use std::sync::Arc;

use bytes::Bytes;
use namiki::replica::PinnedImage;
use namiki_client::protocol::Response;
use namiki_platform::ErrorSentence;

use crate::events::ImageEvent;
use crate::image_message::{ImageContent, ImageMessage, PART_BYTES};
use crate::metrics::Count;
use crate::network::{NodeId, PeerMessage};
use crate::shared::Shared;

/// Bytes that answer one request, at most.
pub(crate) const REQUEST_BYTES: u64 = 4 << 20;
/// Bytes that answer one request of a client, at most.
pub(crate) const CLIENT_PART_BYTES: usize = 1 << 20;

/// Offers a node that has lost data an image, which has to be above an entry. If only a newer one has all that the node
/// needs, through another entry, one is written first: the node asks again.
pub(crate) fn answer_ask(shared: &Shared, to: NodeId, above: u64, through: u64) {
    let image = pin(shared, to, through);
    let index = image.as_ref().map_or(0, |image| image.stamp().0);
    if index < through && index < shared.applied() {
        shared.images.put(ImageEvent::Wanted);
    } else if let Some(image) = image.filter(|_| index > above) {
        send_offer(shared, to, &image);
    }
}

/// Offers a node an image, as the leader: it needs the entries above it.
pub(crate) fn offer(shared: &Shared, to: NodeId) {
    let Some(image) = pin(shared, to, shared.truncated()) else {
        return;
    };
    // If a newer one has been written meanwhile, the node is offered that soon.
    if (shared.kept_log.lock()).note_offer(to, image.stamp().0) {
        send_offer(shared, to, &image);
    }
}

/// An image that is being sent and goes as far as this, or else the newest one, pinned.
fn pin(shared: &Shared, to: NodeId, through: u64) -> Option<Arc<PinnedImage>> {
    let mut pinned = shared.pinned_images.lock();
    if let Some(image) = pinned.being_sent(through) {
        return Some(image);
    }
    match pinned.pin(&shared.replica) {
        Ok(image) => image,
        Err(error) => {
            slog::warn!(shared.logger, "the own image cannot be read for another node, so another one is written"; "node" => %to,
                "error" => %ErrorSentence(&error));
            shared.metrics.increment(Count::ImageFilesDamaged);
            shared.images.put(ImageEvent::Wanted);
            None
        }
    }
}

fn send_offer(shared: &Shared, to: NodeId, image: &PinnedImage) {
    let content = ImageContent::Offer {
        index: image.stamp().0,
        bytes: image.len_bytes(),
    };
    let image = image.id();
    let message = ImageMessage { image, content };
    (shared.network).send(to, PeerMessage::Image(message));
}

/// A pinned image with the length of one of its files; `None` if there is no such image or file.
fn find(shared: &Shared, id: u128, file: u32) -> Option<(Arc<PinnedImage>, u64)> {
    let image = shared.pinned_images.lock().get(id)?;
    let file_bytes = image.file_bytes(file)?;
    Some((image, file_bytes))
}

/// Reads a file whole when its first part is asked for: a damaged one would be refused at the other end. The next image has its
/// rows from memory. Returns whether it is damaged.
fn is_damaged(shared: &Shared, image: &PinnedImage, file: u32, offset: u64) -> bool {
    if offset > 0 || image.is_whole(file) {
        return false;
    }
    slog::warn!(shared.logger, "a file of the own image is damaged, so another image is written"; "file" => file);
    shared.metrics.increment(Count::ImageFilesDamaged);
    shared.replica.rewrite_file(image, file);
    shared.pinned_images.lock().forget(image.id());
    shared.images.put(ImageEvent::Wanted);
    true
}

/// Answers a request for a file, from an offset on.
pub(crate) fn send_parts(shared: &Shared, to: NodeId, id: u128, file: u32, from: u64) {
    let send = |content| {
        let message = ImageMessage { image: id, content };
        shared.network.send(to, PeerMessage::Image(message));
    };
    let found = find(shared, id, file);
    let Some((image, file_bytes)) =
        found.filter(|(image, _)| !is_damaged(shared, image, file, from))
    else {
        return send(ImageContent::Gone);
    };
    let is_again = (shared.kept_log.lock()).note_fetch(to, id, image.stamp().0);
    if is_again {
        slog::warn!(shared.logger, "a node copies another image before it follows: it was restarted or cut off, a file was damaged, or the \
            log above the first image was truncated. If this goes on, raise log_bytes_max on every node and restart them one by one";
            "node" => %to, "through" => image.stamp().0);
    }
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
    let Some((image, file_bytes)) = find(shared, id, file) else {
        return refused("the node has this image no more: begin the backup again".to_owned());
    };
    if is_damaged(shared, &image, file, offset) {
        return refused("a file of the image is damaged: begin the backup again".to_owned());
    }
    match image.read(file, offset, CLIENT_PART_BYTES) {
        Ok(bytes) => Response::BackupPart { file_bytes, bytes },
        Err(error) => refused(format!("the image cannot be read: {error}")),
    }
}

fn cannot_read(shared: &Shared, to: NodeId, error: &dyn std::error::Error) {
    slog::warn!(shared.logger, "cannot read the own image for another node"; "node" => %to,
        "error" => %ErrorSentence(error));
}
