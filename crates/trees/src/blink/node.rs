//! Nodes in memory: a header of one cache line, then the entries in columns.
//!
//! ```text
//!  | latch | right | high | shape | low | mark | level, room |            one line
//!  | head × room |                          eight to a line
//!  | value × room |                         payloads, or children
//!  | kept key × room |                      byte strings only
//!  | head of high | prefix × 6 |            byte strings only
//! ```
//! Leaves and inner nodes are alike. The entries ascend without gaps. A *head* is the key itself, or
//! the eight bytes of it that follow the `prefix` which all keys between the node's fences share; so a
//! search key in the node's range needs no comparison with the prefix. (The last line tells whether
//! it is in the range: a key not less than `low` that lacks the prefix is beyond `high`.) Heads
//! behind the last entry are the largest there is, so that counting the smaller ones in a whole
//! line needs no length.
//!
//! A value of an inner node is a child's address and, above it, how many entries the child had at some
//! earlier time: it lets a search guess its position in the child before the child's lines arrive.
//!
//! ```text
//!  63         48 47                         0
//! | entries     | address of the child       |
//! ```
//!
//! # Invariants
//! - N1. `level`, `room` and `low` never change. All else in a node is atomic and changes under the node's
//!   latch only (`latch.rs`), except a child's entry count, which is advice, and the mark's counter, which
//!   has a protocol of its own (`leaf_table.rs`).
//! - N2. Before a node is retired, its address is removed from the root and from all right links
//!   and values of nodes that can be found; so a pinned thread that found it may read it. (A dead
//!   node may still lead to nodes that were retired after it, and a thread that stands on it has
//!   been pinned since before.)
//! - N3. Kept keys and addresses are stored with `Release` and loaded with `Acquire`, so their
//!   targets are seen complete. Places behind the last entry hold no address.
//! - N4. In an inner node the first key is `low`, so every search in range finds a child.
//! - N5. A node without a right sibling has no upper fence. The `right` link of a dead node leads
//!   to the node that has its keys, or to one from which right links lead there.
//!
//! Paper: bwtree §2.2, figure 3 (the high key and the link of every node)
#![expect(unsafe_code, reason = "entries lie in columns behind the header")]

use std::alloc::Layout;
use std::cmp::Ordering::{Equal, Greater, Less};
use std::marker::PhantomData;
use std::mem::{MaybeUninit, align_of, size_of};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::Ordering;

use crossbeam_epoch::Guard;
use namiki_index::key::Key;
use namiki_index::shared::leaf_table::{LeafMark, LeafTable};
use namiki_index::shared::node_alloc;
use namiki_platform::prefetch;
use namiki_platform::sync::AtomicU64;

use super::count_and_prefix_word::Shape;
use super::latch::{Latch, Seen};
use super::out_of_line_keys;
use super::search_window::{LANES, LINE, WORD, window};

/// Words of the line about the fences, for byte strings.
const FENCE_WORDS: usize = 8;
/// Number of bytes of the prefix in that line.
const PREFIX_MAX: usize = 48;
/// The head of no entry.
pub(super) const FILLER: u64 = u64::MAX;

const ADDRESS_BITS: u32 = 48;
const ADDRESS_MASK: u64 = (1 << ADDRESS_BITS) - 1;

/// Aligned so that columns are in lines.
#[repr(C, align(64))]
struct Header {
    latch: Latch,
    right: AtomicU64,
    /// A kept key.
    high: AtomicU64,
    shape: AtomicU64,
    /// A kept key.
    low: u64,
    /// Leaves only.
    mark: MaybeUninit<LeafMark>,
    level: u8,
    room: u16,
}

const _: () = assert!(cfg!(loom) || size_of::<Header>() == 64);

/// A kept key and its payload or child.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub(super) key: u64,
    pub(super) value: u64,
}

/// A node, for as long as the guard is pinned.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct NodeRef<'g, K: Key> {
    header: NonNull<Header>,
    live: PhantomData<(&'g Header, fn() -> K)>,
}

