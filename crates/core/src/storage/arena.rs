//! The arena of a table's records: memory that only grows, in chunks of increasing size.
//!
//! Records are never freed one by one (`record.rs`, R1), so a bump allocator is enough, and it
//! places records that are inserted together side by side. Records of keys that have left the index
//! are reused first; all threads take them from one list, because the inserting threads are often
//! not the deleting ones. Large chunks ask for huge pages: with a million records or more, most
//! look-ups would otherwise miss the TLB as well as the cache. Threads, up to 16, fill chunks of
//! their own, so that those that insert share no counter. The first chunk has room for a few
//! records only: a table that is empty should cost next to nothing.
//!
//! At the end of a replay, before any transaction runs, the records of deleted keys are taken out ([`Arena::compact`]).
//!
//! # Invariants
//! - A1. The first `used` bytes of a chunk are whole records, one after the other. `used` sinks only by a record at
//!   its end that no thread but its maker has known.
//! - A2. Chunks are freed only by `drop`, and by [`Arena::compact`] when no other thread uses the arena.
//! - A3. A record in `free` has an incarnation that no other reference has, and no value; its lock may be held for a moment
//!   by a transaction that has a reference to an earlier one.
#![expect(unsafe_code, reason = "hands out raw memory for records")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use namiki_platform::sync;
use parking_lot::Mutex;

use crate::storage::record::RecordRef;
use crate::thread_number;

const CHUNK_BYTES_MIN: usize = 256;
const CHUNK_BYTES_MAX: usize = 2 << 20;
/// Threads with the same number modulo this fill the same chunks.
const SHARDS: usize = 16;

struct Chunk {
    start: NonNull<u8>,
    bytes: usize,
    used: AtomicUsize,
    /// It has no free slot, as [`Arena::compact`] has found.
    packed: AtomicBool,
}

// SAFETY: `start` is only memory; access to each part of it is decided by `used`.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

/// A growing set of records.
#[derive(Default)]
pub(crate) struct Arena {
    /// Each is created when one of its threads inserts.
    shards: [OnceLock<Box<CachePadded<Shard>>>; SHARDS],
    /// Records for reuse.
    free: sync::Mutex<Vec<RecordRef>>,
    /// About how many there are.
    free_count: AtomicUsize,
}

/// A record for a new key: absent, locked, and known to no other thread in its incarnation.
#[derive(Clone, Copy)]
pub(crate) struct FreshRecord {
    pub(crate) record: RecordRef,
    /// The word that it had before it was locked, if it has been used before.
    word_before: Option<u64>,
}

/// The word of a new record that enters the index locked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockedWord {
    /// That of one that has not been used before; and what is added to that of another.
    pub(crate) word: u64,
    /// The bits that are zero in the word of a record that is not locked.
    pub(crate) lock_bits: u64,
}

impl LockedWord {
    /// Where no record is used again.
    pub(crate) const fn unused(word: u64) -> Self {
        let lock_bits = u64::MAX;
        Self { word, lock_bits }
    }
}

/// The records of some of the threads.
#[derive(Default)]
struct Shard {
    /// The chunk that is being filled, one of `chunks`.
    current: AtomicPtr<Chunk>,
    #[expect(
        clippy::vec_box,
        reason = "`current` points to a chunk, which must not move"
    )]
    chunks: Mutex<Vec<Box<Chunk>>>,
}

impl Arena {
    /// A new absent record with room for `value_bytes`, and `word` as its protocol word.
    pub(crate) fn record(&self, value_bytes: usize, word: u64) -> RecordRef {
        let memory = self.shard().allocate(RecordRef::bytes_for(value_bytes));
        // SAFETY: fresh memory of the right size, aligned to 8 because all sizes are multiples of
        // 8; it lives as long as the arena, which its table owns (R1).
        unsafe { RecordRef::create(memory, value_bytes, word) }
    }

    /// A record for a new key: one that has been used before, if there is one that is not locked, or one with room for
    /// `value_bytes`.
    pub(crate) fn locked_record(&self, value_bytes: usize, locked: LockedWord) -> FreshRecord {
        if self.free_count.load(Ordering::Relaxed) > 0
            && let Some(used) = self.lock_used(locked)
        {
            return used;
        }
        FreshRecord {
            record: self.record(value_bytes, locked.word),
            word_before: None,
        }
    }

    #[inline(never)]
    fn lock_used(&self, locked: LockedWord) -> Option<FreshRecord> {
        let mut free = self.free.lock();
        let record = *free.last()?;
        let word = record.word().load(Ordering::Relaxed);
        if word & locked.lock_bits != 0
            || record
                .word()
                .compare_exchange(
                    word,
                    word | locked.word,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                )
                .is_err()
        {
            // The next time another one is tried.
            free.rotate_right(1);
            return None;
        }
        free.pop();
        self.free_count.store(free.len(), Ordering::Relaxed);
        Some(FreshRecord {
            record,
            word_before: Some(word),
        })
    }

