//! Walks over the whole tree, to count.
//!
//! Leaf by leaf, as a scan: a walk remembers no more than the bound of the last leaf it has seen, so it can
//! unpin now and then, and what is retired meanwhile is freed.

use crossbeam_epoch as epoch;

use super::ArtTree;
use super::node::{LeafRef, NodeRef};
use super::path::{ArtKey, BEFORE};
use super::scan::Fences;
use super::search::Step;
use crate::Statistics;
use crate::scan::{LEAVES_PER_PIN, Target};

/// A node that a walk comes to.
enum Visited<'g, K> {
    Inner(NodeRef<'g, K>),
    /// A leaf with so many inner nodes above it.
    Leaf(LeafRef<'g, K>, u64),
}

impl<K: ArtKey> ArtTree<K> {
    /// Calls `visit` with every node but the top. Exact when nobody is writing.
    fn walk(&self, mut visit: impl FnMut(Visited<'_, K>)) {
        let mut next = Vec::new();
        loop {
            let guard = &epoch::pin();
            for _ in 0..LEAVES_PER_PIN {
                let target = match K::parse(&next) {
                    Ok(key) if !next.is_empty() => Target::At(key),
                    _ => Target::At(K::min()),
                };
                let mut trace = (Fences::default(), Vec::<Step<'_, K>>::new());
                let reached = self.leaf(target, &mut trace, guard);
                let (fences, way) = trace;
                // An inner node is counted with the first leaf below it.
                for step in way[1..].iter().rev() {
                    if step.node.find(BEFORE) != step.link {
                        break;
                    }
                    visit(Visited::Inner(step.node));
                }
                visit(Visited::Leaf(reached.leaf, way.len() as u64 - 1));
                match fences.high() {
                    Some(fence) => next = fence,
                    None => return,
                }
            }
        }
    }

    pub(super) fn count_records(&self) -> usize {
        let mut records = 0;
        self.walk(|visited| {
            if let Visited::Leaf(leaf, _) = visited {
                records += leaf.count();
            }
        });
        records
    }

    pub(super) fn count_bytes(&self) -> usize {
        let mut bytes = self.top(&epoch::pin()).bytes() + self.table.bytes();
        self.walk(|visited| {
            bytes += match visited {
                Visited::Inner(node) => node.bytes(),
                Visited::Leaf(leaf, _) => leaf.bytes_with_keys(),
            };
        });
        bytes
    }

    pub(super) fn count_all(&self) -> Statistics {
        let mut counts = self.counters.statistics();
        self.walk(|visited| match visited {
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
