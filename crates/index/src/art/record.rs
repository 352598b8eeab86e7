//! The bytes of a key that is no number, out of line: a leaf holds the address.
//!
//! # Invariants
//! - R1. A record is written before its address is stored (`Release`) and never again.
//! - R2. It belongs to the one leaf that holds its address; when its key is deleted it is retired.
#![expect(unsafe_code, reason = "records are allocated by size")]

use std::alloc::Layout;
use std::ptr::{self, NonNull};

use crossbeam_epoch::Guard;

use crate::memory;

type Length = u32;

/// The address of a record as a word; zero: none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record(u64);

fn layout(len: usize) -> Layout {
    match Layout::from_size_align(size_of::<Length>() + len, align_of::<Length>()) {
        Ok(layout) => layout,
        Err(_) => unreachable!("less than 70 KiB"),
    }
}

impl Record {
    pub(super) const NONE: Self = Self(0);

    pub(super) const fn from_word(word: u64) -> Self {
        Self(word)
    }

    pub(super) const fn word(self) -> u64 {
        self.0
    }

    pub(super) fn new(bytes: &[u8]) -> Self {
        let memory = memory::allocate(layout(bytes.len()));
        // SAFETY: fresh memory with room for the length and so many bytes.
        unsafe {
            memory.cast::<Length>().write(bytes.len() as Length);
            memory
                .add(size_of::<Length>())
                .copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
        Self(memory.as_ptr().expose_provenance() as u64)
    }

    fn address(self) -> Option<NonNull<u8>> {
        NonNull::new(ptr::with_exposed_provenance_mut(self.0 as usize))
    }

    /// The bytes of the key; none for no record.
    ///
    /// # Safety
    /// The record is not freed during `'g`: whoever asks read its address (`Acquire`) from a leaf that
    /// held it at some time since they were pinned.
    #[inline]
    pub(super) unsafe fn bytes<'g>(self) -> &'g [u8] {
        let Some(at) = self.address() else {
            return &[];
        };
        // SAFETY: written by `new`, never again (R1), and alive (the caller's promise).
        unsafe {
            let len = at.cast::<Length>().read() as usize;
            std::slice::from_raw_parts(at.add(size_of::<Length>()).as_ptr(), len)
        }
    }

    /// Bytes it takes.
    ///
    /// # Safety
    /// As [`bytes`](Self::bytes).
    pub(super) unsafe fn size(self) -> usize {
        // SAFETY: the caller's promise.
        let len = unsafe { self.bytes() }.len();
        if self == Self::NONE {
            0
        } else {
            layout(len).size()
        }
    }

    /// Frees it.
    ///
    /// # Safety
    /// Nobody else has it, or can find it.
    pub(super) unsafe fn free(self) {
        if let Some(at) = self.address() {
            // SAFETY: the caller's promise; it came from `new` with this layout.
            unsafe {
                let len = at.cast::<Length>().read() as usize;
                memory::free(at, layout(len));
            }
        }
    }

    /// Frees it when nobody who is pinned now can have it any more.
    ///
    /// # Safety
    /// No leaf holds it any longer.
    pub(super) unsafe fn retire(self, guard: &Guard) {
        if self != Self::NONE {
            // SAFETY: nobody finds it from now on (the caller's promise, R2).
            unsafe { guard.defer_unchecked(move || self.free()) };
        }
    }
}
