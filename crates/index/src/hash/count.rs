//! How many keys there are, counted by each thread for itself and brought together now and then.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::counters::{SHARDS, shard};

#[derive(Default)]
#[repr(align(128))]
struct Part(AtomicI64);

/// A count that many threads change.
pub(super) struct Count {
    parts: [Part; SHARDS],
    /// What the parts have handed in.
    together: Part,
    /// A part hands in when it has reached so many, up or down.
    batch: i64,
}

impl Count {
    pub(super) fn new(batch: u32) -> Self {
        Self {
            parts: Default::default(),
            together: Part::default(),
            batch: i64::from(batch.max(1)),
        }
    }

    /// Adds one, or takes one away. When this thread's part hands in: about how many there are now, less
    /// than a batch off for each part.
    #[inline]
    pub(super) fn add(&self, change: i64) -> Option<u64> {
        let part = &self.parts[shard()].0;
        let mine = part.fetch_add(change, Ordering::Relaxed) + change;
        if mine.abs() < self.batch {
            return None;
        }
        // Others may count in the same part: hand in what was seen, once.
        part.fetch_sub(mine, Ordering::Relaxed);
        let together = self.together.0.fetch_add(mine, Ordering::Relaxed) + mine;
        Some(together.max(0) as u64)
    }

    /// Exact when nobody is counting.
    pub(super) fn sum(&self) -> u64 {
        let load = |part: &Part| part.0.load(Ordering::Relaxed);
        let sum = load(&self.together) + self.parts.iter().map(load).sum::<i64>();
        sum.max(0) as u64
    }
}
