//! Memory layout of nodes and leaves, and the links between them: everything that is read through
//! an address.
//!
//! ```text
//!  header | plain words | links (inner node) or records (leaf of byte strings) | path (byte strings)
//!
//!  link   63                                    6  3      0
//!        |  address, a multiple of 64           | . | kind |
//! ```
//!
//! `inner.rs` and `multi_record_leaf.rs` define the words of each kind. They need no `unsafe` for
//! that: they access a word by its place, which is checked. A [`Link`] or [`Record`] is made here
//! or read from a node here, so its target is alive.
//!
//! # Invariants
//! - N1. Kind, path, head and room are written before the node can be found, and never again. All else is
//!   words that are read and written as atomics.
//! - N2. A word of the part for links holds a link or zero, one of the part for records the address of a
//!   record or zero; both are stored with `Release`, when what they lead to is complete, and read with
//!   `Acquire`.
//! - N3. A pinned thread reaches only nodes that were in the tree at some time since it was pinned,
//!   or that it made itself: it begins at the top, and a node or record that is taken out of a node
//!   is retired to the collector (`retire.rs`), unless it is still linked to elsewhere. It may also
//!   reach the former contents of a node that was itself taken out, but only if it was pinned then.
//!   So all of them are alive until the thread unpins.
//!
//! Paper: bwtree §2 (its reference 3 is ART)
#![expect(unsafe_code, reason = "nodes are blocks of words of several sizes")]

use std::alloc::Layout;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use crossbeam_epoch::Guard;
use namiki_platform::prefetch;
use namiki_platform::sync::{AtomicU32, AtomicU64};

use super::key_window::window;
use super::kind::Kind;
use super::lock::Lock;
use super::out_of_line_keys::Record;
use crate::key::Key;
use crate::shared::leaf_table::{LeafMark, LeafTable};
use crate::shared::node_alloc;

/// Bytes that the address of a node is a multiple of: a cache line.
const ALIGN: usize = 64;

/// Words of a block before its payloads, and the payloads.
pub(super) const BEFORE_PLACES: usize = 5;
pub(super) const PLACES: usize = 256;

/// The use of the memory behind a header: plain words, words that hold addresses, bytes.
struct Shape {
    plain: usize,
    addresses: usize,
    tail: usize,
}

/// The header of an inner node.
#[repr(C)]
pub(super) struct Inner {
    pub(super) lock: Lock,
    /// The last eight bytes of the path.
    head: u64,
    path_len: u32,
    /// Children.
    pub(super) count: AtomicU32,
}

/// The header of a leaf.
#[repr(C)]
pub(super) struct Leaf {
    pub(super) lock: Lock,
    pub(super) mark: LeafMark,
    /// Records.
    pub(super) count: AtomicU32,
    room: u32,
}

/// Determines a node's memory layout. Implemented by types of this file only, as addresses are
/// computed with it.
pub(super) trait Header: Sized {
    #[doc(hidden)]
    #[expect(private_interfaces, reason = "for this file")]
    fn shape<K: Key>(&self, kind: Kind) -> Shape;
}

impl Header for Inner {
    #[inline]
    #[expect(private_interfaces, reason = "for this file")]
    fn shape<K: Key>(&self, kind: Kind) -> Shape {
        Shape {
            plain: kind.index_words(),
            addresses: kind.most(),
            tail: if K::INLINE { 0 } else { self.path_len as usize },
        }
    }
}

impl Header for Leaf {
    #[inline]
    #[expect(private_interfaces, reason = "for this file")]
    fn shape<K: Key>(&self, kind: Kind) -> Shape {
        let room = self.room as usize;
        let (plain, addresses) = match (kind, K::INLINE) {
            (Kind::Block, _) => (BEFORE_PLACES + PLACES, 0),
            (_, true) => (2 * room, 0),
            (_, false) => (1 + 2 * room, room),
        };
        Shape {
            plain,
            addresses,
            tail: 0,
        }
    }
}

impl Shape {
    fn layout<H>(&self) -> Layout {
        let words = self.plain + self.addresses;
        let size = size_of::<H>() + words * size_of::<AtomicU64>() + self.tail;
        match Layout::from_size_align(size, ALIGN) {
            Ok(layout) => layout,
            Err(_) => unreachable!("less than 70 KiB"),
        }
    }
}

/// A node that is alive during `'g`, with a header `H`.
pub(super) struct Node<'g, H, K> {
    at: NonNull<H>,
    kind: Kind,
    _alive: PhantomData<(&'g H, fn() -> K)>,
}

pub(super) type NodeRef<'g, K> = Node<'g, Inner, K>;
pub(super) type LeafRef<'g, K> = Node<'g, Leaf, K>;

impl<H, K> Clone for Node<'_, H, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H, K> Copy for Node<'_, H, K> {}

