//! Reclamation of nodes: a node that is unlinked is retired, and a subtree without other owners is
//! freed directly.
//!
//! # Invariants
//! - E1. Outside of obsolete nodes, each node but the top is linked to from one node only (from several
//!   neighbouring places, if that is a Node48 or a Node256). So what a node is made to lead to no longer is
//!   found no longer, unless its successor leads there: that is looked up here, not promised.
//! - E2. The caller holds the locks of the node and of what is removed, and makes that obsolete; a removed
//!   leaf is withdrawn from the table or published as a copy before (A4), and its records are elsewhere.
#![expect(
    unsafe_code,
    reason = "frees nodes, now or when no thread can have them"
)]

use crossbeam_epoch::Guard;

use super::inner::Child;
use super::node::{Below, LeafRef, Link, NodeRef};
use super::out_of_line_keys::Record;
use super::prefix_compare::ArtKey;

/// Frees the target of a link when all threads that are pinned now have unpinned.
///
/// # Safety
/// Nothing that is in the tree leads there.
unsafe fn retire<K: ArtKey>(gone: Link<'_, K>, guard: &Guard) {
    // SAFETY: freed once, after all threads that found it, which were pinned then, have unpinned.
    unsafe {
        let gone: Link<'static, K> = gone.extend();
        guard.defer_unchecked(move || match gone.follow() {
            Some(Below::Node(node)) => node.free(),
            Some(Below::Leaf(leaf)) => leaf.free(),
            None => {}
        });
    }
}

impl<K: ArtKey> NodeRef<'_, K> {
    /// Replaces the child `old` by `new`. Retires `old` and everything below it, except `new` and
    /// the nodes that `new` leads to.
    pub(super) fn swap(self, old: Link<'_, K>, new: Link<'_, K>, guard: &Guard) {
        let kept = match new.follow() {
            Some(Below::Node(node)) => node.children(),
            _ => Vec::new(),
        };
        let is_kept = |link| link == new || kept.iter().any(|child| child.link == link);
        assert!(!is_kept(old), "what goes is not kept");
        let below = match old.follow() {
            Some(Below::Node(node)) => node.children(),
            _ => Vec::new(),
        };
        assert!(self.replace(old, new), "what goes was there");
        let lost = below.iter().map(|child| child.link);
        for gone in lost.filter(|link| !is_kept(*link)).chain([old]) {
            // SAFETY: linked to from here, or from what goes, and from nowhere else (E1).
            unsafe { retire(gone, guard) };
        }
    }

    /// Keeps these children and retires the others.
    pub(super) fn keep(self, children: &[Child<'_, K>], guard: &Guard) {
        let before = self.children();
        self.write(children);
        let mut kept = children.iter().map(|child| child.link).peekable();
        for child in before {
            if kept.next_if_eq(&child.link).is_none() {
                // SAFETY: linked to from here and nowhere else (E1), and no longer: what follows in
                // `kept` are later ones of `before`, as is asserted below.
                unsafe { retire(child.link, guard) };
            }
        }
        assert!(kept.next().is_none(), "no others than before, in order");
    }
}

/// A node without other owners, with all that is below it. Freed when dropped.
pub(super) struct Subtree<K: ArtKey>(Link<'static, K>);

impl<K: ArtKey> Subtree<K> {
    /// Owns a node that was just made and that nothing links to.
    pub(super) fn of(fresh: Link<'_, K>) -> Self {
        // SAFETY: alive until it is dropped or given away, and lent for shorter times only.
        Self(unsafe { fresh.extend() })
    }

    /// Hands the subtree to the node that will link to it, or to a larger subtree.
    pub(super) fn give<'g>(self, _guard: &'g Guard) -> Link<'g, K> {
        // SAFETY: alive while the guard is pinned, even if it is found, taken out and retired.
        let link = unsafe { self.0.extend() };
        std::mem::forget(self);
        link
    }

    pub(super) fn link<'g>(&'g self) -> Link<'g, K> {
        self.0
    }

    /// Calls `visit` with every node, in post-order. Iterative, as paths may be long.
    pub(super) fn for_each<'a>(&'a self, mut visit: impl FnMut(Below<'a, K>)) {
        let mut ways: Vec<(Option<NodeRef<'a, K>>, Vec<Link<'a, K>>)> = Vec::new();
        ways.push((None, vec![self.0]));
        while let Some((node, links)) = ways.last_mut() {
            match links.pop().and_then(Link::follow) {
                Some(Below::Leaf(leaf)) => visit(Below::Leaf(leaf)),
                Some(Below::Node(node)) => {
                    let below = node.children().into_iter().map(|child| child.link);
                    ways.push((Some(node), below.rev().collect()));
                }
                None => {
                    if let Some(node) = node.take() {
                        visit(Below::Node(node));
                    }
                    ways.pop();
                }
            }
        }
    }
}

impl<K: ArtKey> Drop for Subtree<K> {
    fn drop(&mut self) {
        self.for_each(|visited| match visited {
            // SAFETY: no other thread has it; it comes after all that is below it, and is not read again.
            Below::Node(node) => unsafe { node.free() },
            Below::Leaf(leaf) => {
                for record in records(leaf) {
                    // SAFETY: no other thread has the leaf, and the record is in no other
                    // (`out_of_line_keys.rs`, R2).
                    unsafe { record.free() };
                }
                // SAFETY: as above.
                unsafe { leaf.free() };
            }
        });
    }
}

fn records<K: ArtKey>(leaf: LeafRef<'_, K>) -> impl Iterator<Item = Record<'_>> {
    let records = if K::INLINE { 0 } else { leaf.count() };
    (0..records).map(move |i| leaf.record(i))
}
