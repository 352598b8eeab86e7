//! The pace of an image: writing it is slowed, which leaves the disk and the processors to commands.
//!
//! When the log has grown by half of what makes the next image due, in bytes or entries, the image must be complete. So at twice
//! the load, images are written twice as fast. There is also a lowest average rate: an image ends although no log is written, and
//! small images end soon, because commits cost more while an image's view is open.

use std::num::NonZeroU64;
use std::time::Instant;

/// The image must be complete at this fraction of the log's growth that makes the next one due.
const FRACTION: f64 = 0.5;

/// The writing of one image.
#[derive(Debug)]
pub(super) struct ImagePace {
    begun: Instant,
    /// The lowest average rate.
    bytes_per_second: NonZeroU64,
    /// Bytes that are expected to be written. Those above it are written without waits.
    expected_bytes: u64,
}

impl ImagePace {
    pub(super) fn new(bytes_per_second: NonZeroU64, expected_bytes: u64, begun: Instant) -> Self {
        Self {
            begun,
            bytes_per_second,
            expected_bytes,
        }
    }

    /// Whether more is written than the pace requires; `log_fraction`: of the log's growth that makes the next image due.
    pub(super) fn is_ahead(&self, written: u64, log_fraction: f64, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.begun);
        let by_time = passed.as_secs_f64() * self.bytes_per_second.get() as f64;
        let by_log = self.expected_bytes as f64 * log_fraction / FRACTION;
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
        let pace = ImagePace::new(NonZeroU64::new(10).unwrap(), 1000, begun);
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
        assert!(!ImagePace::new(NonZeroU64::MAX, 1 << 40, begun).is_ahead(1 << 30, 0.0, now));
    }
}
