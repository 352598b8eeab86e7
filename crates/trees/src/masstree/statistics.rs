//! Statistics: a walk that counts nodes and records.

use crossbeam_epoch::{self as epoch};
use namiki_index::shared::census::Census;

use super::Masstree;
use super::border::Content;
use super::key_slices::Slicing;
use super::node::{Kind, NodeRef};

/// Leaves visited under one pin, plus the layers below the last one.
const LEAVES_PER_PIN: usize = 1024;

/// A node still to be visited.
struct ToVisit<'g, K: Slicing> {
    node: NodeRef<'g, K>,
    depth: u64,
    /// Whether it is of the first layer.
    top: bool,
    /// The part of the node left of this slice has been visited, and also the node itself if it is
    /// an interior one.
    from: Option<u64>,
}

impl<K: Slicing> Masstree<K> {
    /// Visits every node. A node that changes during its visit is read again, a removed one is
    /// skipped. Pins anew now and then, at a leaf of the first layer: all layers below one leaf are
    /// visited under one pin.
    pub(super) fn census(&self) -> Census {
        let mut census = Census {
            statistics: self.counters.statistics(),
            bytes: self.table.bytes(),
        };
        let mut from = self.walk_some(None, &mut census);
        while from.is_some() {
            from = self.walk_some(from, &mut census);
        }
        census
    }

    /// Visits the nodes from a slice of the first layer on, from left to right. Returns the slice
    /// to continue from.
    fn walk_some(&self, from: Option<u64>, census: &mut Census) -> Option<u64> {
        let Census { statistics, bytes } = census;
        let guard = &epoch::pin();
        let mut visited = 0;
        let mut to_visit: Vec<ToVisit<'_, K>> = Vec::new();
        to_visit.extend(self.root(self.top(), guard).map(|(node, _)| ToVisit {
            node,
            depth: 1,
            top: true,
            from,
        }));
        while let Some(next) = to_visit.pop() {
            let (node, depth) = (next.node, next.depth);
            let seen = node.stable();
            if seen.is_deleted() {
                continue;
            }
            match node.kind() {
                Kind::Interior(interior) => {
                    let first = next.from.map_or(0, |slice| interior.position(slice));
                    let children: Option<Vec<_>> = (first..interior.len())
                        .map(|i| interior.child_at(i, seen, guard))
                        .collect();
                    let Some(children) = children else {
                        to_visit.push(next);
                        continue;
                    };
                    statistics.inner_nodes += u64::from(next.from.is_none());
                    *bytes += if next.from.is_none() { node.size() } else { 0 };
                    // The leftmost is visited next.
                    let children = children.into_iter().enumerate().rev();
                    to_visit.extend(children.map(|(i, child)| ToVisit {
                        node: child,
                        depth: depth + 1,
                        top: next.top,
                        from: next.from.filter(|_| i == 0),
                    }));
                }
                Kind::Border(leaf) => {
                    if next.top && visited >= LEAVES_PER_PIN {
                        return Some(leaf.low);
                    }
                    let Some(snapshot) = leaf.snapshot(seen, guard) else {
                        to_visit.push(next);
                        continue;
                    };
                    statistics.leaves += 1;
                    statistics.height = statistics.height.max(depth);
                    *bytes += node.size();
                    for i in 0..snapshot.len {
                        match snapshot.content(i) {
                            Content::Payload(_) => statistics.records += 1,
                            Content::Suffix(suffix) => {
                                statistics.records += 1;
                                *bytes += suffix.size();
                            }
                            Content::Layer(below) => {
                                *bytes += below.size();
                                let root = self.root(below, guard);
                                to_visit.extend(root.map(|(node, _)| ToVisit {
                                    node,
                                    depth: depth + 1,
                                    top: false,
                                    from: None,
                                }));
                            }
                        }
                    }
                    visited += 1;
                }
            }
        }
        None
    }
}
