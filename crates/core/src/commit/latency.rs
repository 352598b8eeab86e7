//! How long commits take: a histogram that all threads count into.
//!
//! Times are counted in classes, eight for each doubling, so a percentile is at most an eighth too large. Each of a few
//! shards has its own classes, so that threads rarely change the same word.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::thread_number;

const SHARDS: usize = 8;
/// Classes for each doubling of the time.
const FINE: usize = 8;
const FINE_BITS: u32 = FINE.ilog2();
/// All times from 2^36 ns (a minute) on are in the last class.
const DOUBLINGS: usize = 37;
const CLASSES: usize = DOUBLINGS * FINE;

/// The histogram of an open database.
pub(crate) struct Latencies {
    shards: Box<[CachePadded<Shard>]>,
}

struct Shard {
    classes: [AtomicU64; CLASSES],
    sum_ns: AtomicU64,
    longest_ns: AtomicU64,
}

/// Bounds of [`CommitLatency::buckets`]: powers of two from a microsecond on, to a minute.
const BOUNDS: std::ops::RangeInclusive<usize> = 10..=DOUBLINGS - 1;
const BUCKETS: usize = *BOUNDS.end() - *BOUNDS.start() + 2;

/// How long transactions took from their beginning, retries included, until they were durable: those that were run by
/// `transact`, `transact_with` and the forms of these for tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitLatency {
    /// How many there were.
    pub count: u64,
    /// The sum of their times.
    pub sum: Duration,
    /// Half of them took no longer than this. This and the other percentiles are at most an eighth too large.
    pub p50: Duration,
    /// Nine in ten took no longer.
    pub p90: Duration,
    /// 99 in a hundred.
    pub p99: Duration,
    /// 999 in a thousand.
    pub p999: Duration,
    /// None took longer.
    pub max: Duration,
    /// The histogram: each bucket counts those that were longer than the bound of the previous one,
    /// and no longer than its own, [`CommitLatency::bound`].
    pub buckets: [u64; BUCKETS],
}

impl CommitLatency {
    /// The longest time that a bucket of [`CommitLatency::buckets`] counts: 1.023 µs, 2.047 µs, and so on to a minute. The
    /// last one has no bound.
    #[must_use]
    pub fn bound(bucket: usize) -> Option<Duration> {
        let doubling = BOUNDS.start().checked_add(bucket)?;
        BOUNDS
            .contains(&doubling)
            .then(|| Duration::from_nanos((1 << doubling) - 1))
    }
}

/// The class of a time. The first ones have a nanosecond each.
fn class_of(ns: u64) -> usize {
    let ns = ns.max(1);
    let doubling = ns.ilog2();
    let fine = match doubling.checked_sub(FINE_BITS) {
        Some(shift) => (ns >> shift) as usize - FINE,
        None => ((ns << (FINE_BITS - doubling)) as usize) - FINE,
    };
    (doubling as usize * FINE + fine).min(CLASSES - 1)
}

/// The longest time of a class, in nanoseconds.
fn longest_of(class: usize) -> u64 {
    let (doubling, fine) = ((class / FINE) as u32, (class % FINE) as u64);
    // As many eighths of the doubling's shortest time.
    ((FINE as u64 + fine + 1) << doubling).div_ceil(FINE as u64) - 1
}

impl Latencies {
    pub(crate) fn new() -> Self {
        let shard = |_| {
            CachePadded::new(Shard {
                classes: [const { AtomicU64::new(0) }; CLASSES],
                sum_ns: AtomicU64::new(0),
                longest_ns: AtomicU64::new(0),
            })
        };
        Self {
            shards: (0..SHARDS).map(shard).collect(),
        }
    }

    /// Counts a commit with this latency.
    pub(crate) fn record(&self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let shard = &self.shards[thread_number::number() % SHARDS];
        // Relaxed: counters order nothing.
        shard.classes[class_of(ns)].fetch_add(1, Ordering::Relaxed);
        shard.sum_ns.fetch_add(ns, Ordering::Relaxed);
        shard.longest_ns.fetch_max(ns, Ordering::Relaxed);
    }