    /// Returns a record that has not entered an index: no other thread has known it in its
    /// incarnation.
    pub(crate) fn give_up(&self, fresh: FreshRecord) {
        match fresh.word_before {
            // SAFETY: it is absent as it was made, and not used again.
            None => unsafe { self.take_back(fresh.record) },
            Some(word) => {
                fresh.record.word().store(word, Ordering::Release);
                self.reuse(fresh.record);
            }
        }
    }

    /// Keeps a record for another key (A3).
    pub(crate) fn reuse(&self, record: RecordRef) {
        let mut free = self.free.lock();
        free.push(record);
        self.free_count.store(free.len(), Ordering::Relaxed);
    }

    /// Takes back the record that this thread was given last, if no other was allocated from the same chunk since.
    ///
    /// # Safety
    /// The record is absent, no other thread has ever known it, and it is not used again.
    pub(crate) unsafe fn take_back(&self, record: RecordRef) {
        self.shard().give_up(record);
    }

    /// The bytes taken from the system.
    pub(crate) fn bytes(&self) -> usize {
        let shards = self.shards.iter().filter_map(OnceLock::get);
        shards.map(|shard| shard.bytes()).sum()
    }

    fn shard(&self) -> &Shard {
        self.shards[thread_number::number() % SHARDS].get_or_init(Box::default)
    }

    /// Compaction: moves records into the slots of absent ones, and detaches chunks that become
    /// empty. `kept` stays where it is, absent or not. (Two fingers: one looks for free places from
    /// the front, one for records from the back.)
    ///
    /// # Safety
    /// No other thread may use the arena or its records during the call. Afterwards a record is
    /// accessed by the reference that [`Moved::record`] returns for it, and an absent one, other
    /// than `kept`, is not used again.
    pub(crate) unsafe fn compact(&self, kept: RecordRef) -> Moved {
        debug_assert!(self.free.lock().is_empty(), "no transaction has run");
        let mut chunks: Vec<Box<Chunk>> = Vec::new();
        for shard in self.shards.iter().filter_map(OnceLock::get) {
            chunks.append(&mut shard.chunks.lock());
            shard.current.store(std::ptr::null_mut(), Ordering::Relaxed);
        }
        // The records are moved into the smallest chunks.
        chunks.sort_by_key(|chunk| (!chunk.has(kept), chunk.bytes));
        let is_free = |record: &RecordRef| record.is_absent() && *record != kept;
        let mut emptied = Vec::new();
        while let Some(last) = chunks.pop() {
            // A chunk without a free place is not looked at again for the next one.
            let open = chunks
                .iter()
                .filter(|it| !it.packed.load(Ordering::Relaxed));
            let mut free = open.flat_map(|chunk| {
                let free = chunk.records().filter(is_free).map(Some);
                let end = std::iter::once_with(|| {
                    chunk.packed.store(true, Ordering::Relaxed);
                    None
                });
                free.chain(end)
            });
            let mut staying = last.records().filter(|it| !is_free(it));
            let moved_all = staying.all(|record| {
                let fits = |place: &RecordRef| place.capacity() == record.capacity();
                let place = if record == kept {
                    None
                } else {
                    free.by_ref().flatten().find(fits)
                };
                if let Some(place) = place {
                    record.move_to(place);
                }
                place.is_some()
            });
            drop((free, staying));
            if moved_all {
                emptied.push(last);
            } else {
                chunks.push(last);
                break;
            }
        }
        if let Some(last) = chunks.last_mut() {
            let in_use = last.records().filter(|it| !is_free(it)).last();
            let start = last.start.as_ptr().expose_provenance() as u64;
            let used = in_use.map_or(0, |it| (it.address() - start) as usize + it.bytes());
            last.used.store(used, Ordering::Relaxed);
            let shard = self.shard();
            shard.current.store(&raw mut **last, Ordering::Release);
            shard.chunks.lock().append(&mut chunks);
        }
        Moved(emptied)
    }
}

/// The new addresses of records that [`Arena::compact`] has moved. It holds their old memory.
pub(crate) struct Moved(
    #[cfg_attr(not(test), expect(dead_code, reason = "held for its Drop"))]
    #[expect(clippy::vec_box, reason = "as in `Shard`")]
    Vec<Box<Chunk>>,
);

impl Moved {
    /// The present address of a record.
    pub(crate) fn record(&self, before: RecordRef) -> RecordRef {
        before.moved_to().unwrap_or(before)
    }

