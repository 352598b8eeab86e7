//! Messages from the victim to the witness: numbers through a pipe, eight bytes each.
//!
//! ```text
//!   63     60 59                                    0
//!  | kind (4) | id or number (60), little endian      |
//! ```
//! The victim can die in the middle of a write. A partial message was never sent, and it can only
//! be the last.

/// Length of a message.
pub(super) const MESSAGE_BYTES: usize = 8;

const KIND_SHIFT: u32 = 60;
const NUMBER_MASK: u64 = (1 << KIND_SHIFT) - 1;

/// A message of the victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// This number of further accounts is loaded.
    Loaded(u64),
    /// All accounts are loaded; payments begin.
    Paying,
    /// The database acknowledged the payment with this id.
    Acknowledged(u64),
}

impl Message {
    pub(super) fn encode(self) -> [u8; MESSAGE_BYTES] {
        let (kind, number) = match self {
            Self::Loaded(accounts) => (1, accounts),
            Self::Paying => (2, 0),
            Self::Acknowledged(id) => (3, id),
        };
        debug_assert!(number <= NUMBER_MASK);
        (kind << KIND_SHIFT | number & NUMBER_MASK).to_le_bytes()
    }

    fn decode(bytes: [u8; MESSAGE_BYTES]) -> Option<Self> {
        let word = u64::from_le_bytes(bytes);
        let number = word & NUMBER_MASK;
        match word >> KIND_SHIFT {
            1 => Some(Self::Loaded(number)),
            2 => Some(Self::Paying),
            3 => Some(Self::Acknowledged(number)),
            _ => None,
        }
    }
}

/// Assembles messages from pieces.
#[derive(Default)]
pub(super) struct Decoder {
    partial: Vec<u8>,
}

impl Decoder {
    /// Hands on every message that these bytes complete. Invalid messages are skipped.
    pub(super) fn take(&mut self, bytes: &[u8], mut hand_on: impl FnMut(Message)) {
        self.partial.extend_from_slice(bytes);
        let (whole, rest) = self.partial.as_chunks::<MESSAGE_BYTES>();
        for message in whole {
            if let Some(message) = Message::decode(*message) {
                hand_on(message);
            }
        }
        let done = self.partial.len() - rest.len();
        self.partial.drain(..done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_any_cut_and_torn_ones_do_not_count() {
        let sent = [
            Message::Loaded(1000),
            Message::Paying,
            Message::Acknowledged(7 << 40 | 1),
            Message::Acknowledged(NUMBER_MASK),
        ];
        let bytes: Vec<u8> = sent.iter().flat_map(|message| message.encode()).collect();
        for piece in 1..=bytes.len() {
            for end in 0..=bytes.len() {
                let (mut decoder, mut received) = (Decoder::default(), Vec::new());
                for bytes in bytes[..end].chunks(piece) {
                    decoder.take(bytes, |message| received.push(message));
                }
                assert_eq!(received, sent[..end / MESSAGE_BYTES], "{piece} {end}");
            }
        }
    }
}
