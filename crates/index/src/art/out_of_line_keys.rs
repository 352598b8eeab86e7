//! Out-of-line storage of byte-string keys: a leaf holds the address.
//!
//! # Invariants
//! - R1. A record is written before its address is stored (`Release`) and never again.
//! - R2. It belongs to the one leaf that holds its address; when its key is deleted it is retired.
#![expect(unsafe_code, reason = "records are allocated by size")]

use std::alloc::Layout;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use crossbeam_epoch::Guard;

use crate::shared::node_alloc;

type Length = u32;

/// The address of a record, alive during `'g`, as a word; zero: none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record<'g>(u64, PhantomData<&'g [u8]>);

fn layout(len: usize) -> Layout {
    match Layout::from_size_align(size_of::<Length>() + len, align_of::<Length>()) {
        Ok(layout) => layout,
        Err(_) => unreachable!("less than 70 KiB"),
    }
}

impl<'g> Record<'g> {
    pub(super) const NONE: Self = Self(0, PhantomData);

    /// # Safety
    /// Zero, or the word of a record that was complete when the word was stored, and that is not freed
    /// during `'g`.
    #[inline]
    pub(super) const unsafe fn from_word(word: u64) -> Self {
        Self(word, PhantomData)
    }

    #[inline]
    pub(super) const fn word(self) -> u64 {
        self.0
    }

    /// Alive while its maker is pinned, even if it is found and retired.
    pub(super) fn new(bytes: &[u8], _guard: &'g Guard) -> Self {
        let memory = node_alloc::allocate(layout(bytes.len()));
        // SAFETY: fresh memory with room for the length and the bytes.
        unsafe {
            memory.cast::<Length>().write(bytes.len() as Length);
            memory
                .add(size_of::<Length>())
                .copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
        Self(memory.as_ptr().expose_provenance() as u64, PhantomData)
    }

    #[inline]
    fn address(self) -> Option<NonNull<u8>> {
        NonNull::new(ptr::with_exposed_provenance_mut(self.0 as usize))
    }

    /// The bytes of the key; none for no record.
    #[inline]
    pub(super) fn bytes(self) -> &'g [u8] {
        let Some(at) = self.address() else {
            return &[];
        };
        // SAFETY: written by `new`, never again (R1), and alive during `'g`: established by the caller of
        // `from_word` that made this.
        unsafe {
            let len = at.cast::<Length>().read() as usize;
            std::slice::from_raw_parts(at.add(size_of::<Length>()).as_ptr(), len)
        }
    }

    /// Bytes it takes.
    #[inline]
    pub(super) fn size(self) -> usize {
        if self == Self::NONE {
            0
        } else {
            layout(self.bytes().len()).size()
        }
    }

    /// Frees it.
    ///
    /// # Safety
    /// No other thread has it, or can find it, and it is not used again.
    pub(super) unsafe fn free(self) {
        if let Some(at) = self.address() {
            let layout = layout(self.bytes().len());
            // SAFETY: the caller's promise; it came from `new` with this layout.
            unsafe { node_alloc::free(at, layout) };
        }
    }

    /// Frees it when no thread that is pinned now can have it any more.
    ///
    /// # Safety
    /// No leaf holds it any longer.
    pub(super) unsafe fn retire(self, guard: &Guard) {
        if self != Self::NONE {
            let gone = Record::<'static>(self.0, PhantomData);
            // SAFETY: no thread finds it from now on (the caller's promise, R2).
            unsafe { guard.defer_unchecked(move || gone.free()) };
        }
    }
}
