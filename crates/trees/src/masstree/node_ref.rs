//! The header of both kinds of nodes, and references to nodes. The invariants are those of
//! `node.rs`.
#![expect(unsafe_code, reason = "nodes refer to each other by address")]

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

use namiki_platform::sync::AtomicU32;

use super::key_slices::Slicing;
use super::version::{Locked, Seen, Version};

/// The header of every node.
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

    #[inline]
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
#[derive(Clone, Copy)]
pub(super) struct NodeRef<'g, K> {
    header: &'g Header,
    /// The address with the right to the whole node.
    pub(super) at: NonNull<Header>,
    keys: PhantomData<fn() -> K>,
}

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

    /// 0: a border node.
    #[inline]
    pub(super) fn level(self) -> u32 {
        self.header.level
    }
}
