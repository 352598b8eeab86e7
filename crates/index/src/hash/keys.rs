//! Representation of a key in a slot: a *word* of eight bytes, stored with its payload.
//!
//! A key of eight bytes is its own word. The word of a byte string is the address of a box with its
//! hash, length and bytes. The bits above the address hold a part of the hash, so that a search
//! hardly ever reads the box of another key.
//!
//! # Invariants
//! - W1. A word made from a byte string is in one slot at most. The thread that took it out of the table
//!   gives it to [`HashKey::retire`] after the bucket was unlocked without it. It is freed when all threads
//!   that were pinned then have unpinned. (A bucket's split or merge moves words under the locks of all
//!   buckets they can be found in.)
//! - W2. So a word is alive until the reader unpins if the reader was pinned before it read the
//!   bucket's control word and found the word in a used slot, even if the bucket has changed since:
//!   the word was in the table then, or was put there later. (Or it is zero: see `tag`.)
#![expect(unsafe_code, reason = "boxed keys are reached by their addresses")]

use std::alloc::Layout;
use std::fmt::Debug;
use std::ptr::{self, NonNull};
use std::slice;

use crossbeam_epoch::{self as epoch, Guard};
use namiki_platform::hash::hash_of;
use namiki_platform::prefetch;

use crate::key::{Fixed8, Key, Variable};
use crate::shared::node_alloc::{allocate, free};

/// Set in all hashes: no hash is the place of a bucket.
const TOP: u64 = 1 << 63;

/// Keys of a hash table. Implemented by [`Fixed8`] and [`Variable`] only.
pub trait HashKey: Key {
    /// The guard that keeps words alive that are read from the table.
    type Pin: Debug;

    /// Takes such a guard.
    fn pin() -> Self::Pin;

