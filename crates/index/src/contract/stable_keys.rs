//! Keys that stay are always seen, whatever happens to their neighbours and to their payloads.
//!
//! Half of what the writers do goes to the keys that stay: each gets one payload after the other.
//! The readers here detect an index that replaces a payload by removing the key for an instant, or
//! that shows a record both at its old place and where a split or merge has moved it.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::key_shapes::{KeyShape, Random, announce};
use super::object::{OrderedObject, PointObject};
use super::random_concurrent_calls::Load;
use super::reference_map::payload_of;
use crate::{InsertOutcome, PointIndex, ScanItem, ScanRange};

/// One in this number of keys stays.
const APART: u64 = 10;

/// Payload of a key: a part that identifies the key, and a number that changes.
const fn payload(n: u64, turn: u64) -> u64 {
    turn << 32 | n
}

const fn number_of(payload: u64) -> u64 {
    payload & (u32::MAX as u64)
}

/// While other threads insert and delete everything between them and give them other payloads, keys
/// that stay are seen exactly once by every scan, in order, either way.
///
/// # Panics
/// If a scan misses or repeats one.
pub fn scans_never_miss_or_double_a_key_that_stays(
    tree: &dyn OrderedObject,
    shape: KeyShape,
    load: Load,
) {
    let _announcement = announce("scans_never_miss_or_double_a_key_that_stays", load.seed);
    let mut expected: Vec<(Vec<u8>, u64)> = staying(load).map(|n| (shape.key(n), n)).collect();
    expected.sort();
    let mut forward = false;
    beside_writers(tree, shape, load, || {
        forward = !forward;
        let seen = seen_by_a_scan(tree, forward);
        assert!(
            seen == expected,
            "{} of {}, ascending: {forward}",
            seen.len(),
            expected.len()
        );
    });
    super::sound(tree);
}

/// Under the same load, lookups of keys that stay always find them, alone or many at once.
///
/// # Panics
/// If one does not.
pub fn gets_never_miss_a_key_that_stays(index: &dyn PointObject, shape: KeyShape, load: Load) {
    let _announcement = announce("gets_never_miss_a_key_that_stays", load.seed);
    let keys: Vec<(Vec<u8>, u64)> = staying(load).map(|n| (shape.key(n), n)).collect();
    let mut found = Vec::new();
    beside_writers(index, shape, load, || {
        for batch in keys.chunks(8) {
            let batch_keys: Vec<&[u8]> = batch.iter().map(|key| &*key.0).collect();
            assert_eq!(index.get_many(&batch_keys, &mut found), Ok(()));
            for ((key, n), in_batch) in batch.iter().zip(&found) {
                let alone = index.get(key).unwrap_or_else(|error| panic!("{error}"));
                for lookup in [*in_batch, alone] {
                    assert_eq!(payload_of(lookup).map(number_of), Some(*n), "{lookup:?}");
                }
            }
        }
    });
}

/// The numbers of the keys that stay.
fn staying(load: Load) -> impl Iterator<Item = u64> {
    (0..load.keys).step_by(APART as usize)
}

/// Inserts the keys that stay and calls `watch` again and again while the writers write.
fn beside_writers(
    index: &dyn PointObject,
    shape: KeyShape,
    load: Load,
    mut watch: impl FnMut() + Send,
) {
    for n in staying(load) {
        let inserted = index.insert(&shape.key(n), payload(n, 0));
        assert!(matches!(inserted, Ok(InsertOutcome::Inserted(_))));
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..load.threads)
            .map(|thread| scope.spawn(move || change(index, shape, load, thread)))
            .collect();
        let watcher = scope.spawn(|| {
            watch();
            watch();
            while !done.load(Ordering::Relaxed) {
                watch();
            }
        });
        let finished: Vec<_> = writers
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        done.store(true, Ordering::Relaxed);
        let watched = watcher.join();
        assert!(finished.iter().all(Result::is_ok), "a writer panicked");
        assert!(watched.is_ok(), "the watcher panicked");
    });
}

/// The work of one writer.
fn change(index: &dyn PointObject, shape: KeyShape, load: Load, thread: u64) {
    let mut random = Random::new(load.seed.wrapping_add(thread));
    for step in 1..=load.operations {
        let n = random.below(load.keys);
        if random.chance(1, 2) || n.is_multiple_of(APART) {
            replace(index, shape, n - n % APART, step, random.below(4));
            continue;
        }
        // Waves: mostly inserts, then mostly deletes.
        let growing = (step * 6 / load.operations).is_multiple_of(2);
        let key = shape.key(n);
        let changed = if random.chance(if growing { 9 } else { 1 }, 10) {
            index.write(&key, payload(n, step))
        } else {
            index.delete(&key)
        };
        changed.unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Gives a key that stays another payload, or tries to insert it, and checks that it was there.
fn replace(index: &dyn PointObject, shape: KeyShape, n: u64, turn: u64, choice: u64) {
    let (key, payload) = (shape.key(n), payload(n, turn));
    let old = match choice {
        0 => match index.insert(&key, payload) {
            Ok(InsertOutcome::Exists(old)) => Some(old),
            other => panic!("key {n} was there: {other:?}"),
        },
        1 => index
            .update(&key, payload)
            .unwrap_or_else(|error| panic!("{error}")),
        _ => index
            .write(&key, payload)
            .unwrap_or_else(|error| panic!("{error}")),
    };
    assert_eq!(old.map(number_of), Some(n), "{old:?}");
}

/// The keys that stay, in ascending order, as one scan sees them.
fn seen_by_a_scan(tree: &dyn OrderedObject, forward: bool) -> Vec<(Vec<u8>, u64)> {
    let range = if forward {
        ScanRange::all()
    } else {
        ScanRange::backward(Bound::Unbounded, Bound::Unbounded)
    };
    let mut seen: Vec<(Vec<u8>, u64)> = Vec::new();
    let mut last: Option<Vec<u8>> = None;
    let scanned = tree.scan_to(range, &mut |item| {
        if let ScanItem::Entry(key, payload) = item {
            if let Some(last) = &last {
                assert!(**last != *key && (**last < *key) == forward, "out of order");
            }
            last = Some(key.to_vec());
            let n = number_of(payload);
            if n.is_multiple_of(APART) {
                seen.push((key.to_vec(), n));
            }
        }
        ControlFlow::Continue(())
    });
    assert_eq!(scanned, Ok(()));
    if !forward {
        seen.reverse();
    }
    seen
}
