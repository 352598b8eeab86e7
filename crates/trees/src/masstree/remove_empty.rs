//! Removal of empty leaves and empty layers after deletions.
//!
//! The thread that takes the last key out of a leaf then descends to that key again. On the way
//! down it repairs the nodes, one at a time and from the top:
//!
//! - a root with one child is replaced by the child;
//! - an interior node with one child is joined with a sibling, or given some of its children;
//! - an empty leaf and a sibling below the same parent become one. The left one stays and takes over range
//!   and entries of the right, so that the lower end of a range never moves;
//! - an empty layer is taken out of the leaf with its link.
//!
//! So an emptied tree is one leaf again. Leaves that are not empty are never joined.
//!
//! # Order of locks
//! As in `split.rs`. The lock of a parent is tried, in the state that was seen; then those of its
//! children are waited for.
//!
//! Paper: bwtree §2.5
#![expect(unsafe_code, reason = "nodes that were taken out are retired")]

use std::ptr;
use std::sync::atomic::Ordering;

use crossbeam_epoch::Guard;
use namiki_index::shared::counters::Event;
use namiki_platform::sync::wait;

use super::Masstree;
use super::border::{Border, Content};
use super::descend::{DescentPath, step};
use super::interior::{Interior, Parts};
use super::key_slices::{Cut, Slicing};
use super::node::{self, Kind, NodeRef};
use super::split::is_root;
use super::suffix_block::Layer;
use super::version::Seen;

/// The result of a repair step.
enum Compacted {
    /// Nothing.
    Sound,
    /// A repair was made, or failed: check again.
    Again,
}

impl<K: Slicing> Masstree<K> {
    /// Removes empty nodes and layers on the path to a key.
    #[cold]
    pub(super) fn compact(&self, key: Cut<'_>, guard: &Guard) {
        let mut turn = 0;
        while let Compacted::Again = self.compact_once(key, guard) {
            wait(turn);
            turn += 1;
        }
    }

    fn compact_once(&self, key: Cut<'_>, guard: &Guard) -> Compacted {
        let (mut layer, mut cut) = (self.top(), key);
        let mut above: Option<(DescentPath<'_, K>, Cut<'_>)> = None;
        loop {
            if let Compacted::Again = self.compact_layer(layer, cut.slice, guard) {
                return Compacted::Again;
            }
            let Some(path) = self.descend(layer, cut.slice, guard) else {
                return Compacted::Again;
            };
            let Some(look) = path.leaf.look(&cut, path.seen, guard) else {
                return Compacted::Again;
            };
            if let Some(Content::Layer(below)) = look.content
                && let Some(rest) = below.fits(cut.rest)
            {
                above = Some((path, cut));
                (layer, cut) = (below, Cut::of(rest));
                continue;
            }
            return match above {
                Some((path, cut)) => self.remove_layer(layer, &path, &cut, guard),
                None => Compacted::Sound,
            };
        }
    }

    /// Takes a layer out of the leaf above it, if it is empty.
    fn remove_layer(
        &self,
        layer: &Layer,
        above: &DescentPath<'_, K>,
        cut: &Cut<'_>,
        guard: &Guard,
    ) -> Compacted {
        let leaf = above.leaf;
        let mut lock = leaf.header.version.lock();
        if !lock.seen().same_range(above.seen) {
            return Compacted::Again;
        }
        let slot = leaf.find(cut);
        let Some(slot) = slot.filter(|slot| match leaf.held(*slot, &lock, guard) {
            Content::Layer(there) => ptr::eq(there, layer),
            _ => false,
        }) else {
            return Compacted::Again;
        };
        let Some(root) = node::root::<K>(layer.root(), guard) else {
            return Compacted::Again;
        };
        let mut root_lock = root.lock();
        let Kind::Border(last) = root.kind() else {
            return Compacted::Sound;
        };
        if !is_root(layer, last) {
            return Compacted::Again;
        }
        if last.len() > 0 {
            return Compacted::Sound;
        }
        root_lock.delete();
        lock.inserting();
        self.table.merge(&last.mark, &leaf.mark);
        leaf.take(slot, &lock, guard);
        self.counters.add(Event::Merge);
        // SAFETY: deleted; only the layer led to it, and no thread finds the layer any longer. We had the
        // leaf above locked, so no other thread did this.
        unsafe { root.retire(guard) };
        // The leaf above may be empty now.
        Compacted::Again
    }

