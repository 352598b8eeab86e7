//! Nodes in memory: base nodes and the delta records on top of them.
//!
//! ```text
//!  mapping table          newest delta            older delta            base node
//!  | page id | head | --> | header | body | next -> | header | body | next -> | header | entries |
//! ```
//!
//! Every header, of a delta too, describes the page *as seen from there*: its upper fence, right sibling,
//! record count, leaf version and the structure change that is half done. So no thread walks a chain to
//! learn any of these, and a head pointer is an atomic snapshot of all of them: the versions before and
//! after an insertion are those of the two heads its compare-and-swap exchanged.
//!
//! Each variant of the tree lets one pointer of a delta change after its publication: in a tree that
//! consolidates in its chains, `next`, which then leads to the same content in another form
//! (`consolidate_in_chain.rs`); in one that keeps split deltas at the head, where those keep the deltas that lie
//! below them (`mapping_table.rs`).
//!
//! A page covers `low <= key < high`; `low` is in its base node and never changes while the page id
//! is in use; no `high` means no bound. The leftmost page of a level has the smallest key as `low`.
//!
//! # Invariants
//! - N1. A node is written only while it is an [`OwnedNode`], before it is published; except for the hints
//!   of inner base nodes (`base.rs`, B3) and the pointers of `mutable_delta_pointers.rs`, which are atomics.
//! - N2. A published node is freed only through `free_chain`, by the epoch collector after it was taken out
//!   of the mapping table or cut out of its chain, or when the table itself is dropped.
//! - N3. Key bytes in a header or body belong to this node or to one below it in the same chain (a merged
//!   right chain included). A chain is retired as a whole, except that a split delta, a removal and nothing
//!   else may go alone, and nothing borrows from those. Where chains are cut (`consolidate_in_chain.rs`), what lies
//!   below goes first: so there a delta has copies of all its key bytes, except for a split delta, from
//!   below which nothing is ever cut.
//! - N4. A [`NodeRef<'g>`] comes from the mapping table under a guard that lives for `'g`, or from another
//!   such reference.
//! - N5. `next` is non-null in every delta, and `other` in every merge delta.
//! - N6. `len` is exact, unless the node is *uncounted*: then writers that did not look for their key have
//!   put deltas on the page, none of which is counted. So it is never too large.
//! - N7. `hint` is never dereferenced, only compared and prefetched; except in a tree with slabs, where no
//!   chain is ever cut: there it leads to the base node at the bottom of the chain (of the left one, under
//!   a merge delta), and is as good as `next`.
//! - N8. A delta in a slab has no memory of its own; its base node has it, and is freed last of its chain.
//!   See `slab_slots.rs`.
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
use std::sync::atomic::{AtomicPtr, Ordering};

use namiki_index::key::Key;
use namiki_index::shared::node_alloc;
use namiki_platform::prefetch;

use super::mutable_delta_pointers::{Chained, Link, Updates};
use super::page_id::PageId;
use super::variant::Variant;

mod delta;
mod key_position;
mod kind;
mod literal;
mod new_base;
mod slab;

pub(super) use self::key_position::Spot;
use self::key_position::is_spotted;
pub(super) use self::kind::Kind;
pub(super) use self::slab::slot_bytes;

const HIGH: u8 = 1;
const UPPER: u8 = 2;
const OWNS_NEXT: u8 = 4;
/// A structure change of the page may be half done.
const CHANGING: u8 = 8;
/// `len` is a lower bound (N6).
const UNCOUNTED: u8 = 16;
/// A base node: there is a slab in front of it. A delta: it lies in one.
const SLAB: u8 = 32;
/// A delta that is about a key and lies in no slab is in the chain, or a merge delta is.
const LOOSE: u8 = 64;
/// The flags that a delta inherits from the node below.
const INHERITED: u8 = HIGH | CHANGING | UNCOUNTED | LOOSE;

