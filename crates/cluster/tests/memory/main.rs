//! Memory of payloads, measured by the allocator against the limits that count it.
//!
//! The tests run one after the other, so that every counted allocation belongs to one of them.
#![cfg(feature = "hostile-bytes")]

use std::sync::{Mutex, MutexGuard, PoisonError};

use namiki_cluster::transport::hostile_bytes::FilledCache;
use namiki_platform::counting_allocator::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Limit of the caches.
const CACHE_BYTES: usize = 16 << 20;
/// The allocator's own overhead is not counted, and tables grow by doubling.
const BYTES_MAX: isize = (CACHE_BYTES + CACHE_BYTES / 8) as isize;

fn alone() -> MutexGuard<'static, ()> {
    static RUNNING: Mutex<()> = Mutex::new(());
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fills a cache and checks the memory that it keeps.
fn check(payloads: u64, bytes: usize, fill: impl FnOnce() -> FilledCache) {
    let before = CountingAllocator::live();
    let cache = fill();
    let kept = CountingAllocator::live() - before;
    let payloads = cache.kept(payloads, bytes);
    eprintln!(
        "{payloads} payloads of {bytes} bytes take {} KiB",
        kept >> 10
    );
    assert!(kept <= BYTES_MAX, "{kept} bytes of {CACHE_BYTES} are kept");
    assert!(payloads > 0);
}

#[test]
fn a_cache_of_short_payloads_keeps_to_its_limit() {
    let _alone = alone();
    for bytes in [20, 100, 1000, 10_000, 1_000_000] {
        let payloads = (2 * CACHE_BYTES / bytes) as u64;
        check(payloads, bytes, || {
            FilledCache::of_sealed(CACHE_BYTES, payloads, bytes)
        });
    }
}

/// A payload is a slice of the buffer that it was read into.
#[test]
fn received_payloads_keep_no_longer_buffers() {
    let _alone = alone();
    for (bytes, others) in [(100, 60_000), (5000, 60_000), (100, 200_000), (70_000, 100)] {
        let payloads = (CACHE_BYTES / bytes).min(2000) as u64;
        check(payloads, bytes, || {
            FilledCache::of_received(CACHE_BYTES, payloads, bytes, others)
        });
    }
}