    /// Repairs the first node that needs it on the path to a slice, in one layer.
    fn compact_layer(&self, layer: &Layer, slice: u64, guard: &Guard) -> Compacted {
        let Some((root, seen)) = self.root(layer, guard) else {
            return Compacted::Again;
        };
        let Kind::Interior(mut parent) = root.kind() else {
            return Compacted::Sound;
        };
        let mut seen = seen;
        if parent.len() == 1 {
            self.collapse(layer, root, seen, guard);
            return Compacted::Again;
        }
        loop {
            let position = parent.position(slice);
            let child = parent.child_at(position, seen, guard);
            let Some((child, below)) =
                child.and_then(|child| Some((child, step(parent, seen, child)?)))
            else {
                return Compacted::Again;
            };
            match child.kind() {
                Kind::Interior(interior) if interior.len() == 1 => {
                    self.join_interiors(parent, seen, position, guard);
                    return Compacted::Again;
                }
                Kind::Interior(interior) => (parent, seen) = (interior, below),
                Kind::Border(leaf) if leaf.len() == 0 => {
                    self.join_leaves(parent, seen, position, guard);
                    return Compacted::Again;
                }
                Kind::Border(_) => return Compacted::Sound,
            }
        }
    }

    /// Makes the only child of a root the root.
    fn collapse(&self, layer: &Layer, root: NodeRef<'_, K>, seen: Seen, guard: &Guard) {
        let Some(mut lock) = root.version().try_lock(seen) else {
            return;
        };
        let Kind::Interior(interior) = root.kind() else {
            return;
        };
        if interior.len() != 1 || !is_root(layer, interior) {
            return;
        }
        let child = interior.held(0, &lock, guard);
        let mut child_lock = child.lock();
        child_lock.set_root(true);
        // `Release` pairs with the `Acquire` of threads that follow it. Before the old root is seen
        // deleted.
        layer.root().store(child.pointer(), Ordering::Release);
        lock.delete();
        self.counters.add(Event::RootCollapse);
        // SAFETY: deleted, and the layer leads to the child instead. Done once, under its lock.
        unsafe { root.retire(guard) };
    }

    /// Joins the empty leaf at a position with a sibling.
    fn join_leaves(&self, parent: &Interior<K>, seen: Seen, position: usize, guard: &Guard) {
        let Some(mut parent_lock) = parent.header.version.try_lock(seen) else {
            return;
        };
        let at = position.saturating_sub(1);
        if at + 1 >= parent.len() {
            return;
        }
        let [left_node, right_node] = [at, at + 1].map(|at| parent.held(at, &parent_lock, guard));
        let (mut left_lock, mut right_lock) = (left_node.lock(), right_node.lock());
        let (Kind::Border(left), Kind::Border(right)) = (left_node.kind(), right_node.kind())
        else {
            return;
        };
        if left.len() > 0 && right.len() > 0 {
            return;
        }
        left_lock.splitting();
        let next = right.next(&right_lock, guard);
        right_lock.delete();
        self.table.merge(&right.mark, &left.mark);
        take_over(left, right);
        left.set_next(next.map_or(ptr::null_mut(), NodeRef::pointer));
        if let Some(Kind::Border(next)) = next.map(NodeRef::kind) {
            next.set_prev(left_node.pointer());
        }
        parent_lock.inserting();
        parent.remove_after(at);
        self.counters.add(Event::Merge);
        // SAFETY: deleted; parent and neighbours, which were all that led to it, do not any longer, and
        // the table has forgotten it. Done once, under its lock.
        unsafe { right_node.retire(guard) };
    }

    /// Joins the interior node at a position, which has one child, with a sibling, or moves some of
    /// the sibling's children to it.
    fn join_interiors(&self, parent: &Interior<K>, seen: Seen, position: usize, guard: &Guard) {
        let Some(mut parent_lock) = parent.header.version.try_lock(seen) else {
            return;
        };
        let at = position.saturating_sub(1);
        if at + 1 >= parent.len() {
            return;
        }
        let [left_node, right_node] = [at, at + 1].map(|at| parent.held(at, &parent_lock, guard));
        let (mut left_lock, mut right_lock) = (left_node.lock(), right_node.lock());
        let (Kind::Interior(left), Kind::Interior(right)) = (left_node.kind(), right_node.kind())
        else {
            return;
        };
        if left.len() > 1 && right.len() > 1 {
            return;
        }
        let Parts {
            mut slices,
            mut children,
        } = left.parts();
        let of_right = right.parts();
        slices.push(parent.slice_at(at));
        slices.extend(of_right.slices);
        children.extend(of_right.children);
        left_lock.splitting();
        right_lock.splitting();
        parent_lock.inserting();
        if children.len() <= self.config.inner_max {
            left.fill(&slices, &children);
            right_lock.delete();
            parent.remove_after(at);
            self.counters.add(Event::Merge);
            // SAFETY: deleted; the parent was all that led to it. Done once, under its lock.
            unsafe { right_node.retire(guard) };
        } else {
            let half = children.len() / 2;
            left.fill(&slices[..half - 1], &children[..half]);
            parent.set_slice(at, slices[half - 1]);
            right.fill(&slices[half..], &children[half..]);
        }
    }
}

/// Gives the entries of `right` to `left`, one of which is empty. Both are locked, the change announced.
fn take_over<K: Slicing>(left: &Border<K>, right: &Border<K>) {
    let (entries, len) = right.entries();
    if len > 0 {
        left.fill(&entries[..len]);
    }
}
