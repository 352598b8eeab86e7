//! Sharded count of keys: each thread counts in its own part and adds that to the total now and
//! then.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::shared::counters::{SHARDS, shard};

#[derive(Default)]
#[repr(align(128))]
struct Part(AtomicI64);

#[derive(Default)]
struct Parts {
    each: [Part; SHARDS],
    /// The total of the counts that the parts have handed in.
    together: Part,
}

/// A count that many threads change.
pub(super) struct Count {
    /// Made for the first key.
    parts: OnceLock<Box<Parts>>,
    /// A part hands in its count when that reaches this number, positive or negative.
    batch: i64,
}

impl Count {
    pub(super) fn new(batch: u32) -> Self {
        Self {
            parts: OnceLock::new(),
            batch: i64::from(batch.max(1)),
        }
    }

    /// Adds `change`. If this thread's part hands in, returns the approximate total, which is off
    /// by less than a batch for each part.
    #[inline]
    pub(super) fn add(&self, change: i64) -> Option<u64> {
        let parts = self.parts.get_or_init(Box::default);
        let part = &parts.each[shard()].0;
        let mine = part.fetch_add(change, Ordering::Relaxed) + change;
        if mine.abs() < self.batch {
            return None;
        }
        // Other threads may count in the same part: hand in exactly the count that was read.
        part.fetch_sub(mine, Ordering::Relaxed);
        let together = parts.together.0.fetch_add(mine, Ordering::Relaxed) + mine;
        Some(together.max(0) as u64)
    }

    /// Exact while no thread is counting.
    pub(super) fn sum(&self) -> u64 {
        let Some(parts) = self.parts.get() else {
            return 0;
        };
        let load = |part: &Part| part.0.load(Ordering::Relaxed);
        let sum = load(&parts.together) + parts.each.iter().map(load).sum::<i64>();
        sum.max(0) as u64
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::thread;

    /// More threads than parts, so that some share a part.
    #[test]
    fn nothing_is_lost_that_is_counted_in_one_part() {
        const STEPS: u64 = 200_000;
        let threads = 2 * SHARDS as u64;
        let count = Count::new(2);
        let start = Barrier::new(2 * SHARDS);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    start.wait();
                    for step in 0..STEPS {
                        // Three keys are added for each one removed.
                        count.add(if step % 4 == 3 { -1 } else { 1 });
                    }
                });
            }
        });
        assert_eq!(count.sum(), threads * STEPS / 2);
    }
}
