//! Leaf versions and their stamps protect against phantoms.

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::key_shapes::{KeyShape, Random, announce};
use super::object::{OrderedObject, PointObject};
use crate::{InsertOutcome, Inserted, LeafVersion, Lookup, PointIndex, ScanItem, ScanRange};

fn inserted(tree: &dyn PointObject, key: &[u8], payload: u64) -> Inserted {
    match tree.insert(key, payload) {
        Ok(InsertOutcome::Inserted(inserted)) => inserted,
        other => panic!("{other:?}"),
    }
}

/// The leaves that a scan of a range reports.
fn leaves(tree: &dyn OrderedObject, range: ScanRange<'_>) -> Vec<LeafVersion> {
    let mut leaves = Vec::new();
    let scanned = tree.scan_to(range, &mut |item| {
        if let ScanItem::Leaf(version) = item {
            leaves.push(version);
        }
        ControlFlow::Continue(())
    });
    assert_eq!(scanned, Ok(()));
    leaves
}

/// Updates, reads and the consolidations they cause leave every leaf version as it was.
///
/// # Panics
/// If they do not.
pub fn updates_and_consolidations_keep_the_version(tree: &dyn OrderedObject, shape: KeyShape) {
    for n in 0..500 {
        inserted(tree, &shape.key(n), n);
    }
    // Reads and updates first, so that merges and splits that are due are done.
    for n in 0..500 {
        tree.update(&shape.key(n), n)
            .unwrap_or_else(|error| panic!("{error}"));
    }
    let before = leaves(tree, ScanRange::all());
    for round in 0..20 {
        for n in 0..500 {
            assert!(matches!(tree.update(&shape.key(n), n + round), Ok(Some(_))));
            assert!(matches!(tree.write(&shape.key(n), n + round), Ok(Some(_))));
            assert_eq!(tree.get(&shape.key(n)), Ok(Lookup::Found(n + round)));
        }
    }
    assert_eq!(leaves(tree, ScanRange::all()), before);
    for version in before {
        assert_eq!(tree.current(version.leaf), Some(version));
        assert!(tree.raise_and_check(version, 5));
        assert!(tree.leaf_rts(version.leaf) >= 5);
    }
}

/// An insert and a delete change the version of the leaf that a scan or failed get reported, and no
/// version ever comes back.
///
/// # Panics
/// If one does.
pub fn deletes_and_inserts_change_the_version(
    tree: &dyn OrderedObject,
    shape: KeyShape,
    seed: u64,
) {
    let _announcement = announce("deletes_and_inserts_change_the_version", seed);
    let mut random = Random::new(seed);
    let mut dead: BTreeSet<(u64, u64)> = BTreeSet::new();
    let mut present: BTreeSet<u64> = BTreeSet::new();
    for step in 0..4000 {
        let n = random.below(if (step / 1000) % 2 == 0 {
            300
        } else {
            1_000_000
        });
        let key = shape.key(n);
        let point = Bound::Included(key.as_slice());
        let [seen] = leaves(tree, ScanRange::forward(point, point))[..] else {
            panic!("one key, one leaf")
        };
        assert!(
            !dead.contains(&(seen.leaf, seen.counter)),
            "{seen} was there before"
        );
        if present.remove(&n) {
            assert!(matches!(tree.delete(&key), Ok(Some(_))));
        } else {
            assert_eq!(tree.get(&key), Ok(Lookup::Missing(seen)));
            assert_eq!(inserted(tree, &key, n).before, seen);
            present.insert(n);
        }
        assert!(!tree.raise_and_check(seen, 1), "{seen} has changed");
        dead.insert((seen.leaf, seen.counter));
        if step % 1000 == 999 {
            for n in std::mem::take(&mut present) {
                assert!(matches!(tree.delete(&shape.key(n)), Ok(Some(_))));
            }
        }
    }
}

/// A transaction that replaces `before` by `after`, or by the halves of its own split, in the set of
/// leaves it has scanned still has a set that covers the range and is current.
///
/// # Panics
/// If it has not.
pub fn inserts_report_versions_and_splits(tree: &dyn OrderedObject, shape: KeyShape, seed: u64) {
    let _announcement = announce("inserts_report_versions_and_splits", seed);
    let mut random = Random::new(seed);
    let as_set = |leaves: Vec<LeafVersion>| -> BTreeSet<(u64, u64)> {
        leaves
            .into_iter()
            .map(|version| (version.leaf, version.counter))
            .collect()
    };
    let mut set = as_set(leaves(tree, ScanRange::all()));
    let mut splits = 0;
    for _ in 0..1000 {
        let key = shape.key(random.below(100_000));
        if let Ok(InsertOutcome::Inserted(done)) = tree.insert(&key, 1) {
            assert!(
                set.remove(&(done.before.leaf, done.before.counter)),
                "{}",
                done.before
            );
            match done.split {
                None => {
                    set.insert((done.after.leaf, done.after.counter));
                }
                Some((left, right)) => {
                    splits += 1;
                    assert_eq!(left.leaf, done.before.leaf);
                    set.insert((left.leaf, left.counter));
                    set.insert((right.leaf, right.counter));
                }
            }
            assert_eq!(as_set(leaves(tree, ScanRange::all())), set);
        }
    }
    assert!(splits > 0, "no insert split a leaf: use smaller leaves");
}

