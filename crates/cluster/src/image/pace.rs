//! The pace of an image: its writing is spread over a part of the time until the next one is due, so that the disk and the
//! processors serve commands meanwhile.
//!
//! The image keeps up with the log: it may be as far as that has grown since its view was opened, of half of the growth after
//! which the next is due. So a load that is twice as fast has images twice as fast. But it is never slower than a rate, so that it
//! also ends if no log is written, and small images end soon: commits are slower while its view is open.

use std::time::Instant;

/// The writing of one image.
#[derive(Debug)]
pub(super) struct ImagePace {
    begun: Instant,
    /// The slowest rate.
    bytes_per_second: u64,
    /// Bytes that the image is expected to have; what exceeds them is written without a pause.
    expected_bytes: u64,
    /// The growth of the log within which it is to end.
    growth: u64,
}

impl ImagePace {
    pub(super) fn new(
        bytes_per_second: u64,
        expected_bytes: u64,
        growth: u64,
        begun: Instant,
    ) -> Self {
        Self {
            begun,
            bytes_per_second,
            expected_bytes,
            growth,
        }
    }

    /// Whether the image is further than it need be, when it has `written` bytes and the log has grown by `grown`.
    pub(super) fn is_ahead(&self, written: u64, grown: u64, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.begun);
        let by_time = passed.as_secs_f64() * self.bytes_per_second as f64;
        let by_log = self.expected_bytes as f64 * (grown as f64 / self.growth.max(1) as f64);
        written as f64 > by_time.max(by_log) && written < self.expected_bytes
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_image_waits_for_the_log_or_the_time_and_not_beyond_what_was_expected() {
        let begun = Instant::now();
        let at = |s| begun + Duration::from_secs(s);
        let pace = ImagePace::new(10, 1000, 200, begun);
        assert!(!pace.is_ahead(0, 0, begun));
        assert!(pace.is_ahead(100, 0, begun));
        assert!(!pace.is_ahead(100, 20, begun));
        assert!(pace.is_ahead(101, 20, begun));
        assert!(!pace.is_ahead(101, 20, at(11)));
        assert!(pace.is_ahead(999, 199, at(99)));
        assert!(!pace.is_ahead(999, 200, begun));
        assert!(!pace.is_ahead(999, 0, at(100)));
        assert!(!pace.is_ahead(1000, 0, begun));
        let without_log = ImagePace::new(10, 1000, 0, begun);
        assert!(without_log.is_ahead(1, 0, begun) && !without_log.is_ahead(1, 1, begun));
    }

    #[test]
    fn at_the_fastest_rate_nothing_waits() {
        let begun = Instant::now();
        let now = begun + Duration::from_nanos(1);
        assert!(!ImagePace::new(u64::MAX, 1 << 40, 200, begun).is_ahead(1 << 30, 0, now));
    }
}
