//! Suites that count allocations: one test at a time, in a process of their own.

mod at_rest;
mod hostile_bytes;

use std::sync::{Mutex, MutexGuard, PoisonError};

use namiki_platform::counting_allocator::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Serializes the tests: only one holds this guard at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