    /// The latencies that were counted.
    pub(crate) fn summary(&self) -> CommitLatency {
        let mut classes = [0_u64; CLASSES];
        let (mut sum_ns, mut longest_ns) = (0_u64, 0);
        for shard in &self.shards {
            for (sum, class) in classes.iter_mut().zip(&shard.classes) {
                *sum += class.load(Ordering::Relaxed);
            }
            sum_ns = sum_ns.saturating_add(shard.sum_ns.load(Ordering::Relaxed));
            longest_ns = longest_ns.max(shard.longest_ns.load(Ordering::Relaxed));
        }
        let count: u64 = classes.iter().sum();
        let mut buckets = [0; BUCKETS];
        for (class, there) in classes.iter().enumerate() {
            // A class of the doubling 2^n has times below 2^(n + 1), which is the bound of the bucket after.
            let bucket = (class / FINE + 1).saturating_sub(*BOUNDS.start());
            buckets[bucket.min(BUCKETS - 1)] += there;
        }
        let percentile = |per_mille: u64| {
            let rank = count.saturating_mul(per_mille).div_ceil(1000).max(1);
            let mut seen = 0;
            let class = classes.iter().position(|there| {
                seen += there;
                seen >= rank
            });
            Duration::from_nanos(class.map_or(0, longest_of).min(longest_ns))
        };
        CommitLatency {
            count,
            sum: Duration::from_nanos(sum_ns),
            p50: percentile(500),
            p90: percentile(900),
            p99: percentile(990),
            p999: percentile(999),
            max: Duration::from_nanos(longest_ns),
            buckets,
        }
    }
}

#[cfg(test)]
mod tests {
    use namiki_platform::seeded_random::Random;

    use super::*;

    #[test]
    fn classes_are_in_order_and_an_eighth_wide() {
        let mut before = 0;
        for ns in (1..5_000)
            .chain((13..36).flat_map(|bits| [(1 << bits) - 1, 1 << bits, 3 << (bits - 1)]))
        {
            let (class, longest) = (class_of(ns), longest_of(class_of(ns)));
            assert!(longest >= ns && longest <= ns + ns / 8, "{ns}: {longest}");
            if ns < 5_000 {
                assert!(class >= before, "{ns}");
                before = class;
            }
        }
        assert_eq!(class_of(u64::MAX), CLASSES - 1);
        assert_eq!(class_of(0), class_of(1));
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_times() {
        let seed = 7;
        let mut random = Random::seeded(seed);
        let latencies = Latencies::new();
        assert_eq!(latencies.summary(), CommitLatency::default());
        let mut times: Vec<u64> = (0..10_000)
            .map(|_| 1 << random.below(30) | random.below(1 << 20))
            .collect();
        for ns in &times {
            latencies.record(Duration::from_nanos(*ns));
        }
        times.sort_unstable();
        let told = latencies.summary();
        assert_eq!(told.count, 10_000);
        assert_eq!(told.sum, Duration::from_nanos(times.iter().sum()));
        assert_eq!(told.max, Duration::from_nanos(times[9_999]));
        for (told, rank) in [
            (told.p50, 5_000),
            (told.p90, 9_000),
            (told.p99, 9_900),
            (told.p999, 9_990),
        ] {
            let (told, right) = (told.as_nanos() as u64, times[rank - 1]);
            assert!(
                told >= right && told <= right + right / 8,
                "seed {seed}: {told}, {right}"
            );
        }
        let mut sorted = times.iter().peekable();
        for (at, count) in told.buckets.iter().enumerate() {
            let bound = CommitLatency::bound(at).map_or(u64::MAX, |bound| bound.as_nanos() as u64);
            let mut right = 0;
            while sorted.next_if(|ns| **ns <= bound).is_some() {
                right += 1;
            }
            assert_eq!(*count, right, "seed {seed}: up to {bound}");
        }
        assert_eq!(CommitLatency::bound(0), Some(Duration::from_nanos(1023)));
        assert_eq!(CommitLatency::bound(BUCKETS - 1), None);
    }
}
