//! Walks that count what there is.

use crossbeam_epoch as epoch;

use super::BwTree;
use super::consolidate::collect;
use super::node::{Kind, NodeRef};
use super::variant::Variant;
use crate::Statistics;
use crate::key::Key;

/// Calls `visit` with every node that a page in this state has.
fn walk<K: Key>(head: NodeRef<'_, K>, visit: &mut impl FnMut(NodeRef<'_, K>)) {
    let mut split = head.smo().filter(|change| change.kind() == Kind::Split);
    walk_chain(head, &mut |node| {
        split = split.filter(|split| *split != node);
        visit(node);
    });
    // It is the page's head and the state is that of the updates below it.
    if let Some(split) = split {
        visit(split);
    }
}

fn walk_chain<K: Key>(head: NodeRef<'_, K>, visit: &mut impl FnMut(NodeRef<'_, K>)) {
    let mut node = Some(head);
    while let Some(at) = node {
        visit(at);
        if at.kind() == Kind::Merge {
            walk_chain(at.merged(), visit);
        }
        node = at.next();
    }
}

/// How many records a page in this state has.
fn records_of<K: Key>(head: NodeRef<'_, K>) -> usize {
    if !head.is_uncounted() {
        return head.len();
    }
    let mut entries = Vec::new();
    collect(head, &mut entries);
    entries.len()
}

/// How many deltas lie on its base nodes.
fn deltas<K: Key>(head: NodeRef<'_, K>) -> u64 {
    let mut deltas = 0;
    walk(head, &mut |node| {
        deltas += u64::from(node.kind() != Kind::Base);
    });
    deltas
}

impl<K: Key, V: Variant> BwTree<K, V> {
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
        self.pages(|head| {
            records += if head.level() == 0 {
                records_of(head)
            } else {
                0
            }
        });
        records
    }

    pub(super) fn count_bytes(&self) -> usize {
        let mut bytes = self.mapping.bytes();
        self.pages(|head| walk(head, &mut |node| bytes += node.memory()));
        bytes
    }

    pub(super) fn count_all(&self) -> Statistics {
        let mut counts = self.counters.statistics();
        self.pages(|head| {
            counts.height = counts.height.max(u64::from(head.level()) + 1);
            if head.level() == 0 {
                counts.leaves += 1;
                let deltas = deltas(head);
                counts.records += records_of(head) as u64;
                counts.leaf_deltas += deltas;
                counts.longest_chain = counts.longest_chain.max(deltas);
            } else {
                counts.inner_nodes += 1;
            }
        });
        counts
    }
}
