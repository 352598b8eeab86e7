//! Emulated drives, and when each has time for the next read.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::now_ns;
use crate::disk::PAGE_BYTES;

/// More drives make no sense.
const UNITS_MAX: u32 = 1 << 16;

/// The number of drives and the time of a read, as in `192x5ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowDrives {
    /// Drives that work at the same time.
    pub units: NonZeroU32,
    /// The time of one read.
    pub latency: Duration,
}

impl SlowDrives {
    /// Reads per second of all drives together, as long as each has something to do.
    #[must_use]
    pub fn reads_per_second(&self) -> f64 {
        f64::from(self.units.get()) / self.latency.as_secs_f64()
    }
}

impl fmt::Display for SlowDrives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.latency.as_micros();
        if us.is_multiple_of(1000) {
            write!(f, "{}x{}ms", self.units, us / 1000)
        } else {
            write!(f, "{}x{us}us", self.units)
        }
    }
}

impl FromStr for SlowDrives {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = || {
            let (units, latency) = text.split_once('x')?;
            let units: NonZeroU32 = units.parse().ok()?;
            let us = match (latency.strip_suffix("ms"), latency.strip_suffix("us")) {
                (Some(ms), _) => ms.parse::<u32>().ok()?.checked_mul(1000)?,
                (None, Some(us)) => us.parse().ok()?,
                (None, None) => return None,
            };
            (units.get() <= UNITS_MAX && us > 0).then_some(Self {
                units,
                latency: Duration::from_micros(us.into()),
            })
        };
        parsed().ok_or_else(|| {
            format!(
                "{text:?} is no number of drives (at most {UNITS_MAX}) and milliseconds for a read (an example: \
                 \"192x5ms\"; \"us\" for microseconds)"
            )
        })
    }
}

/// The drives themselves.
pub(super) struct Drives {
    kind: SlowDrives,
    /// For each drive, the time until which it is busy ([`now_ns`]).
    busy_until_ns: Vec<AtomicU64>,
}

impl Drives {
    pub(super) fn new(kind: SlowDrives) -> Self {
        let units = kind.units.get();
        Self {
            kind,
            busy_until_ns: (0..units).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub(super) fn kind(&self) -> SlowDrives {
        self.kind
    }

    /// Gives the drive of offset `at` a read to do after those that it has, and says when it will
    /// be done.
    pub(super) fn assign(&self, at: u64) -> u64 {
        let page = at / PAGE_BYTES as u64;
        let unit = (page % self.busy_until_ns.len() as u64) as usize;
        let (now, latency) = (now_ns(), self.kind.latency.as_nanos() as u64);
        let done = |busy: u64| busy.max(now) + latency;
        // Relaxed: the number carries nothing else.
        let update = |busy| Some(done(busy));
        let busy = &self.busy_until_ns[unit];
        let before = busy.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
        done(before.unwrap_or_else(|busy| busy))
    }
}

impl fmt::Debug for Drives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "emulated drives {}", self.kind)
    }
}

/// Sleeps until then.
pub(super) fn sleep_until(due_ns: u64) {
    let left = due_ns.saturating_sub(now_ns());
    if left > 0 {
        std::thread::sleep(Duration::from_nanos(left));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_are_printed_as_they_are_parsed() {
        for text in ["192x5ms", "1x1us", "65536x1500us", "8x60000ms"] {
            assert_eq!(text.parse::<SlowDrives>().unwrap().to_string(), text);
        }
        let some: SlowDrives = "192x5ms".parse().unwrap();
        assert_eq!(some.latency, Duration::from_millis(5));
        assert!((some.reads_per_second() - 38_400.0).abs() < 1e-6);
        for bad in [
            "",
            "x",
            "192",
            "192x5",
            "0x5ms",
            "65537x5ms",
            "5msx192",
            "1x0ms",
            "1x-1ms",
            "1x9999999ms",
        ] {
            assert!(bad.parse::<SlowDrives>().is_err(), "{bad}");
        }
    }

    #[test]
    fn reads_of_one_drive_queue_and_drives_work_in_parallel() {
        let drives = Drives::new("4x1000ms".parse().unwrap());
        let began = now_ns();
        let second = 1_000_000_000;
        let first = drives.assign(0);
        // Requests to drive 1 and to drive 3.
        let others = [drives.assign(4096 + 512), drives.assign(7 * 4096)];
        let next = [drives.assign(4 * 4096), drives.assign(0)];
        let ended = now_ns();
        for done in [first, others[0], others[1]] {
            assert!((began + second..=ended + second).contains(&done));
        }
        assert_eq!(next, [first + second, first + 2 * second]);
    }
}
