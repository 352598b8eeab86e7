//! Frames between nodes: the wire format of a [`PeerMessage`].
//!
//! ```text
//! | length u32 | kind u8 | body |        little-endian; the length counts kind and body
//!
//! kind 16 Raft            opaque bytes
//! kind 17 Payload         which, bytes
//! kind 18 FetchPayloads   count u32, which of each
//! kind 19 FetchedPayload  which, found u8, bytes
//! kind 20 Image           a message about an image, see `image_message.rs`
//! kind 24 Start           opaque bytes
//! kind 25 LogSpace        bytes u64, is low u8
//!         which           term u64, worker u16, number u64, length u32, digest u32
//! ```
//!
//! A payload is not copied when it is sent (the head of its frame is apart). When it is received it is a slice of the buffer that it was read
//! into; a short one is copied then, since other frames share the buffer.

use bytes::{Buf, Bytes, BytesMut};

use crate::entry::{PayloadName, PayloadRef};
use crate::image_message::ImageMessage;
use crate::log_space::LogSpace;
use crate::network::PeerMessage;
use crate::transport::lane::Lane;

/// The bytes of a length.
pub(super) const LENGTH_BYTES: usize = 4;
/// Bytes of a payload's reference.
const WHICH_BYTES: usize = 26;
/// Largest number of bytes in front of a body: length, kind, reference of a payload, and whether it
/// was found.
const HEAD_BYTES_MAX: usize = LENGTH_BYTES + 1 + WHICH_BYTES + 1;
/// Largest number of bytes that a frame adds to a payload, after its length.
pub(super) const OVERHEAD_BYTES_MAX: usize = HEAD_BYTES_MAX - LENGTH_BYTES;

/// The kind of a frame. The numbers never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum FrameKind {
    Hello = 1,
    Answer = 2,
    Ping = 3,
    Pong = 4,
    Raft = 16,
    Payload = 17,
    FetchPayloads = 18,
    FetchedPayload = 19,
    Image = 20,
    Start = 24,
    LogSpace = 25,
}

impl FrameKind {
    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        let all = [
            Self::Hello,
            Self::Answer,
            Self::Ping,
            Self::Pong,
            Self::Raft,
            Self::Payload,
            Self::FetchPayloads,
            Self::FetchedPayload,
            Self::Image,
            Self::Start,
            Self::LogSpace,
        ];
        all.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// A frame to be written: a head of its own, and a body that may be shared with other lanes.
#[derive(Clone, Debug)]
pub(super) struct OutgoingFrame {
    head: [u8; HEAD_BYTES_MAX],
    head_bytes: u8,
    body: Bytes,
}

impl OutgoingFrame {
    fn new(kind: FrameKind, fields: &[u8], body: Bytes) -> Self {
        let length = u32::try_from(1 + fields.len() + body.len());
        let length = length.expect("messages are shorter than 4 GiB");
        let mut head = [0; HEAD_BYTES_MAX];
        head[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        head[LENGTH_BYTES] = kind as u8;
        let head_bytes = LENGTH_BYTES + 1 + fields.len();
        head[LENGTH_BYTES + 1..head_bytes].copy_from_slice(fields);
        Self {
            head,
            // At most `HEAD_BYTES_MAX`.
            head_bytes: head_bytes as u8,
            body,
        }
    }

    /// A frame with a body that was encoded by hand.
    pub(super) fn of_body(kind: FrameKind, body: Bytes) -> Self {
        Self::new(kind, &[], body)
    }

    /// The frame of a message.
    pub(super) fn of(message: PeerMessage) -> Self {
        match message {
            PeerMessage::Raft(bytes) => Self::new(FrameKind::Raft, &[], bytes),
            PeerMessage::Start(bytes) => Self::new(FrameKind::Start, &[], bytes),
            PeerMessage::Payload { payload, bytes } => {
                Self::new(FrameKind::Payload, &which_bytes(payload), bytes)
            }
            PeerMessage::FetchPayloads { payloads } => {
                let mut body = BytesMut::with_capacity(4 + payloads.len() * WHICH_BYTES);
                let count = u32::try_from(payloads.len()).expect("few payloads");
                body.extend_from_slice(&count.to_le_bytes());
                for payload in payloads {
                    body.extend_from_slice(&which_bytes(payload));
                }
                Self::new(FrameKind::FetchPayloads, &[], body.freeze())
            }
            PeerMessage::FetchedPayload { payload, bytes } => {
                let mut fields = [0; WHICH_BYTES + 1];
                fields[..WHICH_BYTES].copy_from_slice(&which_bytes(payload));
                fields[WHICH_BYTES] = u8::from(bytes.is_some());
                let body = bytes.unwrap_or_default();
                Self::new(FrameKind::FetchedPayload, &fields, body)
            }
            PeerMessage::LogSpace(LogSpace {
                usable_bytes,
                is_low,
            }) => {
                let mut fields = [0; 9];
                fields[..8].copy_from_slice(&usable_bytes.to_le_bytes());
                fields[8] = u8::from(is_low);
                Self::new(FrameKind::LogSpace, &fields, Bytes::new())
            }
            PeerMessage::Image(message) => Self::new(FrameKind::Image, &[], message.encode()),
        }
    }

    pub(super) fn head(&self) -> &[u8] {
        &self.head[..usize::from(self.head_bytes)]
    }

    pub(super) fn into_body(self) -> Bytes {
        self.body
    }

    pub(super) fn body(&self) -> &Bytes {
        &self.body
    }

    /// Its length on the wire.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        usize::from(self.head_bytes) + self.body.len()
    }
}

fn which_bytes(payload: PayloadRef) -> [u8; WHICH_BYTES] {
    let PayloadRef {
        name,
        length,
        digest,
    } = payload;
    let mut bytes = [0; WHICH_BYTES];
    bytes[..8].copy_from_slice(&name.term.to_le_bytes());
    bytes[8..10].copy_from_slice(&name.worker.to_le_bytes());
    bytes[10..18].copy_from_slice(&name.number.to_le_bytes());
    bytes[18..22].copy_from_slice(&length.to_le_bytes());
    bytes[22..].copy_from_slice(&digest.to_le_bytes());
    bytes
}

fn take_which(body: &mut Bytes) -> Result<PayloadRef, FrameNonsense> {
    if body.len() < WHICH_BYTES {
        return Err(FrameNonsense::Short);
    }
    Ok(PayloadRef {
        name: PayloadName {
            term: body.get_u64_le(),
            worker: body.get_u16_le(),
            number: body.get_u64_le(),
        },
        length: body.get_u32_le(),
        digest: body.get_u32_le(),
    })
}

/// The reason for which a frame is not a message of its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameNonsense {
    #[error("a frame of kind {0} does not belong on this lane")]
    WrongKind(u8),
    #[error("a frame is too short for its fields, or too long")]
    Short,
    #[error("a payload of worker {0} is on another worker's lane")]
    WrongWorker(u16),
}

