//! Nodes in memory.
//!
//! ```text
//!  leaf:   | header | slots: heads u64 × 8, payloads u64 × 8, twice | sorted region |
//!  inner:  | header | sorted region |
//!  sorted: | separators | block 0 | block 1 | … | variable keys: end u32 × n, low, high, keys |
//!          (`cache_line_search.rs` draws separators and blocks; `search_and_descend.rs` searches them)
//! ```
//! A look-up reads few lines of a node, and their places are known before the first line arrives:
//! they follow from the number of entries, which the parent stores with the node's address.
//!
//! The words of slots, payloads and children are atomics; everything else is constant once the node
//! is published. A payload has 61 bits:
//! ```text
//!  word:  | 1 mark of a change (mwcas) | 1 dead: no record | 1 frozen | payload (61) |
//! ```
//! A slot's head is the key itself if it has eight bytes, else the address of the key's bytes, which lie
//! out of line and belong to the node.
//!
//! # Invariants
//! - N1. After publication only these change: status, hashes, update counts, slots, payloads, children.
//! - N2. A node that was published is freed by `mwcas::defer_twice`, after the change that took it out of
//!   the tree, by the thread that made that change; so it lives while any thread is pinned that can reach
//!   it.
//! - N3. Slot `i` is written by the one thread that reserved it, before it becomes visible.
//! - N4. Keys of the sorted region ascend strictly, `low <= key < high`. In an inner node the first key is
//!   `low`, so every search in range finds a child (trap "leftmost child").
//! - N5. `end[i]` is where key `i` ends, counted from the start of `keys`; the last is their total.
//!
//! Paper: bwtree §2.3
#![expect(unsafe_code, reason = "a node's parts lie behind its header")]

use std::alloc::Layout;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::Ordering;

use crossbeam_epoch::Guard;
use namiki_index::key::Key;
use namiki_index::shared::cache_line_search::{self, BLOCK, FILLER, LINE};
use namiki_index::shared::node_alloc;
use namiki_platform::prefetch;
use namiki_platform::sync::AtomicU64;

use crate::mwcas;

mod header;
mod layout;

use self::header::Header;
use self::layout::{BLOCK_BYTES, Parts, VALUES, head_in_blocks, in_slots, value_in_blocks};

/// A key and its payload, or a separator and the word of the child right of it.
pub(super) type Entry<'a, K> = (<K as Key>::Ref<'a>, u64);

/// Bits of an address.
const ADDRESS_BITS: u32 = 48;
/// Largest number of entries that the word of a child can record.
const LEN_MAX: usize = (1 << (61 - ADDRESS_BITS)) - 1;

/// The properties of a node apart from its entries.
pub(super) struct Shape<'a, K: Key> {
    pub(super) level: u8,
    /// The leaf's number and the counter of its version.
    pub(super) number: u32,
    pub(super) counter: u64,
    pub(super) slots: usize,
    pub(super) low: K::Ref<'a>,
    pub(super) high: Option<K::Ref<'a>>,
}

/// A node that is not published. Frees it if dropped.
pub(super) struct OwnedNode<K: Key>(NonNull<Header<K>>);

/// A node that other threads may change, alive during `'g`.
#[derive(Clone, Copy, PartialEq)]
pub struct NodeRef<'g, K: Key> {
    pointer: NonNull<Header<K>>,
    guard: PhantomData<&'g ()>,
}

fn layout<K: Key>(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, align_of::<Header<K>>())
        .unwrap_or_else(|_| unreachable!("a node is smaller than the address space"))
}

