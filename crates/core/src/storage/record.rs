//! A record: one protocol word, a header, and a payload that readers copy without a lock.
//!
//! ```text
//!   0         8             16                                            24
//!   | word 64 | creation 64 | absent 1 | boxed 1 | moved 1 | rollbacks 21 | cap 8 | len 32 | data: cap × 64 bits |
//!              | installing 1 | uncommitted 1 | 0 | incarnation 13 | stamp 48 |
//! ```
//! `word` belongs to the concurrency control alone. `creation` has the stamp of the commit that
//! wrote this version; it is the version's identity. The same word has the record's *incarnation*:
//! how many keys have used the record before. A payload of at most `cap` words lies in `data`; a
//! longer one lies in an immutable box at the address `data[0]`.
//!
//! Readers race with the one writer that holds the record's lock, so every field is an atomic, and
//! a reader's copy counts only if the word did not change around it.
//!
//! **Reuse.** When a deleted key has left its index, its record is reused for another key of the
//! same table. Transactions keep references without a guard, so a [`RecordRef`] has the incarnation
//! of the record for which it was created, in the unused bits of the address, and in the index,
//! too. It is compared after each lock, with each copy, and when a version is validated (R5).
//!
//! # Invariants
//! - R1. Once a record's address is known to any thread but its maker, its memory is not freed while its table exists,
//!   and is a record throughout, and the owner of a [`RecordRef`] keeps the table alive: a transaction holds the tables that it has used
//!   until the next one on its session begins (`AccessSet::use_table`), and a group of commits those of the engine, which
//!   releases one that was dropped when no commit of it is under way and all groups are flushed that hold its locks
//!   (`commit/drops.rs`, `tables/change_tables.rs`). So a `RecordRef` can always be followed.
//!   The one exception is the end of a replay, when no transaction runs: records are moved then, and those of deleted
//!   keys are freed (`arena.rs`).
//! - R2. `cap` is written once, before the record is shared, and is at least 1.
//! - R3. `creation`, the rest of the header and `data` are stored only by the holder of the record's lock, between a
//!   compare-and-swap that set the lock and a `Release` store that clears it.
//!   A replica's records differ (`replica`): only its applier stores these fields, one thread at a time, whether they
//!   are locked or not, and each version's stamp is larger than the one before. Its readers validate by `creation`
//!   ([`RecordRef::install_newer`], [`RecordRef::copy_installed`]).
//! - R4. When `boxed` is set, `data[0]` is the address of a live box of exactly `len` bytes. A replaced box is
//!   retired through epoch reclamation, not freed.
//! - R5. The incarnation only rises, under the lock, and only of a record without a value when its key is about to
//!   leave the index ([`RecordRef::retire`]). The last one is never used: a record that has come to it is left alone. The
//!   protocol word does not come back to what it was under an earlier incarnation, except under strict two-phase locking,
//!   where nothing is read but under a lock.
//!
//! Paper: tictoc-pwal §2.1.1
#![expect(
    unsafe_code,
    reason = "a record's length is known at run time, and readers race with writers"
)]

use std::fmt;
use std::hash::Hasher;
use std::num::NonZeroU64;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crossbeam_epoch as reclaim;
use namiki_platform::Stamp;

/// The word of the concurrency control, which a model checker follows where it runs one.
pub(crate) use namiki_platform::sync::SeqCstU64 as ProtocolWord;

