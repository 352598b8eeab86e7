//! The values in the benchmark's tables: a tag, followed by repetitions of its low byte up to the
//! requested length.

use namiki::{Value, ValueBytes};

/// Length of the shortest value, which is a tag alone.
pub(crate) const VALUE_BYTES_MIN: u16 = 8;

/// A value of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    /// The tag: the writer of the value, or a counter.
    pub(crate) tag: u64,
    /// Its length.
    pub(crate) bytes: u16,
}

impl Value for Payload {
    type Owned = Self;
    const NAME: &'static str = "tagged bytes";

    #[inline]
    fn encode(&self, into: &mut ValueBytes) {
        into.extend_from_slice(&self.tag.to_le_bytes());
        if self.bytes > VALUE_BYTES_MIN {
            into.resize(usize::from(self.bytes), self.tag as u8);
        }
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (tag, rest) = bytes.split_first_chunk()?;
        let tag = u64::from_le_bytes(*tag);
        // The first and last bytes of the filling suffice to detect values that were truncated or
        // mixed.
        let whole = [rest.first(), rest.last()]
            .iter()
            .flatten()
            .all(|byte| **byte == tag as u8);
        let bytes = u16::try_from(bytes.len()).ok()?;
        whole.then_some(Self { tag, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_come_back_whole_or_not_at_all() {
        for bytes in [8, 9, 100] {
            let payload = Payload {
                tag: 0x0102_0304,
                bytes,
            };
            let mut encoded = ValueBytes::new();
            payload.encode(&mut encoded);
            assert_eq!(encoded.len(), usize::from(bytes));
            assert_eq!(Payload::decode(&encoded), Some(payload));
            if bytes > 8 {
                encoded[8] ^= 1;
                assert_eq!(Payload::decode(&encoded), None);
            }
        }
        assert_eq!(Payload::decode(&[0; 7]), None);
    }
}
