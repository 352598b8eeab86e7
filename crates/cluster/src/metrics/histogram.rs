//! A histogram of times, with fixed bounds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets, in nanoseconds: from 100 µs, which a fast disk takes for a flush, to
/// 10 s. The last bucket has no bound.
pub(crate) const BOUNDS_NS: [u64; 16] = [
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// Counts times by their length. Any thread may note one.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    buckets: [AtomicU64; BOUNDS_NS.len() + 1],
    sum_ns: AtomicU64,
    longest_ns: AtomicU64,
}

/// The counts of a histogram at one time.
#[cfg(any(feature = "metrics", test))]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HistogramCounts {
    /// Times in each bucket.
    pub(crate) buckets: [u64; BOUNDS_NS.len() + 1],
    /// All times added up, in nanoseconds.
    pub(crate) sum_ns: u64,
}

impl Histogram {
    /// Counts a time.
    pub(crate) fn note(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let at = BOUNDS_NS.partition_point(|bound| *bound < ns);
        // Relaxed, as everywhere here: counters synchronize nothing.
        self.buckets[at].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
        self.longest_ns.fetch_max(ns, Ordering::Relaxed);
    }

    /// The longest time since the last call.
    pub(crate) fn take_longest(&self) -> Duration {
        Duration::from_nanos(self.longest_ns.swap(0, Ordering::Relaxed))
    }

    #[cfg(any(feature = "metrics", test))]
    pub(crate) fn counts(&self) -> HistogramCounts {
        let mut counts = HistogramCounts::default();
        for (count, bucket) in counts.buckets.iter_mut().zip(&self.buckets) {
            *count = bucket.load(Ordering::Relaxed);
        }
        counts.sum_ns = self.sum_ns.load(Ordering::Relaxed);
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_bucket_of_its_bound() {
        let histogram = Histogram::default();
        for ns in [1, 100_000, 100_001, 10_000_000_001] {
            histogram.note(Duration::from_nanos(ns));
        }
        let counts = histogram.counts();
        assert_eq!(counts.buckets[..3], [2, 1, 0]);
        assert_eq!(counts.buckets[BOUNDS_NS.len()], 1);
        assert_eq!(counts.sum_ns, 10_000_200_003);
        let longest = Duration::from_nanos(10_000_000_001);
        assert_eq!(histogram.take_longest(), longest);
        assert_eq!(histogram.take_longest(), Duration::ZERO);
    }
}