impl<K: Key> OwnedNode<K> {
    /// Builds a node from entries in ascending order.
    pub(super) fn build(shape: &Shape<'_, K>, entries: &[Entry<'_, K>]) -> Self {
        debug_assert!(
            entries
                .windows(2)
                .all(|pair| K::cmp(pair[0].0, pair[1].0).is_lt())
        );
        let len = entries.len();
        assert!(len <= LEN_MAX, "nodes are small");
        let parts = Parts::of::<K>(len, shape.slots);
        let low = K::shorten(shape.low);
        let fences = [low, shape.high.map_or(low, |high| K::shorten(high))];
        let prefix = match (entries.first(), entries.last()) {
            (Some(first), Some(last)) if !K::INLINE => {
                let pairs = K::tail(first.0).iter().zip(K::tail(last.0));
                pairs.take_while(|(a, b)| a == b).count()
            }
            _ => 0,
        };
        let strings = if K::INLINE {
            0
        } else {
            let keys = entries
                .iter()
                .map(|entry| K::shorten(entry.0))
                .chain(fences);
            len * size_of::<u32>() + keys.map(|key| K::tail(key).len()).sum::<usize>()
        };
        let bytes = parts.strings + strings;
        let pointer = node_alloc::allocate(layout::<K>(bytes)).cast::<Header<K>>();
        let start = pointer.as_ptr().cast::<u8>();
        // SAFETY: `bytes` bytes were allocated, as many as the offsets below add up to, and they are
        // ours alone. The node is aligned to a line, all parts before the strings are multiples of
        // a line, and before the byte strings lie multiples of 4.
        unsafe {
            let write = |at: usize, head: u64| start.add(at).cast::<u64>().write(head);
            let put = |at: usize, value: u64| {
                let word = start.add(at).cast::<AtomicU64>();
                word.write(AtomicU64::new(value));
            };
            for slot in 0..shape.slots {
                // No key yet.
                put(in_slots::<K>(slot), 0);
                if cfg!(loom) {
                    // Under loom an atomic is more than its bits: it must be constructed.
                    put(in_slots::<K>(slot) + VALUES, 0);
                }
            }
            for i in 0..(parts.blocks - parts.separators) / size_of::<u64>() {
                let first = entries.get((i + 1) * BLOCK);
                let head = first.map_or(FILLER, |(key, _)| K::head(*key, prefix));
                write(parts.separators + i * size_of::<u64>(), head);
            }
            for i in 0..len.next_multiple_of(BLOCK) {
                let (head, value) = match entries.get(i) {
                    Some((key, value)) => (K::head(*key, prefix), *value),
                    None => (FILLER, 0),
                };
                write(parts.blocks + head_in_blocks(i), head);
                put(parts.blocks + value_in_blocks(i), value);
            }
            let mut raw = fences.map(|key| K::raw(key));
            if !K::INLINE {
                let ends = start.add(parts.strings).cast::<u32>();
                let mut at = ends.add(len).cast::<u8>();
                let mut copy = |key: K::Ref<'_>| {
                    let tail = K::tail(key);
                    at.copy_from_nonoverlapping(tail.as_ptr(), tail.len());
                    let copy = slice::from_raw_parts(at, tail.len());
                    at = at.add(tail.len());
                    K::raw(K::from_parts(K::head(key, 0), copy))
                };
                raw = [copy(fences[0]), copy(fences[1])];
                let mut end = 0;
                for (i, (key, _)) in entries.iter().enumerate() {
                    copy(*key);
                    end += K::tail(*key).len();
                    ends.add(i).write(end as u32);
                }
            }
            pointer.as_ptr().write(Header {
                status: AtomicU64::new(0),
                hashes: std::array::from_fn(|_| AtomicU64::new(0)),
                updates_begun: AtomicU64::new(0),
                updates_done: AtomicU64::new(0),
                counter: shape.counter,
                number: shape.number,
                len: len as u16,
                level: shape.level,
                slots: shape.slots as u8,
                bytes: bytes as u32,
                prefix: prefix as u32,
                low: raw[0],
                high: raw[1],
                has_high: shape.high.is_some(),
            });
        }
        Self(pointer)
    }

    /// A reference to the node before it is published.
    pub(super) fn as_ref(&self) -> NodeRef<'_, K> {
        NodeRef {
            pointer: self.0,
            guard: PhantomData,
        }
    }

    /// Releases ownership of the node after its publication.
    pub(super) fn published(self) {
        std::mem::forget(self);
    }
}

impl<K: Key> Drop for OwnedNode<K> {
    /// Trap "an unpublished right node to be freed when its compare-and-swap loses".
    fn drop(&mut self) {
        // SAFETY: not published, so nothing else refers to it.
        unsafe { free(self.0) };
    }
}