    /// The bytes that are freed when this is dropped.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.0.iter().map(|chunk| chunk.bytes).sum()
    }
}

impl Shard {
    fn bytes(&self) -> usize {
        self.chunks.lock().iter().map(|chunk| chunk.bytes).sum()
    }

    /// See [`Arena::take_back`].
    fn give_up(&self, record: RecordRef) {
        // SAFETY: as in `allocate`.
        let Some(chunk) = (unsafe { self.current.load(Ordering::Acquire).as_ref() }) else {
            return;
        };
        let start = chunk.start.as_ptr().expose_provenance() as u64;
        // In another chunk, at a higher address, this comes to a number that `used` never has.
        let Some(at) = record.address().checked_sub(start) else {
            return;
        };
        let at = at as usize;
        let end = at + record.bytes();
        // Release: the next owner of this memory writes it after us (`allocate`). On success the record was the last
        // one (A1); without a box, it has nothing to be disposed of.
        let _ = chunk
            .used
            .compare_exchange(end, at, Ordering::Release, Ordering::Relaxed);
    }

    fn allocate(&self, bytes: usize) -> NonNull<u8> {
        loop {
            let current = self.current.load(Ordering::Acquire);
            // SAFETY: null or one of `chunks`, which live as long as `self` (A2); the Acquire
            // pairs with the Release in `grow`.
            if let Some(chunk) = unsafe { current.as_ref() } {
                let fits = |used| Some(used + bytes).filter(|end| *end <= chunk.bytes);
                // Acquire pairs with the release in `give_up`: the memory may have had an owner. Records are
                // published by their index.
                if let Ok(at) = chunk
                    .used
                    .fetch_update(Ordering::Acquire, Ordering::Relaxed, fits)
                {
                    // SAFETY: `at + bytes` lies within the chunk, and the update gave the range
                    // to us alone.
                    return unsafe { chunk.start.add(at) };
                }
            }
            self.grow(current, bytes);
        }
    }

    #[cold]
    fn grow(&self, full: *mut Chunk, needed: usize) {
        let mut chunks = self.chunks.lock();
        if self.current.load(Ordering::Relaxed) != full {
            return;
        }
        let doubled = chunks.last().map_or(CHUNK_BYTES_MIN, |last| last.bytes * 2);
        let bytes = doubled.min(CHUNK_BYTES_MAX).max(needed);
        let mut chunk = Box::new(Chunk::new(bytes));
        self.current.store(&raw mut *chunk, Ordering::Release);
        chunks.push(chunk);
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        for chunk in self.chunks.get_mut() {
            for record in chunk.records() {
                // SAFETY: no reference is left: dropping the arena means dropping its table (R1).
                unsafe { record.dispose() };
            }
        }
    }
}

impl Chunk {
    /// Whether the record is in it.
    fn has(&self, record: RecordRef) -> bool {
        let start = self.start.as_ptr().expose_provenance() as u64;
        (start..start + self.bytes as u64).contains(&record.address())
    }