impl<'g, H: Header, K: Key> Node<'g, H, K> {
    /// Makes a node with all words zero. It is alive while its maker is pinned, even if it is found
    /// and retired.
    fn make(kind: Kind, header: H, tail: &[u8], _guard: &'g Guard) -> Self {
        let shape = header.shape::<K>(kind);
        assert!(shape.tail == tail.len(), "a tail as the header says");
        let at = node_alloc::allocate(shape.layout::<H>()).cast::<H>();
        // SAFETY: fresh memory of the right size and alignment (`layout`), ours alone. The words begin
        // behind the header, which has their alignment, and the tail behind the words.
        unsafe {
            at.write(header);
            let words = at.add(1).cast::<AtomicU64>();
            for i in 0..shape.plain + shape.addresses {
                words.add(i).write(AtomicU64::new(0));
            }
            let behind = words.add(shape.plain + shape.addresses).cast::<u8>();
            behind.copy_from_nonoverlapping(NonNull::from(tail).cast(), tail.len());
        }
        Self {
            at,
            kind,
            _alive: PhantomData,
        }
    }

    #[inline]
    pub(super) const fn kind(self) -> Kind {
        self.kind
    }

    #[inline]
    pub(super) fn header(self) -> &'g H {
        // SAFETY: alive during `'g` (N3); written before there was a link to it.
        unsafe { self.at.as_ref() }
    }

    #[inline]
    fn shape(self) -> Shape {
        self.header().shape::<K>(self.kind)
    }

    /// # Safety
    /// There are more than `i` words.
    #[inline]
    unsafe fn word(self, i: usize) -> &'g AtomicU64 {
        // SAFETY: `make` wrote as many words behind the header as its shape says, which does not change
        // (N1), and the node is alive during `'g` (N3).
        unsafe { self.at.add(1).cast::<AtomicU64>().add(i).as_ref() }
    }

    #[inline]
    fn plain(self, i: usize) -> &'g AtomicU64 {
        assert!(i < self.shape().plain, "a word of the node");
        // SAFETY: just checked.
        unsafe { self.word(i) }
    }

    /// The word at that place among those that hold no addresses.
    #[inline]
    pub(super) fn load(self, i: usize) -> u64 {
        self.plain(i).load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn store(self, i: usize, value: u64) {
        self.plain(i).store(value, Ordering::Relaxed);
    }

    #[inline]
    fn address(self, i: usize) -> &'g AtomicU64 {
        let shape = self.shape();
        assert!(i < shape.addresses, "a word of the node");
        // SAFETY: just checked.
        unsafe { self.word(shape.plain + i) }
    }

    pub(super) fn link(self) -> Link<'g, K> {
        let address = self.at.as_ptr().expose_provenance() as u64;
        assert!(
            address.is_multiple_of(ALIGN as u64),
            "nodes begin with a cache line"
        );
        Link::from_word(address | self.kind as u64)
    }

    /// Bytes it takes.
    pub(super) fn bytes(self) -> usize {
        self.shape().layout::<H>().size()
    }

    /// Frees the node, not what it holds addresses of.
    ///
    /// # Safety
    /// No other thread can find it, or still has it, and it is not used again.
    pub(super) unsafe fn free(self) {
        let layout = self.shape().layout::<H>();
        // SAFETY: the caller's promise; it came from `make` with this layout. Words need no drop: they
        // are numbers (loom's are checked out by its own run).
        unsafe { node_alloc::free(self.at.cast(), layout) };
    }
}

impl<'g, K: Key> NodeRef<'g, K> {
    pub(super) fn new_inner(kind: Kind, path: &[u8], guard: &'g Guard) -> Self {
        let header = Inner {
            lock: Lock::new(),
            head: window(path, path.len()).unwrap_or(0),
            path_len: path.len() as u32,
            count: AtomicU32::new(0),
        };
        Self::make(kind, header, if K::INLINE { &[] } else { path }, guard)
    }

    #[inline]
    pub(super) fn lock(self) -> &'g Lock {
        &self.header().lock
    }

    /// The last eight bytes of the path.
    #[inline]
    pub(super) fn head(self) -> u64 {
        self.header().head
    }

    #[inline]
    pub(super) fn path_len(self) -> usize {
        self.header().path_len as usize
    }

    /// The path, if keys are byte strings.
    #[inline]
    pub(super) fn path(self) -> &'g [u8] {
        let shape = self.shape();
        // SAFETY: `make` wrote this number of bytes behind the words, and they never change (N1).
        unsafe {
            let words = self.at.add(1).cast::<AtomicU64>();
            let tail = words.add(shape.plain + shape.addresses).cast::<u8>();
            std::slice::from_raw_parts(tail.as_ptr(), shape.tail)
        }
    }

    #[inline]
    pub(super) fn link_at(self, i: usize) -> Link<'g, K> {
        // `Acquire` pairs with the `Release` of `set_link` (N2).
        Link::from_word(self.address(i).load(Ordering::Acquire))
    }

    pub(super) fn set_link(self, i: usize, link: Link<'_, K>) {
        self.address(i).store(link.word, Ordering::Release);
    }
}