const WORD_BYTES: usize = 8;
/// The line size of the processor's caches.
const LINE_BYTES: usize = 64;
const ABSENT: u64 = 1 << 63;
const BOXED: u64 = 1 << 62;
/// The record was moved; `creation` is its new address. Its other fields are not used any more.
const MOVED: u64 = 1 << 61;
const CAPACITY_SHIFT: u32 = 32;
const CAPACITY_MASK: u64 = 0xff << CAPACITY_SHIFT;
/// How often payloads were rolled back that were never committed, since the last version was installed.
const ROLLBACKS_SHIFT: u32 = 40;
const ROLLBACKS_MASK: u64 = ((1 << 21) - 1) << ROLLBACKS_SHIFT;
const _: () = assert!(ROLLBACKS_MASK < MOVED);
/// Flag of a creation: its version is being installed ([`RecordRef::install_newer`]). Stamps have
/// 48 bits.
const INSTALLING: u64 = 1 << 63;
/// Flag of a creation: the payload is that of a transaction that has not committed, and the version
/// of its stamp is kept elsewhere (`commit/views`).
const UNCOMMITTED: u64 = 1 << 62;
const STAMP_MASK: u64 = Stamp::MAX.0;
/// The bits of the incarnation in a creation, a reference and an index's payload. (One of the trees
/// keeps the highest three bits of a payload for itself.)
const INCARNATION: u64 = 0x1fff << INCARNATION_SHIFT;
const INCARNATION_SHIFT: u32 = 48;
const ADDRESS: u64 = (1 << INCARNATION_SHIFT) - 1;
const _: () = assert!(STAMP_MASK == ADDRESS && INCARNATION & (STAMP_MASK | UNCOMMITTED) == 0);
const LEN_MASK: u64 = u32::MAX as u64;

/// The longest payload of a record, in bytes.
pub(crate) const VALUE_BYTES_MAX: usize = 1 << 30;
/// The largest inline capacity of a record, in bytes.
pub(crate) const INLINE_BYTES_MAX: usize = 255 * WORD_BYTES;

#[repr(C)]
struct Header {
    word: ProtocolWord,
    creation: AtomicU64,
    meta: AtomicU64,
}

/// A shared pointer to a record (R1) in one of its incarnations. The order is that of the addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RecordRef(NonZeroU64);

impl Ord for RecordRef {
    #[inline]
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let address_first = |it: &Self| it.0.get().rotate_left(u64::BITS - INCARNATION_SHIFT);
        address_first(self).cmp(&address_first(other))
    }
}

impl PartialOrd for RecordRef {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The version that a view found in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtStamp {
    /// The version of that moment: its stamp, or `None` if the key was absent.
    Version(Option<Stamp>),
    /// The present version is newer, or is not committed.
    Newer,
}

/// The fields that a reader found in a record, before it has checked that the word stayed the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// The stamp of the commit that wrote this version, 0 for none.
    pub(crate) creation: Stamp,
    /// Whether the version says that the key is not there.
    pub(crate) absent: bool,
}

impl RecordRef {
    /// The bytes that a record for payloads of `value_bytes` takes.
    pub(crate) fn bytes_for(value_bytes: usize) -> usize {
        size_of::<Header>() + capacity_words(value_bytes) * WORD_BYTES
    }

    /// Makes an absent record with the protocol word `word` in fresh memory.
    ///
    /// # Safety
    /// `memory` is aligned to 8, is valid for `bytes_for(value_bytes)` bytes, has no other owner, and keeps R1.
    pub(crate) unsafe fn create(memory: NonNull<u8>, value_bytes: usize, word: u64) -> Self {
        let capacity = capacity_words(value_bytes);
        let header = memory.cast::<Header>();
        let address = header.as_ptr().expose_provenance() as u64;
        assert!(address & !ADDRESS == 0, "an address has 48 bits");
        // SAFETY: the caller vouches for the memory; `Header` and the words after it fit into it.
        unsafe {
            header.write(Header {
                word: ProtocolWord::new(word),
                creation: AtomicU64::new(0),
                meta: AtomicU64::new(ABSENT | (capacity as u64) << CAPACITY_SHIFT),
            });
            let data = header.add(1).cast::<AtomicU64>();
            for i in 0..capacity {
                data.add(i).write(AtomicU64::new(0));
            }
            Self::from_payload(address)
        }
    }

    /// The record of an index's payload, or at an address in its first incarnation.
    ///
    /// # Safety
    /// `payload` came from [`RecordRef::payload`], or is the [address](RecordRef::address) of a record, in a table that
    /// still exists (R1).
    pub(crate) unsafe fn from_payload(payload: u64) -> Self {
        // SAFETY: the caller vouches that it came from a non-null pointer.
        Self(unsafe { NonZeroU64::new_unchecked(payload) })
    }

    /// The record's address and its incarnation, for an index.
    pub(crate) fn payload(self) -> u64 {
        self.0.get()
    }

