//! Memory straight from the kernel: zero at first, in huge pages if it is long enough for them, and
//! able to give its contents back while its addresses stay.
#![expect(unsafe_code, reason = "maps and unmaps memory")]

use std::io;
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::memory::huge_pages::{HUGE_PAGE_BYTES, advise_huge_pages};

/// A range of memory of its own.
///
/// # Invariants
/// - M1. `start` is valid for reads and writes of `bytes` bytes until the mapping is dropped.
/// - M2. `first` and `length` are what was mapped; the range lies in it.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    first: NonNull<u8>,
    length: usize,
}

// SAFETY: it only owns the range; what is done with the bytes is up to the users of `start`.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps at least `bytes` zeros; `bytes` is not zero. From 2 MiB on, the range begins where a
    /// huge page can begin, and huge pages are asked for. An allocator's memory may have been used
    /// before, page by page.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let too_long = || io::Error::from(io::ErrorKind::OutOfMemory);
        let huge = bytes >= HUGE_PAGE_BYTES;
        let unit = if huge { HUGE_PAGE_BYTES } else { 1 };
        let bytes = bytes.checked_next_multiple_of(unit).ok_or_else(too_long)?;
        // The kernel need not begin a mapping where a huge page could begin.
        let spare = if huge { HUGE_PAGE_BYTES } else { 0 };
        let length = bytes.checked_add(spare).ok_or_else(too_long)?;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses touches nothing there is.
        let first = unsafe { mmap_anonymous(ptr::null_mut(), length, rights, MapFlags::PRIVATE) }?;
        let first = NonNull::new(first.cast::<u8>()).ok_or_else(too_long)?;
        let skipped = if huge {
            first.as_ptr().align_offset(HUGE_PAGE_BYTES)
        } else {
            0
        };
        // SAFETY: `skipped` is less than `spare`, or zero, and `bytes + spare` were mapped.
        let start = unsafe { first.add(skipped) };
        if huge {
            advise_huge_pages(start.as_ptr(), bytes);
        }
        Ok(Self {
            start,
            bytes,
            first,
            length,
        })
    }

    /// The first byte.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Number of bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives the memory behind the range back to the kernel. The range stays readable and writable:
    /// each byte is zero from some moment on, or, if the kernel refuses, what it was.
    pub fn discard(&self) {
        // SAFETY: the range is ours (M1), and its users know that this changes its bytes, as a
        // store from another thread would.
        let _ = unsafe {
            madvise(
                self.start.as_ptr().cast(),
                self.bytes,
                Advice::LinuxDontNeed,
            )
        };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length (M2), and nothing refers to it any longer. That
        // cannot fail.
        let _ = unsafe { munmap(self.first.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_at_first_and_when_returned() {
        for bytes in [1, 4096, 100_000, HUGE_PAGE_BYTES, HUGE_PAGE_BYTES + 1] {
            let mapping = Mapping::new(bytes).unwrap();
            assert!(mapping.bytes() >= bytes);
            if bytes >= HUGE_PAGE_BYTES {
                assert_eq!(mapping.start().as_ptr() as usize % HUGE_PAGE_BYTES, 0);
            }
            for _ in 0..2 {
                for at in [0, bytes / 2, bytes - 1] {
                    // SAFETY: inside of the mapping, which only this test uses.
                    unsafe {
                        let byte = mapping.start().as_ptr().add(at);
                        assert_eq!(byte.read_volatile(), 0);
                        byte.write_volatile(1);
                        assert_eq!(byte.read_volatile(), 1);
                        byte.write_volatile(u8::from(at != bytes / 2));
                    }
                }
                mapping.discard();
            }
        }
        assert!(Mapping::new(usize::MAX).is_err());
    }
}
