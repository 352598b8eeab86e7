//! Walks that count what there is.

use crossbeam_epoch as epoch;

use super::BwTree;
use super::node::{Kind, NodeRef};
use crate::Statistics;
use crate::key::Key;

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
        let mut counts = self.counters.statistics();
        self.pages(|head| {
            counts.height = counts.height.max(u64::from(head.level()) + 1);
            if head.level() == 0 {
                counts.leaves += 1;
                counts.records += head.len() as u64;
                counts.leaf_deltas += u64::from(head.depth());
                counts.longest_chain = counts.longest_chain.max(u64::from(head.depth()));
            } else {
                counts.inner_nodes += 1;
            }
        });
        counts
    }
}
