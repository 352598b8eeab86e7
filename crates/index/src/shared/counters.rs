//! Counts of rare events, spread over cache lines so that threads seldom share one.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::Statistics;

/// The counted events.
#[derive(Clone, Copy)]
pub enum Event {
    /// A node was rebuilt without the leftovers of its updates.
    Consolidation,
    /// A consolidation failed: another thread changed the node first.
    FailedConsolidation,
    Split,
    Merge,
    RootSplit,
    RootCollapse,
    /// A compare-and-swap failed and was repeated or given up.
    CasMiss,
    /// A search restarted at the root.
    Restart,
    /// A search visited a delta to learn the range of its page.
    DeltaVisit,
}

const EVENTS: usize = Event::DeltaVisit as usize + 1;
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

/// Number of occurrences of each event in one tree. Allocated on the first one, as most small trees
/// never count any.
#[derive(Default)]
pub struct Counters(OnceLock<Box<[Shard; SHARDS]>>);

impl Counters {
    #[inline]
    pub fn add(&self, event: Event) {
        self.add_many(event, 1);
    }

    /// Counts this number of events.
    #[inline]
    pub fn add_many(&self, event: Event, number: u64) {
        let shards = self.0.get_or_init(Box::default);
        shards[shard()].0[event as usize].fetch_add(number, Ordering::Relaxed);
    }

    pub fn sum(&self, event: Event) -> u64 {
        let shards = self.0.get().into_iter().flat_map(|all| all.iter());
        shards
            .map(|shard| shard.0[event as usize].load(Ordering::Relaxed))
            .sum()
    }

    /// Statistics with the counts of events; those of contents are still zero.
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
            delta_visits: self.sum(Event::DeltaVisit),
            ..Statistics::default()
        }
    }
}
