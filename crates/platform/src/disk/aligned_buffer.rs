//! A growable byte buffer that is aligned for direct I/O.
//!
//! A device takes a long write in pieces, one for each run of bytes that lies together in physical
//! memory: with ordinary pages one for every 4 KiB. In huge pages a frame of 192 KiB is one piece
//! (decision 0016 has numbers).
#![expect(unsafe_code, reason = "alignment and pages beyond what Vec<u8> gives")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use super::BUFFER_ALIGN_BYTES;
use crate::Mapping;
use crate::memory::huge_pages::HUGE_PAGE_BYTES;

/// Memory for several buffers is asked for in huge pages from this length on: of a shorter one too
/// little would be used.
const HUGE_FROM_BYTES: usize = 512 << 10;

/// Bytes at an address that is a multiple of [`BUFFER_ALIGN_BYTES`].
///
/// # Invariants
/// - A1. `start` is valid for reads and writes of `capacity` initialised bytes, which belong to
///   this buffer alone; they lie in the memory that it keeps, unless it has no bytes.
/// - A2. `len <= capacity`.
pub struct AlignedBuf {
    start: NonNull<u8>,
    len: usize,
    capacity: usize,
    /// Kept for the buffers that lie in it.
    _memory: Option<Arc<Memory>>,
}

// SAFETY: the bytes belong to the buffer (A1) and are reached only through `&self` or `&mut self`.
unsafe impl Send for AlignedBuf {}
// SAFETY: as above; `&AlignedBuf` only reads.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// An empty buffer with room for at least `capacity` bytes, all of them zero.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let capacity = Self::whole(capacity);
        let memory = Memory::allocated(capacity);
        Self {
            start: memory.start,
            len: 0,
            capacity,
            _memory: Some(Arc::new(memory)),
        }
    }

    /// A buffer of `len` zero bytes.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        let mut buf = Self::with_capacity(len);
        buf.len = len;
        buf
    }

    /// `count` buffers of `len` zero bytes each, for long writes: side by side in one piece of
    /// memory, which lives as long as any of them, and from half a megabyte on in huge pages.
    #[must_use]
    pub fn zeroed_together(count: usize, len: usize) -> Vec<Self> {
        let capacity = Self::whole(len);
        let bytes = capacity
            .checked_mul(count.max(1))
            .expect("buffers are far smaller than the address space");
        let mapped = (bytes >= HUGE_FROM_BYTES).then(|| Memory::mapped(bytes));
        let memory = Arc::new(mapped.flatten().unwrap_or_else(|| Memory::allocated(bytes)));
        (0..count)
            .map(|at| Self {
                // SAFETY: `at < count`, so that all of this buffer lies in the memory's `bytes`.
                start: unsafe { memory.start.add(at * capacity) },
                len,
                capacity,
                _memory: Some(Arc::clone(&memory)),
            })
            .collect()
    }

    fn whole(capacity: usize) -> usize {
        capacity
            .max(1)
            .checked_next_multiple_of(BUFFER_ALIGN_BYTES)
            .expect("a buffer is far smaller than the address space")
    }

    /// Number of bytes that fit before the buffer has to move.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Empties the buffer; its memory stays.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Makes the buffer `len` bytes long; bytes that it gains are zero.
    pub fn resize(&mut self, len: usize) {
        self.reserve(len);
        if len > self.len {
            // SAFETY: `len <= capacity` after `reserve`, so the range lies within A1.
            unsafe {
                self.start
                    .as_ptr()
                    .add(self.len)
                    .write_bytes(0, len - self.len);
            }
        }
        self.len = len;
    }

    /// Adds `bytes` at the end.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let old = self.len;
        let new = old + bytes.len();
        self.reserve(new);
        // SAFETY: `new <= capacity` after `reserve` (A1); `bytes` cannot overlap memory that we
        // hold by `&mut self`.
        unsafe {
            self.start
                .as_ptr()
                .add(old)
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        self.len = new;
    }

    /// Makes room for `len` bytes in all.
    pub fn reserve(&mut self, len: usize) {
        if len > self.capacity {
            let mut larger = Self::with_capacity(len.max(self.capacity * 2));
            larger.extend_from_slice(self);
            *self = larger;
        }
    }
}

