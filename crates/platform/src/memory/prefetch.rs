//! Asking the processor for memory before it is needed, so that misses overlap.
#![expect(unsafe_code, reason = "the processor's instruction takes an address")]

/// Asks the processor to bring the cache line at `address` closer. Any address will do.
#[inline]
pub fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address is allowed, it never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