impl<'g, K: Key> NodeRef<'g, K> {
    /// The node of an address; `None` for 0. Ignores what lies above the address.
    ///
    /// # Safety
    /// The word was loaded with `Acquire`, during `'g`, from a place that N2 speaks of.
    #[inline(always)]
    unsafe fn at(word: u64) -> Option<Self> {
        let address = (word & ADDRESS_MASK) as usize;
        NonNull::new(ptr::with_exposed_provenance_mut(address)).map(|header| Self {
            header,
            live: PhantomData,
        })
    }

    /// The node's address, for a place that leads to it.
    pub(super) fn address(self) -> u64 {
        let address = self.header.as_ptr().expose_provenance() as u64;
        assert!(address & !ADDRESS_MASK == 0, "addresses have 48 bits");
        address
    }

    /// The address with the number of entries, for an inner node's value.
    pub(super) fn as_child(self) -> u64 {
        (self.len() as u64) << ADDRESS_BITS | self.address()
    }

    #[inline(always)]
    fn header(self) -> &'g Header {
        // SAFETY: alive during `'g` (N2) and initialised by `Nodes::make`; everything that changes
        // is atomic (N1).
        unsafe { self.header.as_ref() }
    }

    #[inline(always)]
    fn column(self, number: usize) -> &'g [AtomicU64] {
        let room = self.room();
        // SAFETY: `Nodes::make` allocated and initialised that many columns of `room` words behind
        // the header, which are atomic and live as long as the node.
        unsafe {
            let start = self.header.add(1).cast::<AtomicU64>().add(number * room);
            slice::from_raw_parts(start.as_ptr(), room)
        }
    }

    #[inline(always)]
    pub(super) fn heads(self) -> &'g [AtomicU64] {
        self.column(0)
    }

    #[inline(always)]
    pub(super) fn values(self) -> &'g [AtomicU64] {
        self.column(1)
    }

    #[inline(always)]
    fn keys(self) -> &'g [AtomicU64] {
        assert!(!K::INLINE, "heads are the keys");
        self.column(2)
    }

    /// The head of the upper fence, and the first bytes of the prefix.
    #[inline(always)]
    fn fences(self) -> &'g [AtomicU64] {
        assert!(!K::INLINE, "the fences are in the header");
        // SAFETY: as in `column`; the line follows the columns.
        unsafe {
            let start = self.header.add(1).cast::<AtomicU64>().add(3 * self.room());
            slice::from_raw_parts(start.as_ptr(), FENCE_WORDS)
        }
    }

    #[inline(always)]
    pub(super) fn latch(self) -> &'g Latch {
        &self.header().latch
    }

    /// Begins to read.
    #[inline(always)]
    pub(super) fn begin(self) -> Seen {
        self.header().latch.begin()
    }

    /// Whether all that was read since `begin` was of one instant.
    #[inline(always)]
    pub(super) fn unchanged(self, seen: Seen) -> bool {
        self.header().latch.unchanged(seen)
    }

    /// 0 for a leaf.
    #[inline(always)]
    pub(super) fn level(self) -> u8 {
        self.header().level
    }

    /// Places for entries.
    #[inline(always)]
    fn room(self) -> usize {
        usize::from(self.header().room)
    }

    #[inline(always)]
    pub(super) fn shape(self) -> Shape {
        Shape::of(self.header().shape.load(Ordering::Relaxed))
    }

    pub(super) fn set_shape(self, shape: Shape) {
        self.header().shape.store(shape.word(), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn len(self) -> usize {
        self.shape().len.min(self.room())
    }

    /// The leaf's number and counter.
    #[inline]
    pub(super) fn mark(self) -> &'g LeafMark {
        assert!(self.level() == 0, "leaves have marks");
        // SAFETY: `Nodes::leaf` gave it one.
        unsafe { self.header().mark.assume_init_ref() }
    }

    /// The right sibling; for a dead node, the node that has its keys.
    #[inline(always)]
    pub(super) fn right(self) -> Option<Self> {
        // SAFETY: a right link, loaded with `Acquire` (N2).
        unsafe { Self::at(self.header().right.load(Ordering::Acquire)) }
    }

    pub(super) fn set_right(self, right: Option<Self>) {
        let right = right.map_or(0, Self::address);
        self.header().right.store(right, Ordering::Release);
    }

    /// The word of the upper fence; means nothing without a right sibling.
    #[inline(always)]
    pub(super) fn high_word(self) -> u64 {
        self.header().high.load(Ordering::Acquire)
    }

    pub(super) fn set_high_word(self, word: u64) {
        self.header().high.store(word, Ordering::Release);
    }

    /// The key that all keys of the node are less than.
    #[inline(always)]
    pub(super) fn high(self) -> Option<K::Ref<'g>> {
        // SAFETY: loaded with `Acquire` from its place in a node.
        self.right()
            .map(|_| unsafe { out_of_line_keys::view::<K>(self.high_word()) })
    }

    /// Whether a key (`BELOW`: the point just below it) that is not left of this node is right of
    /// it, and the right sibling if it is. Valid only if the node is unchanged afterwards.
    #[inline(always)]
    pub(super) fn beyond<const BELOW: bool>(self, key: K::Ref<'_>) -> Option<Self> {
        if K::INLINE {
            let (key, high) = (K::head(key, 0), self.high_word());
            if key < high || (BELOW && key == high) {
                return None;
            }
            return self.right();
        }
        let right = self.right()?;
        let (prefix, fences) = (self.shape().prefix, self.fences());
        if prefix <= PREFIX_MAX {
            for (word, at) in fences[1..].iter().zip((0..prefix).step_by(8)) {
                let unused = 64 - 8 * (prefix - at).min(8);
                if (K::head(key, at) ^ word.load(Ordering::Relaxed)) >> unused != 0 {
                    return Some(right);
                }
            }
            match K::head(key, prefix).cmp(&fences[0].load(Ordering::Relaxed)) {
                Less => return None,
                Greater => return Some(right),
                Equal => {}
            }
        }
        match K::cmp(key, self.view(self.high_word())) {
            Less => None,
            Equal if BELOW => None,
            _ => Some(right),
        }
    }

    pub(super) fn low_word(self) -> u64 {
        self.header().low
    }

    /// The key that all keys of the node are not less than.
    pub(super) fn low(self) -> K::Ref<'g> {
        // SAFETY: written before the node could be found, which the caller did with `Acquire` (N1).
        unsafe { out_of_line_keys::view::<K>(self.header().low) }
    }

    /// The word of key number `i`.
    #[inline(always)]
    pub(super) fn key_word(self, i: usize) -> u64 {
        if K::INLINE {
            self.heads()[i].load(Ordering::Relaxed)
        } else {
            self.keys()[i].load(Ordering::Acquire)
        }
    }

    /// The key of such a word.
    #[inline(always)]
    pub(super) fn view(self, word: u64) -> K::Ref<'g> {
        // SAFETY: `'g` is this node's, and words are only ever loaded by `key_word`.
        unsafe { out_of_line_keys::view::<K>(word) }
    }

    /// Key number `i`.
    #[inline(always)]
    pub(super) fn key(self, i: usize) -> K::Ref<'g> {
        self.view(self.key_word(i))
    }

    /// Value number `i`.
    #[inline(always)]
    pub(super) fn value(self, i: usize) -> u64 {
        self.values()[i].load(Ordering::Relaxed)
    }

    /// The child of a value number `i` of an inner node, and how many entries it had. `None` behind
    /// the last entry.
    #[inline(always)]
    pub(super) fn child(self, i: usize) -> Option<(Self, usize)> {
        assert!(self.level() > 0, "leaves have no children");
        let word = self.values()[i].load(Ordering::Acquire);
        // SAFETY: an inner node's value, loaded with `Acquire` (N2).
        let child = unsafe { Self::at(word) }?;
        Some((child, (word >> ADDRESS_BITS) as usize))
    }

    /// Records the number of entries of child number `i`, if it is still that child.
    pub(super) fn note_len(self, i: usize, child: Self, len: usize) {
        let Some(cell) = self.values().get(i) else {
            return;
        };
        let old = cell.load(Ordering::Relaxed);
        if self.level() > 0 && old & ADDRESS_MASK == child.address() {
            let new = (len as u64) << ADDRESS_BITS | child.address();
            // `Release`, although the address is the same: it is a store of an address (N3).
            let _ = cell.compare_exchange(old, new, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// Prefetches the first line and the lines that a search in a node with this room reads first.
    #[inline(always)]
    pub(super) fn prefetch(self, guess: usize, room: usize) {
        let start = self.header.as_ptr().cast::<u8>().cast_const();
        let line = |at: usize| prefetch(start.wrapping_add(at));
        let heads = size_of::<Header>();
        line(0);
        let first = window(guess, room / LANES);
        let last = (first + 1).min(room / LANES - 1);
        line(heads + first * LINE);
        line(heads + last * LINE);
        line(heads + (room / LANES + first) * LINE);
        line(heads + (room / LANES + last) * LINE);
        if !K::INLINE {
            line(heads + (2 * room / LANES + first) * LINE);
            line(heads + (2 * room / LANES + last) * LINE);
            line(heads + 3 * room / LANES * LINE);
        }
    }

    /// Prefetches all entries from place `from` to place `to` and one more.
    #[inline]
    pub(super) fn prefetch_entries(self, from: usize, to: usize, room: usize) {
        let start = self.header.as_ptr().cast::<u8>().cast_const();
        prefetch(start);
        let columns = if K::INLINE { 2 } else { 3 };
        for line in from / LANES..(to / LANES + 1).min(room / LANES) {
            for column in 0..columns {
                let at = size_of::<Header>() + (column * room / LANES + line) * LINE;
                prefetch(start.wrapping_add(at));
            }
        }
    }

    /// Stores an entry; the node is latched and changing, or not published yet.
    pub(super) fn set_entry(self, i: usize, entry: Entry, prefix: usize) {
        let head = K::head(self.view(entry.key), prefix);
        self.set_words(i, head, entry);
    }

    #[inline(always)]
    fn set_words(self, i: usize, head: u64, entry: Entry) {
        self.heads()[i].store(head, Ordering::Relaxed);
        self.values()[i].store(entry.value, Ordering::Release);
        if !K::INLINE {
            self.keys()[i].store(entry.key, Ordering::Release);
        }
    }

    pub(super) fn entry(self, i: usize) -> Entry {
        Entry {
            key: self.key_word(i),
            value: self.value(i),
        }
    }

    /// Copies entries behind those in `to`.
    #[inline]
    pub(super) fn copy_entries(self, places: std::ops::Range<usize>, to: &mut Vec<Entry>) {
        let entry = |(key, value): (u64, &AtomicU64)| Entry {
            key,
            value: value.load(Ordering::Relaxed),
        };
        let values = &self.values()[places.clone()];
        // One loop for each kind of column, which the compiler unrolls.
        if K::INLINE {
            let keys = self.heads()[places].iter();
            let keys = keys.map(|key| key.load(Ordering::Relaxed));
            to.extend(keys.zip(values).map(entry));
        } else {
            let keys = self.keys()[places].iter();
            let keys = keys.map(|key| key.load(Ordering::Acquire));
            to.extend(keys.zip(values).map(entry));
        }
    }

    /// Moves `len` entries so that there is a gap at `at`.
    pub(super) fn open_gap(self, at: usize, len: usize) {
        let shift = |column: &[AtomicU64]| {
            let column = &column[..=len];
            let mut next = len;
            while next > at {
                let word = column[next - 1].load(Ordering::Relaxed);
                // `Release` for addresses and kept keys (N3), which the latch brought to us.
                column[next].store(word, Ordering::Release);
                next -= 1;
            }
        };
        shift(self.heads());
        shift(self.values());
        if !K::INLINE {
            shift(self.keys());
        }
    }

    /// Removes entry `at` of `len`, and gives its words to the caller.
    pub(super) fn close_gap(self, at: usize, len: usize) {
        for i in at + 1..len {
            let head = self.heads()[i].load(Ordering::Relaxed);
            self.set_words(i - 1, head, self.entry(i));
        }
        self.clear(len - 1..len);
    }

    /// Empties places, and gives their words to the caller.
    pub(super) fn clear(self, places: std::ops::Range<usize>) {
        for i in places {
            self.set_words(i, FILLER, Entry { key: 0, value: 0 });
        }
    }

    /// Number of leading bytes that all keys between the fences share.
    pub(super) fn shared_by_fences(self) -> usize {
        if K::INLINE {
            return 0;
        }
        self.high().map_or(0, |high| {
            let pairs = K::tail(self.low()).iter().zip(K::tail(high));
            pairs.take_while(|(a, b)| a == b).count()
        })
    }

    /// Recomputes the prefix and the heads after a change of the fences.
    pub(super) fn use_fences(self) {
        let mut shape = self.shape();
        if K::INLINE {
            return;
        }
        let prefix = self.shared_by_fences();
        if let Some(high) = self.high() {
            let fences = self.fences();
            fences[0].store(K::head(high, prefix), Ordering::Relaxed);
            for (i, word) in fences[1..=PREFIX_MAX / 8].iter().enumerate() {
                word.store(K::head(high, i * 8), Ordering::Relaxed);
            }
        }
        if prefix == shape.prefix {
            return;
        }
        shape.prefix = prefix;
        self.set_shape(shape);
        for i in 0..shape.len {
            let head = K::head(self.key(i), prefix);
            self.heads()[i].store(head, Ordering::Relaxed);
        }
    }

    /// Calls `visit` with the words of all keys that the node keeps. No other thread uses the tree.
    pub(super) fn kept_words(self, mut visit: impl FnMut(u64)) {
        if K::INLINE {
            return;
        }
        visit(self.low_word());
        if self.right().is_some() {
            visit(self.high_word());
        }
        for i in 0..self.len() {
            visit(self.key_word(i));
        }
    }
}

/// The word that leads to the root.
pub(super) struct Root<K: Key> {
    address: AtomicU64,
    keys: PhantomData<fn() -> K>,
}

impl<K: Key> Root<K> {
    pub(super) fn new(node: NodeRef<'_, K>) -> Self {
        Self {
            address: AtomicU64::new(node.address()),
            keys: PhantomData,
        }
    }

    #[inline(always)]
    pub(super) fn load<'g>(&self, _guard: &'g Guard) -> NodeRef<'g, K> {
        // SAFETY: the root's address, loaded with `Acquire` while pinned during `'g` (N2).
        let root = unsafe { NodeRef::at(self.address.load(Ordering::Acquire)) };
        root.unwrap_or_else(|| unreachable!("there is always a root"))
    }

    /// Stores a new root. Only for the holder of the old root's latch.
    pub(super) fn store(&self, node: NodeRef<'_, K>) {
        // `Release` pairs with the `Acquire` of `load`.
        self.address.store(node.address(), Ordering::Release);
    }
}

