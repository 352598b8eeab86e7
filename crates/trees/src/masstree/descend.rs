//! From the root of a layer to the leaf that answers for a slice.
//!
//! No locks: at each step the version of the child is taken, and then that of the parent looked at again.
//! If the parent has not changed, the child was the right one when its own version was taken; from there
//! on that version tells whether it still is. If the parent has changed, the search begins again at the
//! root of the layer.
//!
//! Paper: bwtree §2.5

use crossbeam_epoch::Guard;
use namiki_index::shared::counters::Event;
use namiki_index::shared::sync::wait;

use super::Masstree;
use super::border::Border;
use super::interior::Interior;
use super::key_slices::Slicing;
use super::node::{self, Kind, NodeRef};
use super::suffix_block::Layer;
use super::version::Seen;

/// A leaf, how it was seen, and its parent.
#[derive(Debug)]
pub(super) struct DescentPath<'g, K: Slicing> {
    /// None for a root.
    pub(super) parent: Option<(&'g Interior<K>, Seen)>,
    pub(super) leaf: &'g Border<K>,
    pub(super) seen: Seen,
}

impl<K: Slicing> Masstree<K> {
    /// The root of a layer, as it was seen. `None`: the layer is no longer in the tree.
    #[inline]
    pub(super) fn root<'g>(
        &self,
        layer: &'g Layer,
        guard: &'g Guard,
    ) -> Option<(NodeRef<'g, K>, Seen)> {
        let mut turn = 0;
        loop {
            let root = node::root(layer.root(), guard)?;
            let seen = root.stable();
            if seen.is_root() && !seen.is_deleted() {
                return Some((root, seen));
            }
            // A root that was replaced was so before it ceased to be one. A layer that is removed
            // keeps its last.
            if seen.is_deleted() && node::root(layer.root(), guard) == Some(root) {
                return None;
            }
            wait(turn);
            turn += 1;
        }
    }

    /// The leaf that answers for a slice. `None`: the layer is no longer in the tree.
    #[inline]
    pub(super) fn descend<'g>(
        &self,
        layer: &'g Layer,
        slice: u64,
        guard: &'g Guard,
    ) -> Option<DescentPath<'g, K>> {
        loop {
            let (root, seen) = self.root(layer, guard)?;
            if let Some(path) = descend_from(root, seen, slice, guard) {
                return Some(path);
            }
            self.counters.add(Event::Restart);
        }
    }
}

/// `None`: something changed on the way.
#[inline]
fn descend_from<'g, K: Slicing>(
    root: NodeRef<'g, K>,
    seen: Seen,
    slice: u64,
    guard: &'g Guard,
) -> Option<DescentPath<'g, K>> {
    let (mut node, mut seen, mut parent) = (root, seen, None);
    loop {
        match node.kind() {
            Kind::Border(leaf) => return Some(DescentPath { parent, leaf, seen }),
            Kind::Interior(interior) => {
                let child = interior.child(slice, seen, guard)?;
                if interior.header.is_above_leaves() {
                    child.prefetch_border();
                } else {
                    child.prefetch_interior();
                }
                (node, seen, parent) =
                    (child, step(interior, seen, child)?, Some((interior, seen)));
            }
        }
    }
}

/// The version of a child, if it is still one.
#[inline]
pub(super) fn step<K: Slicing>(
    interior: &Interior<K>,
    seen: Seen,
    child: NodeRef<'_, K>,
) -> Option<Seen> {
    let below = child.stable();
    interior.header.version.unchanged(seen).then_some(below)
}
