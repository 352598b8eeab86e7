//! Nodes in memory: base nodes and the delta records on top of them.
//!
//! ```text
//!  mapping table          newest delta            older delta            base node
//!  | page id | head | --> | header | body | next -> | header | body | next -> | header | entries |
//! ```
//!
//! Every header, of a delta too, describes the page *as seen from there*: its upper fence, right
//! sibling, record count, leaf version and the structure change that is half done. So nobody walks a
//! chain to learn any of these, and a head pointer is an atomic snapshot of all of them: the versions
//! before and after an insertion are those of the two heads its compare-and-swap exchanged.
//!
//! A page covers `low <= key < high`; `low` is in its base node and never changes while the page id
//! is in use; no `high` means no bound. The leftmost page of a level has the smallest key as `low`.
//!
//! # Invariants
//! - N1. A node is written only while it is an [`OwnedNode`], before it is published; but for the hints
//!   of inner base nodes, which are atomics (`base.rs`, B3).
//! - N2. A published node is freed only through `free_chain`, by the epoch collector after it was
//!   taken out of the mapping table, or when the table itself is dropped.
//! - N3. Key bytes in a header or body belong to this node or to one below it in the same chain (a
//!   merged right chain included). A chain is retired as a whole, except that a split delta, a
//!   removal and nothing else may go alone, and nobody borrows from those.
//! - N4. A [`NodeRef<'g>`] comes from the mapping table under a guard that lives for `'g`, or from
//!   another such reference.
//! - N5. `next` is non-null in every delta, and `other` in every merge delta.
//!
//! Paper: bwtree §3, §4.1.2, §4.2
#![expect(
    unsafe_code,
    reason = "nodes have trailing arrays and are shared through raw pointers"
)]

use std::alloc::{Layout, handle_alloc_error};
use std::fmt;
use std::marker::PhantomData;
use std::mem::size_of;
use std::ptr::{self, NonNull};

use super::mapping::PageId;
use crate::key::Key;
use crate::memory;

/// What a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Kind {
    /// Sorted entries; the bottom of every chain.
    Base,
    /// Leaf: `key` has this payload.
    Put,
    /// Leaf: `key` is absent.
    Delete,
    /// The page was split at `key`, everything from there on is in page `child`; stays until the
    /// parent knows. Lies directly on a fresh base node that holds the left half only.
    Split,
    /// The page is going away: merged into its left sibling (see `merge.rs`), or a root whose only
    /// child takes its place. Always the head, nothing can be put on top.
    Remove,
    /// The removed right sibling's chain `other` belongs to this page now, from `key` on.
    Merge,
    /// Inner: keys in `key .. upper` are in page `child`.
    IndexInsert,
    /// Inner: the entry at `key` is gone; keys in `lower .. upper` are in page `child`.
    IndexDelete,
    /// Inner: the child page `child`, entry `key`, is being merged into its left sibling.
    Merging,
}

const HIGH: u8 = 1;
const UPPER: u8 = 2;
const OWNS_NEXT: u8 = 4;

/// What all nodes begin with. 64 bytes for fixed keys: one cache line.
#[repr(C)]
pub(super) struct Header<K: Key> {
    kind: Kind,
    level: u8,
    depth: u8,
    flags: u8,
    len: u32,
    right: PageId,
    bytes: u32,
    counter: u64,
    high: K::Raw,
    key: K::Raw,
    next: *const Header<K>,
    base: *const Header<K>,
    smo: *const Header<K>,
}

const _: () = assert!(size_of::<Header<crate::key::Fixed8>>() == 64);

/// Follows the header of every delta but `Put` and `Delete`, which have the payload alone there.
#[repr(C)]
struct ChangeBody<K: Key> {
    child: PageId,
    page: PageId,
    lower: K::Raw,
    upper: K::Raw,
    other: *const Header<K>,
}

/// A node that is not published yet: writable, and freed when dropped. A split delta owns the fresh
/// base node below it as well.
pub(super) struct OwnedNode<K: Key>(NonNull<Header<K>>);