/// Frees a node and the keys of its slots.
///
/// # Safety
/// Nothing refers to the node, and it is freed once.
unsafe fn free<K: Key>(pointer: NonNull<Header<K>>) {
    let node = NodeRef::<K> {
        pointer,
        guard: PhantomData,
    };
    for slot in 0..node.slots() {
        if let Some((memory, layout)) = node.slot_allocation(slot) {
            // SAFETY: made by `slot_fill` with this layout, and freed with the node only (N3).
            unsafe { node_alloc::free(memory, layout) };
        }
    }
    // SAFETY: allocated by `build` with this size, which never changes (N1).
    unsafe { node_alloc::free(pointer.cast(), layout::<K>(node.bytes())) };
}

/// The node of a root or child word.
///
/// # Safety
/// The word was read, without a mark, from a place that refers to a published node, while pinned
/// throughout `'g`.
#[inline(always)]
unsafe fn node_of<'g, K: Key>(word: u64) -> NodeRef<'g, K> {
    let address = (word & ((1 << ADDRESS_BITS) - 1)) as usize;
    // SAFETY: words are made by `NodeRef::word` from a pointer that is not null.
    let pointer = unsafe { NonNull::new_unchecked(address as *mut Header<K>) };
    NodeRef {
        pointer,
        guard: PhantomData,
    }
}

/// The word that leads to a tree's root.
pub(super) struct RootWord<K: Key> {
    word: AtomicU64,
    nodes: PhantomData<fn() -> K>,
}

impl<K: Key> RootWord<K> {
    pub(super) fn new(root: OwnedNode<K>) -> Self {
        let word = AtomicU64::new(root.as_ref().word());
        root.published();
        Self {
            word,
            nodes: PhantomData,
        }
    }

    /// The word itself, to be changed to that of another published node.
    pub(super) fn word(&self) -> &AtomicU64 {
        &self.word
    }

    #[inline]
    pub(super) fn load<'g>(&self, guard: &'g Guard) -> NodeRef<'g, K> {
        // SAFETY: the word leads to a published node, which is freed when no pinned thread can reach it any
        // more (N2). `SeqCst` in `read` pairs with the change that published it.
        unsafe { node_of(mwcas::read(&self.word, guard)) }
    }

    /// Frees the whole tree.
    pub(super) fn free_all(&mut self) {
        let guard = crossbeam_epoch::pin();
        let mut pending = vec![self.load(&guard)];
        while let Some(node) = pending.pop() {
            if node.level() > 0 {
                pending.extend((0..node.len()).map(|i| node.child(i, &guard)));
            }
            // SAFETY: `&mut self`: no other thread uses the tree, and each node has one parent. A thread
            // that still helps with a change of this tree would be using it.
            unsafe { free(node.pointer) };
        }
    }
}

impl<'g, K: Key> NodeRef<'g, K> {
    /// The word that leads to this node: its address, and its length for prefetching.
    #[inline]
    pub(super) fn word(self) -> u64 {
        let address = self.pointer.addr().get() as u64;
        assert!(address >> ADDRESS_BITS == 0, "addresses have 48 bits");
        (self.len() as u64) << ADDRESS_BITS | address
    }

    /// The address alone.
    pub(super) fn address(self) -> u64 {
        self.pointer.addr().get() as u64
    }

    /// The leaf that a word of the table of leaves leads to; 0: none.
    pub(super) fn of_address(word: &AtomicU64, guard: &'g Guard) -> Option<Self> {
        let address = mwcas::read(word, guard);
        // SAFETY: the table's words lead to published leaves of the tree or are 0; they change with
        // the tree, so N2 holds for them as for the words of children.
        (address != 0).then(|| unsafe { node_of(address) })
    }

    /// Frees the node once nothing can refer to it. The caller has taken it out of the tree.
    pub(super) fn retire(self, guard: &Guard) {
        let pointer = self.pointer;
        // SAFETY: out of the tree, and no other thread retires it (N2).
        unsafe { mwcas::defer_twice(guard, move || free(pointer)) };
    }

