//! The pace of an image: its writing is spread over a part of the time until the next one is due, so that the disk and the
//! processors serve commands meanwhile.
//!
//! The image may be as far as the log has grown since its view was opened, of half of the growth after which the next is due,
//! or as far as a part of the longest time has passed, whichever is more: an image also ends if no log is written. So a load
//! that is twice as fast has images twice as fast. It is written as fast as the disk takes it if somebody waits for it or the
//! log's space is short.

use std::time::{Duration, Instant};

/// The writing of one image.
#[derive(Debug)]
pub(super) struct ImagePace {
    begun: Instant,
    /// The longest time for which it is spread.
    longest: Duration,
    /// Bytes that the image is expected to have; what exceeds them is written without a pause.
    expected_bytes: u64,
    /// The growth of the log within which it is to end.
    growth: u64,
}

impl ImagePace {
    pub(super) fn new(longest: Duration, expected_bytes: u64, growth: u64, begun: Instant) -> Self {
        Self {
            begun,
            longest,
            expected_bytes,
            growth,
        }
    }

    /// Whether the image is further than it need be, when it has `written` bytes and the log has grown by `grown`.
    pub(super) fn is_ahead(&self, written: u64, grown: u64, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.begun);
        let part = |of: u128, all: u128| of as f64 / all.max(1) as f64;
        let due = part(grown.into(), self.growth.into())
            .max(part(passed.as_nanos(), self.longest.as_nanos()));
        let done = part(written.into(), self.expected_bytes.into());
        due < 1.0 && done < 1.0 && done > due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_waits_for_the_log_or_the_time_and_not_beyond_what_was_expected() {
        let begun = Instant::now();
        let at = |s| begun + Duration::from_secs(s);
        let pace = ImagePace::new(Duration::from_secs(30), 1000, 200, begun);
        assert!(!pace.is_ahead(0, 0, begun));
        assert!(pace.is_ahead(100, 0, begun));
        assert!(!pace.is_ahead(100, 20, begun));
        assert!(pace.is_ahead(101, 20, begun));
        assert!(!pace.is_ahead(101, 20, at(4)));
        assert!(pace.is_ahead(999, 199, at(29)));
        assert!(!pace.is_ahead(999, 200, begun));
        assert!(!pace.is_ahead(999, 0, at(30)));
        assert!(!pace.is_ahead(1000, 0, begun));
    }

    #[test]
    fn without_a_time_or_an_expectation_nothing_waits() {
        let begun = Instant::now();
        assert!(!ImagePace::new(Duration::ZERO, 1000, 200, begun).is_ahead(
            500,
            0,
            begun + Duration::from_nanos(1)
        ));
        assert!(!ImagePace::new(Duration::from_secs(30), 0, 200, begun).is_ahead(500, 0, begun));
    }
}
