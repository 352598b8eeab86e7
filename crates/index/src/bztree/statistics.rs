//! Walks that count what there is.

use crossbeam_epoch::{self as epoch, Guard};

use super::node::NodeRef;
use super::{BzTree, Variant, words};
use crate::Statistics;
use crate::key::Key;

impl<K: Key, V: Variant> BzTree<K, V> {
    /// Calls `visit` with every node that can be reached.
    fn nodes<'g>(&self, guard: &'g Guard, mut visit: impl FnMut(NodeRef<'g, K>)) {
        let mut pending = vec![self.root.load(guard)];
        while let Some(node) = pending.pop() {
            visit(node);
            if node.level() > 0 {
                pending.extend((0..node.len()).map(|i| node.child(i, guard)));
            }
        }
    }

    /// The records of a leaf that are alive.
    fn records(leaf: NodeRef<'_, K>, guard: &Guard) -> usize {
        let mut entries = Vec::new();
        let status = words::status(leaf.status(), guard);
        leaf.collect(status, &mut entries, guard);
        entries.len()
    }

    pub(super) fn count_records(&self) -> usize {
        let guard = &epoch::pin();
        let mut records = 0;
        self.nodes(guard, |node| {
            if node.level() == 0 {
                records += Self::records(node, guard);
            }
        });
        records
    }

    pub(super) fn count_bytes(&self) -> usize {
        let guard = &epoch::pin();
        let mut bytes = self.leaves.bytes();
        self.nodes(guard, |node| bytes += node.bytes() + node.slot_bytes());
        bytes
    }

    pub(super) fn count_all(&self) -> Statistics {
        let guard = &epoch::pin();
        let mut counts = self.counters.statistics();
        self.nodes(guard, |node| {
            counts.height = counts.height.max(u64::from(node.level()) + 1);
            if node.level() > 0 {
                counts.inner_nodes += 1;
                return;
            }
            let status = words::status(node.status(), guard);
            let shown = u64::from(status.visible().count_ones());
            counts.leaves += 1;
            counts.records += Self::records(node, guard) as u64;
            counts.leaf_deltas += shown;
            counts.longest_chain = counts.longest_chain.max(shown);
        });
        counts
    }
}
