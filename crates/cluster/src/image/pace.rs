//! The pace of an image: its writing is spread over a part of the time until the next one is due, so that the disk and the
//! processors serve commands meanwhile.
//!
//! The image keeps up with the log: when that has grown by half of what makes the next image due, in bytes or entries, this one
//! is to be written. So a load that is twice as fast has images twice as fast. But an image is never slower than a rate, so that
//! it also ends if no log is written, and small images end soon: commits are slower while its view is open.

use std::time::Instant;

/// The part of the time until the next image is due within which this one is to end.
const PART: f64 = 0.5;

/// The writing of one image.
#[derive(Debug)]
pub(super) struct ImagePace {
    begun: Instant,
    /// The slowest rate.
    bytes_per_second: u64,
    /// Bytes that the image is expected to have; what exceeds them is written without a pause.
    expected_bytes: u64,
}

impl ImagePace {
    pub(super) fn new(bytes_per_second: u64, expected_bytes: u64, begun: Instant) -> Self {
        Self {
            begun,
            bytes_per_second,
            expected_bytes,
        }
    }

    /// Whether the image is further than it need be, when it has `written` bytes and the log has grown by this part of what makes
    /// the next one due.
    pub(super) fn is_ahead(&self, written: u64, part: f64, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.begun);
        let by_time = passed.as_secs_f64() * self.bytes_per_second as f64;
        let by_log = self.expected_bytes as f64 * part / PART;
        written as f64 > by_time.max(by_log) && written < self.expected_bytes
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_image_waits_for_the_log_or_the_time() {
        let begun = Instant::now();
        let at = |s| begun + Duration::from_secs(s);
        let pace = ImagePace::new(10, 1000, begun);
        assert!(!pace.is_ahead(0, 0.0, begun));
        assert!(pace.is_ahead(100, 0.0, begun));
        assert!(!pace.is_ahead(250, 0.125, begun));
        assert!(pace.is_ahead(251, 0.125, begun));
        assert!(!pace.is_ahead(251, 0.125, at(26)));
        assert!(pace.is_ahead(999, 0.499, at(99)));
        assert!(!pace.is_ahead(999, 0.5, begun));
        assert!(!pace.is_ahead(999, 0.0, at(100)));
        assert!(!pace.is_ahead(1000, 0.0, begun));
    }

    #[test]
    fn at_the_fastest_rate_nothing_waits() {
        let begun = Instant::now();
        let now = begun + Duration::from_nanos(1);
        assert!(!ImagePace::new(u64::MAX, 1 << 40, begun).is_ahead(1 << 30, 0.0, now));
    }
}
