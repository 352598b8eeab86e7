//! The atomics of protocols that loom checks: loom's own when it runs them.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

/// Marks a place where one `SeqCst` access must stand before the next in the single total order.
///
/// That is so by the language; but loom takes `SeqCst` accesses for `AcqRel` ones and has total order
/// in fences only.
#[inline]
pub(crate) fn total_order() {
    #[cfg(loom)]
    loom::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