/// A failed get returns the version that the insert of the same key finds. Inserts and deletes
/// change it, no version ever recurs, and updates leave it alone. (In a tree, later operations may
/// complete a merge that an earlier one began, which changes versions too: this is for indexes with
/// leaves that stay.)
///
/// # Panics
/// If that does not hold.
pub fn gets_and_inserts_tell_versions(index: &dyn PointObject, shape: KeyShape, seed: u64) {
    let _announcement = announce("gets_and_inserts_tell_versions", seed);
    let mut random = Random::new(seed);
    let mut dead: BTreeSet<(u64, u64)> = BTreeSet::new();
    let mut present: BTreeSet<u64> = BTreeSet::new();
    for _ in 0..4000 {
        let n = random.below(300);
        let key = shape.key(n);
        if let Some(other) = present.first() {
            // Update a neighbour, so that updates fall into all leaves.
            assert!(matches!(index.update(&shape.key(*other), n), Ok(Some(_))));
        }
        if present.remove(&n) {
            assert!(matches!(index.delete(&key), Ok(Some(_))));
            continue;
        }
        let Ok(Lookup::Missing(seen)) = index.get(&key) else {
            panic!("key {n} is absent")
        };
        assert!(
            !dead.contains(&(seen.leaf, seen.counter)),
            "{seen} was there before"
        );
        assert!(index.raise_and_check(seen, n));
        assert!(index.leaf_rts(seen.leaf) >= n);
        let done = inserted(index, &key, n);
        assert_eq!(done.before, seen);
        assert!(!index.raise_and_check(seen, 1), "{seen} has changed");
        dead.insert((seen.leaf, seen.counter));
        let now = done.split.map_or(done.after, |(left, _)| left);
        assert!(index.raise_and_check(now, 1));
        for written in [index.write(&key, 1), index.update(&key, n)] {
            assert!(matches!(written, Ok(Some(_))));
        }
        present.insert(n);
        if random.chance(1, 4) {
            assert!(index.raise_and_check(now, 1), "an update changed {now}");
            present.remove(&n);
            assert!(matches!(index.delete(&key), Ok(Some(_))));
            assert!(!index.raise_and_check(now, 1), "{now} has changed");
            dead.insert((now.leaf, now.counter));
        }
    }
}

/// Readers raise a stamp on the leaf of an absent key and check it; inserters insert the key and then
/// read the stamp. At least one of each pair must detect the other, whatever other threads do to
/// the leaves. In every third round all of that happens sequentially: then only the stamps can
/// reveal a conflict.
///
/// # Panics
/// If neither did.
pub fn no_insert_slips_past_a_successful_check<I: PointIndex>(
    make: impl Fn() -> I,
    shape: KeyShape,
    rounds: u64,
    seed: u64,
) {
    let _announcement = announce("no_insert_slips_past_a_successful_check", seed);
    for round in 0..rounds {
        check_beside_inserts(&make(), shape, round, seed);
    }
}

/// One round, with a new index.
fn check_beside_inserts(tree: &dyn PointObject, shape: KeyShape, round: u64, seed: u64) {
    const KEYS: u64 = 16;
    let mut random = Random::new(seed.wrapping_add(round));
    // Neighbours, so that the inserts split leaves, and deletes to come merge some.
    for _ in 0..random.below(30) {
        tree.write(&shape.key(1000 + random.below(100)), 0)
            .unwrap_or_else(|e| panic!("{e}"));
    }
    let checked: Vec<AtomicBool> = (0..KEYS).map(|_| AtomicBool::new(false)).collect();
    let read: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let stamp = 1_000_000;
    let look = || {
        for n in 0..KEYS {
            if let Ok(Lookup::Missing(seen)) = tree.get(&shape.key(1000 + n * 7)) {
                let held = tree.raise_and_check(seen, stamp + n);
                checked[n as usize].store(held, Ordering::Relaxed);
            }
        }
    };
    let insert = || {
        for n in 0..KEYS {
            match tree.insert(&shape.key(1000 + n * 7), n) {
                Ok(InsertOutcome::Inserted(done)) => {
                    let rts = tree.leaf_rts(done.after.leaf);
                    read[n as usize].store(rts, Ordering::Relaxed);
                }
                // Among the neighbours: not part of the test.
                _ => read[n as usize].store(u64::MAX, Ordering::Relaxed),
            }
        }
    };
    let change_neighbours = || {
        for n in 0..100 {
            let key = shape.key(1000 + n);
            if !n.is_multiple_of(7) {
                let change = if round.is_multiple_of(2) {
                    tree.write(&key, 0)
                } else {
                    tree.delete(&key)
                };
                change.unwrap_or_else(|error| panic!("{error}"));
            }
        }
    };
    let all: [&(dyn Fn() + Sync); 3] = [&look, &change_neighbours, &insert];
    if round.is_multiple_of(3) {
        all.iter().for_each(|one| one());
    } else {
        let start = Barrier::new(all.len());
        thread::scope(|scope| {
            for one in all {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    one();
                });
            }
        });
    }
    for n in 0..KEYS {
        if checked[n as usize].load(Ordering::Relaxed) {
            let rts = read[n as usize].load(Ordering::Relaxed);
            assert!(
                rts >= stamp + n,
                "round {round}: key {n} slipped past, rts {rts}"
            );
        }
    }
}