    /// The record's address.
    pub(crate) fn address(self) -> u64 {
        self.0.get() & ADDRESS
    }

    /// The same record in whichever incarnation: what its lock is known by.
    #[inline]
    pub(crate) fn place(self) -> Self {
        // SAFETY: it is the address of the same record.
        unsafe { Self::from_payload(self.address()) }
    }

    #[inline(always)]
    fn as_ptr(self) -> *const Header {
        std::ptr::with_exposed_provenance(self.address() as usize)
    }

    #[inline(always)]
    fn header(&self) -> &Header {
        // SAFETY: R1; `create` has exposed the address.
        unsafe { &*self.as_ptr() }
    }

    fn data(&self, index: usize) -> &AtomicU64 {
        debug_assert!(index < self.capacity());
        // SAFETY: callers stay below the capacity, and `cap` words follow the header (R2).
        unsafe { &*self.as_ptr().add(1).cast::<AtomicU64>().add(index) }
    }

    /// The incarnation that it was made for, where a creation has it.
    #[inline(always)]
    fn incarnation(self) -> u64 {
        self.0.get() & INCARNATION
    }

    /// Whether the record is still that of the key that it was found for (R5). For good if the caller holds its lock;
    /// otherwise it was so at some time after the last load with `Acquire`.
    #[inline]
    pub(crate) fn is_current(self) -> bool {
        self.header().creation.load(Ordering::Relaxed) & INCARNATION == self.incarnation()
    }

    /// Whether this is the record's version, and its key still the same.
    #[inline]
    pub(crate) fn has_version(self, creation: Stamp) -> bool {
        let found = self.header().creation.load(Ordering::Relaxed);
        found & (INCARNATION | STAMP_MASK) == self.incarnation() | creation.0
    }

    /// The same record in the incarnation that it has now, whichever key's it is: what following a reference without the
    /// comparison comes to, for tests.
    #[cold]
    pub(crate) fn as_it_is(self) -> Self {
        let found = self.header().creation.load(Ordering::Relaxed) & INCARNATION;
        // SAFETY: it is the address of the same record.
        unsafe { Self::from_payload(self.address() | found) }
    }

    /// Ends the record's incarnation: its key is about to leave the index. The caller holds its lock, and it has no value.
    /// Returns the record for another key, unless it has had as many as there can be; nothing but its word is to be
    /// changed until it has one.
    pub(crate) fn retire(self) -> Option<Self> {
        let header = self.header();
        debug_assert!(self.is_current() && self.is_absent() && !self.is_uncommitted());
        let next = self.incarnation() + (1 << INCARNATION_SHIFT);
        // As in `replace`.
        fence(Ordering::Release);
        header.creation.store(next, Ordering::Release);
        // SAFETY: it is the address of the same record.
        (next < INCARNATION).then(|| unsafe { Self::from_payload(self.address() | next) })
    }

    /// The words that its payload has room for.
    pub(crate) fn capacity(self) -> usize {
        (self.header().meta.load(Ordering::Relaxed) >> CAPACITY_SHIFT & 0xff) as usize
    }

    /// The word of the concurrency control.
    pub(crate) fn word(&self) -> &ProtocolWord {
        &self.header().word
    }

    /// The bytes this record takes, without a box.
    pub(crate) fn bytes(self) -> usize {
        size_of::<Header>() + self.capacity() * WORD_BYTES
    }

    /// The creation stamp. It belongs to the version that a word loaded with `Acquire` before
    /// describes if that word was unlocked and is still the same after.
    pub(crate) fn creation(self) -> Stamp {
        Stamp(self.header().creation.load(Ordering::Relaxed) & STAMP_MASK)
    }

    /// Whether its payload is that of a transaction that has not committed.
    pub(crate) fn is_uncommitted(self) -> bool {
        self.header().creation.load(Ordering::Acquire) & UNCOMMITTED != 0
    }

    /// Whether the version says that the key is not there; exact while there are no writers.
    pub(crate) fn is_absent(self) -> bool {
        self.header().meta.load(Ordering::Relaxed) & ABSENT != 0
    }

