//! Extracts messages from bytes as they arrive.

use crate::error::ConnectionError;
use crate::protocol::{LENGTH_BYTES, MESSAGE_BYTES_MAX, Response, decode, is_tls};

/// Bytes that are read at once, and capacity that is kept between messages.
const CHUNK_BYTES: usize = 64 << 10;

/// Bytes that have arrived and are not a whole message yet.
#[derive(Debug, Default)]
pub(crate) struct MessageBuffer {
    bytes: Vec<u8>,
    /// End of the bytes that were taken already.
    taken: usize,
    /// End of the bytes that have arrived.
    filled: usize,
    /// A message was taken, so the peer speaks the protocol.
    begun: bool,
}

impl MessageBuffer {
    /// The next message that has arrived completely.
    pub(crate) fn next(&mut self) -> Result<Option<Response>, ConnectionError> {
        let arrived = &self.bytes[self.taken..self.filled];
        let Some((prefix, rest)) = arrived.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        if !self.begun && is_tls(*prefix) {
            return Err(ConnectionError::SpeaksTls);
        }
        let length = u32::from_le_bytes(*prefix) as usize;
        if length > MESSAGE_BYTES_MAX {
            return Err(ConnectionError::TooLong(length));
        }
        let Some(message) = rest.get(..length) else {
            return Ok(None);
        };
        let response = decode(message)?;
        self.begun = true;
        self.taken += LENGTH_BYTES + length;
        if self.taken == self.filled {
            self.taken = 0;
            self.filled = 0;
        }
        Ok(Some(response))
    }

    /// Room to read into, some of which is then [`filled`](Self::filled).
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.bytes.len() - self.filled < CHUNK_BYTES / 2 {
            self.bytes.copy_within(self.taken..self.filled, 0);
            self.filled -= self.taken;
            self.taken = 0;
            // It grows with what arrives, not with what is announced.
            self.bytes.resize((2 * self.filled).max(CHUNK_BYTES), 0);
        }
        &mut self.bytes[self.filled..]
    }

    /// Records that this number of bytes was read into the room.
    pub(crate) fn filled(&mut self, bytes: usize) {
        self.filled += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Outcome, SessionId, encode};

    fn results(group: u64, commands: usize) -> Response {
        Response::Results {
            session: SessionId(1),
            group,
            outcomes: vec![Outcome::Done; commands],
            lsn: 1,
        }
    }

    #[test]
    fn messages_come_whole_however_they_arrive() {
        let responses = [
            results(1, 1),
            results(2, 300_000),
            results(3, 0),
            results(4, 70_000),
        ];
        let mut wire = Vec::new();
        for response in &responses {
            encode(response, &mut wire).unwrap();
        }
        for step in [1000, 65_536, usize::MAX] {
            let mut buffer = MessageBuffer::default();
            let mut received = Vec::new();
            let mut rest = &wire[..];
            while !rest.is_empty() {
                let room = buffer.room();
                let bytes = step.min(room.len()).min(rest.len());
                room[..bytes].copy_from_slice(&rest[..bytes]);
                buffer.filled(bytes);
                rest = &rest[bytes..];
                while let Some(response) = buffer.next().unwrap() {
                    received.push(response);
                }
            }
            assert_eq!(received, responses);
            assert!(buffer.bytes.len() < 1 << 20);
        }
    }

    #[test]
    fn nonsense_is_no_message() {
        let mut buffer = MessageBuffer::default();
        buffer.room()[..5].copy_from_slice(&[1, 0, 0, 0, 0xee]);
        buffer.filled(5);
        assert!(matches!(buffer.next(), Err(ConnectionError::Nonsense(_))));
        let mut buffer = MessageBuffer::default();
        buffer.room()[..4].copy_from_slice(&[0xff; 4]);
        buffer.filled(4);
        assert!(matches!(buffer.next(), Err(ConnectionError::TooLong(_))));
        let mut buffer = MessageBuffer::default();
        buffer.room()[..7].copy_from_slice(&[0x15, 3, 3, 0, 2, 2, 50]);
        buffer.filled(7);
        assert!(matches!(buffer.next(), Err(ConnectionError::SpeaksTls)));
    }
}