    /// The key's hash. Its highest bit is set; bucket places come from its lowest bits, stripes from the
    /// highest but one.
    fn hash(seed: u64, key: Self::Ref<'_>) -> u64;

    /// A word for the key.
    fn word(key: Self::Ref<'_>, hash: u64) -> u64;

    /// Whether the word is that of the key.
    ///
    /// # Safety
    /// The word is one that [`word`](Self::word) made, and is alive: in the table, or read from it since
    /// a pin that lasts.
    unsafe fn is(word: u64, key: Self::Ref<'_>, hash: u64) -> bool;

    /// The hash of the word's key.
    ///
    /// # Safety
    /// As for [`is`](Self::is).
    unsafe fn hash_of_word(seed: u64, word: u64) -> u64;

    /// Calls `read` with the bytes of the word's key.
    ///
    /// # Safety
    /// As for [`is`](Self::is), for as long as `read` runs.
    unsafe fn with_bytes<R>(word: u64, read: impl FnOnce(&[u8]) -> R) -> R;

    /// Prefetches the memory that [`is`](Self::is) will read or, if `hash` is `None`,
    /// [`hash_of_word`](Self::hash_of_word).
    fn prefetch(word: u64, hash: Option<u64>);

    /// Frees a word that was taken out of the table, once no thread can read it.
    ///
    /// # Safety
    /// It is in the table no longer, and is freed once.
    unsafe fn retire(word: u64, pin: &Self::Pin);

    /// Frees a word that never was in the table, or is in a table that is being dropped.
    ///
    /// # Safety
    /// No other thread has it, and it is freed once.
    unsafe fn free(word: u64);

    /// Bytes allocated for a word outside of the table.
    ///
    /// # Safety
    /// As for [`is`](Self::is).
    unsafe fn bytes(word: u64) -> usize;
}

impl HashKey for Fixed8 {
    type Pin = ();

    #[inline]
    fn pin() {}

    /// One multiplication of double width, both halves folded into one: so every bit depends on all bits
    /// of the key.
    #[inline]
    fn hash(seed: u64, key: u64) -> u64 {
        const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
        let product = u128::from(key ^ seed) * u128::from(MULTIPLIER);
        let folded = product as u64 ^ (product >> 64) as u64;
        (folded ^ folded >> 32) | TOP
    }

    #[inline]
    fn word(key: u64, _hash: u64) -> u64 {
        key
    }

    #[inline]
    unsafe fn is(word: u64, key: u64, _hash: u64) -> bool {
        word == key
    }

    #[inline]
    unsafe fn hash_of_word(seed: u64, word: u64) -> u64 {
        Self::hash(seed, word)
    }

    unsafe fn with_bytes<R>(word: u64, read: impl FnOnce(&[u8]) -> R) -> R {
        read(&word.to_be_bytes())
    }

    #[inline]
    fn prefetch(_word: u64, _hash: Option<u64>) {}

    #[inline]
    unsafe fn retire(_word: u64, _pin: &()) {}

    #[inline]
    unsafe fn free(_word: u64) {}

    #[inline]
    unsafe fn bytes(_word: u64) -> usize {
        0
    }
}

/// Bits of an address.
const ADDRESS_BITS: u32 = 48;
const ADDRESS_MASK: u64 = (1 << ADDRESS_BITS) - 1;

/// The header before the bytes of a boxed key.
#[repr(C)]
struct Header {
    hash: u64,
    len: usize,
}

const HEADER: Layout = Layout::new::<Header>();

/// The memory of a key of `len` bytes.
fn layout(len: usize) -> Layout {
    let layout = Layout::from_size_align(HEADER.size() + len, HEADER.align());
    layout.unwrap_or_else(|_| unreachable!("keys are far smaller than the address space"))
}

/// Fifteen bits of the hash at their place in a word, and one bit that is always set. So zero,
/// which a reader may find in memory that was returned to the kernel, is no key's word.
#[inline]
const fn tag(hash: u64) -> u64 {
    (hash >> 30 | 1) << ADDRESS_BITS
}

#[inline]
fn header(word: u64) -> *mut Header {
    ptr::with_exposed_provenance_mut((word & ADDRESS_MASK) as usize)
}

impl Variable {
    /// Hash and bytes of a word's key.
    ///
    /// # Safety
    /// As for [`HashKey::is`], throughout `'a`.
    #[inline]
    unsafe fn boxed<'a>(word: u64) -> (u64, &'a [u8]) {
        let header = header(word);
        // SAFETY: the caller's promise: the box is alive, so that the header and the bytes behind it are
        // as `word` wrote them; boxes are never written again.
        unsafe {
            let Header { hash, len } = header.read();
            (hash, slice::from_raw_parts(header.add(1).cast(), len))
        }
    }
}

/// Frees the box of a key.
///
/// # Safety
/// A box that [`HashKey::word`] made, owned by the caller alone.
unsafe fn free_boxed(boxed: *mut Header) {
    // SAFETY: the caller's promise.
    unsafe {
        let len = (*boxed).len;
        if let Some(memory) = NonNull::new(boxed) {
            free(memory.cast(), layout(len));
        }
    }
}

impl HashKey for Variable {
    type Pin = Guard;

    #[inline]
    fn pin() -> Guard {
        epoch::pin()
    }

    #[inline]
    fn hash(seed: u64, key: &[u8]) -> u64 {
        hash_of(seed, key) | TOP
    }

    fn word(key: &[u8], hash: u64) -> u64 {
        let memory = allocate(layout(key.len())).cast::<Header>().as_ptr();
        let len = key.len();
        // SAFETY: fresh memory of this layout: the header, and `len` bytes behind it.
        unsafe {
            memory.write(Header { hash, len });
            ptr::copy_nonoverlapping(key.as_ptr(), memory.add(1).cast(), len);
        }
        let address = memory.expose_provenance() as u64;
        assert!(address <= ADDRESS_MASK, "addresses have 48 bits");
        tag(hash) | address
    }

    #[inline]
    unsafe fn is(word: u64, key: &[u8], hash: u64) -> bool {
        if word & !ADDRESS_MASK != tag(hash) {
            return false;
        }
        // SAFETY: the caller's promise.
        let (other, bytes) = unsafe { Self::boxed(word) };
        other == hash && bytes == key
    }

    #[inline]
    unsafe fn hash_of_word(_seed: u64, word: u64) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { Self::boxed(word) }.0
    }

    unsafe fn with_bytes<R>(word: u64, read: impl FnOnce(&[u8]) -> R) -> R {
        // SAFETY: the caller's promise.
        read(unsafe { Self::boxed(word) }.1)
    }

    #[inline]
    fn prefetch(word: u64, hash: Option<u64>) {
        if hash.is_none_or(|hash| word & !ADDRESS_MASK == tag(hash)) {
            prefetch(header(word).cast());
        }
    }

    unsafe fn retire(word: u64, pin: &Guard) {
        // Deferred with its address, as a leak checker does not recognise the word as a pointer.
        let boxed = header(word);
        // SAFETY: freed when all threads that are pinned now have unpinned; a thread that pins later does
        // not find the word (the caller's promise). A box may be freed on any thread.
        unsafe { pin.defer_unchecked(move || free_boxed(boxed)) };
    }

    unsafe fn free(word: u64) {
        // SAFETY: the caller's promise.
        unsafe { free_boxed(header(word)) };
    }

    #[inline]
    unsafe fn bytes(word: u64) -> usize {
        // SAFETY: the caller's promise.
        layout(unsafe { Self::boxed(word) }.1.len()).size()
    }
}

/// A word that is not in a table yet. Freed when it is dropped.
pub(super) struct Made<K: HashKey>(u64, std::marker::PhantomData<K>);

impl<K: HashKey> Made<K> {
    #[inline]
    pub(super) fn new(key: K::Ref<'_>, hash: u64) -> Self {
        Self(K::word(key, hash), std::marker::PhantomData)
    }

