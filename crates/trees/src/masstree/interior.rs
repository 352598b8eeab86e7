//! Interior nodes: the levels above the leaves of a layer's tree.
//!
//! ```text
//! | version, level, used | slices: s0 s1 ... | children: c0 c1 c2 ... |      si <= all keys of c(i+1) < s(i+1)
//! ```
//!
//! A reader reads a child, and then checks that the version is still the one from the beginning of
//! the read: only then was the child this node's, and may be followed (`node.rs`, N2).
//!
//! # Invariants
//! - I1. `used` children and one slice less, ascending. At least two children, except while the
//!   lock is held, or until `remove_empty.rs` has repaired the node.
//!
//! Paper: bwtree §2.5
#![expect(unsafe_code, reason = "children are addresses")]

use std::hint::select_unpredictable;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crossbeam_epoch::Guard;
use namiki_platform::sync::{AtomicPtr, AtomicU64};

use super::border::prefetch_border;
use super::key_slices::Slicing;
use super::node_ref::{Header, NodeRef};
use super::version::{Locked, Seen};

/// Most children of an interior node.
pub(super) const FAN_OUT: usize = if cfg!(loom) { 4 } else { 64 };

/// A node above leaves or other interior nodes.
#[repr(C, align(64))]
pub(super) struct Interior<K> {
    pub(super) header: Header,
    /// One more than is needed, so that every position in a node is a valid index.
    slices: [AtomicU64; FAN_OUT],
    children: [AtomicPtr<Header>; FAN_OUT],
    keys: PhantomData<fn() -> K>,
}

/// Children and the slices that separate them, while they move from one node to another.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) slices: Vec<u64>,
    pub(super) children: Vec<*mut Header>,
}

impl<K: Slicing> Interior<K> {
    /// A node with the children given.
    pub(super) fn new(level: u32, root: bool, slices: &[u64], children: &[*mut Header]) -> Self {
        let node = Self {
            header: Header::new(level, root),
            slices: std::array::from_fn(|_| AtomicU64::new(0)),
            children: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            keys: PhantomData,
        };
        node.fill(slices, children);
        node
    }

    /// Replaces everything. Changes the node: see [`insert`](Self::insert).
    pub(super) fn fill(&self, slices: &[u64], children: &[*mut Header]) {
        assert!(
            slices.len() + 1 == children.len() && children.len() <= FAN_OUT,
            "one slice between two children, and room for them"
        );
        for (to, slice) in self.slices.iter().zip(slices) {
            to.store(*slice, Relaxed);
        }
        for (to, child) in self.children.iter().zip(children) {
            // `Release` pairs with the `Acquire` of threads that follow it: the child is complete.
            to.store(*child, Release);
        }
        self.header.used.store(children.len() as u32, Relaxed);
    }

    /// Number of children. Exact under the lock.
    #[inline]
    pub(super) fn len(&self) -> usize {
        (self.header.used.load(Relaxed) as usize).min(FAN_OUT)
    }

    /// Position of the child that is responsible for a slice: the number of slices that are not
    /// greater.
    #[inline]
    pub(super) fn position(&self, slice: u64) -> usize {
        let not_greater = |at: usize| self.slices[at % FAN_OUT].load(Relaxed) <= slice;
        let (mut first, mut len) = (0, self.len().saturating_sub(1));
        // Branchless binary search: `len` does not depend on the slices.
        while len > 1 {
            let half = len / 2;
            first = select_unpredictable(not_greater(first + half - 1), first + half, first);
            len -= half;
        }
        first + usize::from(len == 1 && not_greater(first))
    }

    /// The child that is responsible for a slice. `None`: the node was changed since `seen`.
    #[inline]
    pub(super) fn child<'g>(
        &'g self,
        slice: u64,
        seen: Seen,
        guard: &'g Guard,
    ) -> Option<NodeRef<'g, K>> {
        self.child_at(self.position(slice), seen, guard)
    }

    /// The child at a position. `None`: the node was changed since `seen`, or the position has no
    /// child.
    #[inline]
    pub(super) fn child_at<'g>(
        &'g self,
        position: usize,
        seen: Seen,
        _guard: &'g Guard,
    ) -> Option<NodeRef<'g, K>> {
        let child = self.children.get(position)?.load(Acquire);
        if !self.header.version.unchanged(seen) {
            return None;
        }
        // SAFETY: it was a child in the state `seen`, which was current just now, and we are pinned.
        unsafe { NodeRef::follow(child) }
    }

    /// Prefetches the leaf at the position, if there is one.
    #[inline]
    pub(super) fn prefetch_border(&self, position: usize) {
        if position < self.len() {
            prefetch_border::<K>(self.children[position].load(Relaxed));
        }
    }

    /// The child at a position below [`len`](Self::len), with the lock held.
    pub(super) fn held<'g>(
        &'g self,
        position: usize,
        _held: &Locked<'_>,
        _guard: &'g Guard,
    ) -> NodeRef<'g, K> {
        // SAFETY: under the lock it is a child now, and we are pinned.
        match unsafe { NodeRef::follow(self.children[position].load(Acquire)) } {
            Some(child) => child,
            None => unreachable!("a child below `len` is there"),
        }
    }

    /// All children and slices. The lock is held.
    pub(super) fn parts(&self) -> Parts {
        let len = self.len();
        Parts {
            slices: self.slices[..len - 1]
                .iter()
                .map(|slice| slice.load(Relaxed))
                .collect(),
            children: self.children[..len]
                .iter()
                .map(|child| child.load(Relaxed))
                .collect(),
        }
    }

    /// Adds a child to the right of the one that has been responsible for `slice`. The lock is
    /// held, `inserting` announced, and there is room.
    pub(super) fn insert(&self, slice: u64, child: *mut Header) {
        let (len, at) = (self.len(), self.position(slice));
        assert!(len < FAN_OUT, "room was made first");
        for i in (at..len - 1).rev() {
            self.slices[i + 1].store(self.slices[i].load(Relaxed), Relaxed);
        }
        for i in (at + 1..len).rev() {
            self.children[i + 1].store(self.children[i].load(Relaxed), Release);
        }
        self.slices[at].store(slice, Relaxed);
        // `Release` pairs with the `Acquire` of threads that follow it.
        self.children[at + 1].store(child, Release);
        self.header.used.store(len as u32 + 1, Relaxed);
    }

    /// The slice that separates the children at `position` and after it. The lock is held.
    pub(super) fn slice_at(&self, position: usize) -> u64 {
        self.slices[position].load(Relaxed)
    }

    /// Replaces it. The lock is held, `inserting` announced.
    pub(super) fn set_slice(&self, position: usize, slice: u64) {
        self.slices[position].store(slice, Relaxed);
    }

    /// Takes out the child after `position` and gives its range to the one there. The lock is held,
    /// `inserting` announced.
    pub(super) fn remove_after(&self, position: usize) {
        let len = self.len();
        for i in position..len - 2 {
            self.slices[i].store(self.slices[i + 1].load(Relaxed), Relaxed);
        }
        for i in position + 1..len - 1 {
            self.children[i].store(self.children[i + 1].load(Relaxed), Release);
        }
        self.header.used.store(len as u32 - 1, Relaxed);
    }
}

impl<K> std::fmt::Debug for Interior<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interior")
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}
