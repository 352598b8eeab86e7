//! A restore point in the log: the state of the database at a time of the wall clock.
//!
//! ```text
//!   payload of a record = 6 | milliseconds since 1970, 8 | epoch, 8 | stamp, 8      little endian
//! ```
//! It is logged among commits and operations, and changes no row. No change and no operation begins
//! with 6.

use namiki_platform::{Epoch, Stamp};

/// The first byte.
pub(crate) const RESTORE_POINT: u8 = 6;
/// The length of the payload.
pub(crate) const RESTORE_POINT_BYTES: usize = 25;

/// A state to which a backup can be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RestorePoint {
    /// The state has the commits with this stamp or a lower one: all that were acknowledged by the
    /// time, and perhaps some that were acknowledged within moments after it.
    pub stamp: Stamp,
    /// The time, in milliseconds since 1970 began, in UTC, as the computer's clock showed it.
    pub time_ms: u64,
    /// The epoch that the stamp closes, of the generation of the log that the point is in; 0 of one that is the end of an
    /// earlier backup.
    pub epoch: Epoch,
}

impl RestorePoint {
    /// The states that a database had at a time, of points in the order in which they were made, as
    /// [`Builder::restore_points_of`](crate::Builder::restore_points_of) returns them: each last
    /// point at or before the time that a later one follows. None if all are later. **More than one
    /// if the clock was set back**, so that it showed the time more than once: no program can know
    /// which one is meant.
    #[must_use]
    pub fn at_time(points: &[Self], time_ms: u64) -> Vec<Self> {
        let is_by_then = |point: &Self| point.time_ms <= time_ms;
        let next = points.iter().skip(1).map(Some).chain([None]);
        points
            .iter()
            .zip(next)
            .filter(|(point, next)| is_by_then(point) && !next.is_some_and(is_by_then))
            .map(|(point, _)| *point)
            .collect()
    }

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
    fn a_time_that_was_twice_has_two_states() {
        let points = |times: &[u64]| -> Vec<RestorePoint> {
            let point = |(stamp, time_ms): (u64, &u64)| RestorePoint {
                stamp: Stamp(stamp),
                time_ms: *time_ms,
                epoch: Epoch(0),
            };
            (1..).zip(times).map(point).collect()
        };
        let found = |times: &[u64], time| -> Vec<u64> {
            let found = RestorePoint::at_time(&points(times), time);
            found.iter().map(|point| point.stamp.0).collect()
        };
        assert!(found(&[], 9).is_empty());
        assert!(found(&[10, 20, 30], 9).is_empty());
        assert_eq!(found(&[10, 20, 30], 10), [1]);
        assert_eq!(found(&[10, 20, 20, 30], 29), [3]);
        assert_eq!(found(&[10, 20, 30], 31), [3]);
        // Set back after 30.
        let times = [10, 20, 30, 15, 25, 35];
        assert!(found(&times, 9).is_empty());
        assert_eq!(found(&times, 14), [1]);
        assert_eq!(found(&times, 15), [1, 4]);
        assert_eq!(found(&times, 26), [2, 5]);
        assert_eq!(found(&times, 31), [5]);
        assert_eq!(found(&times, 40), [6]);
        // Ahead by years, and set right.
        assert_eq!(found(&[900, 15, 25], 20), [2]);
    }

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
