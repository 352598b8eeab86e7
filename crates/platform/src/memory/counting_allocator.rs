//! An allocator that counts, for tests of what stays in memory.
#![expect(unsafe_code, reason = "an allocator is unsafe to write")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

static LIVE_BYTES: AtomicIsize = AtomicIsize::new(0);
static PEAK_BYTES: AtomicIsize = AtomicIsize::new(0);

/// The system's allocator, which keeps count of what is allocated and not freed. To be a program's
/// `#[global_allocator]`.
#[derive(Debug)]
pub struct CountingAllocator;

impl CountingAllocator {
    /// The fewest bytes that were live between many rounds of `collect`, which frees what is
    /// retired.
    pub fn live_after(collect: impl Fn()) -> isize {
        let mut least = isize::MAX;
        for _ in 0..2_000 {
            collect();
            least = least.min(LIVE_BYTES.load(Ordering::Relaxed));
        }
        least
    }

    /// The bytes that are live now, whatever is retired and not yet freed included.
    #[must_use]
    pub fn live() -> isize {
        LIVE_BYTES.load(Ordering::Relaxed)
    }

    /// The most bytes that were live at any moment of `run`.
    pub fn peak_of(run: impl FnOnce()) -> isize {
        PEAK_BYTES.store(Self::live(), Ordering::Relaxed);
        run();
        PEAK_BYTES.load(Ordering::Relaxed)
    }
}

// SAFETY: passes every call on to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let bytes = layout.size() as isize;
        let live = LIVE_BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes;
        PEAK_BYTES.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}