/// A published node, readable for `'g`.
pub(super) struct NodeRef<'g, K: Key> {
    pointer: NonNull<Header<K>>,
    guard: PhantomData<&'g Header<K>>,
}

impl<K: Key> Clone for NodeRef<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Key> Copy for NodeRef<'_, K> {}

impl<K: Key> PartialEq for NodeRef<'_, K> {
    fn eq(&self, other: &Self) -> bool {
        self.pointer == other.pointer
    }
}

impl<K: Key> fmt::Debug for NodeRef<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} level {} len {}",
            self.kind(),
            self.level(),
            self.len()
        )
    }
}

/// Base nodes begin at multiples of this many bytes, two cache lines; hints count in it (`hint.rs`).
pub(super) const BASE_ALIGN: usize = 128;

/// The layout of a node of this many bytes.
fn layout(kind: Kind, bytes: usize) -> Layout {
    let align = if kind == Kind::Base { BASE_ALIGN } else { 8 };
    match Layout::from_size_align(bytes, align) {
        Ok(layout) => layout,
        Err(_) => handle_alloc_error(Layout::new::<u8>()),
    }
}

/// Everything a base node's header says.
pub(super) struct BaseHeader<'a, K: Key> {
    pub(super) level: u8,
    pub(super) right: PageId,
    pub(super) counter: u64,
    pub(super) low: K::Ref<'a>,
    pub(super) high: Option<K::Ref<'a>>,
}

/// What a structure delta says beyond the header it inherits.
pub(super) struct Change<'a, K: Key> {
    pub(super) key: K::Ref<'a>,
    pub(super) child: PageId,
    pub(super) page: PageId,
    pub(super) lower: K::Ref<'a>,
    pub(super) upper: Option<K::Ref<'a>>,
}

impl<K: Key> OwnedNode<K> {
    /// Memory for a node of `bytes` bytes with its header filled in, the rest uninitialised.
    fn allocate(kind: Kind, bytes: usize, header: impl FnOnce(u32) -> Header<K>) -> Self {
        let Ok(bytes_stored) = u32::try_from(bytes) else {
            handle_alloc_error(layout(kind, bytes));
        };
        let layout = layout(kind, bytes);
        let pointer = memory::allocate(layout).cast::<Header<K>>();
        // SAFETY: `pointer` is fresh memory of at least a header's size, aligned to 8 or more.
        unsafe { pointer.write(header(bytes_stored)) };
        Self(pointer)
    }

    /// A base node of `bytes` bytes in all, for `base.rs` to fill before it is used.
    pub(super) fn base(header: &BaseHeader<'_, K>, len: usize, bytes: usize) -> Self {
        let bytes = bytes.max(size_of::<Header<K>>());
        let node = Self::allocate(Kind::Base, bytes, |bytes| Header {
            kind: Kind::Base,
            level: header.level,
            depth: 0,
            flags: if header.high.is_some() { HIGH } else { 0 },
            len: len as u32,
            right: header.right,
            bytes,
            counter: header.counter,
            high: K::raw(header.high.unwrap_or(header.low)),
            key: K::raw(header.low),
            next: ptr::null(),
            base: ptr::null(),
            smo: ptr::null(),
        });
        // SAFETY: `node` is ours alone (N1) and its header is initialised.
        unsafe { (*node.0.as_ptr()).base = node.0.as_ptr() };
        node
    }

    /// Points the header's fences at the copies of their bytes inside this node.
    pub(super) fn set_fences(&mut self, low: K::Raw, high: K::Raw) {
        // SAFETY: `self` is ours alone (N1) and its header is initialised.
        let header = unsafe { self.0.as_mut() };
        header.key = low;
        header.high = high;
    }

    /// Where the node begins.
    pub(super) fn start(&mut self) -> *mut u8 {
        self.0.as_ptr().cast()
    }

    /// Where the bytes after the header begin.
    fn area(&mut self) -> *mut u8 {
        // SAFETY: the allocation starts with a header, so one past it is in bounds or its end.
        unsafe { self.0.as_ptr().add(1).cast() }
    }

