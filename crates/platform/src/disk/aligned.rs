//! A growable byte buffer whose first byte is aligned for direct I/O.
#![expect(unsafe_code, reason = "alignment beyond what Vec<u8> gives")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::BUFFER_ALIGN_BYTES;

/// Bytes at an address that is a multiple of [`BUFFER_ALIGN_BYTES`].
///
/// # Invariants
/// - A1. `start` is valid for reads and writes of `capacity` initialised bytes, and owned.
/// - A2. `len <= capacity`.
pub struct AlignedBuf {
    start: NonNull<u8>,
    len: usize,
    capacity: usize,
}

// SAFETY: the memory is owned (A1) and reached only through `&self` or `&mut self`.
unsafe impl Send for AlignedBuf {}
// SAFETY: as above; `&AlignedBuf` only reads.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// An empty buffer with room for at least `capacity` bytes, all of them zero.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let capacity = capacity.max(1).next_multiple_of(BUFFER_ALIGN_BYTES);
        let layout = Self::layout(capacity);
        // SAFETY: the layout's size is not zero: `capacity` is at least BUFFER_ALIGN_BYTES.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else {
            handle_alloc_error(layout)
        };
        Self {
            start,
            len: 0,
            capacity,
        }
    }

    /// A buffer of `len` zero bytes.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        let mut buf = Self::with_capacity(len);
        buf.len = len;
        buf
    }

    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, BUFFER_ALIGN_BYTES)
            .expect("a buffer is far smaller than the address space")
    }

    /// How many bytes fit before the buffer has to move.
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

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        // SAFETY: allocated in `with_capacity` with this layout; `capacity` never changes.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.capacity)) };
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
    fn a_buffer_keeps_its_bytes_and_its_alignment_when_it_grows() {
        let mut buf = AlignedBuf::with_capacity(10);
        buf.extend_from_slice(b"abc");
        buf.resize(100_000);
        assert_eq!(buf.as_ptr() as usize % BUFFER_ALIGN_BYTES, 0);
        assert_eq!(&buf[..4], b"abc\0");
        buf.clear();
        buf.resize(4);
        assert_eq!(&buf[..], [0; 4]);
    }
}
