//! Splits: a full leaf is cut in two while a key is added to it.
//!
//! Split and insertion are one step, under the locks of the leaf and of its parent: a transaction that
//! relied on the leaf's version may rely on those of both halves. The parent's lock is tried, in the state
//! that was seen on the way down, as it comes before the leaf's in lock order; if another thread has it or
//! had it since, the insertion begins again. A parent that is full is split first, from the top
//! down, so that no split propagates upwards.
//!
//! # Order of locks
//! A layer before the layers below it, a node before its children, a left sibling before a right one.
//! Against that order a lock is only tried for.
//!
//! Paper: bwtree §2.5

use std::sync::atomic::Ordering;

use crossbeam_epoch::Guard;
use namiki_index::shared::counters::Event;
use namiki_index::{IndexError, Inserted};

use super::Masstree;
use super::border::{Border, Entry};
use super::descend::{DescentPath, step};
use super::interior::Interior;
use super::key_slices::{Cut, Slicing};
use super::node::{self, Kind};
use super::suffix_block::Layer;
use super::version::{Locked, Seen};

impl<K: Slicing> Masstree<K> {
    /// Adds a key to a full leaf. `None`: search again.
    #[inline(never)]
    pub(super) fn split_leaf(
        &self,
        layer: &Layer,
        path: &DescentPath<'_, K>,
        mut lock: Locked<'_>,
        cut: &Cut<'_>,
        payload: u64,
        guard: &Guard,
    ) -> Result<Option<Inserted>, IndexError> {
        let leaf = path.leaf;
        let Some((parent, seen)) = path.parent else {
            if !is_root(layer, leaf) {
                return Ok(None);
            }
            let (inserted, slice, right) = self.cut_leaf(leaf, &mut lock, cut, payload, guard)?;
            lock.set_root(false);
            self.grow(
                layer,
                1,
                slice,
                node::pointer(leaf),
                node::pointer(right),
                guard,
            );
            return Ok(Some(inserted));
        };
        let Some(mut parent_lock) = parent.header.version.try_lock(seen) else {
            return Ok(None);
        };
        if parent.len() >= self.config.inner_max {
            drop((parent_lock, lock));
            self.make_room(layer, cut.slice, guard);
            return Ok(None);
        }
        let (inserted, slice, right) = self.cut_leaf(leaf, &mut lock, cut, payload, guard)?;
        // Before the leaf is unlocked: a descent that comes from the parent and finds the leaf as it is
        // then must find the parent changed.
        parent_lock.inserting();
        parent.insert(slice, node::pointer(right));
        Ok(Some(inserted))
    }