    /// A delta on top of `on`, with `body` bytes and then a copy of `own_key`.
    fn delta(kind: Kind, on: NodeRef<'_, K>, body: usize, own_key: &[u8]) -> Self {
        let below = on.header();
        Self::allocate(
            kind,
            size_of::<Header<K>>() + body + own_key.len(),
            |bytes| Header {
                kind,
                level: below.level,
                depth: below.depth.saturating_add(1),
                flags: below.flags & HIGH,
                len: below.len,
                right: below.right,
                bytes,
                counter: below.counter,
                high: below.high,
                key: below.key,
                next: on.pointer.as_ptr(),
                base: below.base,
                smo: below.smo,
            },
        )
    }

    /// Copies `bytes` behind the header and `body` bytes, and returns the copy.
    fn keep(&mut self, body: usize, bytes: &[u8]) -> *const u8 {
        // SAFETY: `delta` reserved `body` bytes plus the length of this very slice after the header;
        // the memory is ours alone (N1) and cannot overlap `bytes`.
        unsafe {
            let copy = self.area().add(body);
            ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len());
            copy
        }
    }

    /// Gives the header a key whose bytes are copied into this delta.
    fn own_key(&mut self, body: usize, key: K::Ref<'_>) {
        let tail = K::tail(key);
        let copy = self.keep(body, tail);
        // SAFETY: `copy` are `tail.len()` initialised bytes of this node, which live as long as the
        // `Raw` made from them (N3: the bytes belong to this node).
        unsafe {
            let tail = std::slice::from_raw_parts(copy, tail.len());
            self.0.as_mut().key = K::raw(K::from_parts(K::head(key, 0), tail));
        }
    }

    /// A leaf delta (`Put` or `Delete`) on top of `on`.
    pub(super) fn record(kind: Kind, key: K::Ref<'_>, payload: u64, on: NodeRef<'_, K>) -> Self {
        let body = size_of::<u64>();
        let mut node = Self::delta(kind, on, body, K::tail(key));
        node.own_key(body, key);
        // SAFETY: a `u64` was reserved after the header, whose size is a multiple of 8.
        unsafe { node.area().cast::<u64>().write(payload) };
        node
    }

    /// Moves a leaf delta whose installation failed onto another head.
    pub(super) fn relink(&mut self, payload: u64, on: NodeRef<'_, K>) {
        let below = on.header();
        // SAFETY: `self` is ours alone (N1), initialised, and has a `u64` after its header.
        unsafe {
            let header = self.0.as_mut();
            header.depth = below.depth.saturating_add(1);
            header.flags = below.flags & HIGH;
            header.right = below.right;
            header.high = below.high;
            header.next = on.pointer.as_ptr();
            header.base = below.base;
            header.smo = below.smo;
            self.area().cast::<u64>().write(payload);
        }
    }

    /// Sets how many records the page has and its version's counter as seen from this delta.
    pub(super) fn set_content(&mut self, len: u32, counter: u64) {
        // SAFETY: `self` is ours alone (N1) and its header is initialised.
        let header = unsafe { self.0.as_mut() };
        header.len = len;
        header.counter = counter;
    }

    fn change(kind: Kind, on: NodeRef<'_, K>, change: &Change<'_, K>, own_key: bool) -> Self {
        let body = size_of::<ChangeBody<K>>();
        let mut node = Self::delta(
            kind,
            on,
            body,
            if own_key { K::tail(change.key) } else { &[] },
        );
        if own_key {
            node.own_key(body, change.key);
        }
        // SAFETY: a `ChangeBody` was reserved after the header and both are aligned to 8.
        unsafe {
            if !own_key {
                node.0.as_mut().key = K::raw(change.key);
            }
            if change.upper.is_some() {
                node.0.as_mut().flags |= UPPER;
            }
            node.area().cast::<ChangeBody<K>>().write(ChangeBody {
                child: change.child,
                page: change.page,
                lower: K::raw(change.lower),
                upper: K::raw(change.upper.unwrap_or(change.lower)),
                other: ptr::null(),
            });
        }
        node
    }

    /// A split delta over the fresh left half: keys from the half's `high` on are in page `right`.
    /// `grown` is a root prepared by a bulk load, or `NONE`.
    pub(super) fn split(left: Self, right: PageId, grown: PageId) -> Self {
        let on = left.as_ref();
        let key = on.high().unwrap_or(on.low());
        let change = Change {
            key,
            child: right,
            page: grown,
            lower: key,
            upper: None,
        };
        let mut node = Self::change(Kind::Split, on, &change, false);
        let this = node.0.as_ptr();
        // SAFETY: `node` is ours alone (N1). Its key borrows from the base below it (N3).
        unsafe { node.0.as_mut().smo = this };
        std::mem::forget(left);
        node
    }

    /// An entry of an inner page, or its end. `change.lower` and `change.upper` borrow from `on`'s
    /// chain; `key` is copied.
    pub(super) fn index(kind: Kind, change: &Change<'_, K>, on: NodeRef<'_, K>) -> Self {
        let mut node = Self::change(kind, on, change, true);
        let this = node.0.as_ptr();
        // SAFETY: `node` is ours alone (N1).
        let header = unsafe { node.0.as_mut() };
        match kind {
            Kind::IndexInsert => header.len += 1,
            Kind::IndexDelete => {
                header.len -= 1;
                header.smo = ptr::null();
            }
            _ => header.smo = this,
        }
        node
    }

    /// The removal of `on`'s page, whose merge is announced in page `parent`; `NONE`: the page is a
    /// root that collapses and keeps the chain below.
    pub(super) fn remove(parent: PageId, on: NodeRef<'_, K>) -> Self {
        let low = on.low();
        let change = Change {
            key: low,
            child: PageId::NONE,
            page: parent,
            lower: low,
            upper: None,
        };
        let mut node = Self::change(Kind::Remove, on, &change, false);
        if parent == PageId::NONE {
            // SAFETY: `node` is ours alone (N1).
            unsafe { node.0.as_mut().flags |= OWNS_NEXT };
        }
        node
    }

    /// The union of `left` with the frozen chain `right` of its right sibling, page `right_id`. The
    /// merge is announced in page `parent`.
    pub(super) fn merge(
        left: NodeRef<'_, K>,
        right: NodeRef<'_, K>,
        right_id: PageId,
        parent: PageId,
    ) -> Self {
        let low = right.low();
        let change = Change {
            key: low,
            child: right_id,
            page: parent,
            lower: low,
            upper: None,
        };
        let mut node = Self::change(Kind::Merge, left, &change, false);
        let this = node.0.as_ptr();
        let from = right.header();
        // SAFETY: `node` is ours alone (N1) and has a `ChangeBody` after its header. The high key
        // and the key borrow from `right`'s chain, which joins this one (N3).
        unsafe {
            (*node.area().cast::<ChangeBody<K>>()).other = right.pointer.as_ptr();
            let header = node.0.as_mut();
            header.depth = header.depth.saturating_add(from.depth).saturating_add(1);
            header.flags = from.flags & HIGH;
            header.high = from.high;
            header.right = from.right;
            header.len += from.len;
            header.counter = header.counter.max(from.counter) + 1;
            header.smo = this;
        }
        node
    }

    /// Looks at the node before it is published.
    pub(super) fn as_ref(&self) -> NodeRef<'_, K> {
        NodeRef {
            pointer: self.0,
            guard: PhantomData,
        }
    }

    /// Gives the node away, to be published.
    pub(super) fn into_raw(self) -> *mut Header<K> {
        let pointer = self.0.as_ptr();
        std::mem::forget(self);
        pointer
    }

    /// Takes back a node whose publication failed.
    ///
    /// # Safety
    /// `pointer` came from `into_raw` and was not published.
    pub(super) unsafe fn from_raw(pointer: NonNull<Header<K>>) -> Self {
        Self(pointer)
    }
}

