//! Descent from the root of a layer to the leaf that is responsible for a slice.
//!
//! Readers take no locks: each step reads the version of the child and then validates that of the
//! parent. If the parent has not changed, the child was the right one when its version was read;
//! from then on that version tells whether it still is. If the parent has changed, the search
//! restarts at the root of the layer.
//!
//! Paper: bwtree §2.5

use crossbeam_epoch::Guard;
use namiki_index::shared::counters::Event;
use namiki_platform::sync::wait;

use super::Masstree;
use super::border::Border;
use super::interior::Interior;
use super::key_slices::Slicing;
use super::node::{self, Kind, NodeRef};
use super::suffix_block::Layer;
use super::version::Seen;

/// A leaf, its version, and its parent.
#[derive(Debug)]
pub(super) struct DescentPath<'g, K: Slicing> {
    /// None for a root.
    pub(super) parent: Option<(&'g Interior<K>, Seen)>,
    pub(super) leaf: &'g Border<K>,
    pub(super) seen: Seen,
}

impl<K: Slicing> Masstree<K> {
    /// The root of a layer, and its version. `None`: the layer is no longer in the tree.
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
            // A root is replaced before its root bit is cleared. A removed layer keeps its last
            // root.
            if seen.is_deleted() && node::root(layer.root(), guard) == Some(root) {
                return None;
            }
            wait(turn);
            turn += 1;
        }
    }

    /// The leaf that is responsible for a slice. `None`: the layer is no longer in the tree.
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

/// One attempt. `None`: a node on the path changed.
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

/// The version of a child, if it is still a child.
#[inline]
pub(super) fn step<K: Slicing>(
    interior: &Interior<K>,
    seen: Seen,
    child: NodeRef<'_, K>,
) -> Option<Seen> {
    let below = child.stable();
    interior.header.version.unchanged(seen).then_some(below)
}
