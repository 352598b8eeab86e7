//! Asking for huge pages: a look-up in a large table otherwise misses the TLB as well as the cache.
#![expect(unsafe_code, reason = "madvise takes an address")]

/// The length and alignment of a huge page, where the processor has them of this size; elsewhere
/// only a round number.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Advises the kernel to back `bytes` of memory at `start` by huge pages. Without huge pages the
/// advice has no effect.
pub fn advise_huge_pages(start: *mut u8, bytes: usize) {
    // SAFETY: this advice changes no contents and takes no memory away, so it is harmless for any
    // range; one that is not mapped, or not aligned, is refused.
    let _ = unsafe { rustix::mm::madvise(start.cast(), bytes, rustix::mm::Advice::LinuxHugepage) };
}