    #[inline(always)]
    fn header(self) -> &'g Header<K> {
        // SAFETY: alive during `'g` (N2), initialised by `build`; what changes is atomic (N1).
        unsafe { self.pointer.as_ref() }
    }

    #[inline(always)]
    fn start(self) -> *const u8 {
        self.pointer.as_ptr().cast::<u8>().cast_const()
    }

    /// A word of this node.
    ///
    /// # Safety
    /// `offset` is that of a word that `build` wrote.
    #[inline(always)]
    unsafe fn word_at(self, offset: usize) -> &'g AtomicU64 {
        debug_assert!(offset < self.bytes());
        // SAFETY: in bounds and aligned; written by `build` as an atomic, alive during `'g` (N2).
        unsafe { &*self.start().add(offset).cast::<AtomicU64>() }
    }

    #[inline(always)]
    fn parts(self) -> Parts {
        Parts::of::<K>(self.len(), self.slots())
    }

    #[inline(always)]
    pub(super) fn status(self) -> &'g AtomicU64 {
        &self.header().status
    }

    /// Counts of payload replacements that were begun and completed.
    #[inline(always)]
    pub(super) fn updates(self) -> (&'g AtomicU64, &'g AtomicU64) {
        (&self.header().updates_begun, &self.header().updates_done)
    }

    #[inline(always)]
    pub(super) fn number(self) -> u32 {
        self.header().number
    }

    #[inline(always)]
    pub(super) fn counter(self) -> u64 {
        self.header().counter
    }

    #[inline(always)]
    pub(super) fn level(self) -> u8 {
        self.header().level
    }

    /// Entries of the sorted region.
    #[inline(always)]
    pub(super) fn len(self) -> usize {
        usize::from(self.header().len)
    }

    #[inline(always)]
    pub(super) fn slots(self) -> usize {
        usize::from(self.header().slots)
    }

    #[inline(always)]
    pub(super) fn bytes(self) -> usize {
        self.header().bytes as usize
    }

    /// Number of leading bytes that all keys of the sorted region share.
    #[inline(always)]
    pub(super) fn prefix(self) -> usize {
        self.header().prefix as usize
    }

    /// The smallest key that belongs here.
    pub(super) fn low(self) -> K::Ref<'g> {
        // SAFETY: `build` copied the bytes into the node, which is alive during `'g`.
        unsafe { K::from_raw(self.header().low) }
    }

    /// The smallest key that belongs to the right neighbour.
    pub(super) fn high(self) -> Option<K::Ref<'g>> {
        let header = self.header();
        // SAFETY: as in `low`.
        header.has_high.then(|| unsafe { K::from_raw(header.high) })
    }

    /// The separators, in whole lines.
    #[inline(always)]
    pub(super) fn separators(self) -> &'g [[u64; BLOCK]] {
        let parts = self.parts();
        let lines = (parts.blocks - parts.separators) / LINE;
        // SAFETY: `build` wrote that many lines of separators, which never change (N1).
        unsafe { slice::from_raw_parts(self.start().add(parts.separators).cast(), lines) }
    }

    /// The heads of block number `block`, which exists.
    #[inline(always)]
    pub(super) fn heads(self, block: usize) -> &'g [u64; BLOCK] {
        assert!(block * BLOCK < self.len());
        let at = self.parts().blocks + block * BLOCK_BYTES;
        // SAFETY: in bounds as just checked; `build` wrote whole lines of heads, which never change.
        unsafe { &*self.start().add(at).cast() }
    }

    /// Payload or child number `i`.
    #[inline(always)]
    pub(super) fn value(self, i: usize) -> &'g AtomicU64 {
        assert!(i < self.len());
        // SAFETY: in bounds as just checked.
        unsafe { self.word_at(self.parts().blocks + value_in_blocks(i)) }
    }

    /// Child number `i` of an inner node.
    #[inline]
    pub(super) fn child(self, i: usize, guard: &'g Guard) -> Self {
        assert!(self.level() > 0);
        // SAFETY: the values of inner nodes lead to published nodes, as the root word does (N2).
        unsafe { node_of(mwcas::read(self.value(i), guard)) }
    }

    /// The same, with a prefetch of the lines of the child that a search will need: the first one,
    /// and those at the search's position in the key range (`share` of
    /// [`WHOLE`](cache_line_search::WHOLE)), as far as they follow from the word. `FILL`: those of
    /// the slots, too.
    #[inline(always)]
    pub(super) fn child_ahead<const FILL: bool>(
        self,
        i: usize,
        share: usize,
        slots: usize,
        guard: &'g Guard,
    ) -> Self {
        assert!(self.level() > 0);
        let word = mwcas::read(self.value(i), guard);
        let (start, len) = place_of(word);
        let (slots, separators) = if self.level() == 1 {
            (slots, 1)
        } else {
            (0, 4)
        };
        let parts = Parts::of::<K>(len, slots);
        prefetch(start);
        if FILL && slots > 0 {
            prefetch_lines(start, size_of::<Header<K>>()..parts.separators);
        }
        prefetch_lines(
            start,
            parts.separators..parts.separators + separators * LINE,
        );
        let block = parts.blocks + share * len / cache_line_search::WHOLE / BLOCK * BLOCK_BYTES;
        prefetch_lines(start, block..block + BLOCK_BYTES);
        // SAFETY: as in `child`.
        unsafe { node_of(word) }
    }

    /// Prefetches all lines of the node except those of the keys.
    #[inline]
    pub(super) fn prefetch(self) {
        prefetch_lines(self.start(), 0..self.parts().strings);
    }

    /// Prefetches the lines of a leaf below this node that a scan will need, if child number `i`
    /// exists.
    #[inline]
    pub(super) fn prefetch_leaf(self, i: usize, slots: usize) {
        if self.level() != 1 || i >= self.len() {
            return;
        }
        // Relaxed: any value will do. That of a mark leads nowhere, which a prefetch allows.
        let (start, len) = place_of(self.value(i).load(Ordering::Relaxed));
        let parts = Parts::of::<K>(len, slots);
        prefetch(start);
        prefetch_lines(start, size_of::<Header<K>>()..parts.strings);
    }

    /// The bytes of key number `i` of the sorted region, for keys that are not inline.
    fn tail_at(self, i: usize) -> &'g [u8] {
        if K::INLINE {
            return &[];
        }
        let len = self.len();
        assert!(i < len);
        // SAFETY: the ends follow the blocks, fences and keys follow the ends, as `build` laid them
        // out; the ends ascend and are within the keys (N5). None of it changes (N1).
        unsafe {
            let ends = self.start().add(self.parts().strings).cast::<u32>();
            let start = if i == 0 { 0 } else { *ends.add(i - 1) as usize };
            let end = *ends.add(i) as usize;
            let keys = self.start().add(self.bytes() - *ends.add(len - 1) as usize);
            slice::from_raw_parts(keys.add(start), end - start)
        }
    }

    /// Key number `i` of the sorted region.
    #[inline]
    pub(super) fn key(self, i: usize) -> K::Ref<'g> {
        K::from_parts(self.heads(i / BLOCK)[i % BLOCK], self.tail_at(i))
    }

    #[inline(always)]
    fn slot_head(self, slot: usize) -> &'g AtomicU64 {
        assert!(slot < self.slots());
        // SAFETY: in bounds as just checked.
        unsafe { self.word_at(in_slots::<K>(slot)) }
    }

    /// The payload of a slot.
    #[inline(always)]
    pub(super) fn slot_value(self, slot: usize) -> &'g AtomicU64 {
        assert!(slot < self.slots());
        let at = in_slots::<K>(slot) + VALUES;
        let word = self.start().wrapping_add(at).cast::<AtomicU64>();
        // SAFETY: within the node, aligned. Not written by `build`, but by `slot_fill` before any thread
        // reads it (N3).
        unsafe { &*word }
    }

    /// The memory of a slot's key, if it is out of line.
    fn slot_allocation(self, slot: usize) -> Option<(NonNull<u8>, Layout)> {
        if K::INLINE {
            return None;
        }
        // `Acquire`: with the store in `slot_fill`, for the thread that frees the node.
        let head = self.slot_head(slot).load(Ordering::Acquire);
        let memory = NonNull::new(head as usize as *mut u8)?;
        // SAFETY: a head that is not zero leads to what `slot_fill` wrote.
        let len = unsafe { memory.cast::<u32>().read() } as usize;
        Some((memory, key_layout(len)))
    }

    /// Bytes that the keys of the slots take.
    pub(super) fn slot_bytes(self) -> usize {
        let allocations = (0..self.slots()).filter_map(|slot| self.slot_allocation(slot));
        allocations.map(|(_, layout)| layout.size()).sum()
    }

    /// The key of a slot that is visible.
    #[inline]
    pub(super) fn slot_key(self, slot: usize) -> K::Ref<'g> {
        // Relaxed: it was written before the slot became visible, which the caller has seen (N3).
        let head = self.slot_head(slot).load(Ordering::Relaxed);
        if K::INLINE {
            return K::from_parts(head, &[]);
        }
        let memory = head as usize as *const u8;
        // SAFETY: written by `slot_fill`: a length and the bytes, alive as long as the node.
        let tail = unsafe {
            let len = memory.cast::<u32>().read() as usize;
            slice::from_raw_parts(memory.add(size_of::<u32>()), len)
        };
        K::from_parts(0, tail)
    }

    /// Writes a slot that the caller has reserved (N3), once.
    #[inline]
    pub(super) fn slot_fill(self, slot: usize, key: K::Ref<'_>, hash: u8, value: u64) {
        let head = if K::INLINE {
            K::head(key, 0)
        } else {
            let tail = K::tail(key);
            let memory = node_alloc::allocate(key_layout(tail.len())).as_ptr();
            // SAFETY: room for a length and the bytes, aligned, ours alone.
            unsafe {
                memory.cast::<u32>().write(tail.len() as u32);
                let bytes = memory.add(size_of::<u32>());
                bytes.copy_from_nonoverlapping(tail.as_ptr(), tail.len());
            }
            memory.addr() as u64
        };
        // Relaxed and `Release`: published by the status that makes the slot visible; `Release` for the
        // thread that frees the node, which may be before that.
        self.slot_value(slot).store(value, Ordering::Relaxed);
        self.slot_head(slot).store(head, Ordering::Release);
        let byte = u64::from(hash) << (slot % 8 * 8);
        self.header().hashes[slot / 8].fetch_or(byte, Ordering::Relaxed);
    }

    /// A bit for each slot that has this hash. Bits of invisible slots mean nothing.
    #[inline(always)]
    pub(super) fn slots_like(self, hash: u8) -> u32 {
        let mut like = 0;
        for (i, word) in self.header().hashes.iter().enumerate() {
            // Relaxed: those of visible slots were written before they became so.
            like |= bytes_equal(word.load(Ordering::Relaxed), hash) << (i * 8);
        }
        like
    }
}