/// The header of all nodes. 64 bytes for fixed keys, so that their leaf deltas are one cache line.
#[repr(C)]
pub(super) struct Header<K: Key> {
    kind: Kind,
    level: u8,
    depth: u8,
    flags: u8,
    len: u32,
    right: PageId,
    /// The size of this node, or the position of its key in the base node: see `key_position.rs`.
    extent: u32,
    counter: u64,
    high: K::Raw,
    key: K::Raw,
    next: Link<Header<K>>,
    /// Probable address of the page's base node. Not for loom: advice, or written before the node
    /// is published (N7).
    hint: AtomicPtr<Header<K>>,
    word: Word<K>,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Header<namiki_index::key::Fixed8>>() == 64);

/// The word of a header with a meaning that depends on its kind.
#[repr(C)]
union Word<K: Key> {
    /// `Put`, `Delete`.
    payload: u64,
    /// All others: the structure change that may be half done, if `CHANGING` is set. In a base node
    /// this is the split delta that was made with it, for the `CHANGING` deltas that lie on it.
    change: *const Header<K>,
}

/// Follows the header of every delta but `Put` and `Delete`.
#[repr(C)]
struct ChangeBody<K: Key> {
    child: PageId,
    page: PageId,
    lower: K::Raw,
    upper: K::Raw,
    /// The right chain under a merge delta; the newest delta that a split delta at the head keeps
    /// below itself.
    other: Updates<Header<K>>,
}

/// A node that is not published yet: writable, and freed when dropped. A split delta owns the fresh
/// base node below it as well.
pub(super) struct OwnedNode<K: Key, V: Variant>(NonNull<Header<K>>, PhantomData<V>);

/// A published node, readable for `'g`.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct NodeRef<'g, K: Key, V: Variant> {
    pointer: NonNull<Header<K>>,
    guard: PhantomData<(&'g Header<K>, V)>,
}

impl<K: Key, V: Variant> fmt::Debug for NodeRef<'_, K, V> {
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

/// Base nodes begin at multiples of this many bytes, two cache lines; hints count in it
/// (`base/child_prefetch_hint.rs`).
pub(super) const BASE_ALIGN: usize = 128;

/// The layout of a node of this many bytes.
fn layout<K: Key>(kind: Kind, bytes: usize) -> Layout {
    let align = match kind {
        Kind::Base => BASE_ALIGN,
        // A power of two, except under loom.
        _ if K::INLINE => size_of::<Header<K>>().next_power_of_two(),
        _ => align_of::<Header<K>>(),
    };
    match Layout::from_size_align(bytes, align) {
        Ok(layout) => layout,
        Err(_) => handle_alloc_error(Layout::new::<u8>()),
    }
}

/// The contents of a base node's header.
pub(super) struct BaseHeader<'a, K: Key> {
    pub(super) level: u8,
    pub(super) right: PageId,
    pub(super) counter: u64,
    pub(super) low: K::Ref<'a>,
    pub(super) high: Option<K::Ref<'a>>,
    /// Deltas to make room for in a slab.
    pub(super) slots: usize,
}

/// The fields of a structure delta that it does not inherit.
pub(super) struct Change<'a, K: Key> {
    pub(super) key: K::Ref<'a>,
    pub(super) child: PageId,
    pub(super) page: PageId,
    pub(super) lower: K::Ref<'a>,
    pub(super) upper: Option<K::Ref<'a>>,
}

impl<K: Key, V: Variant> OwnedNode<K, V> {
    /// Memory for a node of `bytes` bytes with its header filled in, the rest uninitialised.
    fn allocate(kind: Kind, bytes: usize, header: impl FnOnce(u32) -> Header<K>) -> Self {
        Self::allocate_behind(0, kind, bytes, header)
    }

    /// The same behind `slab` bytes of uninitialised memory.
    fn allocate_behind(
        slab: usize,
        kind: Kind,
        bytes: usize,
        header: impl FnOnce(u32) -> Header<K>,
    ) -> Self {
        let layout = layout::<K>(kind, slab + bytes);
        let Ok(extent) = u32::try_from(bytes) else {
            handle_alloc_error(layout);
        };
        let start = node_alloc::allocate(layout);
        // SAFETY: fresh memory of at least a header's size behind the slab, which is a multiple of
        // its alignment.
        unsafe {
            let pointer = start.add(slab).cast::<Header<K>>();
            pointer.write(header(extent));
            Self(pointer, PhantomData)
        }
    }

