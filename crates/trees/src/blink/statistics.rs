//! Statistics, by a walk over all nodes, and the destruction of a tree.

use crossbeam_epoch as epoch;
use namiki_index::key::{Key, OwnedKey};
use namiki_index::shared::census::Census;

use super::BlinkTree;
use super::node::{NodeRef, node_bytes};

/// Nodes visited under one pin.
const NODES_PER_PIN: usize = 1024;

impl<K: Key> BlinkTree<K> {
    /// Calls `visit` with every node of a level, from left to right.
    fn each_of_level(&self, level: u8, mut visit: impl FnMut(NodeRef<'_, K>)) {
        let mut from: Option<OwnedKey<K>> = None;
        loop {
            let guard = &epoch::pin();
            let fence = from.as_ref().map_or(K::min(), OwnedKey::get);
            let mut path = self.descend::<false>(level, fence, guard);
            self.settle::<false>(&mut path, fence);
            let mut next = Some(path.node);
            for _ in 0..NODES_PER_PIN {
                let Some(node) = next else { return };
                visit(node);
                next = node.right();
            }
            let Some(node) = next else { return };
            from = Some(OwnedKey::new(node.low()));
        }
    }

    pub(super) fn census(&self) -> Census {
        let mut statistics = self.counters.statistics();
        let mut bytes = size_of::<Self>() + self.table.bytes();
        let top = self.root.load(&epoch::pin()).level();
        statistics.height = u64::from(top) + 1;
        for level in 0..=top {
            self.each_of_level(level, |node| {
                bytes += node_bytes(node);
                if level == 0 {
                    statistics.leaves += 1;
                    statistics.records += node.len() as u64;
                } else {
                    statistics.inner_nodes += 1;
                }
            });
        }
        Census { statistics, bytes }
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
