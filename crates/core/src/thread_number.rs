//! Thread numbers, by which data that threads would share is sharded.

use std::sync::atomic::{AtomicUsize, Ordering};

/// This thread's number: 0, 1, 2, and so on, in the order in which threads ask first.
pub(crate) fn number() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}
