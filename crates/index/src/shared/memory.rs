//! Where nodes come from: the program's allocator, which is also who asks for huge pages
//! (`docs/decisions/0020-node-memory-is-the-allocators.md`).
#![expect(unsafe_code, reason = "nodes are allocated by size, not by type")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Memory for a node, uninitialised. `layout` is not empty.
#[inline]
pub fn allocate(layout: Layout) -> NonNull<u8> {
    assert!(layout.size() > 0, "a node has a size");
    // SAFETY: not empty, see above.
    let memory = unsafe { alloc(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Gives it back.
///
/// # Safety
/// `memory` came from [`allocate`] with this layout, is given back once, and nobody refers to it.
#[inline]
pub unsafe fn free(memory: NonNull<u8>, layout: Layout) {
    // SAFETY: the caller's promise.
    unsafe { dealloc(memory.as_ptr(), layout) };
}
