//! Counts of rare events, and walks that count what there is.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_epoch as epoch;

use super::BwTree;
use super::node::{Kind, NodeRef};
use crate::Statistics;
use crate::key::Key;

/// What is counted.
#[derive(Clone, Copy)]
pub(super) enum Event {
    Consolidation,
    Split,
    Merge,
    RootSplit,
    RootCollapse,
    CasMiss,
}

const EVENTS: usize = 6;
const SHARDS: usize = 16;

#[derive(Default)]
#[repr(align(128))]
struct Shard([AtomicU64; EVENTS]);

/// Counters, spread over cache lines so that threads seldom share one.
#[derive(Default)]
pub(super) struct Counters([Shard; SHARDS]);

impl Counters {
    pub(super) fn add(&self, event: Event) {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static SHARD: Cell<usize> = const { Cell::new(usize::MAX) });
        let mut shard = SHARD.get();
        if shard == usize::MAX {
            shard = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
            SHARD.set(shard);
        }
        self.0[shard].0[event as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn sum(&self, event: Event) -> u64 {
        self.0
            .iter()
            .map(|shard| shard.0[event as usize].load(Ordering::Relaxed))
            .sum()
    }

    /// Tells whether the tree has shrunk between two calls.
    pub(super) fn merges_and_collapses(&self) -> u64 {
        self.sum(Event::Merge) + self.sum(Event::RootCollapse)
    }
}

/// Calls `visit` with every node of a chain that the page owns.
fn walk<K: Key>(head: NodeRef<'_, K>, visit: &mut impl FnMut(NodeRef<'_, K>)) {
    let mut node = Some(head);
    while let Some(at) = node {
        visit(at);
        if at.kind() == Kind::Merge {
            walk(at.merged(), visit);
        }
        node = at.next();
    }
}

impl<K: Key> BwTree<K> {
    /// Calls `visit` with the head of every page that is not being removed.
    fn pages(&self, mut visit: impl FnMut(NodeRef<'_, K>)) {
        let mut guard = epoch::pin();
        for (turn, id) in self.mapping.ids().enumerate() {
            if let Some(head) = self.mapping.load(id, &guard)
                && !head.is_removed()
            {
                visit(head);
            }
            if turn % 1024 == 1023 {
                guard.repin();
            }
        }
    }

    pub(super) fn count_records(&self) -> usize {
        let mut records = 0;
        self.pages(|head| records += if head.level() == 0 { head.len() } else { 0 });
        records
    }

    pub(super) fn count_bytes(&self) -> usize {
        let mut bytes = self.mapping.bytes();
        self.pages(|head| walk(head, &mut |node| bytes += node.bytes()));
        bytes
    }

    pub(super) fn count_all(&self) -> Statistics {
        let mut counts = Statistics {
            consolidations: self.counters.sum(Event::Consolidation),
            splits: self.counters.sum(Event::Split),
            merges: self.counters.sum(Event::Merge),
            root_splits: self.counters.sum(Event::RootSplit),
            root_collapses: self.counters.sum(Event::RootCollapse),
            cas_misses: self.counters.sum(Event::CasMiss),
            ..Statistics::default()
        };
        self.pages(|head| {
            counts.height = counts.height.max(u64::from(head.level()) + 1);
            if head.level() == 0 {
                counts.leaves += 1;
                counts.records += head.len() as u64;
                counts.leaf_deltas += u64::from(head.depth());
            } else {
                counts.inner_nodes += 1;
            }
        });
        counts
    }
}
