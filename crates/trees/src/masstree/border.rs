//! Border nodes: the leaves of a layer's tree.
//!
//! ```text
//! | version, level, used | mark | hints |        a cache line
//! | low | next, prev | order |                   a line
//! | slices |                                     four lines
//! | values |                                     four lines
//! | (markers) |
//! ```
//!
//! An entry lies in a slot and stays there. `used` has a bit for each slot in use. `order`, the permuter,
//! lists the slots by key, so that an insertion writes one slot and some bytes of `order` and moves no
//! entry. Scans and splits need it. A search for one key does not: it compares the *hints*, a byte of a
//! hash of each slice, eight at a time, and then mostly one slice, that of the matching hint. That is less
//! than half the instructions of comparing all slices. So the processor reaches the next operation's first
//! miss before the leaf's lines have arrived, and both misses overlap.
//!
//! | marker | the value is |
//! |---|---|
//! | 0 to 8 | the payload, any `u64` |
//! | [`LONG`] | the address of a [`Suffix`] |
//! | [`LINK`] | the address of a [`Layer`] |
//!
//! # Invariants
//! - L1. All keys with the same slice are in the same node: nodes are cut between slices only.
//! - L2. `low` never changes: a range is extended at its upper end only. That end is the `low` of
//!   `next`, none if there is no `next`.
//! - L3. `prev` is written by the holder of the lock of the node it points to, or is to point to.
//! - L4. A slot with such a marker holds the address of a live block; a replaced block is retired
//!   after the replacement.
//! - L5. The counter of `mark` changes under `inserting` or `splitting`, so that a version of the leaf and
//!   the keys that were read with it are of one instant.
//!
//! Paper: bwtree §2.5
#![expect(unsafe_code, reason = "slots hold addresses")]

use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crossbeam_epoch::Guard;
use namiki_index::LeafVersion;
use namiki_index::shared::cache_line_search::LINE;
use namiki_index::shared::leaf_table::{LeafMark, LeafTable};
use namiki_platform::prefetch;
use namiki_platform::sync::{AtomicPtr, AtomicU64};

use super::key_slices::{Cut, LINK, LONG, Markers, Slicing, WIDTH};
use super::node_ref::{Header, NodeRef};
use super::suffix_block::{Layer, Suffix};
use super::version::{Locked, Seen};

/// Words with a byte for each slot.
const WORDS: usize = WIDTH.div_ceil(8);
/// The lowest bit of each byte of a word.
const LOW_BITS: u64 = u64::MAX / 0xff;
/// The highest.
const HIGH_BITS: u64 = LOW_BITS << 7;

/// A leaf.
#[repr(C, align(64))]
pub(super) struct Border<K: Slicing> {
    pub(super) header: Header,
    pub(super) mark: LeafMark,
    hints: [AtomicU64; WORDS],
    pub(super) low: u64,
    next: AtomicPtr<Header>,
    prev: AtomicPtr<Header>,
    order: [AtomicU64; WORDS],
    /// Aligns the next field to a cache line.
    pad: u64,
    slices: [AtomicU64; WIDTH],
    values: [AtomicU64; WIDTH],
    markers: K::Markers,
}

#[cfg(not(loom))]
const _: () = assert!(std::mem::offset_of!(Border<namiki_index::key::Fixed8>, slices) == 128);

/// A byte by which a search tells most other slices from the one it looks for.
#[inline]
fn hint(slice: u64) -> u8 {
    // Slices near to each other get hints far apart.
    (slice.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// The representation of an entry in a slot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    pub(super) slice: u64,
    pub(super) marker: u8,
    pub(super) value: u64,
}

impl Entry {
    /// An entry for a key. If the key continues, its suffix is allocated.
    #[inline]
    pub(super) fn of<K: Slicing>(cut: &Cut<'_>, payload: u64, guard: &Guard) -> Self {
        let value = if !K::INLINE && cut.marker == LONG {
            Suffix::create(AtomicU64::new(payload), cut.rest, guard).address()
        } else {
            payload
        };
        Self {
            slice: cut.slice,
            marker: cut.marker,
            value,
        }
    }

    /// An entry for a layer.
    pub(super) fn link(slice: u64, layer: &Layer) -> Self {
        Self {
            slice,
            marker: LINK,
            value: layer.address(),
        }
    }
}

impl Entry {
    /// Frees the target of the entry, except the nodes of a layer.
    ///
    /// # Safety
    /// Nothing refers to the node any longer, nor will.
    pub(super) unsafe fn free(&self) {
        match self.marker {
            // SAFETY: a block of that type (L4), and the caller's promise.
            LONG => unsafe { Suffix::free(self.value) },
            // SAFETY: the same.
            LINK => unsafe { Layer::free(self.value) },
            _ => {}
        }
    }
}

/// The target of an entry.
#[derive(Clone, Copy)]
pub(super) enum Content<'g> {
    Payload(u64),
    Suffix(&'g Suffix),
    Layer(&'g Layer),
}

impl<'g> Content<'g> {
    /// # Safety
    /// The entry was in a border node while the guard of `'g` was pinned.
    #[inline]
    unsafe fn of(marker: u8, value: u64) -> Self {
        match marker {
            // SAFETY: a block of that type (L4), not retired before the guard was pinned.
            LONG => Self::Suffix(unsafe { Suffix::at(value) }),
            // SAFETY: the same.
            LINK => Self::Layer(unsafe { Layer::at(value) }),
            _ => Self::Payload(value),
        }
    }
}

/// The result of a search in a leaf, and the version of the leaf.
pub(super) struct Look<'g> {
    pub(super) content: Option<Content<'g>>,
    pub(super) version: LeafVersion,
}

/// All entries of a leaf at one instant, in order.
pub(super) struct Snapshot<'g, K: Slicing> {
    entries: [Entry; WIDTH],
    pub(super) len: usize,
    pub(super) version: LeafVersion,
    pub(super) next: Option<NodeRef<'g, K>>,
    pub(super) prev: Option<NodeRef<'g, K>>,
}