    /// Whether the record is that of its key and has a value, committed or about to be: a glance, even at a locked record.
    pub(crate) fn has_value_now(self) -> bool {
        self.is_current() && !self.is_absent()
    }

    /// Moves everything, a box too, to an absent record of the same capacity. No other thread uses either, and this one
    /// is not used again, except to ask for where it has moved.
    pub(crate) fn move_to(self, place: Self) {
        assert!(self.capacity() == place.capacity() && place.is_absent() && self != place);
        let (from, to) = (self.header(), place.header());
        let copy = |from: &AtomicU64, to: &AtomicU64| {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        };
        let word = from.word.load(Ordering::Relaxed);
        to.word.store(word, Ordering::Relaxed);
        copy(&from.creation, &to.creation);
        copy(&from.meta, &to.meta);
        for i in 0..self.capacity() {
            copy(self.data(i), place.data(i));
        }
        let kept = (self.capacity() as u64) << CAPACITY_SHIFT;
        from.meta.store(ABSENT | MOVED | kept, Ordering::Relaxed);
        from.creation.store(place.address(), Ordering::Relaxed);
    }

    /// Where it has moved, if it has.
    pub(crate) fn moved_to(self) -> Option<Self> {
        let header = self.header();
        let moved = header.meta.load(Ordering::Relaxed) & MOVED != 0;
        // SAFETY: `move_to` has stored the address of a record. It is in the same arena, and stays there: records are
        // moved once in the life of an arena, and what was moved to is not moved.
        moved.then(|| unsafe { Self::from_payload(header.creation.load(Ordering::Relaxed)) })
    }

    /// Asks the processor to bring the record's first line closer, for a lock that is taken later.
    pub(crate) fn prefetch(self) {
        namiki_platform::prefetch(self.as_ptr().cast());
    }

    /// The same for a record with room for a value of `inline_bytes`, which will be read: all lines of it, up to
    /// four.
    pub(crate) fn prefetch_value(self, inline_bytes: usize) {
        let bytes = size_of::<Header>() + inline_bytes;
        let start: *const u8 = self.as_ptr().cast();
        for line in (0..bytes).step_by(LINE_BYTES).take(4) {
            namiki_platform::prefetch(start.wrapping_add(line));
        }
    }

    /// Copies the payload into `out` and returns what it belongs to, or nothing if `unchanged`,
    /// asked after the copy, denies that the word is still the one the caller had loaded (with
    /// `Acquire`, unlocked) before; or if the record is not [current](Self::is_current).
    // Always: it is most of what a read does, and left to itself it was called.
    #[inline(always)]
    pub(crate) fn copy_if(
        self,
        out: &mut Vec<u8>,
        unchanged: impl FnOnce(&ProtocolWord) -> bool,
    ) -> Option<Snapshot> {
        let header = self.header();
        let creation = header.creation.load(Ordering::Relaxed);
        if creation & INCARNATION != self.incarnation() {
            return None;
        }
        let creation = Stamp(creation & STAMP_MASK);
        let meta = header.meta.load(Ordering::Relaxed);
        out.clear();
        if meta & BOXED != 0 {
            return self.copy_boxed_if(out, creation, unchanged);
        }
        let len = (meta & LEN_MASK) as usize;
        // The usual length is at most one word.
        out.extend_from_slice(&self.data(0).load(Ordering::Relaxed).to_ne_bytes());
        if len > WORD_BYTES {
            self.copy_further_words(len.div_ceil(WORD_BYTES).min(self.capacity()), out);
        }
        out.truncate(len);
        // Pairs with the writer's Release fence in `install`: if any load above saw what a writer
        // stored, the check below sees at least that writer's lock.
        fence(Ordering::Acquire);
        unchanged(&header.word).then_some(Snapshot {
            creation,
            absent: meta & ABSENT != 0,
        })
    }

    #[inline(never)]
    fn copy_further_words(self, words: usize, out: &mut Vec<u8>) {
        out.resize(words * WORD_BYTES, 0);
        let further = out.chunks_exact_mut(WORD_BYTES).enumerate().skip(1);
        for (i, chunk) in further {
            chunk.copy_from_slice(&self.data(i).load(Ordering::Relaxed).to_ne_bytes());
        }
    }

