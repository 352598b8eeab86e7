//! A restore point in the log: which state the database had at a time of the wall clock.
//!
//! ```text
//!   payload of a record = 6 | milliseconds since 1970, 8 | epoch, 8 | stamp, 8      little endian
//! ```
//! It stands beside commits and operations, and changes nothing. No change and no operation begins with 6.

use namiki_platform::{Epoch, Stamp};

/// The first byte.
pub(crate) const RESTORE_POINT: u8 = 6;
/// The length of the payload.
pub(crate) const RESTORE_POINT_BYTES: usize = 25;

/// A state to which a backup can be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RestorePoint {
    /// The state has what commits with this stamp or a lower one have left: all that were acknowledged by the time, and
    /// perhaps some that were acknowledged within moments after it.
    pub stamp: Stamp,
    /// The time, in milliseconds since 1970 began, in UTC, as the computer's clock showed it.
    pub time_ms: u64,
    /// The epoch that the stamp closes, of the generation of the log that the point is in; 0 of one that is the end of an
    /// earlier backup.
    pub epoch: Epoch,
}

impl RestorePoint {
    /// Writes it into a payload of [`RESTORE_POINT_BYTES`] bytes.
    pub(crate) fn encode(&self, into: &mut [u8]) {
        into[0] = RESTORE_POINT;
        into[1..9].copy_from_slice(&self.time_ms.to_le_bytes());
        into[9..17].copy_from_slice(&self.epoch.0.to_le_bytes());
        into[17..].copy_from_slice(&self.stamp.0.to_le_bytes());
    }

    /// The point that a record's payload is, if it is one.
    #[must_use]
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let payload: &[u8; RESTORE_POINT_BYTES] = payload.try_into().ok()?;
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&payload[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        (payload[0] == RESTORE_POINT).then(|| Self {
            time_ms: number(1),
            epoch: Epoch(number(9)),
            stamp: Stamp(number(17)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_told_from_other_payloads() {
        let point = RestorePoint {
            stamp: Stamp(7),
            time_ms: 1_800_000_000_000,
            epoch: Epoch(300),
        };
        let mut payload = [0; RESTORE_POINT_BYTES];
        point.encode(&mut payload);
        assert_eq!(RestorePoint::decode(&payload), Some(point));
        assert_eq!(RestorePoint::decode(&payload[..24]), None);
        payload[0] = 1;
        assert_eq!(RestorePoint::decode(&payload), None);
    }
}
