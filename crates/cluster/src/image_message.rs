//! What nodes say to each other about images, on the catch-up lane.
//!
//! ```text
//!  1 offer   image 16 | index 8 | bytes 8
//!  2 fetch   image 16 | file 4 | offset 8
//!  3 part    image 16 | file 4 | offset 8 | length of the file 8 | bytes
//!  4 gone    image 16
//!  5 ask     image 16 | above 8 | through 8
//! ```
//! The first byte is the kind, numbers are little-endian.

use bytes::{Buf, BufMut, Bytes, BytesMut};

const OFFER: u8 = 1;
const FETCH: u8 = 2;
const PART: u8 = 3;
const GONE: u8 = 4;
const ASK: u8 = 5;

/// Longest part of a file.
pub(crate) const PART_BYTES: usize = 256 << 10;
/// Bytes in front of it.
const PART_HEAD_BYTES: usize = 1 + 16 + 4 + 8 + 8;
/// Longest message.
pub(crate) const IMAGE_MESSAGE_BYTES_MAX: usize = PART_HEAD_BYTES + PART_BYTES;

/// A message about the image with this identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageMessage {
    /// The identity of the image among those of all nodes.
    pub image: u128,
    /// What it says.
    pub content: ImageContent,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageContent {
    /// The other node may have the image, as entries that it needs are truncated.
    Offer {
        /// The last entry in the image.
        index: u64,
        /// Length of its files.
        bytes: u64,
    },
    /// Asks for a file from an offset on.
    Fetch {
        /// The number of the file.
        file: u32,
        /// The offset.
        offset: u64,
    },
    /// A part of a file, of several that answer a request.
    Part {
        /// The number of the file.
        file: u32,
        /// The offset of the part.
        offset: u64,
        /// Length of the file.
        file_bytes: u64,
        /// The part. The receiver verifies whole files.
        bytes: Bytes,
    },
    /// The image is not there any more: there is a newer one.
    Gone,
    /// Asks for the offer of any image: the node has lost data that is in images. No image has the message's identity.
    Ask {
        /// The entry through which the node has everything: an image above it helps.
        above: u64,
        /// The last entry of which it has lost something: an image at it or above it has everything.
        through: u64,
    },
}

impl ImageMessage {
    /// Its size in memory.
    pub(crate) fn weight(&self) -> usize {
        match &self.content {
            ImageContent::Part { bytes, .. } => PART_HEAD_BYTES + bytes.len(),
            _ => PART_HEAD_BYTES,
        }
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(
            PART_HEAD_BYTES
                + match &self.content {
                    ImageContent::Part { bytes, .. } => bytes.len(),
                    _ => 0,
                },
        );
        let kind = match &self.content {
            ImageContent::Offer { .. } => OFFER,
            ImageContent::Fetch { .. } => FETCH,
            ImageContent::Part { .. } => PART,
            ImageContent::Gone => GONE,
            ImageContent::Ask { .. } => ASK,
        };
        out.put_u8(kind);
        out.put_u128_le(self.image);
        match &self.content {
            ImageContent::Offer { index, bytes } => {
                out.put_u64_le(*index);
                out.put_u64_le(*bytes);
            }
            ImageContent::Fetch { file, offset } => {
                out.put_u32_le(*file);
                out.put_u64_le(*offset);
            }
            ImageContent::Part {
                file,
                offset,
                file_bytes,
                bytes,
            } => {
                out.put_u32_le(*file);
                out.put_u64_le(*offset);
                out.put_u64_le(*file_bytes);
                out.put_slice(bytes);
            }
            ImageContent::Gone => {}
            ImageContent::Ask { above, through } => {
                out.put_u64_le(*above);
                out.put_u64_le(*through);
            }
        }
        out.freeze()
    }

    /// The message of these bytes; `None` if they are not one.
    pub(crate) fn decode(mut from: Bytes) -> Option<Self> {
        let kind = from.try_get_u8().ok()?;
        let image = from.try_get_u128_le().ok()?;
        let content = match kind {
            OFFER => ImageContent::Offer {
                index: from.try_get_u64_le().ok()?,
                bytes: from.try_get_u64_le().ok()?,
            },
            FETCH => ImageContent::Fetch {
                file: from.try_get_u32_le().ok()?,
                offset: from.try_get_u64_le().ok()?,
            },
            PART => {
                let file = from.try_get_u32_le().ok()?;
                let offset = from.try_get_u64_le().ok()?;
                let file_bytes = from.try_get_u64_le().ok()?;
                let bytes = std::mem::take(&mut from);
                if bytes.len() > PART_BYTES {
                    return None;
                }
                ImageContent::Part {
                    file,
                    offset,
                    file_bytes,
                    bytes,
                }
            }
            GONE => ImageContent::Gone,
            ASK => ImageContent::Ask {
                above: from.try_get_u64_le().ok()?,
                through: from.try_get_u64_le().ok()?,
            },
            _ => return None,
        };
        from.is_empty().then_some(Self { image, content })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_comes_back_and_no_shorter_or_longer_one() {
        let contents = [
            ImageContent::Offer { index: 7, bytes: 9 },
            ImageContent::Fetch {
                file: 3,
                offset: 1 << 40,
            },
            ImageContent::Part {
                file: 3,
                offset: 5,
                file_bytes: 11,
                bytes: Bytes::from_static(b"rows"),
            },
            ImageContent::Gone,
            ImageContent::Ask {
                above: 3,
                through: 1 << 40,
            },
        ];
        for content in contents {
            let is_part = matches!(content, ImageContent::Part { .. });
            let image = u128::MAX - 5;
            let message = ImageMessage { image, content };
            let bytes = message.encode();
            assert_eq!(ImageMessage::decode(bytes.clone()), Some(message.clone()));
            let shorter = bytes.slice(..bytes.len() - 1);
            assert_ne!(ImageMessage::decode(shorter), Some(message));
            if !is_part {
                let longer = Bytes::from([&bytes[..], &[0]].concat());
                assert_eq!(ImageMessage::decode(longer), None);
            }
        }
        let long = ImageMessage {
            image: 1,
            content: ImageContent::Part {
                file: 2,
                offset: 0,
                file_bytes: 1 << 30,
                bytes: Bytes::from(vec![0; PART_BYTES + 1]),
            },
        };
        assert_eq!(ImageMessage::decode(long.encode()), None);
    }
}