    #[cold]
    fn copy_boxed_if(
        self,
        out: &mut Vec<u8>,
        creation: Stamp,
        unchanged: impl FnOnce(&ProtocolWord) -> bool,
    ) -> Option<Snapshot> {
        let guard = reclaim::pin();
        let header = self.header();
        let meta = header.meta.load(Ordering::Relaxed);
        let address = self.data(0).load(Ordering::Acquire);
        let is_same = self.has_version(creation);
        fence(Ordering::Acquire);
        if meta & BOXED == 0 || !is_same || !unchanged(&header.word) {
            return None;
        }
        let start: *const u8 = std::ptr::with_exposed_provenance(address as usize);
        // SAFETY: the word (in a replica, the stamp) did not change while we loaded `meta` and `address`, so they belong
        // together and to the current version (R3, the fences as in `copy_if`), and the box was live then (R4). We pinned before we
        // loaded its address, so it is not freed before `guard` goes. It is never written.
        out.extend_from_slice(unsafe {
            std::slice::from_raw_parts(start, (meta & LEN_MASK) as usize)
        });
        drop(guard);
        Some(Snapshot {
            creation,
            absent: false,
        })
    }

    /// Replaces the version. The caller holds the record's lock (R3), and `value` is at most
    /// [`VALUE_BYTES_MAX`] long; no value means that the key is not there.
    #[inline(always)]
    pub(crate) fn install(self, value: Option<&[u8]>, creation: Stamp) {
        self.replace(creation, |capacity| match value {
            None => ABSENT,
            Some(value) if value.len() <= capacity * WORD_BYTES => {
                self.store_words(value);
                value.len() as u64
            }
            Some(value) => self.store_box(value.into()),
        });
    }

    /// The same with a value that is not copied, if it does not fit into the record.
    #[cold]
    pub(crate) fn install_box(self, value: Box<[u8]>, creation: Stamp) {
        self.replace(creation, |capacity| {
            if value.len() <= capacity * WORD_BYTES {
                self.store_words(&value);
                value.len() as u64
            } else {
                self.store_box(value)
            }
        });
    }

    /// Replaces the version by what `store` stores, given how many words there is room for; it returns the header without
    /// what stays.
    #[inline(always)]
    fn replace(self, creation: Stamp, store: impl FnOnce(usize) -> u64) {
        let header = self.header();
        // Pairs with the readers' Acquire fence: a reader that sees a store below sees the lock.
        fence(Ordering::Release);
        header
            .creation
            .store(self.incarnation() | creation.0, Ordering::Relaxed);
        // Pairs with the Acquire fence in `copy_at`: a reader that sees a store below sees the stamp, too.
        fence(Ordering::Release);
        let old_meta = header.meta.load(Ordering::Relaxed);
        let old_data = self.data(0).load(Ordering::Relaxed);
        let mut kept = old_meta & CAPACITY_MASK;
        if creation.0 & UNCOMMITTED != 0 {
            kept |= old_meta & ROLLBACKS_MASK;
        }
        let stored = store((kept >> CAPACITY_SHIFT & 0xff) as usize);
        header.meta.store(stored | kept, Ordering::Relaxed);
        if old_meta & BOXED != 0 {
            // SAFETY: both were loaded above under the lock, before either was stored, so they are of
            // one version (R3); and its box has just been unlinked by us, so it is retired once.
            unsafe { retire_box(old_data, old_meta) };
        }
    }

    /// Replaces the version unless there is one of this stamp or a newer one; returns whether it did. This is how a
    /// replica installs: the caller is the only thread that installs, readers take [`copy_installed`](Self::copy_installed),
    /// and the protocol word is not looked at.
    #[inline]
    pub(crate) fn install_newer(self, value: Option<&[u8]>, creation: Stamp) -> bool {
        let header = self.header();
        debug_assert!(self.is_current(), "a key that is installed has its record");
        if self.creation() >= creation {
            return false;
        }
        let installing = creation.0 | INSTALLING;
        // The Release fence in `install` comes between this mark and the payload: a reader that sees some of the payload
        // sees, after its Acquire fence, the mark or what replaced it.
        (header.creation).store(self.incarnation() | installing, Ordering::Relaxed);
        self.install(value, Stamp(installing));
        // Pairs with the Acquire in `copy_installed`: a reader that begins with this stamp sees the whole payload.
        let installed = self.incarnation() | creation.0;
        header.creation.store(installed, Ordering::Release);
        true
    }

