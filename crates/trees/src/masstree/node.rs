//! Nodes: allocation, kinds, and reclamation. `node_ref.rs` has the references to nodes.
//!
//! # Invariants
//! - N1. A pointer in an interior node, in a border node's links or in a layer leads to a node of this
//!   tree: a border node if its level is 0, an interior node otherwise. The level never changes.
//! - N2. A node is deleted (`version.rs`, V3) and unlinked from everything that led to it before it
//!   is retired. So a thread that finds a pointer in a state of a node that was current while it
//!   was pinned can follow it.
//! - N3. A node is changed through atomics only, so shared references to it are all there are.
//!
//! Paper: bwtree §2.5
#![expect(unsafe_code, reason = "nodes refer to each other by address")]

use std::alloc::Layout;
use std::ptr;
use std::sync::atomic::Ordering;

use crossbeam_epoch::Guard;
use namiki_index::shared::cache_line_search::LINE;
use namiki_index::shared::node_alloc;
use namiki_platform::prefetch;
use namiki_platform::sync::AtomicPtr;

use super::border::{Border, prefetch_border};
use super::interior::Interior;
use super::key_slices::Slicing;
pub(super) use super::node_ref::{Header, NodeRef};

impl<'g, K: Slicing> NodeRef<'g, K> {
    /// Which of the two it is.
    #[inline]
    pub(super) fn kind(self) -> Kind<'g, K> {
        if self.level() == 0 {
            // SAFETY: a border node (N1), alive like its header.
            Kind::Border(unsafe { self.at.cast().as_ref() })
        } else {
            // SAFETY: an interior node (N1), alive like its header.
            Kind::Interior(unsafe { self.at.cast().as_ref() })
        }
    }

    /// Prefetches all cache lines of a border node: a search needs all of them. Those of an
    /// interior node usually are in the cache.
    #[inline]
    pub(super) fn prefetch_border(self) {
        prefetch_border::<K>(self.at.as_ptr());
    }

    /// Prefetches the cache lines that an interior node's search begins with.
    #[inline]
    pub(super) fn prefetch_interior(self) {
        let start = self.at.as_ptr().cast::<u8>();
        for line in (0..size_of::<Interior<K>>() / 2).step_by(LINE) {
            prefetch(start.wrapping_add(line));
        }
    }

    fn layout(self) -> Layout {
        if self.level() == 0 {
            Layout::new::<Border<K>>()
        } else {
            Layout::new::<Interior<K>>()
        }
    }

    /// Bytes of memory, without the blocks that slots point to.
    pub(super) fn size(self) -> usize {
        self.layout().size()
    }

    /// Frees the node's memory, but not the blocks that slots point to.
    ///
    /// # Safety
    /// Nothing refers to the node any longer, nor will.
    pub(super) unsafe fn free(self) {
        let layout = self.layout();
        // SAFETY: made by `create` with this layout, of the type that the level says (N1).
        unsafe {
            if self.level() == 0 {
                ptr::drop_in_place(self.at.cast::<Border<K>>().as_ptr());
            } else {
                ptr::drop_in_place(self.at.cast::<Interior<K>>().as_ptr());
            }
            node_alloc::free(self.at.cast(), layout);
        }
    }

    /// Frees the node once nothing can refer to it.
    ///
    /// # Safety
    /// It is deleted, nothing in the tree leads to it, and it is retired once (N2).
    pub(super) unsafe fn retire(self, guard: &Guard) {
        let pointer = self.pointer();
        // SAFETY: threads that are pinned now may refer to it, and no other can reach it; the
        // collector waits for them.
        unsafe {
            guard.defer_unchecked(move || {
                if let Some(node) = NodeRef::<K>::follow(pointer) {
                    node.free();
                }
            });
        }
    }
}

/// A node by its kind.
#[derive(Debug)]
pub(super) enum Kind<'g, K: Slicing> {
    Border(&'g Border<K>),
    Interior(&'g Interior<K>),
}

/// Allocates a new node. It stays there until it is retired or freed.
pub(super) fn create<N>(node: N, _guard: &Guard) -> &N {
    let memory = node_alloc::allocate(Layout::new::<N>()).cast::<N>();
    // SAFETY: the memory is for an `N` and ours alone. Nodes are retired, which waits for pinned threads,
    // or freed by their only owner (N2).
    unsafe {
        memory.write(node);
        memory.as_ref()
    }
}

/// The pointer by which other nodes refer to a node made by [`create`].
pub(super) fn pointer<N>(node: &N) -> *mut Header {
    ptr::from_ref(node).cast_mut().cast()
}

/// Follows the root of a layer.
#[inline]
pub(super) fn root<'g, K: Slicing>(
    root: &AtomicPtr<Header>,
    _guard: &'g Guard,
) -> Option<NodeRef<'g, K>> {
    // SAFETY: found in a layer now, and we are pinned. `Acquire` pairs with the `Release` of the thread
    // that put the node there.
    unsafe { NodeRef::follow(root.load(Ordering::Acquire)) }
}