impl<'g, K: Key> LeafRef<'g, K> {
    /// An empty leaf.
    pub(super) fn new_leaf(kind: Kind, room: usize, mark: LeafMark, guard: &'g Guard) -> Self {
        let header = Leaf {
            lock: Lock::new(),
            mark,
            count: AtomicU32::new(0),
            room: room as u32,
        };
        Self::make(kind, header, &[], guard)
    }

    #[inline]
    pub(super) fn lock(self) -> &'g Lock {
        &self.header().lock
    }

    #[inline]
    pub(super) fn mark(self) -> &'g LeafMark {
        &self.header().mark
    }

    #[inline]
    pub(super) fn room(self) -> usize {
        self.header().room as usize
    }

    /// Makes it known by its number, before it can be found (A4).
    pub(super) fn publish(self, table: &LeafTable) {
        // SAFETY: the mark stays in the leaf, which is withdrawn, or replaced by a copy that is
        // published, before it is retired (A4).
        unsafe { table.publish(NonNull::from(self.mark())) };
    }

    #[inline]
    pub(super) fn record(self, i: usize) -> Record<'g> {
        let word = self.address(i).load(Ordering::Acquire);
        // SAFETY: the address of a record or zero, complete (N2), of a leaf that is alive during `'g`;
        // like its leaves a record is retired when it is taken out (N3, and R2 of
        // `out_of_line_keys.rs`).
        unsafe { Record::from_word(word) }
    }

    pub(super) fn set_record(self, i: usize, record: Record<'_>) {
        self.address(i).store(record.word(), Ordering::Release);
    }

    /// Removes a record, which is in no other place. Under the lock.
    pub(super) fn retire_record(self, i: usize, guard: &Guard) {
        let record = self.record(i);
        self.set_record(i, Record::NONE);
        // SAFETY: no thread finds it from now on, as it was in this place alone (R2).
        unsafe { record.retire(guard) };
    }
}

/// A link from a node to what is below it, which is alive during `'g`: its address and kind. Zero leads
/// nowhere. It never holds a payload (those are in the leaves), so payloads may be any number.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Link<'g, K> {
    word: u64,
    _alive: PhantomData<(&'g (), fn() -> K)>,
}

/// The target of a link.
pub(super) enum Below<'g, K> {
    Node(NodeRef<'g, K>),
    Leaf(LeafRef<'g, K>),
}

impl<K> std::fmt::Debug for Link<'_, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.word)
    }
}

impl<'g, K: Key> Link<'g, K> {
    pub(super) const NONE: Self = Self::from_word(0);

    /// Makes a link from a link word of a node, or from a node's address and kind.
    const fn from_word(word: u64) -> Self {
        Self {
            word,
            _alive: PhantomData,
        }
    }

    /// The same for a time chosen by the caller.
    ///
    /// # Safety
    /// What it leads to is alive during `'a`.
    pub(super) const unsafe fn extend<'a>(self) -> Link<'a, K> {
        Link::from_word(self.word)
    }

    /// Whether it leads to a leaf.
    #[inline]
    pub(super) const fn is_leaf(self) -> bool {
        self.word & 7 >= Kind::Bucket as u64
    }

    /// Follows the link. `None`: it leads nowhere.
    #[inline]
    pub(super) fn follow(self) -> Option<Below<'g, K>> {
        let address = (self.word & !(ALIGN as u64 - 1)) as usize;
        let address = NonNull::<u8>::new(ptr::with_exposed_provenance_mut(address))?;
        let kind = Kind::of(self.word & 7)?;
        Some(if self.is_leaf() {
            Below::Leaf(Node {
                at: address.cast(),
                kind,
                _alive: PhantomData,
            })
        } else {
            Below::Node(Node {
                at: address.cast(),
                kind,
                _alive: PhantomData,
            })
        })
    }

    /// Prefetches the cache lines that a search will need there. For a leaf, `byte` is the last one
    /// of an eight-byte key, and `room` is that of buckets.
    #[inline]
    pub(super) fn prefetch(self, byte: u8, room: usize) {
        let address: *const u8 = ptr::without_provenance((self.word & !7) as usize);
        prefetch(address);
        match Kind::of(self.word & 7) {
            Some(Kind::Node16) => {
                prefetch(address.wrapping_add(64));
                prefetch(address.wrapping_add(128));
            }
            Some(Kind::Block) => {
                let place = BEFORE_PLACES + usize::from(byte);
                prefetch(address.wrapping_add(size_of::<Leaf>() + 8 * place));
            }
            Some(Kind::Bucket) => {
                let words = if K::INLINE { 2 * room } else { 1 + 3 * room };
                let bytes = size_of::<Leaf>() + 8 * words;
                for line in 1..bytes.div_ceil(64) {
                    prefetch(address.wrapping_add(64 * line));
                }
            }
            _ => {}
        }
    }
}