/// Words behind the header of a node with `room` entries.
const fn words<K: Key>(room: usize) -> usize {
    if K::INLINE {
        2 * room
    } else {
        3 * room + FENCE_WORDS
    }
}

/// Memory layout of a node with `room` entries.
fn layout<K: Key>(room: usize) -> Layout {
    let bytes = size_of::<Header>() + words::<K>(room) * WORD;
    let layout = Layout::from_size_align(bytes, align_of::<Header>());
    layout.unwrap_or_else(|_| unreachable!("nodes are small"))
}

/// Allocates and frees a tree's nodes.
pub(super) struct Nodes {
    leaf_room: usize,
    inner_room: usize,
}

impl Nodes {
    /// `leaf` and `inner` are the numbers of entries that nodes have room for.
    pub(super) fn new(leaf: usize, inner: usize) -> Self {
        let [leaf_room, inner_room] = [leaf, inner].map(|most| most.next_multiple_of(LANES));
        Self {
            leaf_room,
            inner_room,
        }
    }

    /// Room of the nodes of a level.
    #[inline(always)]
    pub(super) fn room(&self, level: u8) -> usize {
        if level == 0 {
            self.leaf_room
        } else {
            self.inner_room
        }
    }

    /// An empty leaf that is not published. `low` becomes its own.
    pub(super) fn leaf<'g, K: Key>(&self, low: u64, mark: LeafMark) -> NodeRef<'g, K> {
        self.make(0, low, MaybeUninit::new(mark))
    }