/// A frame that was read: its kind, and the bytes after it.
pub(super) struct IncomingFrame {
    pub(super) kind: u8,
    pub(super) body: Bytes,
}

impl IncomingFrame {
    /// From the bytes after the length, which are not empty.
    pub(super) fn of(mut bytes: Bytes) -> Self {
        let kind = if bytes.is_empty() { 0 } else { bytes.get_u8() };
        Self { kind, body: bytes }
    }

    /// Decodes the message, if it belongs to this lane.
    pub(super) fn into_message(self, lane: Lane) -> Result<PeerMessage, FrameNonsense> {
        let Self { kind, mut body } = self;
        match (lane, FrameKind::from_byte(kind)) {
            (Lane::Control, Some(FrameKind::Raft)) => Ok(PeerMessage::Raft(body)),
            (Lane::Control, Some(FrameKind::Start)) => Ok(PeerMessage::Start(body)),
            (Lane::Control, Some(FrameKind::LogSpace)) => take_log_space(body),
            (Lane::Payloads(worker), Some(FrameKind::Payload)) => {
                let payload = take_which(&mut body)?;
                if payload.name.worker != worker {
                    return Err(FrameNonsense::WrongWorker(payload.name.worker));
                }
                let bytes = body;
                Ok(PeerMessage::Payload { payload, bytes })
            }
            (Lane::CatchUp, Some(FrameKind::FetchPayloads)) => take_fetch(body),
            (Lane::CatchUp, Some(FrameKind::FetchedPayload)) => {
                let payload = take_which(&mut body)?;
                if body.is_empty() {
                    return Err(FrameNonsense::Short);
                }
                let bytes = match (body.get_u8(), body.len()) {
                    (1, _) => Some(body),
                    (0, 0) => None,
                    _ => return Err(FrameNonsense::Short),
                };
                Ok(PeerMessage::FetchedPayload { payload, bytes })
            }
            (Lane::CatchUp, Some(FrameKind::Image)) => {
                let message = ImageMessage::decode(body).ok_or(FrameNonsense::Short)?;
                Ok(PeerMessage::Image(message))
            }
            _ => Err(FrameNonsense::WrongKind(kind)),
        }
    }
}