    /// Hands the word to the table, which owns it from here on.
    #[inline]
    pub(super) fn into_word(self) -> u64 {
        let word = self.0;
        std::mem::forget(self);
        word
    }
}

impl<K: HashKey> Drop for Made<K> {
    fn drop(&mut self) {
        // SAFETY: made by us, and owned by us alone: `into_word` forgets `self`.
        unsafe { K::free(self.0) };
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use namiki_platform::seeded_random::Random;

    /// Whatever the distance of keys that follow each other, places and stripes are used evenly.
    #[test]
    fn numbers_at_any_distance_are_spread() {
        let mut random = Random::seeded(6);
        let odd: Vec<u64> = (0..50).map(|_| random.next_u64() | 1).collect();
        for distance in (0..64).map(|bit| 1 << bit).chain(odd) {
            let seed = random.next_u64();
            let (mut places, mut stripes) = ([0_u32; 4096], [0_u32; 4096]);
            let count = 1_u64 << 16;
            // At some distances there are fewer different keys.
            if distance.trailing_zeros() > 48 {
                continue;
            }
            for n in 0..count {
                let hash = Fixed8::hash(seed, n.wrapping_mul(distance));
                places[hash as usize % 4096] += 1;
                stripes[(hash << 1 >> 52) as usize] += 1;
            }
            for (what, counts) in [("places", places), ("stripes", stripes)] {
                // 16 are to be expected of each.
                let worst = counts.iter().max();
                assert!(
                    worst < Some(&60),
                    "{what} {distance:#x} {seed:#x} {worst:?}"
                );
            }
        }
    }

    #[test]
    fn a_boxed_key_is_found_by_its_bytes() {
        for len in [0, 1, 8, 100, 1 << 16] {
            let key = vec![7; len];
            let hash = Variable::hash(5, &key);
            let made = Made::<Variable>::new(&key, hash);
            // SAFETY: alive until it is dropped.
            unsafe {
                assert!(Variable::is(made.0, &key, hash));
                assert!(!Variable::is(made.0, &vec![7; len + 1], hash));
                assert!(!Variable::is(made.0, &key, hash ^ 1 << 31));
                assert!(!Variable::is(made.0, &key, hash ^ 1));
                assert_eq!(Variable::hash_of_word(5, made.0), hash);
            }
        }
    }
}
