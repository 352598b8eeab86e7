//! Blocks of a word and some bytes: the suffix of a long key with its payload, and a layer.
//!
//! A key that does not end in its slice has a block with its payload and the rest of its bytes; the slot
//! in the border node points to it. So a reader that compares the suffix has the payload in the same
//! cache line, and a writer that replaces the payload touches that line only.
//!
//! A layer is reached the same way: a root, and the bytes that all its keys have in common after the
//! slice above. Without these a shared prefix of 64 KiB would be a chain of 8192 layers with one entry
//! each. They are a whole number of slices, so that a layer can be put in between (`layers.rs`).
//!
//! # Invariants
//! - B1. The bytes never change.
//! - B2. A block is retired after its slot has stopped pointing to it, or freed with the tree.
#![expect(unsafe_code, reason = "the bytes lie behind the block's head")]

use std::alloc::Layout;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::Ordering;

use crossbeam_epoch::Guard;
use namiki_index::shared::node_alloc;
use namiki_platform::sync::{AtomicPtr, AtomicU64};

use super::node_ref::Header;

/// A head and some bytes behind it.
#[repr(C)]
pub(super) struct SuffixBlock<H> {
    head: H,
    len: u32,
    bytes: PhantomData<[u8]>,
}

/// The rest of a long key, and its payload.
pub(super) type Suffix = SuffixBlock<AtomicU64>;
/// A root, and the common prefix of all keys below it.
pub(super) type Layer = SuffixBlock<AtomicPtr<Header>>;

impl<H> SuffixBlock<H> {
    /// Where the bytes begin.
    const OFFSET: usize = std::mem::offset_of!(Self, bytes);

    fn layout(len: usize) -> Layout {
        let size = (Self::OFFSET + len).max(size_of::<Self>());
        match Layout::from_size_align(size, align_of::<Self>()) {
            Ok(layout) => layout.pad_to_align(),
            Err(_) => unreachable!("a key has at most 64 KiB"),
        }
    }

    /// A new block. It stays until it is retired or freed.
    pub(super) fn create<'g>(head: H, bytes: &[u8], _guard: &'g Guard) -> &'g Self {
        let memory = node_alloc::allocate(Self::layout(bytes.len()));
        let block = memory.cast::<Self>();
        let len = bytes.len() as u32;
        // SAFETY: the memory has room for the head and `bytes` behind it, and is ours alone. The block is
        // alive until it is retired (B2), which waits for pinned threads.
        unsafe {
            block.write(Self {
                head,
                len,
                bytes: PhantomData,
            });
            memory
                .add(Self::OFFSET)
                .copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
            block.as_ref()
        }
    }

    /// The value of a slot that leads to the block.
    pub(super) fn address(&self) -> u64 {
        std::ptr::from_ref(self).expose_provenance() as u64
    }

    /// The block of an address.
    ///
    /// # Safety
    /// `address` is that of a block of this type which was not retired when `'g` began, or has not
    /// been freed and will not be during `'g`.
    pub(super) unsafe fn at<'g>(address: u64) -> &'g Self {
        // SAFETY: the caller's promise; `address` exposed the provenance.
        unsafe { &*std::ptr::with_exposed_provenance(address as usize) }
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        let start = self.address() as usize + Self::OFFSET;
        // SAFETY: `len` bytes were written there by `create` and never change (B1).
        unsafe {
            slice::from_raw_parts(std::ptr::with_exposed_provenance(start), self.len as usize)
        }
    }

    /// Bytes of memory.
    pub(super) fn size(&self) -> usize {
        Self::layout(self.len as usize).size()
    }

    /// Frees the memory.
    ///
    /// # Safety
    /// Nothing refers to the block any longer, nor will.
    pub(super) unsafe fn free(address: u64) {
        // SAFETY: it is still there, by the caller's promise.
        let len = unsafe { Self::at(address) }.len as usize;
        let start = std::ptr::with_exposed_provenance_mut::<Self>(address as usize);
        if let Some(start) = NonNull::new(start) {
            // SAFETY: made by `create` with that layout; nothing refers to it.
            unsafe {
                start.drop_in_place();
                node_alloc::free(start.cast(), Self::layout(len));
            }
        }
    }

    /// Frees it once nothing can refer to it.
    ///
    /// # Safety
    /// No slot points to it any longer, and it is retired once (B2).
    pub(super) unsafe fn retire(&self, guard: &Guard) {
        let address = self.address();
        // SAFETY: threads that are pinned now may refer to it, and no other can reach it; the
        // collector waits for them.
        unsafe { guard.defer_unchecked(move || Self::free(address)) };
    }
}

impl Suffix {
    #[inline]
    pub(super) fn payload(&self) -> u64 {
        // Pairs with the `Release` below: a reader of it sees what the writer did before.
        self.head.load(Ordering::Acquire)
    }

    /// To be called with the border node locked.
    #[inline]
    pub(super) fn set_payload(&self, payload: u64) {
        self.head.store(payload, Ordering::Release);
    }
}

impl Layer {
    /// The first layer of a tree: its keys have no prefix in common. It is not a block of its own.
    #[inline]
    pub(super) fn first(root: *mut Header) -> Self {
        Self {
            head: AtomicPtr::new(root),
            len: 0,
            bytes: PhantomData,
        }
    }

    /// The rest of a key in this layer, given its `rest` after the slice above. All keys of a layer
    /// continue after the shared prefix; a key that does not is not in the layer.
    #[inline]
    pub(super) fn fits<'k>(&self, rest: &'k [u8]) -> Option<&'k [u8]> {
        rest.strip_prefix(self.bytes())
            .filter(|rest| !rest.is_empty())
    }

    #[inline]
    pub(super) fn root(&self) -> &AtomicPtr<Header> {
        &self.head
    }
}
