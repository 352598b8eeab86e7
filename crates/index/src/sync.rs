//! The atomics of protocols that loom checks: loom's own when it runs them.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, fence};
#[cfg(loom)]
pub(crate) use loom::sync::{RwLock, RwLockReadGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::{RwLock, RwLockReadGuard};
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, fence};

/// Marks a place where one `SeqCst` access must stand before the next in the single total order.
///
/// That is so by the language; but loom takes `SeqCst` accesses for `AcqRel` ones and has total order
/// in fences only.
#[inline]
pub(crate) fn total_order() {
    #[cfg(loom)]
    loom::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// One turn of waiting for another thread that is about to finish: `turn` counts them.
#[cold]
pub(crate) fn wait(turn: u32) {
    #[cfg(loom)]
    {
        let _ = turn;
        loom::thread::yield_now();
    }
    #[cfg(not(loom))]
    if turn < 64 {
        std::hint::spin_loop();
    } else {
        // It may have lost its processor.
/// Waits a moment for another thread, the longer the more often that was in vain.
#[inline]
pub(crate) fn pause(_turn: u32) {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    if _turn < 6 {
        (0..1 << _turn).for_each(|_| std::hint::spin_loop());
    } else {
        std::thread::yield_now();
    }
}
