//! Many threads at once: every key behaves like one atomic cell, and scans see what stays.

use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::keys::{KeyShape, Random, announce};
use super::model::sound;
use crate::{GetOrInsert, InsertOutcome, Lookup, OrderedIndex, PointIndex, ScanItem, ScanRange};

/// How much a concurrent test does.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Threads.
    pub threads: u64,
    /// Operations of each.
    pub operations: u64,
    /// Different keys.
    pub keys: u64,
    /// Seed of the operations (their interleaving is the machine's).
    pub seed: u64,
}

/// By key: the payloads put, and the payloads taken out (replaced or removed).
type History = HashMap<u64, (Vec<u64>, Vec<u64>)>;

/// Every write puts a number never used before. A payload that is replaced or removed is reported as
/// the old one to exactly one operation, and each read returns something that was put for its key:
/// together with the final state this makes a single chain per key, so lost and invented writes and
/// double removals all show.
///
/// # Panics
/// If any key's history is not one chain.
pub fn counters_are_linearizable_per_key(tree: &impl OrderedIndex, shape: KeyShape, load: Load) {
    let _announcement = announce("counters_are_linearizable_per_key", load.seed);
    let clock = AtomicU64::new(1);
    let histories: Vec<History> = thread::scope(|scope| {
        let run = |thread: u64| {
            let clock = &clock;
            move || {
                let mut random = Random::new(load.seed.wrapping_mul(1000).wrapping_add(thread));
                let mut history = History::new();
                for _ in 0..load.operations {
                    let n = random.below(load.keys);
                    let key = shape.key(n);
                    let fresh = clock.fetch_add(1, Ordering::Relaxed) << 20 | n;
                    let (put, taken) = operate(tree, &key, n, fresh, random.below(8));
                    let of_key = history.entry(n).or_default();
                    of_key.0.extend(put);
                    of_key.1.extend(taken);
                }
                history
            }
        };
        let handles: Vec<_> = (0..load.threads)
            .map(|thread| scope.spawn(run(thread)))
            .collect();
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|_| panic!("joined")))
            .collect()
    });
    for n in 0..load.keys {
        let (mut put, mut taken) = (Vec::<u64>::new(), Vec::<u64>::new());
        for history in &histories {
            if let Some((puts, takes)) = history.get(&n) {
                put.extend(puts);
                taken.extend(takes);
            }
        }
        if let Ok(Lookup::Found(last)) = tree.get(&shape.key(n)) {
            taken.push(last);
        }
        put.sort_unstable();
        taken.sort_unstable();
        assert_eq!(put, taken, "key {n}: what went in is not what came out");
    }
    sound(tree);
}

fn operate(
    tree: &impl PointIndex,
    key: &[u8],
    n: u64,
    fresh: u64,
    choice: u64,
) -> (Option<u64>, Option<u64>) {
    let fail = |error| -> ! { panic!("{error}") };
    let of_this_key = |payload: u64| assert_eq!(payload & 0xF_FFFF, n, "another key's payload");
    match choice {
        0 => match tree.insert(key, fresh) {
            Ok(InsertOutcome::Inserted(_)) => (Some(fresh), None),
            Ok(InsertOutcome::Exists(_)) => (None, None),
            Err(error) => fail(error),
        },
        1 => {
            let old = tree.write(key, fresh).unwrap_or_else(|error| fail(error));
            (Some(fresh), old)
        }
        2 => {
            let old = tree.update(key, fresh).unwrap_or_else(|error| fail(error));
            (old.map(|_| fresh), old)
        }
        3 | 4 => (None, tree.delete(key).unwrap_or_else(|error| fail(error))),
        5 => match tree.get_or_insert(key, &mut || fresh) {
            Ok(GetOrInsert::Inserted { payload, .. }) => (Some(payload), None),
            Ok(GetOrInsert::Exists { payload, .. }) => {
                of_this_key(payload);
                (None, None)
            }
            Err(error) => fail(error),
        },
        6 => match tree.get(key) {
            Ok(Lookup::Found(seen)) => {
                of_this_key(seen);
                let removed = tree
                    .remove_if(key, seen)
                    .unwrap_or_else(|error| fail(error));
                (None, removed.then_some(seen))
            }
            Ok(Lookup::Missing(_)) => (None, None),
            Err(error) => fail(error),
        },
        _ => {
            if let Lookup::Found(payload) = tree.get(key).unwrap_or_else(|error| fail(error)) {
                of_this_key(payload);
            }
            (None, None)
        }
    }
}

