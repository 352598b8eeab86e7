//! Frames: the type, length and body of each message in the stream of bytes.
//!
//! # Invariants
//! - F1. A length is compared with the limit of its type before its body is buffered.
//! - F2. The buffer grows by bytes that have arrived, not by bytes that a length announces.
//! - F3. Frames since the last [`FrameBuffer::release`] stay, so that a batch can be repeated.

use super::ProtocolError;

/// Bytes of the type and the length.
const HEADER_BYTES: usize = 5;
/// Bytes of the length.
const LENGTH_BYTES: usize = 4;
/// Longest startup packet, as in PostgreSQL.
const STARTUP_BYTES_MAX: usize = 10_000;
/// Longest message that carries names and numbers only.
const SHORT_BYTES_MAX: usize = 10_000;
/// Memory that an empty buffer keeps.
const EMPTY_CAPACITY_MAX: usize = 4 << 10;

/// Limits on the length of a message. The length counts its own four bytes.
#[derive(Clone, Copy, Debug)]
pub struct FrameLimits {
    /// Bytes of a message that carries a statement, parameters or rows.
    pub long_bytes_max: usize,
}

impl FrameLimits {
    /// The limits before a client is authenticated: it sends short messages only.
    pub const BEFORE_LOGIN: Self = Self {
        long_bytes_max: SHORT_BYTES_MAX,
    };

    /// The limit of a type; `None` if no message of clients has the type.
    fn of(self, kind: u8) -> Option<usize> {
        match kind {
            // Query, Parse, Bind, CopyData, FunctionCall, CopyFail.
            b'Q' | b'P' | b'B' | b'd' | b'F' | b'f' => Some(self.long_bytes_max),
            // Close, Describe, Execute, Flush, Sync, Terminate, CopyDone, password family.
            b'C' | b'D' | b'E' | b'H' | b'S' | b'X' | b'c' | b'p' => Some(SHORT_BYTES_MAX),
            _ => None,
        }
    }
}

/// A complete message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'f> {
    /// The type.
    pub kind: u8,
    /// The bytes after the length.
    pub body: &'f [u8],
}

/// Bytes of a client that have arrived.
#[derive(Debug, Default)]
pub struct FrameBuffer {
    /// Those before `begin` are forgotten.
    bytes: Vec<u8>,
    begin: usize,
    /// Offset behind the last frame that was returned. Bytes from `begin` on are kept for a repetition.
    next: usize,
}

impl FrameBuffer {
    /// Appends bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Number of bytes in the buffer, with those that are kept for a repetition.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.begin
    }

    /// Whether the buffer has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of bytes that are kept for a repetition.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.next - self.begin
    }

    /// The next frame; `None` if it has not arrived completely.
    ///
    /// # Errors
    /// [`ProtocolError::UnknownType`], [`ProtocolError::Length`], [`ProtocolError::TooLong`]. The
    /// stream cannot be read any further then.
    pub fn next(&mut self, limits: FrameLimits) -> Result<Option<Frame<'_>>, ProtocolError> {
        let Some((kind, end)) = self.header(limits)? else {
            return Ok(None);
        };
        if self.bytes.len() < end {
            return Ok(None);
        }
        let begin = self.next + HEADER_BYTES;
        self.next = end;
        Ok(Some(Frame {
            kind,
            body: &self.bytes[begin..end],
        }))
    }

    /// The type of the next frame, if it has arrived completely and its length is valid.
    #[must_use]
    pub fn peek(&self, limits: FrameLimits) -> Option<u8> {
        let (kind, end) = self.header(limits).ok()??;
        (self.bytes.len() >= end).then_some(kind)
    }

    /// The type of the next frame, and the offset of its end.
    fn header(&self, limits: FrameLimits) -> Result<Option<(u8, usize)>, ProtocolError> {
        let rest = &self.bytes[self.next..];
        let Some(&kind) = rest.first() else {
            return Ok(None);
        };
        let length_max = limits.of(kind).ok_or(ProtocolError::UnknownType(kind))?;
        let Some(length) = rest.get(1..HEADER_BYTES) else {
            return Ok(None);
        };
        let length = checked_length(char::from(kind), length, length_max)?;
        Ok(Some((kind, self.next + 1 + length)))
    }

    /// The body of the next startup packet, which has no type; `None` if it has not arrived completely.
    ///
    /// # Errors
    /// [`ProtocolError::Length`], [`ProtocolError::TooLong`].
    pub fn next_startup(&mut self) -> Result<Option<&[u8]>, ProtocolError> {
        let Some(length) = self.bytes.get(self.next..self.next + LENGTH_BYTES) else {
            return Ok(None);
        };
        let length = checked_length('\0', length, STARTUP_BYTES_MAX)?;
        let (begin, end) = (self.next + LENGTH_BYTES, self.next + length);
        if self.bytes.len() < end {
            return Ok(None);
        }
        self.next = end;
        Ok(Some(&self.bytes[begin..end]))
    }

    /// Forgets the frames that were returned: they will not be repeated.
    pub fn release(&mut self) {
        self.begin = self.next;
        let rest = self.len();
        // Moving the rest costs no more than what was read before it.
        if self.begin < rest {
            return;
        }
        if self.bytes.capacity() > EMPTY_CAPACITY_MAX.max(rest.saturating_mul(4)) {
            self.bytes = self.bytes[self.begin..].to_vec();
        } else {
            self.bytes.drain(..self.begin);
        }
        (self.begin, self.next) = (0, 0);
    }

    /// Frees the memory of an empty buffer: the session is idle.
    pub fn free_memory(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }

    /// Returns the frames since the last release once more.
    pub fn repeat(&mut self) {
        self.next = self.begin;
    }
}

