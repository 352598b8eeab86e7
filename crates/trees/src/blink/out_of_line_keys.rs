//! Kept keys: the representation of a node's keys in one word each.
//!
//! A key of eight bytes is its own word. The word of a byte string has the address of a copy that
//! never changes, and its length, so that keys of different lengths differ without a read of the
//! copies:
//!
//! ```text
//!  63                  48 47                0
//! | length, at most 65535 | address, or 0    |     0: the empty key
//! address --> | length u32 | bytes … |
//! ```
//!
//! # Invariants
//! - S1. A word belongs to one place: an entry or a fence of one node. Moving it to another place gives it
//!   to that place.
//! - S2. A word is taken out of its place before the copy is retired to the collector, so a pinned thread
//!   that finds it in a node may read the copy.
#![expect(unsafe_code, reason = "a word in a node leads to a key's bytes")]

use std::alloc::Layout;
use std::ptr::{self, NonNull};
use std::slice;

use crossbeam_epoch::Guard;

use namiki_index::key::Key;
use namiki_index::shared::node_alloc;

const ADDRESS_BITS: u32 = 48;
const ADDRESS_MASK: u64 = (1 << ADDRESS_BITS) - 1;
const LEN_BYTES: usize = size_of::<u32>();
/// The value of the upper bits for this length and all longer ones.
pub(super) const LEN_LONG: usize = (1 << (u64::BITS - ADDRESS_BITS)) - 1;

fn layout(len: usize) -> Layout {
    let layout = Layout::from_size_align(LEN_BYTES + len, align_of::<u32>());
    layout.unwrap_or_else(|_| unreachable!("keys are short"))
}

/// A word for a copy of `key`.
pub(super) fn keep<K: Key>(key: K::Ref<'_>) -> u64 {
    if K::INLINE {
        return K::head(key, 0);
    }
    let bytes = K::tail(key);
    if bytes.is_empty() {
        return 0;
    }
    let start = node_alloc::allocate(layout(bytes.len()));
    // SAFETY: the memory is new, aligned for the length, and has room for it and the bytes behind it.
    unsafe {
        start.cast::<u32>().write(bytes.len() as u32);
        ptr::copy_nonoverlapping(bytes.as_ptr(), start.add(LEN_BYTES).as_ptr(), bytes.len());
    }
    let address = start.as_ptr().expose_provenance() as u64;
    assert!(address & !ADDRESS_MASK == 0, "addresses have 48 bits");
    (bytes.len().min(LEN_LONG) as u64) << ADDRESS_BITS | address
}

/// The length of a kept byte string, or [`LEN_LONG`] if it is at least that.
#[inline]
pub(super) fn short_len(word: u64) -> usize {
    (word >> ADDRESS_BITS) as usize
}

fn copy(word: u64) -> Option<NonNull<u8>> {
    NonNull::new(ptr::with_exposed_provenance_mut(
        (word & ADDRESS_MASK) as usize,
    ))
}

/// The key of a word.
///
/// # Safety
/// The word was loaded from its place in a node during `'g` with `Acquire` (or the caller made it), and
/// the caller is pinned throughout `'g` (S2), or has the node to itself.
#[inline]
pub(super) unsafe fn view<'g, K: Key>(word: u64) -> K::Ref<'g> {
    if K::INLINE {
        return K::from_parts(word, &[]);
    }
    let Some(start) = copy(word) else {
        return K::from_parts(0, &[]);
    };
    // SAFETY: written by `keep` and not since; alive by the caller's promise.
    let bytes = unsafe {
        let len = start.cast::<u32>().read() as usize;
        slice::from_raw_parts(start.add(LEN_BYTES).as_ptr(), len)
    };
    K::from_parts(0, bytes)
}

/// Frees the copy.
///
/// # Safety
/// `word` came from [`keep`], and no thread can find it or reads it any longer.
pub(super) unsafe fn release<K: Key>(word: u64) {
    if !K::INLINE
        && let Some(start) = copy(word)
    {
        // SAFETY: the caller's promise.
        unsafe { free(start) };
    }
}

/// Frees a copy.
///
/// # Safety
/// It was made by [`keep`], and no thread can find it or reads it any longer.
unsafe fn free(start: NonNull<u8>) {
    // SAFETY: written by `keep` and not since; nothing refers to it, by the caller's promise.
    unsafe {
        let len = start.cast::<u32>().read() as usize;
        node_alloc::free(start, layout(len));
    }
}

/// Frees the copy when all threads that are pinned now have unpinned.
///
/// # Safety
/// `word` came from [`keep`] and is in no node any longer.
pub(super) unsafe fn retire<K: Key>(word: u64, guard: &Guard) {
    if !K::INLINE
        && let Some(start) = copy(word)
    {
        // The closure owns the address itself, so that a leak checker sees that the copy is not lost.
        // SAFETY: a thread that found the word is pinned, and no thread can find it now (S1, S2).
        unsafe { guard.defer_unchecked(move || free(start)) };
    }
}

/// Bytes of the copy.
///
/// # Safety
/// As [`view`].
pub(super) unsafe fn bytes<K: Key>(word: u64) -> usize {
    if K::INLINE || word == 0 {
        return 0;
    }
    // SAFETY: the caller's promise.
    layout(K::tail(unsafe { view::<K>(word) }).len()).size()
}
