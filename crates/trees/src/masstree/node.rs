//! Nodes: what both kinds begin with, and how one is reached, made and given back.
//!
//! # Invariants
//! - N1. A pointer in an interior node, in a border node's links or in a layer leads to a node of this
//!   tree: a border node if its level is 0, an interior node otherwise. The level never changes.
//! - N2. A node is deleted (V3) and unlinked from everything that led to it before it is retired. So a
//!   thread that finds a pointer in a state of a node that was current while it was pinned can follow it.
//! - N3. A node is changed through atomics only, so shared references to it are all there are.
//!
//! Paper: bwtree §2.5
#![expect(unsafe_code, reason = "nodes refer to each other by address")]

use std::alloc::Layout;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use crossbeam_epoch::Guard;
use namiki_platform::prefetch;

use super::border::Border;
use super::interior::Interior;
use super::slices::Slicing;
use super::version::{Locked, Seen, Version};
use namiki_index::shared::memory;
use namiki_index::shared::sync::{AtomicPtr, AtomicU32};

const LINE: usize = 64;

/// What every node begins with.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Header {
    pub(super) version: Version,
    /// 0: a border node.
    level: u32,
    /// Border node: a bit for each slot in use. Interior node: the number of children.
    pub(super) used: AtomicU32,
}

impl Header {
    pub(super) fn new(level: u32, root: bool) -> Self {
        Self {
            version: Version::new(root),
            level,
            used: AtomicU32::new(0),
        }
    }

    pub(super) fn level(&self) -> u32 {
        self.level
    }

    /// Whether the children are border nodes.
    #[inline]
    pub(super) fn is_above_leaves(&self) -> bool {
        self.level == 1
    }
}

/// A node of either kind, alive while the guard is pinned.
pub(super) struct NodeRef<'g, K> {
    header: &'g Header,
    /// The address with the right to the whole node.
    at: NonNull<Header>,
    keys: PhantomData<fn() -> K>,
}

impl<K> Clone for NodeRef<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for NodeRef<'_, K> {}

impl<K> PartialEq for NodeRef<'_, K> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl<K> fmt::Debug for NodeRef<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node at {:?}, level {}", self.at, self.header.level)
    }
}

impl<'g, K: Slicing> NodeRef<'g, K> {
    /// Follows a pointer.
    ///
    /// # Safety
    /// It is null, or was found in a state of a node, or layer, of a tree of `K` that was current
    /// while the guard of `'g` was pinned (N2).
    #[inline]
    pub(super) unsafe fn follow(pointer: *mut Header) -> Option<Self> {
        let at = NonNull::new(pointer)?;
        Some(Self {
            // SAFETY: the node was in the tree while the guard was pinned, by the caller's promise, so
            // it is not freed before it is unpinned.
            header: unsafe { at.as_ref() },
            at,
            keys: PhantomData,
        })
    }

    pub(super) fn pointer(self) -> *mut Header {
        self.at.as_ptr()
    }

    #[inline]
    pub(super) fn version(self) -> &'g Version {
        &self.header.version
    }

    #[inline]
    pub(super) fn stable(self) -> Seen {
        self.header.version.stable()
    }

    pub(super) fn lock(self) -> Locked<'g> {
        self.header.version.lock()
    }

    /// Which of the two it is.
    #[inline]
    pub(super) fn kind(self) -> Kind<'g, K> {
        if self.header.level == 0 {
            // SAFETY: a border node (N1), alive like its header.
            Kind::Border(unsafe { self.at.cast().as_ref() })
        } else {
            // SAFETY: an interior node (N1), alive like its header.
            Kind::Interior(unsafe { self.at.cast().as_ref() })
        }
    }

    /// Asks for all its cache lines, if it is a border node: all are needed, and those of an interior
    /// node mostly are there.
    #[inline]
    pub(super) fn prefetch_border(self) {
        prefetch_border::<K>(self.at.as_ptr());
    }

    /// Asks for the cache lines an interior node's search begins with.
    #[inline]
    pub(super) fn prefetch_interior(self) {
        let start = self.at.as_ptr().cast::<u8>();
        for line in (0..size_of::<Interior<K>>() / 2).step_by(LINE) {
            prefetch(start.wrapping_add(line));
        }
    }

    fn layout(self) -> Layout {
        if self.header.level == 0 {
            Layout::new::<Border<K>>()
        } else {
            Layout::new::<Interior<K>>()
        }
    }

    /// Bytes of memory, without the blocks that slots point to.
    pub(super) fn size(self) -> usize {
        self.layout().size()
    }

    /// Gives the memory back; what slots point to stays.
    ///
    /// # Safety
    /// Nothing refers to the node any longer, nor will.
    pub(super) unsafe fn free(self) {
        let layout = self.layout();
        // SAFETY: made by `create` with this layout, of the type that the level says (N1).
        unsafe {
            if self.header.level == 0 {
                ptr::drop_in_place(self.at.cast::<Border<K>>().as_ptr());
            } else {
                ptr::drop_in_place(self.at.cast::<Interior<K>>().as_ptr());
            }
            memory::free(self.at.cast(), layout);
        }
    }

    /// Frees the node once nothing can refer to it.
    ///
    /// # Safety
    /// It is deleted, nothing in the tree leads to it, and it is retired once (N2).
    pub(super) unsafe fn retire(self, guard: &Guard) {
        let pointer = self.pointer();
        // SAFETY: threads that are pinned now may refer to it, and no other can come to; that is what the
        // collector waits for.
        unsafe {
            guard.defer_unchecked(move || {
                if let Some(node) = NodeRef::<K>::follow(pointer) {
                    node.free();
                }
            });
        }
    }
}

/// Asks for all cache lines of a border node, wherever the pointer is from.
#[inline]
pub(super) fn prefetch_border<K: Slicing>(pointer: *const Header) {
    let start = pointer.cast::<u8>();
    for line in (0..size_of::<Border<K>>()).step_by(LINE) {
        prefetch(start.wrapping_add(line));
    }
}

/// A node as what it is.
#[derive(Debug)]
pub(super) enum Kind<'g, K: Slicing> {
    Border(&'g Border<K>),
    Interior(&'g Interior<K>),
}

/// Puts a new node in memory of its own. It stays there until it is retired or freed.
pub(super) fn create<N>(node: N, _guard: &Guard) -> &N {
    let memory = memory::allocate(Layout::new::<N>()).cast::<N>();
    // SAFETY: the memory is for an `N` and ours alone. Nodes are retired, which waits for pinned threads,
    // or freed by their only owner (N2).
    unsafe {
        memory.write(node);
        memory.as_ref()
    }
}

/// The pointer by which others find a node made by [`create`].
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