    /// An empty inner node that is not published. `low` becomes its own.
    pub(super) fn inner<'g, K: Key>(&self, level: u8, low: u64) -> NodeRef<'g, K> {
        assert!(level > 0, "leaves need a mark");
        self.make(level, low, MaybeUninit::uninit())
    }

    fn make<'g, K: Key>(&self, level: u8, low: u64, mark: MaybeUninit<LeafMark>) -> NodeRef<'g, K> {
        const { assert!(align_of::<Header>() == 64) };
        let room = self.room(level);
        let header = node_alloc::allocate(layout::<K>(room)).cast::<Header>();
        // SAFETY: the memory is new, aligned for a header and has room for it and the columns.
        unsafe {
            header.write(Header {
                latch: Latch::new(),
                right: AtomicU64::new(0),
                high: AtomicU64::new(0),
                shape: AtomicU64::new(0),
                low,
                mark,
                level,
                room: room as u16,
            });
            let words = header.add(1).cast::<AtomicU64>();
            for i in 0..room {
                words.add(i).write(AtomicU64::new(FILLER));
            }
            for i in room..self::words::<K>(room) {
                words.add(i).write(AtomicU64::new(0));
            }
        }
        NodeRef {
            header,
            live: PhantomData,
        }
    }

    /// Makes a leaf known by its number. It is merged away or withdrawn before it is retired.
    pub(super) fn publish<K: Key>(&self, leaf: NodeRef<'_, K>, table: &LeafTable) {
        // SAFETY: the leaf stays where it is, and its memory valid for pinned threads, until `retire`.
        unsafe { table.publish(NonNull::from(leaf.mark())) };
    }

