//! How many keys there are, counted by each thread for itself and brought together now and then.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::shared::counters::{SHARDS, shard};

#[derive(Default)]
#[repr(align(128))]
struct Part(AtomicI64);

#[derive(Default)]
struct Parts {
    each: [Part; SHARDS],
    /// What the parts have handed in.
    together: Part,
}

/// A count that many threads change.
pub(super) struct Count {
    /// Made for the first key.
    parts: OnceLock<Box<Parts>>,
    /// A part hands in when it has reached so many, up or down.
    batch: i64,
}

impl Count {
    pub(super) fn new(batch: u32) -> Self {
        Self {
            parts: OnceLock::new(),
            batch: i64::from(batch.max(1)),
        }
    }

    /// Adds one, or takes one away. When this thread's part hands in: about how many there are now, less
    /// than a batch off for each part.
    #[inline]
    pub(super) fn add(&self, change: i64) -> Option<u64> {
        let parts = self.parts.get_or_init(Box::default);
        let part = &parts.each[shard()].0;
        let mine = part.fetch_add(change, Ordering::Relaxed) + change;
        if mine.abs() < self.batch {
            return None;
        }
        // Others may count in the same part: hand in what was seen, once.
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

    /// More threads than there are parts, so that some count in the same one.
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
                        // Three keys come for one that goes.
                        count.add(if step % 4 == 3 { -1 } else { 1 });
                    }
                });
            }
        });
        assert_eq!(count.sum(), threads * STEPS / 2);
    }
}
