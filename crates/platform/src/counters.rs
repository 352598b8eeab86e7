//! Counters that cost their worker nothing shared: each worker has its own cache lines, and
//! whoever wants a total adds them up.
//!
//! # Invariants
//! - C1. A counter is changed by one thread at a time, its worker's. So a plain load and store
//!   suffice, at a fraction of the cost of an atomic addition.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

/// Alone on its cache lines: two of 64 bytes, because processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

impl<T> Deref for Padded<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Counts what one worker does; anybody may read it.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts `amount` more. Only the counter's worker may (C1): two at once can lose counts.
    #[inline]
    pub fn add(&self, amount: u64) {
        // Relaxed: a counter orders nothing, and has one writer (C1).
        let now = self.0.load(Ordering::Relaxed);
        self.0.store(now.wrapping_add(amount), Ordering::Relaxed);
    }

    /// Raises the counter to `value` if it is lower. Only the counter's worker may (C1).
    #[inline]
    pub fn raise(&self, value: u64) {
        if value > self.get() {
            self.0.store(value, Ordering::Relaxed);
        }
    }

    /// What has been counted, as far as it is visible here.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One `T` for each worker, each on cache lines of its own.
#[derive(Debug)]
pub struct PerWorker<T>(Box<[Padded<T>]>);

impl<T> PerWorker<T> {
    /// Makes one for each of `workers` workers.
    pub fn new(workers: usize, make: impl FnMut(usize) -> T) -> Self {
        Self((0..workers).map(make).map(Padded).collect())
    }

    /// One worker's.
    ///
    /// # Panics
    /// If there is no such worker.
    #[inline]
    #[must_use]
    pub fn of(&self, worker: usize) -> &T {
        &self.0[worker]
    }

    /// How many workers there are.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.0.len()
    }

    /// All workers', in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.0.iter().map(|padded| &padded.0)
    }

    /// The sum of one counter over all workers.
    pub fn sum(&self, counter: impl Fn(&T) -> &Counter) -> u64 {
        self.iter().map(|each| counter(each).get()).sum()
    }

    /// The largest of one counter over all workers; 0 without workers.
    pub fn max(&self, counter: impl Fn(&T) -> &Counter) -> u64 {
        let each = self.iter().map(|each| counter(each).get());
        each.max().unwrap_or(0)
    }
}

impl<T: Default> PerWorker<T> {
    /// A default for each of `workers` workers.
    #[must_use]
    pub fn defaults(workers: usize) -> Self {
        Self::new(workers, |_| T::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Done {
        commits: Counter,
        longest_ns: Counter,
    }

    #[test]
    fn the_workers_counters_add_up() {
        let done = PerWorker::<Done>::defaults(4);
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let mine = done.of(worker);
                scope.spawn(move || {
                    for count in 0..10_000 {
                        mine.commits.add(1);
                        mine.longest_ns.raise(count % 100 + worker as u64);
                    }
                });
            }
        });
        assert_eq!(done.sum(|done| &done.commits), 40_000);
        assert_eq!(done.max(|done| &done.longest_ns), 102);
        assert_eq!(done.workers(), 4);
    }

    #[test]
    fn no_two_workers_share_a_cache_line() {
        let counters = PerWorker::<Counter>::defaults(3);
        let address = |worker| std::ptr::from_ref(counters.of(worker)).addr();
        assert_eq!(address(0) % 128, 0);
        assert_eq!(address(1) - address(0), 128);
    }
}