    /// Copies a replica's record into `out`; `None` if a version was installed concurrently, in
    /// which case the caller retries, or if it is not its key's any more
    /// ([`is_current`](Self::is_current)). A stamp is installed once in an incarnation, so a version
    /// is whole if both stand before and after the copy.
    #[inline]
    pub(crate) fn copy_installed(self, out: &mut Vec<u8>) -> Option<Snapshot> {
        let creation = &self.header().creation;
        let before = creation.load(Ordering::Acquire);
        if before & INSTALLING != 0 {
            return None;
        }
        // After the Acquire fence in `copy_if`.
        self.copy_if(out, |_| creation.load(Ordering::Relaxed) == before)
    }

    /// Copies the version that was there at `stamp` into `out`, whether the record is locked or not. All commits at or
    /// below `stamp` have come to their end, so a version that is being installed is newer.
    pub(crate) fn copy_at(self, stamp: Stamp, out: &mut Vec<u8>) -> AtStamp {
        let Header { creation, meta, .. } = self.header();
        // Acquire: its payload, or a later one, is what is copied.
        let before = creation.load(Ordering::Acquire);
        if before & INCARNATION != self.incarnation() {
            // Its key had left the index, deleted at or before the stamp of every view (`commit/removal.rs`, D2).
            return AtStamp::Version(None);
        }
        if before & !INCARNATION > stamp.0 {
            return AtStamp::Newer;
        }
        let meta_before = meta.load(Ordering::Relaxed);
        // After the Acquire fence in `copy_if`. Stamps of a record rise; one comes back only by a
        // rollback, which stores its count before (Acquire).
        let is_unchanged = |_: &ProtocolWord| {
            creation.load(Ordering::Acquire) == before
                && meta.load(Ordering::Relaxed) == meta_before
        };
        match self.copy_if(out, is_unchanged) {
            Some(found) => AtStamp::Version((!found.absent).then_some(found.creation)),
            None => AtStamp::Newer,
        }
    }

    /// Replaces the payload by what a transaction has not committed yet. The caller holds the record's lock (R3), and has
    /// put the version that was there where views find it.
    pub(crate) fn install_uncommitted(self, value: Option<&[u8]>) {
        let creation = self.creation();
        self.install(value, Stamp(creation.0 | UNCOMMITTED));
    }

    /// Puts a payload back that was replaced by one that did not commit. `is_version`: it is that of the record's version,
    /// and not one that has not been committed either.
    pub(crate) fn roll_back(self, value: Option<&[u8]>, is_version: bool) {
        self.install_uncommitted(value);
        if is_version {
            let Header { creation, meta, .. } = self.header();
            let old = meta.load(Ordering::Relaxed);
            // It wraps around.
            let rollbacks = old.wrapping_add(1 << ROLLBACKS_SHIFT) & ROLLBACKS_MASK;
            meta.store(old & !ROLLBACKS_MASK | rollbacks, Ordering::Relaxed);
            creation.store(self.incarnation() | self.creation().0, Ordering::Release);
        }
    }

    /// Makes the payload that is there the version of a commit. The caller holds the record's lock (R3).
    pub(crate) fn restamp(self, creation: Stamp) {
        // As in `install`; and a view that begins with this stamp sees the whole payload.
        let creation = self.incarnation() | creation.0;
        self.header().creation.store(creation, Ordering::Release);
    }

    /// Stores a payload that fits.
    #[inline]
    fn store_words(self, value: &[u8]) {
        let store = |i: usize, word: [u8; WORD_BYTES]| {
            self.data(i)
                .store(u64::from_ne_bytes(word), Ordering::Relaxed);
        };
        if let Some(word) = value.as_array() {
            // The usual length.
            return store(0, *word);
        }
        let (words, rest) = value.as_chunks();
        for (i, word) in words.iter().enumerate() {
            store(i, *word);
        }
        if !rest.is_empty() {
            let mut word = [0; WORD_BYTES];
            word[..rest.len()].copy_from_slice(rest);
            store(words.len(), word);
        }
    }

