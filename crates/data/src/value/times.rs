//! Durations and points in time.
//!
//! ```text
//!  duration   seconds, 8 bytes | nanoseconds, 4 bytes    both little-endian; nanoseconds below 10⁹
//!  time       the same since 1970, UTC; seconds are signed and rounded down
//! ```

use std::time::{Duration, SystemTime};

use super::{Value, ValueBytes};

const BYTES: usize = 12;
const NANOS_MAX: u32 = 999_999_999;

/// Seconds and nanoseconds.
fn decode_parts(bytes: &[u8]) -> Option<([u8; 8], u32)> {
    let (seconds, nanos) = bytes.split_first_chunk()?;
    let nanos = u32::from_le_bytes(nanos.try_into().ok()?);
    (nanos <= NANOS_MAX).then_some((*seconds, nanos))
}

impl Value for Duration {
    type Owned = Self;
    const NAME: &'static str = "duration";
    const ROOM_BYTES: usize = BYTES;

    fn encode(&self, into: &mut ValueBytes) {
        into.extend_from_slice(&self.as_secs().to_le_bytes());
        into.extend_from_slice(&self.subsec_nanos().to_le_bytes());
    }
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (seconds, nanos) = decode_parts(bytes)?;
        Some(Self::new(u64::from_le_bytes(seconds), nanos))
    }
    fn encode_component(&self, into: &mut ValueBytes) {
        self.encode(into);
    }
    fn decode_component(bytes: &mut &[u8]) -> Option<Self> {
        Self::decode(bytes.split_off(..BYTES)?)
    }
}

/// A point in time, as precise as the system's clock.
impl Value for SystemTime {
    type Owned = Self;
    const NAME: &'static str = "time";
    const ROOM_BYTES: usize = BYTES;

    fn encode(&self, into: &mut ValueBytes) {
        // A `SystemTime` is 64-bit seconds and nanoseconds, so the seconds of either fit.
        let (seconds, nanos) = match self.duration_since(Self::UNIX_EPOCH) {
            Ok(since) => (since.as_secs().cast_signed(), since.subsec_nanos()),
            Err(before) => {
                let before = before.duration();
                let seconds = before.as_secs().wrapping_neg().cast_signed();
                match before.subsec_nanos() {
                    0 => (seconds, 0),
                    nanos => (seconds.wrapping_sub(1), NANOS_MAX + 1 - nanos),
                }
            }
        };
        into.extend_from_slice(&seconds.to_le_bytes());
        into.extend_from_slice(&nanos.to_le_bytes());
    }
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (seconds, nanos) = decode_parts(bytes)?;
        let seconds = i64::from_le_bytes(seconds);
        let whole = Duration::from_secs(seconds.unsigned_abs());
        let second = match seconds {
            0.. => Self::UNIX_EPOCH.checked_add(whole)?,
            _ => Self::UNIX_EPOCH.checked_sub(whole)?,
        };
        second.checked_add(Duration::from_nanos(nanos.into()))
    }
    fn encode_component(&self, into: &mut ValueBytes) {
        self.encode(into);
    }
    fn decode_component(bytes: &mut &[u8]) -> Option<Self> {
        Self::decode(bytes.split_off(..BYTES)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comes_back<V: Value<Owned = V> + PartialEq + std::fmt::Debug>(value: &V) -> Vec<u8> {
        let mut bytes = ValueBytes::new();
        value.encode(&mut bytes);
        assert_eq!(V::decode(&bytes).as_ref(), Some(value));
        let mut rest = &[&bytes[..], &[7]].concat()[..];
        assert_eq!(V::decode_component(&mut rest).as_ref(), Some(value));
        assert_eq!(rest, [7]);
        bytes.to_vec()
    }

    #[test]
    fn lengths_of_time_come_back() {
        for length in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
            assert_eq!(comes_back(&length).len(), BYTES);
        }
        assert_eq!(Duration::decode(&[0; 11]), None);
        assert_eq!(
            Duration::decode(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0xca, 0x9a, 0x3b]),
            None
        );
    }

    #[test]
    fn moments_come_back_before_and_after_1970() {
        let nano = Duration::from_nanos(1);
        let day = Duration::from_secs(86_400);
        for length in [Duration::ZERO, nano, day, day + nano] {
            comes_back(&(SystemTime::UNIX_EPOCH + length));
            comes_back(&(SystemTime::UNIX_EPOCH - length));
        }
        let before = comes_back(&(SystemTime::UNIX_EPOCH - nano));
        assert_eq!(before, [&[0xff; 8][..], &NANOS_MAX.to_le_bytes()].concat());
        comes_back(&SystemTime::now());
        // The first and the last that there are.
        for seconds in [i64::MIN, i64::MAX] {
            let bytes = [&seconds.to_le_bytes()[..], &NANOS_MAX.to_le_bytes()].concat();
            let moment = SystemTime::decode(&bytes).unwrap();
            assert_eq!(comes_back(&moment), bytes);
        }
    }
}
