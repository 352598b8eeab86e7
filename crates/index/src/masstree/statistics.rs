//! Walks that count what there is.

use crossbeam_epoch::{self as epoch};

use super::Masstree;
use super::border::Content;
use super::node::{Kind, NodeRef};
use super::slices::Slicing;
use crate::Statistics;

/// What a walk finds.
#[derive(Default)]
struct Found {
    records: u64,
    leaves: u64,
    inner_nodes: u64,
    height: u64,
    bytes: usize,
}

impl<K: Slicing> Masstree<K> {
    /// Visits every node. A node that is changed meanwhile is read again, one that was taken out is left
    /// out.
    fn walk(&self) -> Found {
        let guard = &epoch::pin();
        let mut found = Found::default();
        let mut to_visit: Vec<(NodeRef<'_, K>, u64)> = Vec::new();
        to_visit.extend(self.root(self.top(), guard).map(|(root, _)| (root, 1)));
        while let Some((node, depth)) = to_visit.pop() {
            let seen = node.stable();
            if seen.is_deleted() {
                continue;
            }
            match node.kind() {
                Kind::Interior(interior) => {
                    let children: Option<Vec<_>> = (0..interior.len())
                        .map(|i| interior.child_at(i, seen, guard))
                        .collect();
                    let Some(children) = children else {
                        to_visit.push((node, depth));
                        continue;
                    };
                    found.inner_nodes += 1;
                    to_visit.extend(children.into_iter().map(|child| (child, depth + 1)));
                }
                Kind::Border(leaf) => {
                    let Some(snapshot) = leaf.snapshot(seen, guard) else {
                        to_visit.push((node, depth));
                        continue;
                    };
                    found.leaves += 1;
                    found.height = found.height.max(depth);
                    for i in 0..snapshot.len {
                        match snapshot.content(i) {
                            Content::Payload(_) => found.records += 1,
                            Content::Suffix(suffix) => {
                                found.records += 1;
                                found.bytes += suffix.size();
                            }
                            Content::Layer(below) => {
                                found.bytes += below.size();
                                let root = self.root(below, guard);
                                to_visit.extend(root.map(|(root, _)| (root, depth + 1)));
                            }
                        }
                    }
                }
            }
            found.bytes += node.size();
        }
        found
    }

    pub(super) fn count_records(&self) -> usize {
        self.walk().records as usize
    }

    pub(super) fn count_bytes(&self) -> usize {
        self.walk().bytes + self.table.bytes()
    }

    pub(super) fn count_all(&self) -> Statistics {
        let found = self.walk();
        Statistics {
            records: found.records,
            leaves: found.leaves,
            inner_nodes: found.inner_nodes,
            height: found.height,
            ..self.counters.statistics()
        }
    }
}
