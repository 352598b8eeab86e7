//! Leaves: buckets of sorted records, and blocks of 256 places.
//!
//! ```text
//!  lock | mark | count, room | words of the kind
//!                              Bucket, 8-byte keys    room x (key, payload)
//!                              Bucket, byte strings   skip, room x (head, payload), room x record
//!                              Block                  block, bitmap (4), 256 x payload
//! ```
//! The head of a byte string is the eight bytes after the first `skip`, which all keys of the leaf
//! share; the record is the whole key, out of line (`record.rs`). A block holds keys that are all the
//! same but for their last byte, and finds a payload by that byte: one place, no search. `block` is the
//! key without it.
//!
//! # Invariants
//! - B1. The words are read and written as atomics, written under the lock (L1). `count` is at most
//!   `room`; words behind the last record are zero.
//! - B2. Keys ascend. All keys of a leaf with byte strings share `skip` first bytes.
//! - B3. Room and kind do not change: a leaf that needs others is replaced by a copy with the same mark.
#![expect(unsafe_code, reason = "leaves are blocks of words of several sizes")]

use std::alloc::Layout;
use std::cmp::Ordering as Order;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use crossbeam_epoch::Guard;
use namiki_platform::prefetch;

use super::link::{ALIGN, Kind, Link};
use super::lock::Lock;
use super::path::ArtKey;
use super::record::Record;
use crate::leaf_table::{LeafMark, LeafTable};
use crate::memory;
use crate::sync::{AtomicU32, AtomicU64};

#[repr(C)]
struct Header {
    lock: Lock,
    mark: LeafMark,
    count: AtomicU32,
    room: u32,
}

/// Places of a block.
const PLACES: usize = 256;
/// Words of a block before its payloads.
const BEFORE_PLACES: usize = 5;

/// A record of a leaf, while leaves are being rearranged. `record` is `NONE` for a key that has none
/// yet: it gets one when it is written to a leaf.
pub(super) struct Item<'a, K: ArtKey> {
    pub(super) key: K::Ref<'a>,
    pub(super) payload: u64,
    pub(super) record: Record,
}

impl<K: ArtKey> Clone for Item<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ArtKey> Copy for Item<'_, K> {}

/// A leaf that is alive during `'g`.
pub(super) struct LeafRef<'g, K> {
    at: NonNull<Header>,
    kind: Kind,
    _alive: PhantomData<(&'g Header, K)>,
}

impl<K> Clone for LeafRef<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for LeafRef<'_, K> {}

fn words<K: ArtKey>(kind: Kind, room: usize) -> usize {
    match (kind, K::INLINE) {
        (Kind::Block, _) => BEFORE_PLACES + PLACES,
        (_, true) => 2 * room,
        (_, false) => 1 + 3 * room,
    }
}

fn layout<K: ArtKey>(kind: Kind, room: usize) -> Layout {
    let size = size_of::<Header>() + words::<K>(kind, room) * size_of::<AtomicU64>();
    match Layout::from_size_align(size, ALIGN) {
        Ok(layout) => layout,
        Err(_) => unreachable!("room is bounded"),
    }
}

/// Makes an empty leaf. `block` is that of a `Block`.
pub(super) fn build<'g, K: ArtKey>(
    kind: Kind,
    room: usize,
    block: u64,
    mark: LeafMark,
) -> LeafRef<'g, K> {
    let at = memory::allocate(layout::<K>(kind, room)).cast::<Header>();
    // SAFETY: fresh memory of the right size and alignment (`layout`), ours alone; the words follow the
    // header, whose alignment is theirs.
    unsafe {
        at.write(Header {
            lock: Lock::new(),
            mark,
            count: AtomicU32::new(0),
            room: room as u32,
        });
        let first = at.add(1).cast::<AtomicU64>();
        for i in 0..words::<K>(kind, room) {
            first.add(i).write(AtomicU64::new(0));
        }
    }
    let leaf = LeafRef {
        at,
        kind,
        _alive: PhantomData,
    };
    if kind == Kind::Block {
        leaf.store(0, block);
    }
    leaf
}