    /// The records in it. No other thread may allocate one during the call.
    fn records(&self) -> impl Iterator<Item = RecordRef> {
        let end = self.used.load(Ordering::Relaxed);
        let mut at = 0;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            // SAFETY: a whole record begins here (A1), and lives as long as its chunk, which outlives the use of what
            // this returns: the callers drop no chunk before.
            let record = unsafe {
                let address = self.start.add(at).as_ptr().expose_provenance() as u64;
                RecordRef::from_payload(address)
            };
            at += record.bytes();
            Some(record)
        })
    }

    fn layout(bytes: usize) -> Layout {
        let align = if bytes >= CHUNK_BYTES_MAX {
            CHUNK_BYTES_MAX
        } else {
            64
        };
        Layout::from_size_align(bytes, align).expect("a chunk is a few megabytes")
    }

    fn new(bytes: usize) -> Self {
        let layout = Self::layout(bytes);
        // SAFETY: the size is not zero.
        let start = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(start) else {
            handle_alloc_error(layout)
        };
        if bytes >= CHUNK_BYTES_MAX {
            namiki_platform::advise_huge_pages(start.as_ptr(), bytes);
        }
        Self {
            start,
            bytes,
            used: AtomicUsize::new(0),
            packed: AtomicBool::new(false),
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.bytes)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use namiki_platform::Stamp;

    #[test]
    fn records_keep_their_payloads_and_free_their_boxes() {
        let arena = Arena::default();
        let mut made = Vec::new();
        for i in 0..50_000_usize {
            let record = arena.record(i % 100, 0);
            let value = vec![i as u8; i % 300];
            record.install(Some(&value), Stamp(i as u64));
            made.push((record, value));
        }
        let mut out = Vec::new();
        for (record, value) in made {
            record.copy_if(&mut out, |_| true).unwrap();
            assert_eq!(out, value);
        }
        assert!(arena.bytes() > 2_000_000);
    }

    #[test]
    fn a_record_taken_back_makes_room_for_another() {
        let arena = Arena::default();
        let kept = arena.record(8, 0);
        let lost = arena.record(8, 0);
        // SAFETY: absent, and known to no other thread.
        unsafe { arena.take_back(lost) };
        assert_eq!(arena.record(8, 0), lost);
        // It is not the last one any more: it stays where it is.
        // SAFETY: as above.
        unsafe { arena.take_back(kept) };
        let next = arena.record(8, 0);
        assert!(next != kept && next != lost);
        // Neither is one of a chunk that is full.
        let used = || {
            let chunks = arena.shard().chunks.lock();
            let used = chunks
                .iter()
                .map(|chunk| chunk.used.load(Ordering::Relaxed));
            used.collect::<Vec<_>>()
        };
        let mut full = next;
        while used().len() < 2 {
            (full, _) = (arena.record(8, 0), full);
        }
        let before = used();
        for old in [kept, next] {
            // SAFETY: as above.
            unsafe { arena.take_back(old) };
            assert_eq!(used(), before);
        }
        // SAFETY: as above.
        unsafe { arena.take_back(full) };
        assert_eq!(used(), [before[0], 0]);
    }

    #[test]
    fn absent_records_are_taken_out_and_the_others_found() {
        for (records, every) in [(0, 1), (1, 1), (1_000, 1), (200_000, 3), (200_000, 70_000)] {
            let arena = Arena::default();
            let end = arena.record(16, 0);
            let all: Vec<_> = (0..records as u64)
                .map(|n| (n, arena.record(16, n)))
                .inspect(|(n, record)| {
                    let long = vec![7; (n % 40) as usize];
                    let value = (n % every == 0 && every > 1).then_some(&long[..]);
                    record.install(value, Stamp(*n));
                })
                .collect();
            let before = arena.bytes();
            let live = all.iter().filter(|(_, record)| !record.is_absent());
            let live: Vec<_> = live.copied().collect();
            // SAFETY: no other thread has the arena.
            let moved = unsafe { arena.compact(end) };
            assert_eq!(moved.record(end), end);
            assert_eq!(arena.bytes() + moved.bytes(), before);
            let now: Vec<_> = live.iter().map(|it| moved.record(it.1)).collect();
            drop(moved);
            let (bytes, record) = (arena.bytes(), RecordRef::bytes_for(16));
            assert!(
                bytes <= 2 * (live.len() + 1) * record + 2 * CHUNK_BYTES_MIN,
                "{bytes}"
            );
            let mut found = Vec::new();
            for ((n, _), record) in live.iter().zip(now) {
                let seen = record.copy_if(&mut found, |_| true).unwrap();
                assert_eq!((seen.creation, seen.absent), (Stamp(*n), false));
                assert_eq!(found, vec![7; (n % 40) as usize]);
                assert_eq!(record.word().load(Ordering::Relaxed), *n);
            }
            // The arena grows on.
            for n in 0..1_000 {
                arena.record(16, n);
            }
        }
    }

    /// Under a race detector this checks that the memory is handed over correctly.
    #[test]
    fn threads_that_fill_the_same_chunk_take_records_back() {
        let arena = Arena::default();
        let shard = &**arena.shards[0].get_or_init(Box::default);
        let bytes = RecordRef::bytes_for(8);
        std::thread::scope(|scope| {
            for word in 0..4 {
                scope.spawn(move || {
                    for n in 0..2_000 {
                        let memory = shard.allocate(bytes);
                        // SAFETY: fresh memory of the right size, of an arena that lives on.
                        let record = unsafe { RecordRef::create(memory, 8, word) };
                        assert_eq!(record.word().load(Ordering::Relaxed), word);
                        if n % 3 == 0 {
                            shard.give_up(record);
                        }
                    }
                });
            }
        });
        let chunks = shard.chunks.lock();
        let used: usize = chunks.iter().map(|c| c.used.load(Ordering::Relaxed)).sum();
        // Of four threads' 2,000 each, a third may have come back, and the others have not.
        assert!(used <= 8_000 * bytes && used >= 4 * 1_333 * bytes, "{used}");
    }

    #[test]
    fn threads_fill_chunks_of_their_own() {
        let arena = Arena::default();
        std::thread::scope(|scope| {
            // As many as there are shards, so that not all have the same.
            for _ in 0..SHARDS {
                scope.spawn(|| arena.record(8, 0));
            }
        });
        assert!(arena.bytes() >= 2 * CHUNK_BYTES_MIN);
    }
}
