//! Walks over the whole tree: counts, and the end of the tree. Iterative, as a way may be long.
#![expect(
    unsafe_code,
    reason = "follows links to nodes, and frees them at the end"
)]

use crossbeam_epoch::{self as epoch, Guard};

use super::ArtTree;
use super::inner::NodeRef;
use super::leaf::LeafRef;
use super::link::Link;
use super::path::ArtKey;
use crate::Statistics;

/// A node that a walk comes to, and how many inner nodes are above it.
pub(super) enum Visited<'g, K> {
    Inner(NodeRef<'g, K>),
    Leaf(LeafRef<'g, K>, u64),
}

impl<K: ArtKey> ArtTree<K> {
    /// Calls `visit` with every node but the top, a node after all that is below it. Exact when nobody
    /// is writing.
    pub(super) fn walk<'g>(&self, guard: &'g Guard, mut visit: impl FnMut(Visited<'g, K>)) {
        let mut ways: Vec<(Option<NodeRef<'g, K>>, Vec<Link>)> = Vec::new();
        ways.push((None, vec![self.top(guard).children()[0].link]));
        while let Some((node, links)) = ways.last_mut() {
            let Some(link) = links.pop() else {
                if let Some(node) = node.take() {
                    visit(Visited::Inner(node));
                }
                ways.pop();
                continue;
            };
            if link.is_leaf() {
                // SAFETY: the link was in a node that was in the tree while we were pinned, or nobody
                // else has the tree.
                if let Some(leaf) = unsafe { LeafRef::of(link) } {
                    visit(Visited::Leaf(leaf, ways.len() as u64 - 1));
                }
                continue;
            }
            // SAFETY: as above.
            if let Some(node) = unsafe { NodeRef::of(link) } {
                let below = Self::links(node);
                ways.push((Some(node), below));
            }
        }
    }

    /// What is below a node, in one state; as it last was if it is obsolete.
    fn links(node: NodeRef<'_, K>) -> Vec<Link> {
        loop {
            let version = node.lock().read();
            let children = node.children();
            if version.is_none_or(|version| node.lock().check(version)) {
                return children.into_iter().map(|child| child.link).collect();
            }
        }
    }

    pub(super) fn count_records(&self) -> usize {
        let mut records = 0;
        self.walk(&epoch::pin(), |visited| {
            if let Visited::Leaf(leaf, _) = visited {
                records += leaf.count();
            }
        });
        records
    }

    pub(super) fn count_bytes(&self) -> usize {
        let guard = epoch::pin();
        let mut bytes = self.top(&guard).bytes() + self.table.bytes();
        self.walk(&guard, |visited| {
            bytes += match visited {
                Visited::Inner(node) => node.bytes(),
                Visited::Leaf(leaf, _) => leaf.bytes(),
            };
        });
        bytes
    }

    pub(super) fn count_all(&self) -> Statistics {
        let mut counts = self.counters.statistics();
        self.walk(&epoch::pin(), |visited| match visited {
            Visited::Inner(_) => counts.inner_nodes += 1,
            Visited::Leaf(leaf, above) => {
                counts.leaves += 1;
                counts.records += leaf.count() as u64;
                counts.height = counts.height.max(above + 1);
            }
        });
        counts
    }
}

impl<K: ArtKey> Drop for ArtTree<K> {
    fn drop(&mut self) {
        let guard = epoch::pin();
        self.walk(&guard, |visited| match visited {
            // SAFETY: nobody else has the tree; a node comes after all that is below it, and the walk
            // does not look at it again.
            Visited::Inner(node) => unsafe { node.free() },
            Visited::Leaf(leaf, _) => {
                self.table.withdraw(leaf.mark());
                // SAFETY: as above; its records are its own (R2).
                unsafe { leaf.free(true) };
            }
        });
        // SAFETY: the last of the tree's nodes.
        unsafe { self.top(&guard).free() };
    }
}
