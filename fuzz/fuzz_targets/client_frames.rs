//! See tests/src/hostile_bytes/client_frames.rs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use namiki_platform::counting_allocator::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fuzz_target!(|bytes: &[u8]| {
    namiki_tests::hostile_bytes::run("client_frames", bytes);
});
