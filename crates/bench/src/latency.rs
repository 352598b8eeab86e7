//! Latencies, gathered per thread and added up.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Two significant digits (an error below 1 %) up to an hour take some 30 KB.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Latencies in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Latencies(Histogram<u64>);

/// What a row says of latencies, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct LatencyUs {
    /// Half of the samples are below.
    pub(crate) p50: f64,
    /// All but one in a hundred.
    pub(crate) p99: f64,
    /// All but one in a thousand.
    pub(crate) p999: f64,
    /// The longest sample.
    pub(crate) max: f64,
}

impl Latencies {
    /// None yet.
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, 2);
        Self(histogram.expect("the bounds are in order and the digits are few"))
    }

    /// One more.
    #[inline]
    pub(crate) fn add_ns(&mut self, ns: u64) {
        self.0.saturating_record(ns.max(1));
    }

    /// Those of another thread.
    pub(crate) fn add_all(&mut self, others: &Self) {
        self.0.add(&others.0).expect("both have the same bounds");
    }

    /// A summary; none of nothing.
    pub(crate) fn summary(&self) -> Option<LatencyUs> {
        let at = |quantile| self.0.value_at_quantile(quantile) as f64 / 1e3;
        (!self.0.is_empty()).then(|| LatencyUs {
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: self.0.max() as f64 / 1e3,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_all_threads_and_absent_without_samples() {
        let (mut all, mut other) = (Latencies::new(), Latencies::new());
        assert_eq!(all.summary(), None);
        for microsecond in 1..=500 {
            all.add_ns(microsecond * 1000);
            other.add_ns((microsecond + 500) * 1000);
        }
        all.add_all(&other);
        let summary = all.summary().unwrap();
        assert!((495.0..=505.0).contains(&summary.p50), "{summary:?}");
        assert!((980.0..=1000.0).contains(&summary.p99), "{summary:?}");
        assert!((990.0..=1010.0).contains(&summary.max), "{summary:?}");
    }

    #[test]
    fn a_latency_beyond_measure_is_the_longest() {
        let mut latencies = Latencies::new();
        latencies.add_ns(u64::MAX);
        latencies.add_ns(0);
        assert!(latencies.summary().unwrap().max >= 3.5e9);
    }
}