/// While other threads insert and delete everything between them, keys that stay are seen exactly
/// once by every scan, in order, either way.
///
/// # Panics
/// If a scan misses or repeats one.
pub fn scans_never_miss_or_double_a_key_that_stays(
    tree: &impl OrderedIndex,
    shape: KeyShape,
    load: Load,
) {
    let _announcement = announce("scans_never_miss_or_double_a_key_that_stays", load.seed);
    let stays = |n: u64| n.is_multiple_of(10);
    let mut expected: Vec<Vec<u8>> = (0..load.keys)
        .filter(|n| stays(*n))
        .map(|n| shape.key(n))
        .collect();
    for key in &expected {
        tree.write(key, u64::MAX)
            .unwrap_or_else(|error| panic!("{error}"));
    }
    expected.sort();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..load.threads)
            .map(|thread| {
                scope.spawn(move || {
                    let mut random = Random::new(load.seed.wrapping_add(thread));
                    for step in 0..load.operations {
                        // Waves: mostly inserts, then mostly deletes, over a moving window.
                        let growing = (step * 6 / load.operations).is_multiple_of(2);
                        let n = random.below(load.keys);
                        if stays(n) {
                            continue;
                        }
                        let key = shape.key(n);
                        let change = if random.chance(if growing { 9 } else { 1 }, 10) {
                            tree.write(&key, n)
                        } else {
                            tree.delete(&key)
                        };
                        change.unwrap_or_else(|error| panic!("{error}"));
                    }
                })
            })
            .collect();
        let scanner = scope.spawn(|| {
            let mut turn = 0_u64;
            while !done.load(Ordering::Relaxed) || turn < 2 {
                turn += 1;
                let mut seen: Vec<Vec<u8>> = Vec::new();
                let mut last: Option<Vec<u8>> = None;
                let range = if turn.is_multiple_of(2) {
                    ScanRange::all()
                } else {
                    ScanRange::backward(Bound::Unbounded, Bound::Unbounded)
                };
                let scanned = tree.scan(range, |item| {
                    if let ScanItem::Entry(key, payload) = item {
                        if let Some(last) = &last {
                            let ascending = turn.is_multiple_of(2);
                            assert!(**last != *key && (**last < *key) == ascending);
                        }
                        last = Some(key.to_vec());
                        if payload == u64::MAX {
                            seen.push(key.to_vec());
                        }
                    }
                    ControlFlow::Continue(())
                });
                assert_eq!(scanned, Ok(()));
                if !turn.is_multiple_of(2) {
                    seen.reverse();
                }
                assert!(
                    seen == expected,
                    "turn {turn}: {} of {}",
                    seen.len(),
                    expected.len()
                );
            }
        });
        for writer in writers {
            writer
                .join()
                .unwrap_or_else(|_| panic!("a writer panicked"));
        }
        done.store(true, Ordering::Relaxed);
        scanner
            .join()
            .unwrap_or_else(|_| panic!("the scanner panicked"));
    });
    sound(tree);
}

/// All threads fill the tree and empty it again, several times, so that it gains and loses levels
/// while they all watch; after each round it is empty and sound.
///
/// # Panics
/// If it is not.
pub fn churn_keeps_the_tree_sound(tree: &impl OrderedIndex, shape: KeyShape, load: Load) {
    let _announcement = announce("churn_keeps_the_tree_sound", load.seed);
    let rounds = 4;
    for round in 0..rounds {
        thread::scope(|scope| {
            for thread in 0..load.threads {
                scope.spawn(move || {
                    let mine = |n: u64| n * load.threads + thread;
                    let share = load.keys / load.threads;
                    for n in 0..share {
                        let outcome = tree.insert(&shape.key(mine(n)), n);
                        assert!(
                            matches!(outcome, Ok(InsertOutcome::Inserted(_))),
                            "{outcome:?}"
                        );
                    }
                    for n in 0..share {
                        let n = if round % 2 == 0 { n } else { share - 1 - n };
                        assert_eq!(tree.get(&shape.key(mine(n))), Ok(Lookup::Found(n)));
                        assert_eq!(tree.delete(&shape.key(mine(n))), Ok(Some(n)));
                    }
                });
            }
        });
        sound(tree);
        assert_eq!(tree.len(), 0, "round {round}");
    }
}
