//! The atomics of protocols that loom checks: loom's own when it runs them.

#[cfg(loom)]
pub use loom::sync::atomic::fence;
#[cfg(loom)]
pub use loom::sync::{RwLock, RwLockReadGuard};
#[cfg(loom)]
pub use namiki_platform::model_checker::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, fence};
#[cfg(not(loom))]
pub use std::sync::{RwLock, RwLockReadGuard};

/// Marks a point at which one `SeqCst` access must precede the next in the single total order.
///
/// The language guarantees that, but loom treats `SeqCst` accesses as `AcqRel` and orders only
/// fences totally.
#[inline]
pub fn total_order() {
    #[cfg(loom)]
    loom::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// One step of waiting for another thread that is about to finish: `turn` counts them.
#[cold]
pub fn wait(turn: u32) {
    #[cfg(loom)]
    {
        let _ = turn;
        loom::thread::yield_now();
    }
    #[cfg(not(loom))]
    if turn < 64 {
        std::hint::spin_loop();
    } else {
        // The other thread may have been preempted.
        std::thread::yield_now();
    }
}
