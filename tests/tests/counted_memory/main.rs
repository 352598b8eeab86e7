//! Suites that count what is allocated: one test at a time, in a process of their own.

mod at_rest;
mod hostile_bytes;

use std::sync::{Mutex, MutexGuard, PoisonError};

use namiki_platform::counting_allocator::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// No other test runs while this is held.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