fn take_log_space(mut body: Bytes) -> Result<PeerMessage, FrameNonsense> {
    if body.len() != 9 {
        return Err(FrameNonsense::Short);
    }
    let usable_bytes = body.get_u64_le();
    let is_low = match body.get_u8() {
        0 => false,
        1 => true,
        _ => return Err(FrameNonsense::Short),
    };
    Ok(PeerMessage::LogSpace(LogSpace {
        usable_bytes,
        is_low,
    }))
}

fn take_fetch(mut body: Bytes) -> Result<PeerMessage, FrameNonsense> {
    if body.len() < 4 {
        return Err(FrameNonsense::Short);
    }
    let count = body.get_u32_le() as usize;
    // Before memory is allocated for them.
    if body.len() != count.saturating_mul(WHICH_BYTES) {
        return Err(FrameNonsense::Short);
    }
    let payloads = (0..count).map(|_| take_which(&mut body));
    let payloads = payloads.collect::<Result<Vec<_>, _>>()?;
    Ok(PeerMessage::FetchPayloads { payloads })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image_message::ImageContent;

    const WHICH: PayloadRef = PayloadRef {
        name: PayloadName {
            term: 3,
            worker: 2,
            number: u64::MAX - 1,
        },
        length: 7,
        digest: 0xfeed_beef,
    };

    fn over_the_wire(message: PeerMessage, lane: Lane) -> Result<PeerMessage, FrameNonsense> {
        let frame = OutgoingFrame::of(message);
        let mut bytes = BytesMut::from(frame.head());
        bytes.extend_from_slice(frame.body());
        let length = bytes.get_u32_le() as usize;
        assert_eq!(length, bytes.len());
        IncomingFrame::of(bytes.freeze()).into_message(lane)
    }

    #[test]
    fn every_message_comes_back_as_it_was() {
        let payload = Bytes::from_static(b"changes");
        let (control, catch_up) = (Lane::Control, Lane::CatchUp);
        let messages = [
            (PeerMessage::Raft(payload.clone()), control),
            (PeerMessage::Start(payload.clone()), control),
            (
                PeerMessage::LogSpace(LogSpace {
                    usable_bytes: 7 << 40,
                    is_low: true,
                }),
                control,
            ),
            (
                PeerMessage::Payload {
                    payload: WHICH,
                    bytes: payload.clone(),
                },
                Lane::Payloads(2),
            ),
            (PeerMessage::FetchPayloads { payloads: vec![] }, catch_up),
            (
                PeerMessage::FetchPayloads {
                    payloads: vec![WHICH; 3],
                },
                catch_up,
            ),
            (
                PeerMessage::FetchedPayload {
                    payload: WHICH,
                    bytes: None,
                },
                catch_up,
            ),
            (
                PeerMessage::FetchedPayload {
                    payload: WHICH,
                    bytes: Some(Bytes::new()),
                },
                catch_up,
            ),
            (
                PeerMessage::Image(ImageMessage {
                    image: 5,
                    content: ImageContent::Gone,
                }),
                catch_up,
            ),
        ];
        for (message, lane) in messages {
            assert_eq!(over_the_wire(message.clone(), lane), Ok(message));
        }
    }

    #[test]
    fn a_payload_is_not_copied_on_its_way_out() {
        let payload = Bytes::from(vec![1; 100]);
        let frame = OutgoingFrame::of(PeerMessage::Payload {
            payload: WHICH,
            bytes: payload.clone(),
        });
        assert_eq!(frame.body().as_ptr(), payload.as_ptr());
        assert_eq!(frame.bytes(), 100 + 31);
    }

    #[test]
    fn a_message_on_the_wrong_lane_is_refused() {
        let raft = PeerMessage::Raft(Bytes::new());
        let refused = over_the_wire(raft, Lane::CatchUp);
        assert_eq!(refused, Err(FrameNonsense::WrongKind(16)));
        let payload = PeerMessage::Payload {
            payload: WHICH,
            bytes: Bytes::new(),
        };
        let refused = over_the_wire(payload, Lane::Payloads(1));
        assert_eq!(refused, Err(FrameNonsense::WrongWorker(2)));
    }

    #[test]
    fn a_count_of_payloads_is_checked_before_memory_is_taken() {
        let body = Bytes::from_static(&[18, 0xff, 0xff, 0xff, 0xff, 1]);
        let refused = IncomingFrame::of(body).into_message(Lane::CatchUp);
        assert_eq!(refused, Err(FrameNonsense::Short));
    }
}
