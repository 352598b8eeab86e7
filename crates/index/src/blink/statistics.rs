//! Walks that count what there is, and the end of a tree.

use crossbeam_epoch as epoch;

use super::BlinkTree;
use super::node::{NodeRef, node_bytes};
use crate::Statistics;
use crate::key::Key;

/// Nodes visited under one pin.
const NODES_PER_PIN: usize = 1024;

impl<K: Key> BlinkTree<K> {
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
        let mut bytes = size_of::<Self>() + self.table.bytes();
        for level in 0..=self.height() {
            self.each_of_level(level, |node| bytes += node_bytes(node));
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
        let guard = &epoch::pin();
        let mut first = Some(self.root.load(guard));
        while let Some(node) = first {
            // The leftmost node of the level below, before this level is gone.
            first = (node.level() > 0)
                .then(|| node.child(0).map(|child| child.0))
                .flatten();
            let mut next = Some(node);
            while let Some(node) = next {
                next = node.right();
                self.nodes.discard(node);
            }
        }
    }
}
