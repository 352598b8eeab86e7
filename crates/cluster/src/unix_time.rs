//! The time of the system's clock.

use std::time::SystemTime;

/// Seconds of the Unix time; 0 before 1970.
pub(crate) fn unix_s() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}
