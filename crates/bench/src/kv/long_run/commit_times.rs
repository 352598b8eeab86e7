//! The times of a run's commits: how many there are in each second, and in which milliseconds there
//! are any.
//!
//! Each thread keeps its own, so that recording shares nothing with other threads but the lock that
//! the observer takes once in an interval.

use crate::latency::Latencies;
use crate::result_writer::median;

const NS_PER_SECOND: u64 = 1_000_000_000;
const NS_PER_MS: u64 = 1_000_000;
/// A second is slow if it has fewer commits than the median second divided by this.
const SLOW_DIVISOR: f64 = 10.0;

/// The commits of one thread.
#[derive(Clone, Debug)]
pub(super) struct CommitTimes {
    committed: u64,
    /// The samples since they were last taken.
    latencies: Latencies,
    /// The number of commits in each second.
    per_second: Vec<u64>,
    /// A bit for each millisecond, set if there was a commit.
    milliseconds: Vec<u64>,
}

/// The pauses of all threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Stalls {
    /// The longest run of whole milliseconds in which no thread committed.
    pub(super) longest_ms: u64,
    /// The number of seconds with less than a tenth of the commits of the median second.
    pub(super) slow_seconds: u64,
}

impl CommitTimes {
    pub(super) fn new() -> Self {
        Self {
            committed: 0,
            latencies: Latencies::new(),
            per_second: Vec::new(),
            milliseconds: Vec::new(),
        }
    }

    /// Records a commit, `at_ns` after the beginning of the run, with its latency if it was timed.
    pub(super) fn add(&mut self, at_ns: u64, latency_ns: Option<u64>) {
        self.committed += 1;
        if let Some(ns) = latency_ns {
            self.latencies.add_ns(ns);
        }
        let second = (at_ns / NS_PER_SECOND) as usize;
        *at_or_zero(&mut self.per_second, second) += 1;
        let (word, bit) = bit_of(at_ns / NS_PER_MS);
        *at_or_zero(&mut self.milliseconds, word) |= 1 << bit;
    }

    /// The number of commits so far, and the latencies since the previous call. `empty` replaces
    /// them.
    pub(super) fn take(&mut self, empty: Latencies) -> (u64, Latencies) {
        let taken = std::mem::replace(&mut self.latencies, empty);
        (self.committed, taken)
    }
}

impl Stalls {
    /// The pauses of these threads in a run of `length_ns`. Only whole seconds can be slow.
    pub(super) fn of(threads: &[CommitTimes], length_ns: u64) -> Self {
        let seconds = (length_ns / NS_PER_SECOND) as usize;
        let mut per_second = vec![0.0; seconds];
        let milliseconds = length_ns / NS_PER_MS;
        let mut busy = vec![0_u64; milliseconds.div_ceil(64) as usize];
        for thread in threads {
            let counts = per_second.iter_mut().zip(&thread.per_second);
            counts.for_each(|(sum, count)| *sum += *count as f64);
            let words = busy.iter_mut().zip(&thread.milliseconds);
            words.for_each(|(all, word)| *all |= word);
        }
        let (mut longest, mut current) = (0, 0);
        for millisecond in 0..milliseconds {
            let (word, bit) = bit_of(millisecond);
            let is_busy = busy[word] >> bit & 1 == 1;
            current = if is_busy { 0 } else { current + 1 };
            longest = longest.max(current);
        }
        let slow = median(per_second.clone()).map_or(0.0, |median| median / SLOW_DIVISOR);
        let slow_seconds = per_second.iter().filter(|count| **count < slow).count();
        Self {
            longest_ms: longest,
            slow_seconds: slow_seconds as u64,
        }
    }
}

fn at_or_zero(numbers: &mut Vec<u64>, at: usize) -> &mut u64 {
    if numbers.len() <= at {
        numbers.resize(at + 1, 0);
    }
    &mut numbers[at]
}

/// The word and the bit of a millisecond.
fn bit_of(millisecond: u64) -> (usize, u64) {
    ((millisecond / 64) as usize, millisecond % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that commits at these milliseconds.
    fn thread(at_ms: impl IntoIterator<Item = u64>) -> CommitTimes {
        let mut times = CommitTimes::new();
        for ms in at_ms {
            times.add(ms * NS_PER_MS, None);
        }
        times
    }

    fn stalls(threads: &[CommitTimes], length_ms: u64) -> Stalls {
        Stalls::of(threads, length_ms * NS_PER_MS)
    }

    #[test]
    fn no_pause_where_every_millisecond_has_a_commit() {
        let found = stalls(&[thread(0..3000)], 3000);
        assert_eq!(found, Stalls::default());
    }

    #[test]
    fn the_longest_pause_is_of_all_threads_together() {
        // Alone, each thread pauses for 900 ms and more; together, from 700 to 1000 and not longer.
        let threads = [
            thread((0..100).chain(1000..2000)),
            thread((100..700).chain(1600..2000)),
        ];
        assert_eq!(stalls(&threads, 2000).longest_ms, 300);
        assert_eq!(stalls(&threads[..1], 2000).longest_ms, 900);
        assert_eq!(stalls(&threads[1..], 2000).longest_ms, 900);
    }

    #[test]
    fn pauses_at_the_beginning_and_at_the_end_count() {
        assert_eq!(stalls(&[thread(250..1000)], 1000).longest_ms, 250);
        assert_eq!(stalls(&[thread(0..400)], 1000).longest_ms, 600);
        assert_eq!(stalls(&[thread([])], 1000).longest_ms, 1000);
    }

    #[test]
    fn a_second_is_slow_below_a_tenth_of_the_median() {
        // Seconds with 1000, 1000, 99, 1000, 100 and 0 commits.
        let per_second = [1000, 1000, 99, 1000, 100, 0];
        let at = (0..).zip(per_second);
        let at = at.flat_map(|(second, count)| (0..count).map(move |ms| second * 1000 + ms));
        let threads = [thread(at)];
        // The median of six is (100 + 1000) / 2 = 550: only the last second is slow.
        assert_eq!(stalls(&threads, 6000).slow_seconds, 1);
        // The median of the first five is 1000: 99 is below a tenth, and 100 is not.
        assert_eq!(stalls(&threads, 5000).slow_seconds, 1);
        // A part of a second is no second.
        assert_eq!(stalls(&threads, 5999).slow_seconds, 1);
        let two = [threads[0].clone(), thread(2000..2002)];
        assert_eq!(stalls(&two, 5000).slow_seconds, 0);
    }

    #[test]
    fn taken_latencies_are_those_since_the_last_time() {
        let mut times = CommitTimes::new();
        times.add(5, Some(1000));
        times.add(6, None);
        let (committed, taken) = times.take(Latencies::new());
        assert_eq!(committed, 2);
        assert!((990.0..=1010.0).contains(&(taken.summary().unwrap().max * 1e3)));
        times.add(7, Some(9000));
        let (committed, taken) = times.take(Latencies::new());
        assert_eq!(committed, 3);
        let summary = taken.summary().unwrap();
        assert!((8.9..=9.1).contains(&summary.p50), "{summary:?}");
        assert_eq!(times.take(Latencies::new()).1.summary(), None);
    }
}
