//! Walks that count what there is, and the end of a tree.

use crossbeam_epoch::{self as epoch, Guard};

use super::BlinkTree;
use super::node::{NodeRef, kept_bytes, release_keys};
use crate::Statistics;
use crate::key::Key;

/// Nodes visited under one pin.
const NODES_PER_PIN: usize = 1024;

impl<K: Key> BlinkTree<K> {
    /// The leftmost node of a level, which is the same for as long as there is the level.
    fn leftmost<'g>(&self, level: u8, guard: &'g Guard) -> NodeRef<'g, K> {
        self.descend::<false>(level, K::min(), guard).node
    }

    /// Calls `visit` with every node of a level, from left to right.
    fn each_of_level(&self, level: u8, mut visit: impl FnMut(NodeRef<'_, K>)) {
        let mut from: Option<Vec<u8>> = None;
        loop {
            let guard = &epoch::pin();
            let fence = from.as_deref().and_then(|fence| K::parse(fence).ok());
            let fence = fence.unwrap_or(K::min());
            let mut way = self.descend::<false>(level, fence, guard);
            self.settle::<false>(&mut way, fence);
            let mut next = Some(way.node);
            for _ in 0..NODES_PER_PIN {
                let Some(node) = next else { return };
                visit(node);
                next = node.right();
            }
            let Some(node) = next else { return };
            from = Some(K::encode(node.low(), &mut [0; 8]).to_vec());
        }
    }

    fn height(&self) -> u8 {
        self.root.load(&epoch::pin()).level()
    }

    pub(super) fn count_records(&self) -> usize {
        let mut records = 0;
        self.each_of_level(0, |leaf| records += leaf.len());
        records
    }

    pub(super) fn count_bytes(&self) -> usize {
        let mut bytes = size_of::<Self>() + self.nodes.bytes() + self.table.bytes();
        if !K::INLINE {
            for level in 0..=self.height() {
                self.each_of_level(level, |node| bytes += kept_bytes(node));
            }
        }
        bytes
    }

    pub(super) fn count_all(&self) -> Statistics {
        let mut statistics = self.counters.statistics();
        let top = self.height();
        statistics.height = u64::from(top) + 1;
        self.each_of_level(0, |leaf| {
            statistics.leaves += 1;
            statistics.records += leaf.len() as u64;
        });
        for level in 1..=top {
            self.each_of_level(level, |_| statistics.inner_nodes += 1);
        }
        statistics
    }
}

impl<K: Key> Drop for BlinkTree<K> {
    fn drop(&mut self) {
        // The slabs free the nodes, but not the keys that lie elsewhere.
        if K::INLINE {
            return;
        }
        let guard = &epoch::pin();
        for level in 0..=self.height() {
            let mut next = Some(self.leftmost(level, guard));
            while let Some(node) = next {
                next = node.right();
                release_keys(node);
            }
        }
    }
}