    /// Points the header's fences at the copies of their bytes inside this node.
    pub(super) fn set_fences(&mut self, low: K::Raw, high: K::Raw) {
        // SAFETY: `self` is ours alone (N1) and its header is initialised.
        let header = unsafe { self.0.as_mut() };
        header.key = low;
        header.high = high;
    }

    /// The start of the node.
    pub(super) fn start(&mut self) -> *mut u8 {
        self.0.as_ptr().cast()
    }

    /// A reference to the node before it is published.
    pub(super) fn as_ref(&self) -> NodeRef<'_, K, V> {
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

    /// Takes back a node that could not be published.
    ///
    /// # Safety
    /// `pointer` came from `into_raw` and was not published.
    pub(super) unsafe fn from_raw(pointer: NonNull<Header<K>>) -> Self {
        Self(pointer, PhantomData)
    }
}

impl<K: Key, V: Variant> Drop for OwnedNode<K, V> {
    /// Trap "an unpublished right node to be freed when its compare-and-swap loses": it, and the
    /// left half under a split delta, are freed here.
    fn drop(&mut self) {
        let node = self.as_ref();
        let below = (node.kind() == Kind::Split).then(|| node.next());
        // SAFETY: neither node was published, so no other thread refers to them (N1); the one below a split
        // delta was given to it in `split`.
        unsafe {
            if let Some(Some(below)) = below {
                free::<K, V>(below.pointer);
            }
            free::<K, V>(self.0);
        }
    }
}

/// # Safety
/// Nothing refers to the node, and it is freed once.
unsafe fn free<K: Key, V: Variant>(node: NonNull<Header<K>>) {
    // SAFETY: the caller's promise, and that of `NodeRef::new` for as long as this lasts.
    let this = unsafe { NodeRef::<K, V>::new(node) };
    if this.is_in_slab() {
        return;
    }
    let (slab, layout) = (this.slab_bytes(), layout::<K>(this.kind(), this.memory()));
    // SAFETY: made by `allocate_behind` with this kind, slab and size, which never change (N1).
    unsafe { node_alloc::free(node.byte_sub(slab).cast(), layout) };
}

/// Frees one node of a chain and not those below it.
///
/// # Safety
/// As [`free_chain`], for this node.
pub(super) unsafe fn free_one<K: Key, V: Variant>(node: *mut Header<K>) {
    if let Some(node) = NonNull::new(node) {
        // SAFETY: the caller's promise.
        unsafe { free::<K, V>(node) };
    }
}

/// Frees a node and everything it owns: the nodes below it in its chain and the chains merged into
/// it. A removal owns the chain below only if no left sibling took it over.
///
/// # Safety
/// No reference to any of these nodes can be used any more, and this is called once for them (N2).
pub(super) unsafe fn free_chain<K: Key, V: Variant>(head: *const Header<K>) {
    // Merged right chains, to be freed after the one at hand.
    let mut pending = Vec::new();
    let mut at = NonNull::new(head.cast_mut());
    if let Some(head) = at {
        // SAFETY: alive until it is freed below.
        let base = unsafe { head.as_ref() }.hint.load(Ordering::Relaxed);
        prefetch(base.cast());
    }
    while let Some(node) = at {
        // SAFETY: alive until the call of `free` at the end of this iteration; the body is read only where
        // the kind says that there is one.
        let next = unsafe {
            let header = node.as_ref();
            let next = match header.kind {
                Kind::Base => ptr::null_mut(),
                // Nothing but deltas in the slab below, and the base node that has it.
                Kind::Put | Kind::Delete if header.flags & (SLAB | LOOSE | CHANGING) == SLAB => {
                    header.hint.load(Ordering::Relaxed)
                }
                Kind::Remove if header.flags & OWNS_NEXT == 0 => ptr::null_mut(),
                Kind::Merge => {
                    let body = &*node.as_ptr().add(1).cast::<ChangeBody<K>>();
                    pending.push(body.other.newest());
                    header.next.below()
                }
                // Its updates lie on the same base node.
                Kind::Split => {
                    let body = &*node.as_ptr().add(1).cast::<ChangeBody<K>>();
                    match body.other.newest() {
                        newest if newest.is_null() => header.next.below(),
                        newest => newest,
                    }
                }
                _ => header.next.below(),
            };
            free::<K, V>(node);
            next
        };
        let next = if next.is_null() {
            pending.pop().unwrap_or(next)
        } else {
            next
        };
        at = NonNull::new(next);
    }
}