impl<K: Key> Drop for OwnedNode<K> {
    /// Trap "an unpublished right node to be freed when its compare-and-swap loses": it, and the
    /// left half under a split delta, are freed here.
    fn drop(&mut self) {
        let node = self.as_ref();
        let below = (node.kind() == Kind::Split).then(|| node.next());
        // SAFETY: neither node was published, so nobody else refers to them (N1); the one below a
        // split delta was given to it in `split`.
        unsafe {
            if let Some(Some(below)) = below {
                free(below.pointer);
            }
            free(self.0);
        }
    }
}

/// # Safety
/// Nobody refers to the node, and it is freed once.
unsafe fn free<K: Key>(node: NonNull<Header<K>>) {
    // SAFETY: made by `allocate` with this kind and size, which never change (N1).
    unsafe {
        let header = node.as_ref();
        let layout = layout(header.kind, header.bytes as usize);
        memory::free(node.cast(), layout);
    }
}

/// Frees one node of a chain and not those below it.
///
/// # Safety
/// As [`free_chain`], for this node.
pub(super) unsafe fn free_one<K: Key>(node: *mut Header<K>) {
    if let Some(node) = NonNull::new(node) {
        // SAFETY: the caller's promise.
        unsafe { free(node) };
    }
}

/// Frees a node and all it owns: what is below it in its chain and the chains merged into it. A
/// removal owns what is below only if no left sibling took it over.
///
/// # Safety
/// No reference to any of these nodes can be used any more, and this is called once for them (N2).
pub(super) unsafe fn free_chain<K: Key>(head: *const Header<K>) {
    // Merged right chains, to be freed after the one at hand.
    let mut pending = Vec::new();
    let mut at = NonNull::new(head.cast_mut());
    while let Some(node) = at {
        // SAFETY: alive until the call of `free` at the end of this turn; the body is read only
        // where the kind says that there is one.
        let next = unsafe {
            let header = node.as_ref();
            let next = match header.kind {
                Kind::Base => ptr::null(),
                Kind::Remove if header.flags & OWNS_NEXT == 0 => ptr::null(),
                Kind::Merge => {
                    pending.push((*node.as_ptr().add(1).cast::<ChangeBody<K>>()).other);
                    header.next
                }
                _ => header.next,
            };
            free(node);
            next
        };
        let next = if next.is_null() {
            pending.pop().unwrap_or(next)
        } else {
            next
        };
        at = NonNull::new(next.cast_mut());
    }
}

