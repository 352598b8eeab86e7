//! Counts of rare events, spread over cache lines so that threads seldom share one.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::Statistics;

/// What is counted.
#[derive(Clone, Copy)]
pub enum Event {
    /// A node was rebuilt without what its updates left behind.
    Consolidation,
    /// The same, without success: another thread changed the node meanwhile.
    FailedConsolidation,
    Split,
    Merge,
    RootSplit,
    RootCollapse,
    /// A compare-and-swap that lost and was repeated or given up.
    CasMiss,
    /// A search that began again at the root.
    Restart,
}

const EVENTS: usize = Event::Restart as usize + 1;
/// Parts of a count, one for each of few threads.
pub const SHARDS: usize = 16;

/// The part that this thread counts in.
#[inline]
pub fn shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static SHARD: Cell<usize> = const { Cell::new(usize::MAX) });
    let mut shard = SHARD.get();
    if shard == usize::MAX {
        shard = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
        SHARD.set(shard);
    }
    shard
}

#[derive(Default)]
#[repr(align(128))]
struct Shard([AtomicU64; EVENTS]);

/// How often each event happened in one tree. Most small trees never count anything.
#[derive(Default)]
pub struct Counters(OnceLock<Box<[Shard; SHARDS]>>);

impl Counters {
    #[inline]
    pub fn add(&self, event: Event) {
        let shards = self.0.get_or_init(Box::default);
        shards[shard()].0[event as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn sum(&self, event: Event) -> u64 {
        let shards = self.0.get().into_iter().flat_map(|all| all.iter());
        shards
            .map(|shard| shard.0[event as usize].load(Ordering::Relaxed))
            .sum()
    }

    /// Statistics with what happened, and nothing yet of what there is.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            consolidations: self.sum(Event::Consolidation),
            consolidations_failed: self.sum(Event::FailedConsolidation),
            splits: self.sum(Event::Split),
            merges: self.sum(Event::Merge),
            root_splits: self.sum(Event::RootSplit),
            root_collapses: self.sum(Event::RootCollapse),
            cas_misses: self.sum(Event::CasMiss),
            restarts: self.sum(Event::Restart),
            ..Statistics::default()
        }
    }
}