impl<'g, K: Key, V: Variant> NodeRef<'g, K, V> {
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
        // SAFETY: alive during `'g` (N4), initialised and never written again except for atomics
        // (N1). The `Release` of the swap that published it pairs with the `Acquire` that loaded
        // it.
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

    /// The bytes after the header.
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

    /// Zero for a base node. The number of a delta: the number of deltas on the base node when it
    /// was put there; after the largest number it continues at one.
    #[inline]
    pub(super) fn depth(self) -> u8 {
        self.header().depth
    }

    /// Number of records (inner page: children) of the page; a lower bound if it is uncounted.
    #[inline]
    pub(super) fn len(self) -> usize {
        if V::LITERAL && self.kind() != Kind::Base {
            return self.counted_len();
        }
        self.header().len as usize
    }

    /// Whether `len` is a lower bound (N6).
    #[inline]
    pub(super) fn is_uncounted(self) -> bool {
        if V::LITERAL {
            return self.has_uncounted();
        }
        self.header().flags & UNCOUNTED != 0
    }

    #[inline]
    pub(super) fn counter(self) -> u64 {
        self.header().counter
    }

    #[inline]
    pub(super) fn right(self) -> PageId {
        self.fenced().header().right
    }

    /// Size of this node alone, in bytes, from its header on.
    pub(super) fn bytes(self) -> usize {
        if is_spotted::<K>(self.kind()) {
            size_of::<Header<K>>()
        } else {
            self.header().extent as usize
        }
    }

    /// Bytes that were allocated for this node and its slab.
    pub(super) fn memory(self) -> usize {
        if self.is_in_slab() {
            0
        } else {
            self.slab_bytes() + self.bytes()
        }
    }

    /// Whether this is a delta in a slab.
    pub(super) fn is_in_slab(self) -> bool {
        self.kind() != Kind::Base && self.header().flags & SLAB != 0
    }

    /// The position of this delta's key in the base node.
    pub(super) fn spot(self) -> Spot {
        if is_spotted::<K>(self.kind()) {
            Spot::from_word(self.header().extent)
        } else {
            Spot::UNKNOWN
        }
    }

    /// The base node at the bottom of the page's own chain, in a tree with slabs.
    #[inline]
    fn home(self) -> Self {
        // Relaxed: there it never changes.
        let base = self.header().hint.load(Ordering::Relaxed);
        // SAFETY: in a tree with slabs this is a node of the same chain (N7), so alive as long (N3);
        // all nodes have a hint.
        unsafe { Self::new(NonNull::new_unchecked(base)) }
    }

    /// The base node, if no delta is about `key`, so that the base node alone decides.
    #[inline]
    pub(super) fn past_deltas(self, key: K::Ref<'_>) -> Option<Self> {
        if self.header().flags & (SLAB | LOOSE) != SLAB {
            return None;
        }
        let base = self.home();
        (!base.may_have_delta(key)).then_some(base)
    }

    #[inline]
    pub(super) fn is_removed(self) -> bool {
        self.kind() == Kind::Remove
    }

    /// Whether no other page took over a removed page's content (a root that is collapsing).
    pub(super) fn owns_next(self) -> bool {
        self.header().flags & OWNS_NEXT != 0
    }