impl<'g, K: Slicing> Snapshot<'g, K> {
    fn empty() -> Self {
        Self {
            entries: [Entry::default(); WIDTH],
            len: 0,
            version: LeafVersion {
                leaf: u64::MAX,
                counter: 0,
            },
            next: None,
            prev: None,
        }
    }

    /// Replaces the snapshot by that of another leaf. False: the leaf was changed since `seen`, and
    /// the snapshot is empty now.
    #[inline]
    pub(super) fn retake(&mut self, leaf: &'g Border<K>, seen: Seen, _guard: &'g Guard) -> bool {
        // Nothing of the snapshot is reported unless it is of one instant.
        self.len = 0;
        let len = leaf.read(&mut self.entries);
        let version = leaf.mark.version();
        let (next, prev) = (leaf.next.load(Acquire), leaf.prev.load(Acquire));
        if !leaf.header.version.unchanged(seen) {
            return false;
        }
        // SAFETY: the link was there just now, and we are pinned.
        self.next = unsafe { NodeRef::follow(next) };
        // SAFETY: the node before leads here as long as this points to it, up to a moment within
        // the deletion of that node, which is retired afterwards (L3).
        self.prev = unsafe { NodeRef::follow(prev) };
        (self.len, self.version) = (len, version);
        true
    }

    #[inline]
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries[..self.len]
    }

    #[inline]
    pub(super) fn content(&self, i: usize) -> Content<'g> {
        let entry = self.entries()[i];
        // SAFETY: a snapshot is given out only after it was found to be of one instant, during 'g.
        unsafe { Content::of(entry.marker, entry.value) }
    }
}

impl<K: Slicing> Border<K> {
    /// An empty leaf.
    pub(super) fn new(mark: LeafMark, low: u64, root: bool) -> Self {
        Self {
            header: Header::new(0, root),
            mark,
            hints: std::array::from_fn(|_| AtomicU64::new(0)),
            low,
            next: AtomicPtr::new(ptr::null_mut()),
            prev: AtomicPtr::new(ptr::null_mut()),
            order: std::array::from_fn(|_| AtomicU64::new(0)),
            pad: 0,
            slices: std::array::from_fn(|_| AtomicU64::new(0)),
            values: std::array::from_fn(|_| AtomicU64::new(0)),
            markers: K::Markers::new(),
        }
    }

    /// Makes a new leaf known to the table. It is withdrawn before it is retired (`remove_empty.rs`).
    pub(super) fn publish(&self, table: &LeafTable) {
        // SAFETY: the node stays where it is until it is retired, and was withdrawn before, or until
        // the tree is dropped and the table with it.
        unsafe { table.publish(NonNull::from(&self.mark)) };
    }

