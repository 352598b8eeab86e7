//! Epoch-based reclamation, bounded by bytes.
//!
//! The collector counts retired objects, and looks for memory to free after a fixed number of
//! deferrals. A few large blocks are few deferrals, so they would wait for long. Here each thread
//! counts the bytes that it has retired. When they reach [`BYTES_MAX`], it hands them to the
//! collector and advances the epoch.
//!
//! Memory that another thread's pin protects stays allocated, however large it is.

use std::cell::Cell;

/// The bytes that a thread retires before it collects.
pub const BYTES_MAX: usize = 1 << 20;

/// Memory retired in one epoch can be freed two epochs later, so two advances are needed. The third
/// is for memory that other threads have retired since.
const ADVANCES: u32 = 3;

thread_local! {
    static RETIRED_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// Counts bytes that this thread has just retired. Call it while the thread is not pinned: only
/// then can the epoch advance more than once.
#[inline]
pub fn retired(bytes: usize) {
    let sum = RETIRED_BYTES.get().saturating_add(bytes);
    RETIRED_BYTES.set(sum);
    if sum >= BYTES_MAX {
        collect();
    }
}

/// Frees memory that this thread has retired or that others have handed to the collector, unless a
/// pin protects it.
#[cold]
pub fn collect() {
    RETIRED_BYTES.set(0);
    for _ in 0..ADVANCES {
        crossbeam_epoch::pin().flush();
    }
}