    /// Stores a payload that does not fit; returns its header.
    #[cold]
    fn store_box(self, value: Box<[u8]>) -> u64 {
        let len = value.len();
        debug_assert!(len <= VALUE_BYTES_MAX);
        let boxed = Box::into_raw(value).cast::<u8>();
        self.data(0)
            .store(boxed.expose_provenance() as u64, Ordering::Release);
        BOXED | len as u64
    }

    /// Frees the box, if there is one.
    ///
    /// # Safety
    /// The record is being dropped: no other thread can reach it, and it is not used again.
    pub(crate) unsafe fn dispose(self) {
        let meta = self.header().meta.load(Ordering::Relaxed);
        if meta & BOXED != 0 {
            // SAFETY: R4, and the caller vouches that no thread can reach it any more.
            unsafe { free_box(self.data(0).load(Ordering::Relaxed), meta) };
        }
    }
}

/// Spreads the addresses of records: they are multiples of eight and lie close together.
#[derive(Default)]
pub(crate) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_ne_bytes(word));
        }
    }
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0 ^ word)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(26);
    }
    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}

/// Frees a box when no thread reads it any more. (Apart from `install`, which has to stay small.)
///
/// # Safety
/// `address` and `meta` are of one version with a box that was unlinked, and this is called once
/// for it.
#[cold]
unsafe fn retire_box(address: u64, meta: u64) {
    // SAFETY: the caller's promise; readers that still look at the box are pinned (see
    // `copy_boxed_if`).
    unsafe { reclaim::pin().defer_unchecked(move || free_box(address, meta)) };
    namiki_index::reclaim::retired((meta & LEN_MASK) as usize);
}

/// # Safety
/// `address` and `meta` are of one version with a box that no thread can reach any more.
unsafe fn free_box(address: u64, meta: u64) {
    let start: *mut u8 = std::ptr::with_exposed_provenance_mut(address as usize);
    let slice = std::ptr::slice_from_raw_parts_mut(start, (meta & LEN_MASK) as usize);
    // SAFETY: made by `Box::into_raw` in `store_box` with this length (R4); freed once.
    drop(unsafe { Box::from_raw(slice) });
}

fn capacity_words(value_bytes: usize) -> usize {
    value_bytes.clamp(1, INLINE_BYTES_MAX).div_ceil(WORD_BYTES)
}

impl fmt::Debug for RecordRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordRef({:#x}, {})", self.0, self.creation())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record in `memory`, which has to outlive it.
    fn record(memory: &mut [u64], value_bytes: usize) -> RecordRef {
        assert!(size_of_val(memory) >= RecordRef::bytes_for(value_bytes));
        // SAFETY: memory of the right size and alignment, borrowed for us alone; the test keeps it
        // for longer than the record.
        unsafe { RecordRef::create(NonNull::from(memory).cast(), value_bytes, 0) }
    }

    #[test]
    fn a_payload_comes_back_whether_it_fits_or_not() {
        let mut memory = vec![0; 8];
        let record = record(&mut memory, 16);
        let mut out = Vec::new();
        let absent = record.copy_if(&mut out, |_| true).unwrap();
        assert_eq!(
            absent,
            Snapshot {
                creation: Stamp(0),
                absent: true
            }
        );
        for len in [0, 1, 7, 8, 9, 16, 17, 100, 5000, 3, 0] {
            let value: Vec<u8> = (0..len).map(|i| i as u8).collect();
            record.install(Some(&value), Stamp(len as u64));
            let snapshot = record.copy_if(&mut out, |_| true).unwrap();
            assert_eq!(
                snapshot,
                Snapshot {
                    creation: Stamp(len as u64),
                    absent: false
                }
            );
            assert_eq!(out, value);
        }
        record.install(Some(&[1; 100]), Stamp(1000));
        record.install(None, Stamp(1001));
        assert!(record.copy_if(&mut out, |_| true).unwrap().absent);
        assert!(record.copy_if(&mut out, |_| false).is_none());
    }
}