    /// The upper fence: the smallest key that belongs to the right sibling.
    #[inline]
    pub(super) fn high(self) -> Option<K::Ref<'g>> {
        let header = self.fenced().header();
        // SAFETY: the bytes belong to this chain (N3), which is alive during `'g` (N4).
        (header.flags & HIGH != 0).then(|| unsafe { K::from_raw(header.high) })
    }

    /// The lower fence of the page.
    pub(super) fn low(self) -> K::Ref<'g> {
        self.base().key()
    }

    /// The node of the chain that has the page's upper fence and right sibling.
    #[inline]
    fn fenced(self) -> Self {
        if V::LITERAL && self.kind() != Kind::Base {
            self.found_fenced()
        } else {
            self
        }
    }

    /// The key a delta is about; a base node's lower fence.
    #[inline]
    pub(super) fn key(self) -> K::Ref<'g> {
        // SAFETY: the bytes belong to this chain (N3), which is alive during `'g` (N4).
        unsafe { K::from_raw(self.header().key) }
    }

    /// The base node at the bottom of the page's own chain.
    pub(super) fn base(self) -> Self {
        let mut node = self;
        while let Some(below) = node.next() {
            node = below;
        }
        node
    }

    /// Probable address of the page's base node: for comparisons and prefetches (N7).
    #[inline]
    pub(super) fn base_hint(self) -> *const u8 {
        // Relaxed: advice.
        self.header().hint.load(Ordering::Relaxed).cast()
    }

    /// Corrects the hint after the chain below was consolidated.
    pub(super) fn set_base_hint(self, base: NodeRef<'_, K, V>) {
        // Relaxed: advice.
        self.header().hint.store(base.as_ptr(), Ordering::Relaxed);
    }

    /// The next pointer of a delta.
    pub(super) fn link(self) -> &'g Link<Header<K>> {
        assert_ne!(self.kind(), Kind::Base);
        &self.header().next
    }

    /// The node below; `None` for a base node.
    #[inline]
    pub(super) fn next(self) -> Option<NodeRef<'g, K, V>> {
        // SAFETY: in the same chain, so alive as long (N3); or it was when we read it, under a guard
        // that lives for `'g`, and what is cut out of a chain is retired (N2).
        NonNull::new(self.header().next.below()).map(|next| unsafe { Self::new(next) })
    }

    /// The structure change of this page that may be half done.
    #[inline]
    pub(super) fn smo(self) -> Option<NodeRef<'g, K, V>> {
        if V::LITERAL && !V::SPLIT_AT_HEAD {
            return self.searched_smo();
        }
        (self.header().flags & CHANGING != 0).then(|| self.find_smo())
    }

    #[cold]
    fn find_smo(self) -> NodeRef<'g, K, V> {
        let mut node = self;
        while matches!(node.kind(), Kind::Put | Kind::Delete) {
            let Some(next) = node.next() else {
                unreachable!("a chain ends in a base node")
            };
            node = next;
        }
        // SAFETY: of every kind but those two the word is `change`, and it is set in the first such
        // node below one that is `CHANGING`. That node is of the same chain, or the split delta at
        // its head, so alive as long (N3).
        unsafe { Self::new(NonNull::new_unchecked(node.header().word.change.cast_mut())) }
    }

    /// The newest state under a split delta that is the head of its page: its own, as long as there
    /// was no update since the split.
    #[inline(never)]
    pub(super) fn newest(self) -> NodeRef<'g, K, V> {
        // SAFETY: published by a swap there that is `SeqCst` as this load is, and in this chain, so
        // alive as long (N3).
        NonNull::new(self.updates().newest()).map_or(self, |newest| unsafe { Self::new(newest) })
    }

    /// The pointer to the newest delta below a split delta that is the head of its page.
    pub(super) fn updates(self) -> &'g Updates<Header<K>> {
        assert_eq!(self.kind(), Kind::Split);
        &self.body().other
    }

    /// The payload of a `Put`.
    #[inline]
    pub(super) fn payload(self) -> u64 {
        assert!(matches!(self.kind(), Kind::Put | Kind::Delete));
        // SAFETY: nodes of these kinds are made by `OwnedNode::record`, which writes a payload.
        unsafe { self.header().word.payload }
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
    pub(super) fn merged(self) -> NodeRef<'g, K, V> {
        assert_eq!(self.kind(), Kind::Merge);
        // SAFETY: non-null (N5); part of this chain since the merge, so alive as long (N3).
        unsafe { Self::new(NonNull::new_unchecked(self.body().other.newest())) }
    }
}

impl<K: Key, V: Variant> Chained for NodeRef<'_, K, V> {
    fn below(self) -> Option<Self> {
        self.next()
    }

    fn number(self) -> u8 {
        self.depth()
    }
}