impl<'g, K: Key> NodeRef<'g, K> {
    /// # Safety
    /// The node is published and stays alive during `'g` (N2, N4).
    pub(super) unsafe fn new(pointer: NonNull<Header<K>>) -> Self {
        Self {
            pointer,
            guard: PhantomData,
        }
    }

    #[inline]
    fn header(self) -> &'g Header<K> {
        // SAFETY: alive during `'g` (N4), initialised and never written again (N1). The `Release` of
        // the compare-and-swap that published it pairs with the `Acquire` that loaded it.
        unsafe { self.pointer.as_ref() }
    }

    fn body(self) -> &'g ChangeBody<K> {
        assert!(!matches!(
            self.kind(),
            Kind::Base | Kind::Put | Kind::Delete
        ));
        // SAFETY: nodes of the other kinds are made by `OwnedNode::change`, which writes a body.
        unsafe { &*self.area().cast::<ChangeBody<K>>() }
    }

    /// The node's address, to be compared with a mapping-table slot.
    #[inline]
    pub(super) fn as_ptr(self) -> *mut Header<K> {
        self.pointer.as_ptr()
    }

    /// What follows the header.
    #[inline]
    fn area(self) -> *const u8 {
        // SAFETY: the allocation starts with a header, so one past it is in bounds or its end.
        unsafe { self.pointer.as_ptr().add(1).cast() }
    }

    #[inline]
    pub(super) fn kind(self) -> Kind {
        self.header().kind
    }

    #[inline]
    pub(super) fn level(self) -> u8 {
        self.header().level
    }

    /// How many deltas lie on the base node, saturating.
    #[inline]
    pub(super) fn depth(self) -> u8 {
        self.header().depth
    }

    /// How many records (inner page: children) the page has.
    #[inline]
    pub(super) fn len(self) -> usize {
        self.header().len as usize
    }

    #[inline]
    pub(super) fn counter(self) -> u64 {
        self.header().counter
    }

    #[inline]
    pub(super) fn right(self) -> PageId {
        self.header().right
    }

    /// Size of this node alone, in bytes.
    pub(super) fn bytes(self) -> usize {
        self.header().bytes as usize
    }

    #[inline]
    pub(super) fn is_removed(self) -> bool {
        self.kind() == Kind::Remove
    }

    /// Whether a removed page's content went nowhere (a root that is collapsing).
    pub(super) fn owns_next(self) -> bool {
        self.header().flags & OWNS_NEXT != 0
    }

    /// The upper fence: the smallest key that belongs to the right sibling.
    #[inline]
    pub(super) fn high(self) -> Option<K::Ref<'g>> {
        let header = self.header();
        // SAFETY: the bytes belong to this chain (N3), which is alive during `'g` (N4).
        (header.flags & HIGH != 0).then(|| unsafe { K::from_raw(header.high) })
    }

    /// The lower fence of the page.
    pub(super) fn low(self) -> K::Ref<'g> {
        self.base().key()
    }

    /// The key a delta is about; a base node's lower fence.
    #[inline]
    pub(super) fn key(self) -> K::Ref<'g> {
        // SAFETY: the bytes belong to this chain (N3), which is alive during `'g` (N4).
        unsafe { K::from_raw(self.header().key) }
    }

    /// The base node at the bottom of the page's own chain.
    #[inline]
    pub(super) fn base(self) -> NodeRef<'g, K> {
        // SAFETY: set for every node; in the same chain, so alive as long (N3).
        unsafe { Self::new(NonNull::new_unchecked(self.header().base.cast_mut())) }
    }

    /// The node below; `None` for a base node.
    #[inline]
    pub(super) fn next(self) -> Option<NodeRef<'g, K>> {
        // SAFETY: in the same chain, so alive as long (N3).
        NonNull::new(self.header().next.cast_mut()).map(|next| unsafe { Self::new(next) })
    }

    /// The structure change of this page that may be half done.
    #[inline]
    pub(super) fn smo(self) -> Option<NodeRef<'g, K>> {
        // SAFETY: a node of the same chain, so alive as long (N3).
        NonNull::new(self.header().smo.cast_mut()).map(|smo| unsafe { Self::new(smo) })
    }

    /// The payload of a `Put`.
    #[inline]
    pub(super) fn payload(self) -> u64 {
        assert!(matches!(self.kind(), Kind::Put | Kind::Delete));
        // SAFETY: nodes of these kinds are made by `OwnedNode::record`, which writes a payload.
        unsafe { self.area().cast::<u64>().read() }
    }

    /// The page that an index entry, a split, a merge or its announcement points to.
    pub(super) fn child(self) -> PageId {
        self.body().child
    }

    /// The page above that a removal or merge is announced in; a split's prepared root.
    pub(super) fn page(self) -> PageId {
        self.body().page
    }

    /// Lower end of the keys an `IndexDelete` is about.
    pub(super) fn lower(self) -> K::Ref<'g> {
        // SAFETY: the bytes belong to this chain (N3), which is alive during `'g` (N4).
        unsafe { K::from_raw(self.body().lower) }
    }

    /// Upper end of the keys an index delta is about.
    pub(super) fn upper(self) -> Option<K::Ref<'g>> {
        let body = self.body();
        // SAFETY: the bytes belong to this chain (N3), which is alive during `'g` (N4).
        (self.header().flags & UPPER != 0).then(|| unsafe { K::from_raw(body.upper) })
    }

    /// The chain a merge delta took over.
    pub(super) fn merged(self) -> NodeRef<'g, K> {
        assert_eq!(self.kind(), Kind::Merge);
        // SAFETY: non-null (N5); part of this chain since the merge, so alive as long (N3).
        unsafe { Self::new(NonNull::new_unchecked(self.body().other.cast_mut())) }
    }
}