    /// Number of entries. Exact under the lock.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.header.used.load(Relaxed).count_ones() as usize
    }

    /// The slot of a key. For a key that continues: that of the suffix or link with its slice.
    ///
    /// All loads here are relaxed: either the lock is held, or the version is validated afterwards.
    #[inline]
    pub(super) fn find(&self, cut: &Cut<'_>) -> Option<usize> {
        let mut likely = self.with_hint(hint(cut.slice)) & self.header.used.load(Relaxed);
        while likely != 0 {
            let slot = likely.trailing_zeros() as usize;
            if self.slices[slot].load(Relaxed) == cut.slice
                && (K::INLINE || self.markers.get(slot).min(LONG) == cut.marker)
            {
                return Some(slot);
            }
            likely &= likely - 1;
        }
        None
    }

    /// A bit for each slot with this hint, and maybe for some others.
    #[inline]
    fn with_hint(&self, hint: u8) -> u32 {
        let mut slots = 0;
        for (i, word) in self.hints.iter().enumerate() {
            let differs = word.load(Relaxed) ^ (u64::from(hint) * LOW_BITS);
            // The highest bit of each byte that is zero, and maybe of bytes that are one above such.
            let zeros = differs.wrapping_sub(LOW_BITS) & !differs & HIGH_BITS;
            // Gathers these eight bits at the top.
            let gathered = (zeros >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56;
            slots |= (gathered as u32) << (8 * i);
        }
        slots
    }

    /// Requires the lock, or that no other thread sees the node.
    #[inline]
    fn set_slice(&self, slot: usize, slice: u64) {
        let (word, shift) = (&self.hints[slot / 8], 8 * (slot % 8));
        let others = word.load(Relaxed) & !(0xff << shift);
        word.store(others | u64::from(hint(slice)) << shift, Relaxed);
        self.slices[slot].store(slice, Relaxed);
    }

    #[inline]
    fn content(&self, slot: usize) -> (u8, u64) {
        // `Acquire` pairs with the `Release` of `set_value`: a block is complete, and a reader of a payload
        // sees what the writer did before.
        (self.markers.get(slot), self.values[slot].load(Acquire))
    }

    /// Looks for a key. `None`: the leaf was changed since `seen`.
    #[inline]
    pub(super) fn look<'g>(
        &'g self,
        cut: &Cut<'_>,
        seen: Seen,
        _guard: &'g Guard,
    ) -> Option<Look<'g>> {
        let found = self.find(cut).map(|slot| self.content(slot));
        let version = self.mark.version();
        if !self.header.version.unchanged(seen) {
            return None;
        }
        // SAFETY: the entry was there just now, and we are pinned.
        let content = found.map(|(marker, value)| unsafe { Content::of(marker, value) });
        Some(Look { content, version })
    }

    /// The target of a slot in use, with the lock held.
    #[inline]
    pub(super) fn held<'g>(
        &'g self,
        slot: usize,
        _held: &Locked<'_>,
        _guard: &'g Guard,
    ) -> Content<'g> {
        let (marker, value) = self.content(slot);
        // SAFETY: under the lock the entry is there, and we are pinned.
        unsafe { Content::of(marker, value) }
    }

    /// A snapshot of the leaf. `None`: the leaf was changed since `seen`.
    #[inline]
    pub(super) fn snapshot<'g>(&'g self, seen: Seen, guard: &'g Guard) -> Option<Snapshot<'g, K>> {
        let mut snapshot = Snapshot::empty();
        snapshot.retake(self, seen, guard).then_some(snapshot)
    }

    /// The entries in order. Of one instant under the lock, or if validated afterwards.
    #[inline]
    pub(super) fn entries(&self) -> ([Entry; WIDTH], usize) {
        let mut entries = [Entry::default(); WIDTH];
        let len = self.read(&mut entries);
        (entries, len)
    }

    /// The same, into a given array. Returns the number of entries.
    #[inline]
    fn read(&self, entries: &mut [Entry; WIDTH]) -> usize {
        let order = self.order();
        let len = self.len();
        for (entry, slot) in entries.iter_mut().zip(order).take(len) {
            // Torn, it may be anything.
            let slot = usize::from(slot).min(WIDTH - 1);
            let (marker, value) = self.content(slot);
            *entry = Entry {
                slice: self.slices[slot].load(Relaxed),
                marker,
                value,
            };
        }
        len
    }

    #[inline]
    fn order(&self) -> [u8; WORDS * 8] {
        let mut order = [0; WORDS * 8];
        for (bytes, word) in order.chunks_exact_mut(8).zip(&self.order) {
            bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        order
    }

    #[inline]
    fn set_order(&self, order: [u8; WORDS * 8]) {
        for (bytes, word) in order.as_chunks().0.iter().zip(&self.order) {
            word.store(u64::from_le_bytes(*bytes), Relaxed);
        }
    }

    /// Number of entries before one with this slice and marker.
    #[inline]
    pub(super) fn rank(&self, slice: u64, marker: u8) -> usize {
        let mut before = 0;
        for (slot, there) in self.slices.iter().enumerate() {
            let there = there.load(Relaxed);
            let less = if K::INLINE {
                there < slice
            } else {
                there < slice || (there == slice && self.markers.get(slot) < marker)
            };
            before |= u32::from(less) << slot;
        }
        (before & self.header.used.load(Relaxed)).count_ones() as usize
    }

    /// Replaces a slot's value. Requires the lock; the new value is a payload or a block of the
    /// same kind, or the change was announced.
    #[inline]
    pub(super) fn set_value(&self, slot: usize, value: u64) {
        self.values[slot].store(value, Release);
    }

    /// Replaces the suffix in a slot by a link, or a link by another. `inserting` is announced.
    pub(super) fn set_link(&self, slot: usize, layer: &Layer, held: &Locked<'_>, guard: &Guard) {
        let old = self.held(slot, held, guard);
        self.markers.set(slot, LINK);
        self.set_value(slot, layer.address());
        retire(old, guard);
    }

    /// Adds an entry that is absent. Requires the lock, `inserting` announced, and room.
    #[inline]
    pub(super) fn add(&self, entry: Entry) {
        let live = self.header.used.load(Relaxed);
        let slot = live.trailing_ones() as usize;
        assert!(slot < WIDTH, "room was made first");
        let rank = self.rank(entry.slice, entry.marker);
        let mut order = self.order();
        order.copy_within(rank..WIDTH - 1, rank + 1);
        order[rank] = slot as u8;
        self.set_slice(slot, entry.slice);
        self.markers.set(slot, entry.marker);
        self.set_value(slot, entry.value);
        self.set_order(order);
        self.header.used.store(live | 1 << slot, Relaxed);
    }

    /// Fills an empty leaf with ascending entries. No other thread sees it, or `splitting` is announced.
    pub(super) fn fill(&self, entries: &[Entry]) {
        let mut order = [0; WORDS * 8];
        for (slot, entry) in entries.iter().enumerate() {
            order[slot] = slot as u8;
            self.set_slice(slot, entry.slice);
            self.markers.set(slot, entry.marker);
            self.set_value(slot, entry.value);
        }
        self.set_order(order);
        self.header
            .used
            .store(((1_u64 << entries.len()) - 1) as u32, Relaxed);
    }

    /// Takes an entry and its block out. `inserting` is announced.
    pub(super) fn take(&self, slot: usize, held: &Locked<'_>, guard: &Guard) {
        let old = self.held(slot, held, guard);
        let mut order = self.order();
        let len = self.len();
        if let Some(rank) = order[..len].iter().position(|at| usize::from(*at) == slot) {
            order.copy_within(rank + 1..len, rank);
        }
        self.set_order(order);
        let live = self.header.used.load(Relaxed);
        self.header.used.store(live & !(1 << slot), Relaxed);
        retire(old, guard);
    }

    /// Takes all entries out from the `first` in order on. The lock is held, `splitting` announced.
    pub(super) fn truncate(&self, first: usize) {
        let order = self.order();
        let kept = order[..first].iter().fold(0, |kept, slot| kept | 1 << slot);
        self.header.used.store(kept, Relaxed);
    }

    /// The next leaf of the layer. Exact under the lock.
    pub(super) fn next<'g>(
        &'g self,
        _held: &Locked<'_>,
        _guard: &'g Guard,
    ) -> Option<NodeRef<'g, K>> {
        // SAFETY: under the lock the link is current, and we are pinned.
        unsafe { NodeRef::follow(self.next.load(Acquire)) }
    }

    /// The lock is held, `splitting` announced, or the node is not in the tree yet.
    pub(super) fn set_next(&self, next: *mut Header) {
        // `Release` pairs with the `Acquire` of threads that follow it: the node is complete.
        self.next.store(next, Release);
    }

    /// See L3.
    pub(super) fn set_prev(&self, prev: *mut Header) {
        self.prev.store(prev, Release);
    }
}