/// A length that counts itself and is within its limit.
fn checked_length(kind: char, bytes: &[u8], length_max: usize) -> Result<usize, ProtocolError> {
    let bytes: [u8; LENGTH_BYTES] = bytes.try_into().unwrap_or_default();
    let claimed = i32::from_be_bytes(bytes);
    let length = usize::try_from(claimed).unwrap_or_default();
    if length < LENGTH_BYTES {
        return Err(ProtocolError::Length {
            kind,
            length: claimed,
        });
    }
    if length > length_max {
        return Err(ProtocolError::TooLong {
            kind,
            length,
            length_max,
        });
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: FrameLimits = FrameLimits {
        long_bytes_max: 1 << 20,
    };

    fn buffer(bytes: &[u8]) -> FrameBuffer {
        let mut buffer = FrameBuffer::default();
        buffer.push(bytes);
        buffer
    }

    #[test]
    fn frames_are_returned_when_they_are_complete() {
        let mut buffer = FrameBuffer::default();
        for byte in b"Q\0\0\0\x06ab" {
            assert_eq!(buffer.next(LIMITS), Ok(None));
            assert_eq!(buffer.peek(LIMITS), None);
            buffer.push(&[*byte]);
        }
        assert_eq!(buffer.peek(LIMITS), Some(b'Q'));
        let frame = Frame {
            kind: b'Q',
            body: b"ab",
        };
        assert_eq!(buffer.next(LIMITS), Ok(Some(frame)));
        assert_eq!(buffer.next(LIMITS), Ok(None));
    }

    #[test]
    fn frames_are_kept_until_they_are_released() {
        let mut buffer = buffer(b"S\0\0\0\x04H\0\0\0\x04X\0\0\0\x04");
        let mut kinds = Vec::new();
        for _ in 0..2 {
            kinds.extend(buffer.next(LIMITS).unwrap().map(|it| it.kind));
        }
        buffer.repeat();
        kinds.extend(buffer.next(LIMITS).unwrap().map(|it| it.kind));
        buffer.release();
        assert_eq!(buffer.kept(), 0);
        for _ in 0..2 {
            kinds.extend(buffer.next(LIMITS).unwrap().map(|it| it.kind));
        }
        assert_eq!(kinds, b"SHSHX");
    }

    #[test]
    fn lengths_are_checked_before_the_body_arrives() {
        let invalid: [(&[u8], bool); 6] = [
            (b"Q\0\0\0\x03", false),
            (b"Q\xff\xff\xff\xff", false),
            (b"Q\x80\0\0\0", false),
            (b"Q\x7f\xff\xff\xff", true),
            (b"Q\0\x10\0\x01", true),
            (b"S\0\x01\0\0", true),
        ];
        for (bytes, is_too_long) in invalid {
            let error = buffer(bytes).next(LIMITS).unwrap_err();
            assert_eq!(matches!(error, ProtocolError::TooLong { .. }), is_too_long);
            assert!(error.is_fatal());
            assert_eq!(buffer(bytes).peek(LIMITS), None);
        }
        let mut startup = buffer(b"\0\0\x27\x11");
        assert!(matches!(
            startup.next_startup(),
            Err(ProtocolError::TooLong { .. })
        ));
    }

    #[test]
    fn unknown_types_are_refused_by_their_first_byte() {
        for kind in 0..=u8::MAX {
            let known = b"QPBdFfCDEHSXcp".contains(&kind);
            let next = buffer(&[kind]).next(LIMITS).map(|it| it.is_some());
            let expected = if known {
                Ok(false)
            } else {
                Err(ProtocolError::UnknownType(kind))
            };
            assert_eq!(next, expected);
        }
    }

    #[test]
    fn memory_of_long_messages_is_freed() {
        // Also where the message fills the memory that has grown for it, and where another one has begun.
        for (body, rest) in [
            (0x0f_fffb, 0),
            (0x0f_fffb, 3),
            (0x0f_f000, 0),
            (0x08_0000, 2_000),
        ] {
            let mut buffer = FrameBuffer::default();
            let mut bytes = vec![b'd'];
            bytes.extend((body as u32 + 4).to_be_bytes());
            bytes.resize(HEADER_BYTES + body, 0);
            bytes.resize(HEADER_BYTES + body + rest, b'S');
            for piece in bytes.chunks(16 << 10) {
                buffer.push(piece);
            }
            assert!(buffer.bytes.capacity() >= body);
            assert!(buffer.next(LIMITS).unwrap().is_some());
            buffer.release();
            assert_eq!(buffer.len(), rest);
            let capacity = buffer.bytes.capacity();
            assert!(
                capacity <= EMPTY_CAPACITY_MAX.max(rest),
                "{body}: {capacity}"
            );
        }
    }

    #[test]
    fn messages_behind_released_ones_are_whole() {
        let mut buffer = FrameBuffer::default();
        let mut sent = 0_u32;
        let mut received = 0_u32;
        for round in 0..2_000_u32 {
            for _ in 0..round % 7 {
                let mut bytes = b"Q\0\0\0\x09".to_vec();
                bytes.extend(sent.to_be_bytes());
                bytes.push(0);
                buffer.push(&bytes);
                sent += 1;
            }
            for _ in 0..(round / 3) % 8 {
                let Some(frame) = buffer.next(LIMITS).unwrap() else {
                    break;
                };
                assert_eq!(frame.body[..4], received.to_be_bytes());
                received += 1;
            }
            if round % 2 == 0 {
                buffer.release();
            }
            assert_eq!(
                buffer.len() - buffer.kept(),
                10 * (sent - received) as usize
            );
        }
        assert!(received > 1_000);
    }
}