impl<'g, K: ArtKey> LeafRef<'g, K> {
    /// The leaf that a link leads to. `None`: it leads nowhere.
    ///
    /// # Safety
    /// As `NodeRef::of`, and it leads to no inner node.
    #[inline]
    pub(super) unsafe fn of(link: Link) -> Option<Self> {
        Some(Self {
            at: link.address()?.cast(),
            kind: link.kind()?,
            _alive: PhantomData,
        })
    }

    pub(super) fn link(self) -> Link {
        Link::new(self.at.cast(), self.kind)
    }

    pub(super) fn is_block(self) -> bool {
        K::BLOCKS && self.kind == Kind::Block
    }

    #[inline]
    fn header(self) -> &'g Header {
        // SAFETY: whoever made the reference promised that the leaf is alive during `'g`; the header
        // was written before the link to it was.
        unsafe { self.at.as_ref() }
    }

    #[inline]
    pub(super) fn lock(self) -> &'g Lock {
        &self.header().lock
    }

    #[inline]
    pub(super) fn mark(self) -> &'g LeafMark {
        &self.header().mark
    }

    /// Makes it known by its number, before it can be found (A4).
    pub(super) fn publish(self, table: &LeafTable) {
        // SAFETY: the mark stays in the leaf, which is withdrawn, or replaced by a copy that is
        // published, before it is retired (A4).
        unsafe { table.publish(NonNull::from(self.mark())) };
    }

    /// Records.
    #[inline]
    pub(super) fn count(self) -> usize {
        // Never more than there is room for (B1), even if the rest has changed since.
        self.header().count.load(Ordering::Relaxed) as usize
    }

    fn set_count(self, count: usize) {
        self.header().count.store(count as u32, Ordering::Relaxed);
    }

    #[inline]
    fn room(self) -> usize {
        self.header().room as usize
    }

    #[inline]
    fn word(self, i: usize) -> &'g AtomicU64 {
        debug_assert!(i < words::<K>(self.kind, self.room()));
        // SAFETY: `build` wrote that many words behind the header; places are below `count`, which is
        // at most `room` (B1), or a byte in a block.
        unsafe { self.at.add(1).cast::<AtomicU64>().add(i).as_ref() }
    }

    #[inline]
    fn load(self, i: usize) -> u64 {
        self.word(i).load(Ordering::Relaxed)
    }

    #[inline]
    fn store(self, i: usize, value: u64) {
        self.word(i).store(value, Ordering::Relaxed);
    }

    /// The word of the key or head of place `i`; that of its payload is the next.
    #[inline]
    fn pair(i: usize) -> usize {
        2 * i + usize::from(!K::INLINE)
    }

    #[inline]
    fn skip(self) -> usize {
        if K::INLINE { 0 } else { self.load(0) as usize }
    }

    #[inline]
    fn record_word(self, i: usize) -> &'g AtomicU64 {
        self.word(1 + 2 * self.room() + i)
    }

    #[inline]
    fn record(self, i: usize) -> Record {
        if K::INLINE {
            return Record::NONE;
        }
        // `Acquire` pairs with the `Release` of `put`: the bytes are seen complete (R1).
        Record::from_word(self.record_word(i).load(Ordering::Acquire))
    }

    /// The key of place `i`.
    #[inline]
    fn key(self, i: usize) -> K::Ref<'g> {
        let head = self.load(Self::pair(i));
        // SAFETY: the leaf held the record when its version was last read or later, as vacated places
        // are zero (B1); whoever has the leaf is pinned throughout `'g`, and records are retired (R2).
        let bytes = unsafe { self.record(i).bytes() };
        K::from_parts(head, bytes)
    }

    fn put(self, i: usize, head: u64, payload: u64, record: Record) {
        self.store(Self::pair(i), head);
        self.store(Self::pair(i) + 1, payload);
        if !K::INLINE {
            self.record_word(i).store(record.word(), Ordering::Release);
        }
    }

    fn copy(self, from: usize, to: usize) {
        let pair = Self::pair(from);
        self.put(to, self.load(pair), self.load(pair + 1), self.record(from));
    }

    /// Asks for the cache lines that a search needs.
    #[inline]
    pub(super) fn prefetch(link: Link, target: u64, room: usize) {
        let Some(address) = link.address() else {
            return;
        };
        let address = address.as_ptr();
        prefetch(address);
        if link.kind() == Some(Kind::Block) {
            let place = BEFORE_PLACES + (target & 0xff) as usize;
            prefetch(address.wrapping_add(size_of::<Header>() + 8 * place));
        } else {
            let bytes = size_of::<Header>() + 8 * words::<K>(Kind::Bucket, room);
            for line in 1..bytes.div_ceil(64) {
                prefetch(address.wrapping_add(64 * line));
            }
        }
    }

    /// Where a key is, or where it would go.
    #[inline]
    fn search(self, key: K::Ref<'_>) -> Result<usize, usize> {
        let head = K::head(key, self.skip());
        if self.kind == Kind::Block {
            let (block, place) = (head >> 8, (head & 0xff) as usize);
            let present = self.load(1 + place / 64) >> (place % 64) & 1;
            return if block == self.load(0) && present == 1 {
                Ok(place)
            } else {
                Err(place)
            };
        }
        // The last place whose key is not greater, without branches that are guessed.
        let count = self.count();
        if count == 0 {
            return Err(0);
        }
        let (mut low, mut len) = (0, count);
        while len > 1 {
            let half = len / 2;
            low = if self.load(Self::pair(low + half)) < head {
                low + half
            } else {
                low
            };
            len -= half;
        }
        low += usize::from(self.load(Self::pair(low)) < head);
        if K::INLINE {
            return if low < count && self.load(Self::pair(low)) == head {
                Ok(low)
            } else {
                Err(low)
            };
        }
        // Among keys with the same head, which are often one, by all bytes.
        let (mut middle, mut end) = (low, count);
        while low < end {
            let order = self.load(Self::pair(middle)).cmp(&head);
            match order.then_with(|| K::cmp(K::shorten(self.key(middle)), K::shorten(key))) {
                Order::Equal => return Ok(middle),
                Order::Less => low = middle + 1,
                Order::Greater => end = middle,
            }
            middle = low.midpoint(end);
        }
        Err(low)
    }

    /// The place and payload of a key. Right if the version is the same before and after.
    #[inline]
    pub(super) fn find(self, key: K::Ref<'_>) -> Option<(usize, u64)> {
        let place = self.search(key).ok()?;
        Some((place, self.load(self.payload_word(place))))
    }

    #[inline]
    fn payload_word(self, place: usize) -> usize {
        if self.kind == Kind::Block {
            BEFORE_PLACES + place
        } else {
            Self::pair(place) + 1
        }
    }

    /// Gives the record of a place another payload. Under the lock, as all that follow.
    #[inline]
    pub(super) fn set_payload(self, place: usize, payload: u64) {
        self.store(self.payload_word(place), payload);
    }

    /// Whether a key that is absent can be added: to a bucket with fewer than `leaf_max` records, or to
    /// a block that it belongs to.
    #[inline]
    pub(super) fn takes(self, key: K::Ref<'_>, leaf_max: usize) -> bool {
        if self.kind == Kind::Block {
            K::head(key, 0) >> 8 == self.load(0)
        } else {
            self.count() < leaf_max
        }
    }

    /// Adds a key that is absent and that the leaf takes.
    pub(super) fn insert(self, key: K::Ref<'_>, payload: u64) {
        let count = self.count();
        if self.kind == Kind::Block {
            let place = (K::head(key, 0) & 0xff) as usize;
            let bits = 1 + place / 64;
            self.store(BEFORE_PLACES + place, payload);
            self.store(bits, self.load(bits) | 1 << (place % 64));
            self.set_count(count + 1);
            return;
        }
        assert!(count < self.room(), "a leaf with room");
        if !K::INLINE {
            let shared = if count == 0 {
                K::tail(key).len()
            } else {
                K::shared(key, K::shorten(self.key(0)))
            };
            if count == 0 || shared < self.skip() {
                self.set_skip(shared, count);
            }
        }
        let (Ok(place) | Err(place)) = self.search(key);
        for i in (place..count).rev() {
            self.copy(i, i + 1);
        }
        let record = if K::INLINE {
            Record::NONE
        } else {
            Record::new(K::tail(key))
        };
        self.put(place, K::head(key, self.skip()), payload, record);
        self.set_count(count + 1);
    }

    /// Writes all heads anew.
    fn set_skip(self, skip: usize, count: usize) {
        self.store(0, skip as u64);
        for i in 0..count {
            self.store(Self::pair(i), K::head(self.key(i), skip));
        }
    }

    /// Removes the record of a place; its key's bytes are to be retired.
    pub(super) fn remove(self, place: usize) -> Record {
        let count = self.count();
        self.set_count(count - 1);
        if self.kind == Kind::Block {
            let bits = 1 + place / 64;
            self.store(bits, self.load(bits) & !(1 << (place % 64)));
            return Record::NONE;
        }
        let record = self.record(place);
        for i in place..count - 1 {
            self.copy(i + 1, i);
        }
        self.put(count - 1, 0, 0, Record::NONE);
        record
    }

    /// Appends all records to `items`. Right if the version is the same before and after.
    pub(super) fn items(self, items: &mut Vec<Item<'g, K>>) {
        if self.kind == Kind::Block {
            let block = self.load(0) << 8;
            for place in 0..PLACES {
                if self.load(1 + place / 64) >> (place % 64) & 1 == 1 {
                    items.push(Item {
                        key: K::from_parts(block | place as u64, &[]),
                        payload: self.load(BEFORE_PLACES + place),
                        record: Record::NONE,
                    });
                }
            }
            return;
        }
        items.extend((0..self.count()).map(|i| Item {
            key: self.key(i),
            payload: self.load(Self::pair(i) + 1),
            record: self.record(i),
        }));
    }

    /// Makes these the records. Those that lack bytes out of line get them.
    pub(super) fn write(self, items: &[Item<'_, K>]) {
        if self.kind == Kind::Block {
            for bits in 1..BEFORE_PLACES {
                self.store(bits, 0);
            }
            self.set_count(0);
            for item in items {
                self.insert(K::shorten(item.key), item.payload);
            }
            return;
        }
        assert!(items.len() <= self.room(), "the records fit");
        let skip = match (items.first(), items.last()) {
            (Some(first), Some(last)) if !K::INLINE => {
                if items.len() == 1 {
                    K::tail(first.key).len()
                } else {
                    K::shared(K::shorten(first.key), K::shorten(last.key))
                }
            }
            _ => 0,
        };
        let before = self.count();
        if !K::INLINE {
            self.store(0, skip as u64);
        }
        for (i, item) in items.iter().enumerate() {
            let record = if K::INLINE || item.record != Record::NONE {
                item.record
            } else {
                Record::new(K::tail(item.key))
            };
            self.put(i, K::head(K::shorten(item.key), skip), item.payload, record);
        }
        for i in items.len()..before {
            self.put(i, 0, 0, Record::NONE);
        }
        self.set_count(items.len());
    }

    /// Bytes it takes, with those of its keys that are out of line.
    pub(super) fn bytes(self) -> usize {
        let mut bytes = layout::<K>(self.kind, self.room()).size();
        if !K::INLINE {
            for i in 0..self.count() {
                // SAFETY: as in `key`.
                bytes += unsafe { self.record(i).size() };
            }
        }
        bytes
    }

    /// Frees the leaf, and with `records` also the bytes of its keys.
    ///
    /// # Safety
    /// Nobody else can find it, or still has it; so for the records if they are freed.
    pub(super) unsafe fn free(self, records: bool) {
        if records && !K::INLINE {
            for i in 0..self.count() {
                // SAFETY: the caller's promise.
                unsafe { self.record(i).free() };
            }
        }
        let layout = layout::<K>(self.kind, self.room());
        // SAFETY: the caller's promise; it came from `build` with this layout.
        unsafe { memory::free(self.at.cast(), layout) };
    }

    /// Frees the leaf, not its records, when nobody who is pinned now can have it any more.
    ///
    /// # Safety
    /// It is obsolete, no link leads to it, its mark is withdrawn or published elsewhere, and its
    /// records are in other leaves.
    pub(super) unsafe fn retire(self, guard: &Guard) {
        let link = self.link();
        // SAFETY: nobody finds it from now on (the caller's promise), and the collector waits for
        // those who may have found it.
        unsafe {
            guard.defer_unchecked(move || {
                if let Some(leaf) = LeafRef::<K>::of(link) {
                    leaf.free(false);
                }
            });
        }
    }
}