impl<K: Slicing> Border<K> {
    /// Frees the blocks of all its entries.
    ///
    /// # Safety
    /// As for [`Entry::free`].
    pub(super) unsafe fn free_blocks(&self) {
        let (entries, len) = self.entries();
        for entry in &entries[..len] {
            // SAFETY: the caller's promise.
            unsafe { entry.free() };
        }
    }
}

/// Frees the block of an entry that was just taken out, once nothing can refer to it.
fn retire(content: Content<'_>, guard: &Guard) {
    match content {
        Content::Payload(_) => {}
        // SAFETY: the slot that pointed to it does so no longer, and was the only one; the
        // caller holds the lock of the node, so this is done once (L4).
        Content::Suffix(suffix) => unsafe { suffix.retire(guard) },
        // SAFETY: the same.
        Content::Layer(layer) => unsafe { layer.retire(guard) },
    }
}

impl<K: Slicing> std::fmt::Debug for Border<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Border")
            .field("mark", &self.mark)
            .field("low", &self.low)
            .finish_non_exhaustive()
    }
}

/// Prefetches all cache lines of a border node, wherever the pointer comes from.
#[inline]
pub(super) fn prefetch_border<K: Slicing>(pointer: *const Header) {
    let start = pointer.cast::<u8>();
    for line in (0..size_of::<Border<K>>()).step_by(LINE) {
        prefetch(start.wrapping_add(line));
    }
}
