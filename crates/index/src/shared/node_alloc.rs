//! Node memory: from the program's allocator, which also asks for huge pages
//! (`docs/decisions/0020-huge-pages-from-the-allocator.md`).
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

/// Frees a node's memory.
///
/// # Safety
/// `memory` came from [`allocate`] with this layout, is freed once, and nothing refers to it.
#[inline]
pub unsafe fn free(memory: NonNull<u8>, layout: Layout) {
    // SAFETY: the caller's promise.
    unsafe { dealloc(memory.as_ptr(), layout) };
}
