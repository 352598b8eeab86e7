//! A hash table frees its memory when it is emptied, and when it is dropped.
//!
//! One test in a process of its own. The lines come from the kernel, so the test measures the
//! process's resident memory; the boxes of keys come from the allocator, which counts them.
#![cfg(not(loom))]

use crossbeam_epoch as epoch;
use namiki_index::contract::KeyShape;
use namiki_index::hash::{FixedHash, HashConfig, VariableHash};
use namiki_index::{InsertOutcome, PointIndex};
use namiki_platform::counting_allocator::CountingAllocator;
use namiki_platform::machine;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn live() -> isize {
    CountingAllocator::live_after(|| epoch::pin().flush())
}

fn resident_bytes() -> u64 {
    machine::resident_bytes().unwrap_or_else(|error| panic!("{error}"))
}

fn fill_and_empty(index: &impl PointIndex, shape: KeyShape, keys: u64, full: impl FnOnce()) {
    for n in 0..keys {
        let inserted = index.insert(&shape.key(n), n);
        assert!(matches!(inserted, Ok(InsertOutcome::Inserted(_))));
        // A key that is present: no box is kept for it.
        assert_eq!(index.insert(&shape.key(n), 0), Ok(InsertOutcome::Exists(n)));
        assert_eq!(index.write(&shape.key(n), n), Ok(Some(n)));
    }
    full();
    for n in 0..keys {
        assert_eq!(index.delete(&shape.key(n)), Ok(Some(n)));
    }
}

#[test]
fn memory_comes_back() {
    fill_and_empty(&VariableHash::default(), KeyShape::Nested, 1_000, || ());
    let start = live();
    let index = VariableHash::new(HashConfig::tiny());
    let new = live();
    for _ in 0..3 {
        let keys = 20_000;
        fill_and_empty(&index, KeyShape::SharedPrefix, keys, || {
            let boxes = live() - new;
            assert!(boxes > 64 * keys as isize, "{boxes} bytes of boxes");
            let counted = index.memory_bytes() as isize;
            assert!(counted > boxes && counted < 3 * boxes, "{counted} {boxes}");
        });
        let left = live() - new;
        assert!(left < 32_000, "{left} bytes when empty");
    }
    index.insert(b"dropped with the table", 1).unwrap();
    drop(index);
    let left = live() - start;
    assert!(left < 5_000, "{left} bytes after the drop");

    if cfg!(asan) {
        // AddressSanitizer's own memory is resident, too.
        return;
    }
    let before = resident_bytes();
    let index = FixedHash::default();
    let new = index.memory_bytes();
    for _ in 0..2 {
        let mut most = 0;
        fill_and_empty(&index, KeyShape::Sparse, 500_000, || {
            most = resident_bytes() - before;
            let counted = index.memory_bytes() as u64;
            assert!(
                most.abs_diff(counted) < 8 << 20,
                "{counted} counted, {most} resident"
            );
        });
        let left = resident_bytes().saturating_sub(before);
        assert!(left < 4 << 20, "{left} of {most} bytes are left when empty");
        // Stripes stay: they hold the stamps of readers.
        let stripes = 16 << HashConfig::default().stripe_bits;
        assert!(index.memory_bytes() < new + stripes + 16_384);
    }
}