    /// Frees a node when all threads that are pinned now have unpinned. It can no longer be found, and the
    /// keys it kept belong to other nodes now.
    pub(super) fn retire<K: Key>(&self, node: NodeRef<'_, K>, guard: &Guard) {
        let header = node.header;
        // SAFETY: it is retired once, by the thread that unlinked it, and any thread that found it before
        // is pinned (N2).
        unsafe { guard.defer_unchecked(move || free::<K>(header)) };
    }

    /// Frees a node, and the keys it keeps: one that was never published, or any node of a tree that the
    /// caller has to itself.
    pub(super) fn discard<K: Key>(&self, node: NodeRef<'_, K>) {
        node.kept_words(|word| {
            // SAFETY: the node is the caller's alone, so its words are too (S1 in `out_of_line_keys.rs`).
            unsafe { out_of_line_keys::release::<K>(word) };
        });
        // SAFETY: `make` made it, and the caller gives it away.
        unsafe { free::<K>(node.header) };
    }
}

/// Frees a node's memory.
///
/// # Safety
/// [`Nodes`] made it, nothing refers to it, and it is freed once.
unsafe fn free<K: Key>(header: NonNull<Header>) {
    // SAFETY: the caller's promise; the room is the one it was made for (N1).
    unsafe {
        let room = usize::from(header.as_ref().room);
        node_alloc::free(header.cast(), layout::<K>(room));
    }
}

/// Bytes of a node, including the keys that it keeps out of line.
pub(super) fn node_bytes<K: Key>(node: NodeRef<'_, K>) -> usize {
    let mut bytes = layout::<K>(node.room()).size();
    // SAFETY: the words were just loaded with `Acquire` from a node that is alive.
    node.kept_words(|word| bytes += unsafe { out_of_line_keys::bytes::<K>(word) });
    bytes
}

/// Retires a key that was taken out of its place in a node.
pub(super) fn retire_key<K: Key>(word: u64, guard: &Guard) {
    // SAFETY: callers take the word out first (S2 in `out_of_line_keys.rs`).
    unsafe { out_of_line_keys::retire::<K>(word, guard) };
}