/// A bit for each byte of `word` that is `byte`.
#[inline(always)]
const fn bytes_equal(word: u64, byte: u8) -> u32 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let differ = word ^ (byte as u64 * 0x0101_0101_0101_0101);
    // The high bit of each byte that is zero, and no others.
    let zeros = !(((differ & LOW) + LOW) | differ | LOW);
    ((zeros >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}

fn key_layout(len: usize) -> Layout {
    Layout::from_size_align(size_of::<u32>() + len, align_of::<u32>())
        .unwrap_or_else(|_| unreachable!("a key has at most 64 KiB"))
}

/// A child's address and number of entries, by its word.
#[inline(always)]
fn place_of(word: u64) -> (*const u8, usize) {
    let address = (word & ((1 << ADDRESS_BITS) - 1)) as usize;
    (
        address as *const u8,
        (word >> ADDRESS_BITS) as usize & LEN_MAX,
    )
}

/// Prefetches the lines of a part of a node.
#[inline(always)]
fn prefetch_lines(start: *const u8, part: Range<usize>) {
    for at in part.step_by(LINE) {
        prefetch(start.wrapping_add(at));
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use namiki_index::key::{Fixed8, Variable};

    use super::*;

    const _: () = assert!(size_of::<Header<Fixed8>>() == 2 * LINE);
    const _: () = assert!(size_of::<Header<Variable>>() == 2 * LINE);

    #[test]
    fn equal_bytes_are_found_and_no_others() {
        for byte in [0, 1, 0x7f, 0x80, 0xff] {
            for other in [0, 1, 2, 0x7e, 0x7f, 0x80, 0x81, 0xfe, 0xff] {
                for pattern in 0..256_u32 {
                    let bytes: [u8; 8] =
                        std::array::from_fn(|i| if pattern >> i & 1 != 0 { byte } else { other });
                    let expected = if byte == other { 255 } else { pattern };
                    assert_eq!(bytes_equal(u64::from_le_bytes(bytes), byte), expected);
                }
            }
        }
    }
}
