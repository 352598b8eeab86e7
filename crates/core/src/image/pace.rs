//! Rate limit for files that are written while transactions run: a number of bytes in a second,
//! without catching up.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// The most unused time that is credited. A writer that was delayed for longer does not catch up.
const CREDIT: Duration = Duration::from_millis(50);

/// The longest sleep between two checks whether to continue.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Sleeps for `length`, and periodically asks whether to continue.
///
/// # Errors
/// What `go_on` says.
pub(crate) fn pause<E>(
    length: Duration,
    mut go_on: impl FnMut() -> Result<(), E>,
) -> Result<(), E> {
    let mut left = length;
    while !left.is_zero() {
        let now = left.min(PAUSE_MAX);
        std::thread::sleep(now);
        left -= now;
        go_on()?;
    }
    Ok(())
}

/// Says how long to pause after each piece.
pub(crate) struct Pace {
    bytes_per_second: Option<NonZeroU64>,
    /// When what was written by now is within the rate.
    due: Instant,
}

impl Pace {
    /// As fast as this, or as it can.
    pub(crate) fn new(bytes_per_second: Option<NonZeroU64>, now: Instant) -> Self {
        Self {
            bytes_per_second,
            due: now,
        }
    }

    /// How long to pause after `bytes` more bytes were written.
    pub(crate) fn written(&mut self, bytes: u64, now: Instant) -> Duration {
        let Some(rate) = self.bytes_per_second else {
            return Duration::ZERO;
        };
        let takes = Duration::from_secs_f64(bytes as f64 / rate.get() as f64);
        let from = now.checked_sub(CREDIT).unwrap_or(now).max(self.due);
        self.due = from.checked_add(takes).unwrap_or(from);
        self.due.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_keep_the_rate_without_making_up_for_time() {
        let begin = Instant::now() + CREDIT;
        let mut pace = Pace::new(NonZeroU64::new(1000), begin);
        let ms = Duration::from_millis;
        assert_eq!(pace.written(100, begin), ms(100));
        assert_eq!(pace.written(100, begin), ms(200));
        assert_eq!(pace.written(100, begin + ms(150)), ms(150));
        assert_eq!(pace.written(0, begin + ms(300)), ms(0));
        assert_eq!(pace.written(100, begin + ms(320)), ms(80));
        let later = begin + ms(60_000);
        assert_eq!(pace.written(100, later), ms(50));
        assert_eq!(pace.written(100, later), ms(150));
    }

    #[test]
    fn without_a_rate_there_are_no_pauses() {
        let now = Instant::now();
        assert_eq!(Pace::new(None, now).written(u64::MAX, now), Duration::ZERO);
    }
}