impl Default for AlignedBuf {
    /// An empty buffer without memory.
    fn default() -> Self {
        const NOWHERE: NonZeroUsize = NonZeroUsize::new(BUFFER_ALIGN_BYTES).unwrap();
        Self {
            start: NonNull::without_provenance(NOWHERE),
            len: 0,
            capacity: 0,
            _memory: None,
        }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: A1 and A2.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: A1 and A2, and `&mut self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

/// Where buffers lie.
///
/// # Invariants
/// - M1. `start` is valid for reads and writes of the bytes that were asked for, which were zero at
///   first; it is a multiple of [`BUFFER_ALIGN_BYTES`], and `origin` says how it is given back.
struct Memory {
    start: NonNull<u8>,
    origin: Origin,
}

/// The origin of the memory.
enum Origin {
    Allocator(Layout),
    /// Kept until no buffer is left in it.
    Mapping(#[expect(dead_code, reason = "owns the memory")] Mapping),
}

// SAFETY: nothing is reached through it but by the buffers, each of which has bytes of its own.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// `bytes` zeros; `bytes` is not zero.
    fn allocated(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes, BUFFER_ALIGN_BYTES)
            .expect("a buffer is far smaller than the address space");
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else {
            handle_alloc_error(layout)
        };
        Self {
            start,
            origin: Origin::Allocator(layout),
        }
    }

    /// Memory of its own from the kernel, in huge pages if there are any.
    fn mapped(bytes: usize) -> Option<Self> {
        let mapping = Mapping::new(bytes.checked_next_multiple_of(HUGE_PAGE_BYTES)?).ok()?;
        Some(Self {
            start: mapping.start(),
            origin: Origin::Mapping(mapping),
        })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match &self.origin {
            // SAFETY: allocated in `allocated` with this layout, and no buffer is left in it.
            Origin::Allocator(layout) => unsafe { dealloc(self.start.as_ptr(), *layout) },
            // Dropped with us.
            Origin::Mapping(_) => {}
        }
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuf({} of {} bytes)", self.len, self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_growing_buffer_keeps_bytes_and_alignment() {
        let mut buf = AlignedBuf::with_capacity(10);
        buf.extend_from_slice(b"abc");
        buf.resize(100_000);
        assert_eq!(buf.as_ptr() as usize % BUFFER_ALIGN_BYTES, 0);
        assert_eq!(&buf[..4], b"abc\0");
        buf.clear();
        buf.resize(4);
        assert_eq!(&buf[..], [0; 4]);
    }

    #[test]
    fn buffers_side_by_side_are_each_their_own() {
        for len in [1, 4096, 5000, 300_000] {
            let mut buffers = AlignedBuf::zeroed_together(7, len);
            for (number, buf) in buffers.iter_mut().enumerate() {
                assert!(buf.iter().all(|byte| *byte == 0));
                assert_eq!((buf.len(), buf.as_ptr() as usize % 4096), (len, 0));
                buf.fill(number as u8 + 1);
            }
            // Growing, one moves away; dropped, one leaves the others where they are.
            buffers[3].resize(len + 10_000);
            drop(buffers.remove(0));
            for (number, buf) in buffers.iter().enumerate() {
                assert!(buf[..len].iter().all(|byte| *byte == number as u8 + 2));
            }
        }
        assert!(AlignedBuf::zeroed_together(0, 10).is_empty());
    }

    #[test]
    fn long_buffers_begin_where_a_huge_page_can_begin() {
        let mut buffers = AlignedBuf::zeroed_together(2, 3 * HUGE_FROM_BYTES);
        assert_eq!(buffers[0].as_ptr() as usize % HUGE_PAGE_BYTES, 0);
        let mut buf = buffers.remove(0);
        assert!(buf.iter().all(|byte| *byte == 0));
        buf.fill(7);
        buf.resize(9 * HUGE_FROM_BYTES);
        assert!(buffers[0].iter().all(|byte| *byte == 0));
        assert_eq!(
            (buf[3 * HUGE_FROM_BYTES - 1], buf[3 * HUGE_FROM_BYTES]),
            (7, 0)
        );
    }
}