    /// Cuts a leaf and adds the key to the half that it belongs to. Returns the right half and its
    /// `low`.
    fn cut_leaf<'g>(
        &self,
        leaf: &'g Border<K>,
        lock: &mut Locked<'_>,
        cut: &Cut<'_>,
        payload: u64,
        guard: &'g Guard,
    ) -> Result<(Inserted, u64, &'g Border<K>), IndexError> {
        let mark = self.table.mark().ok_or(IndexError::OutOfPages)?;
        let (entries, len) = leaf.entries();
        let rank = leaf.rank(cut.slice, cut.marker);
        let next = leaf.next(lock, guard);
        let at = cut_at(
            len + 1,
            // Keys that come in ascending order fill their leaves.
            rank == len && next.is_none(),
            |i| match i {
                i if i < rank => entries[i].slice,
                i if i == rank => cut.slice,
                i => entries[i - 1].slice,
            },
        );
        let kept = if at > rank { at - 1 } else { at };
        let low = match at {
            at if at < rank => entries[at].slice,
            at if at == rank => cut.slice,
            at => entries[at - 1].slice,
        };
        let right = node::create(Border::new(mark, low, false), guard);
        let before = leaf.mark.version();
        lock.splitting();
        self.table.split(&leaf.mark, &right.mark);
        right.fill(&entries[kept..len]);
        leaf.truncate(kept);
        let half = if at > rank { leaf } else { right };
        half.add(Entry::of::<K>(cut, payload, guard));
        right.publish(&self.table);
        let right_pointer = node::pointer(right);
        right.set_prev(node::pointer(leaf));
        if let Some(next) = next {
            right.set_next(next.pointer());
            if let Kind::Border(next) = next.kind() {
                next.set_prev(right_pointer);
            }
        }
        leaf.set_next(right_pointer);
        self.counters.add(Event::Split);
        let halves = (leaf.mark.version(), right.mark.version());
        let inserted = Inserted {
            before,
            after: halves.0,
            split: Some(halves),
        };
        Ok((inserted, low, right))
    }

    /// Puts a root above two nodes, the left one of which was the root and is locked.
    fn grow(
        &self,
        layer: &Layer,
        level: u32,
        slice: u64,
        left: *mut node::Header,
        right: *mut node::Header,
        guard: &Guard,
    ) {
        let root = Interior::<K>::new(level, true, &[slice], &[left, right]);
        let root = node::create(root, guard);
        // `Release` pairs with the `Acquire` of threads that follow it.
        layer.root().store(node::pointer(root), Ordering::Release);
        self.counters.add(Event::RootSplit);
    }

    /// Splits the topmost full interior node on the way to a slice, if there is one.
    fn make_room(&self, layer: &Layer, slice: u64, guard: &Guard) {
        let Some((mut node, mut seen)) = self.root(layer, guard) else {
            return;
        };
        let mut parent = None;
        while let Kind::Interior(interior) = node.kind() {
            if interior.len() >= self.config.inner_max {
                self.split_interior(layer, parent, (interior, seen), slice, guard);
                return;
            }
            let child = interior.child(slice, seen, guard);
            let Some((child, below)) =
                child.and_then(|child| Some((child, step(interior, seen, child)?)))
            else {
                return;
            };
            parent = Some((interior, seen));
            (node, seen) = (child, below);
        }
    }

    /// Splits an interior node if it and its parent are as they were seen.
    fn split_interior(
        &self,
        layer: &Layer,
        parent: Option<(&Interior<K>, Seen)>,
        (interior, seen): (&Interior<K>, Seen),
        slice: u64,
        guard: &Guard,
    ) {
        let mut parent_lock = None;
        if let Some((parent, seen)) = parent {
            parent_lock = parent.header.version.try_lock(seen);
            if parent_lock.is_none() {
                return;
            }
        }
        let Some(mut lock) = interior.header.version.try_lock(seen) else {
            return;
        };
        if parent.is_none() && !is_root(layer, interior) {
            return;
        }
        let parts = interior.parts();
        let len = parts.children.len();
        // At the right end, later inserts mostly go to the right.
        let at = if interior.position(slice) == len - 1 {
            len - 2
        } else {
            len / 2
        };
        let level = interior.header.level();
        let (between, children) = (parts.slices[at - 1], parts.children.split_at(at));
        let right = Interior::new(level, false, &parts.slices[at..], children.1);
        let right = node::pointer(node::create::<Interior<K>>(right, guard));
        lock.splitting();
        interior.fill(&parts.slices[..at - 1], children.0);
        self.counters.add(Event::Split);
        match (parent, parent_lock) {
            (Some((parent, _)), Some(mut parent_lock)) => {
                parent_lock.inserting();
                parent.insert(between, right);
                drop(parent_lock);
            }
            _ => {
                lock.set_root(false);
                self.grow(
                    layer,
                    level + 1,
                    between,
                    node::pointer(interior),
                    right,
                    guard,
                );
            }
        }
    }
}

/// Whether a locked node is the root of the layer. A root of a layer that was replaced by another with the
/// same root (`layers.rs`) is not the old layer's.
pub(super) fn is_root<N>(layer: &Layer, node: &N) -> bool {
    // Changed under the node's lock only.
    layer.root().load(Ordering::Relaxed) == node::pointer(node)
}

/// The position at which `len` entries are cut: as near to the middle, or the end, as possible
/// between different slices.
fn cut_at(len: usize, at_end: bool, slice: impl Fn(usize) -> u64) -> usize {
    let wanted = if at_end { len - 1 } else { len / 2 };
    let fits = |at: &usize| slice(*at - 1) != slice(*at);
    let cut = (1..len).filter(fits).min_by_key(|at| at.abs_diff(wanted));
    match cut {
        Some(at) => at,
        None => unreachable!("a full leaf has entries of more than one slice"),
    }
}
