//! Statistics, by a walk over all pages.

use crossbeam_epoch as epoch;
use namiki_index::key::Key;
use namiki_index::shared::census::Census;

use super::BwTree;
use super::consolidate::collect;
use super::node::{Kind, NodeRef};
use super::variant::Variant;

/// Calls `visit` with every node that a page in this state has.
fn walk<K: Key, V: Variant>(head: NodeRef<'_, K, V>, visit: &mut impl FnMut(NodeRef<'_, K, V>)) {
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

fn walk_chain<K: Key, V: Variant>(
    head: NodeRef<'_, K, V>,
    visit: &mut impl FnMut(NodeRef<'_, K, V>),
) {
    let mut node = Some(head);
    while let Some(at) = node {
        visit(at);
        if at.kind() == Kind::Merge {
            walk_chain(at.merged(), visit);
        }
        node = at.next();
    }
}

/// Number of records of a page in this state.
fn records_of<K: Key, V: Variant>(head: NodeRef<'_, K, V>) -> usize {
    if !head.is_uncounted() {
        return head.len();
    }
    let mut entries = Vec::new();
    collect(head, &mut entries);
    entries.len()
}

impl<K: Key, V: Variant> BwTree<K, V> {
    /// Calls `visit` with the head of every page that is not being removed.
    fn pages(&self, mut visit: impl FnMut(NodeRef<'_, K, V>)) {
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

    pub(super) fn census(&self) -> Census {
        let mut statistics = self.counters.statistics();
        let mut bytes = self.mapping.bytes();
        self.pages(|head| {
            // Those that lie on the page's base nodes.
            let mut deltas = 0;
            walk(head, &mut |node| {
                bytes += node.memory();
                deltas += u64::from(node.kind() != Kind::Base);
            });
            statistics.height = statistics.height.max(u64::from(head.level()) + 1);
            if head.level() == 0 {
                statistics.leaves += 1;
                statistics.records += records_of(head) as u64;
                statistics.leaf_deltas += deltas;
                statistics.longest_chain = statistics.longest_chain.max(deltas);
            } else {
                statistics.inner_nodes += 1;
            }
        });
        Census { statistics, bytes }
    }
}
