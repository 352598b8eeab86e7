//! Latencies, collected per thread and then merged.

use hdrhistogram::Histogram;
use namiki_platform::clock::now_ns;
use serde::{Serialize, Serializer};

/// Two significant digits (an error below 1 %) up to an hour take some 30 KB.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Latencies in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Latencies(Histogram<u64>);

/// The latencies of a row, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct LatencyUs {
    /// Half of the samples are below.
    pub(crate) p50: f64,
    /// 99 % of the samples are below.
    pub(crate) p99: f64,
    /// 99.9 % of the samples are below.
    pub(crate) p999: f64,
    /// The longest sample.
    pub(crate) max: f64,
}

/// The latencies of a row where the paper draws them as a curve: percentiles in nanoseconds, as
/// keys p1, p5, p10, …, p95, p99, p999.
///
/// Paper: bwtree §5.2, figures 12 to 15
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PercentilesNs(Vec<(f64, f64)>);

impl PercentilesNs {
    /// The percentages of the curve: 1, 5, 10, …, 95, 99, 99.9.
    fn percents() -> impl Iterator<Item = f64> {
        let fives = (5..100).step_by(5).map(f64::from);
        [1.0].into_iter().chain(fives).chain([99.0, 99.9])
    }

    /// The latency at this percentile, if the curve contains it.
    pub(crate) fn at(&self, percent: f64) -> Option<f64> {
        let found = self.0.iter().find(|(this, _)| *this == percent);
        found.map(|(_, ns)| *ns)
    }

    /// The latencies at the paper's percentiles, which are whole numbers.
    pub(crate) fn at_whole_percents(&self) -> impl Iterator<Item = (u16, f64)> {
        let whole = self.0.iter().filter(|(percent, _)| percent.fract() == 0.0);
        whole.map(|(percent, ns)| (*percent as u16, *ns))
    }
}

impl Serialize for PercentilesNs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let keys = self.0.iter().map(|(percent, ns)| {
            let digits = percent.to_string().replace('.', "");
            (format!("p{digits}"), ns)
        });
        serializer.collect_map(keys)
    }
}

/// The cost of two consecutive readings of the clock: the median of many.
pub(crate) fn clock_ns() -> u64 {
    let mut pairs: Vec<u64> = (0..10_001)
        .map(|_| {
            let start = now_ns();
            now_ns() - start
        })
        .collect();
    pairs.sort_unstable();
    pairs[pairs.len() / 2]
}

impl Latencies {
    /// Creates an empty collection.
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, 2);
        Self(histogram.expect("the bounds are in order and the digits are few"))
    }

    /// Adds a sample.
    #[inline]
    pub(crate) fn add_ns(&mut self, ns: u64) {
        self.0.saturating_record(ns.max(1));
    }

    /// Adds the samples of another thread.
    pub(crate) fn add_all(&mut self, others: &Self) {
        self.0.add(&others.0).expect("both have the same bounds");
    }

    /// A summary; `None` without samples.
    pub(crate) fn summary(&self) -> Option<LatencyUs> {
        let at = |quantile| self.0.value_at_quantile(quantile) as f64 / 1e3;
        (!self.0.is_empty()).then(|| LatencyUs {
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: self.0.max() as f64 / 1e3,
        })
    }

    /// A curve, with the cost of the clock subtracted from each sample; `None` without samples.
    pub(crate) fn percentiles(&self, clock_ns: u64) -> Option<PercentilesNs> {
        let at = |percent: f64| {
            let ns = self.0.value_at_quantile(percent / 100.0);
            (percent, ns.saturating_sub(clock_ns) as f64)
        };
        (!self.0.is_empty()).then(|| PercentilesNs(PercentilesNs::percents().map(at).collect()))
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

    /// Paper: bwtree §5.2
    #[test]
    fn the_papers_percentiles_end_at_99() {
        let mut latencies = Latencies::new();
        for ns in 1..=100 {
            latencies.add_ns(ns);
        }
        let curve = latencies.percentiles(0).unwrap();
        let points: Vec<(u16, f64)> = curve.at_whole_percents().collect();
        assert_eq!(points.len(), 21);
        assert_eq!(points[0], (1, 1.0));
        assert_eq!(points[10], (50, 50.0));
        assert_eq!(points[20], (99, 99.0));
    }

    #[test]
    fn a_latency_beyond_measure_is_the_longest() {
        let mut latencies = Latencies::new();
        latencies.add_ns(u64::MAX);
        latencies.add_ns(0);
        assert!(latencies.summary().unwrap().max >= 3.5e9);
    }
}
