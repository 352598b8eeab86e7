//! Epoch-based reclamation, bounded by bytes.
//!
//! The collector counts what is retired, and looks for what can be freed after so many deferrals. A few large blocks are
//! few deferrals, so they would wait for long. Here each thread counts the bytes that it has retired. When they reach
//! [`BYTES_MAX`], it hands them to the collector and advances the epoch.
//!
//! What another thread's pin protects stays, however large it is.

use std::cell::Cell;

/// The bytes that a thread retires before it collects.
pub const BYTES_MAX: usize = 1 << 20;

/// What was retired in one epoch can be freed two epochs later, so two advances are needed. The third is for what
/// another thread has retired meanwhile.
const ADVANCES: u32 = 3;

thread_local! {
    static RETIRED_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// Counts bytes that this thread has just deferred the destruction of. To be called while the thread is not pinned: only
/// then can the epoch advance more than once.
#[inline]
pub fn retired(bytes: usize) {
    let sum = RETIRED_BYTES.get().saturating_add(bytes);
    RETIRED_BYTES.set(sum);
    if sum >= BYTES_MAX {
        collect();
    }
}

/// Frees what this thread has retired, and what others have handed to the collector, as far as no pin protects it.
#[cold]
pub fn collect() {
    RETIRED_BYTES.set(0);
    for _ in 0..ADVANCES {
        crossbeam_epoch::pin().flush();
    }
}
