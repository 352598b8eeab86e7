//! Per-worker counters without shared cache lines: each worker has its own, and totals are sums
//! over all workers.
//!
//! # Invariants
//! - C1. A counter is changed by one thread at a time, its worker's. So a plain load and store
//!   suffice, at a fraction of the cost of an atomic addition.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts what one worker does; any thread may read it.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts `amount` more and returns the new sum. Only the counter's worker may (C1): two at
    /// once can lose counts.
    #[inline]
    pub fn add(&self, amount: u64) -> u64 {
        // Relaxed: a counter orders nothing, and has one writer (C1).
        let sum = self.0.load(Ordering::Relaxed).wrapping_add(amount);
        self.0.store(sum, Ordering::Relaxed);
        sum
    }

    /// The sum, as far as it is visible here.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workers_counters_add_up() {
        let commits: [Counter; 4] = Default::default();
        std::thread::scope(|scope| {
            for mine in &commits {
                scope.spawn(|| (0..10_000).for_each(|_| _ = mine.add(1)));
            }
        });
        assert_eq!(commits.iter().map(Counter::get).sum::<u64>(), 40_000);
    }
}
