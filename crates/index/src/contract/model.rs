//! An index does what a sorted map does.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use super::keys::{KeyShape, Random, announce};
use crate::{
    Direction, GetOrInsert, InsertOutcome, LeafVersion, Lookup, OrderedIndex, ScanItem, ScanRange,
};

/// All entries of a range, as a scan reports them. Checks that a leaf comes first.
///
/// # Panics
/// If the scan breaks its contract.
pub fn scan_all(tree: &impl OrderedIndex, range: ScanRange<'_>) -> Vec<(Vec<u8>, u64)> {
    let mut entries: Vec<(Vec<u8>, u64)> = Vec::new();
    let mut leaves: Vec<LeafVersion> = Vec::new();
    let scanned = tree.scan(range, |item| {
        match item {
            ScanItem::Leaf(version) => leaves.push(version),
            ScanItem::Entry(key, payload) => {
                assert!(!leaves.is_empty(), "an entry before any leaf");
                if let Some(last) = entries.last() {
                    let ascending = range.direction == Direction::Forward;
                    assert!(
                        *last.0 != *key && (*last.0 < *key) == ascending,
                        "out of order"
                    );
                }
                entries.push((key.to_vec(), payload));
            }
        }
        ControlFlow::Continue(())
    });
    assert_eq!(scanned, Ok(()));
    assert!(
        !leaves.is_empty(),
        "a scan reports at least the covering leaf"
    );
    entries
}

/// Checks that both scans of the whole tree, `len` and point reads agree. Nobody may be writing.
///
/// # Panics
/// If they do not.
pub fn sound(tree: &impl OrderedIndex) {
    let forward = scan_all(tree, ScanRange::all());
    let mut backward = scan_all(
        tree,
        ScanRange::backward(Bound::Unbounded, Bound::Unbounded),
    );
    backward.reverse();
    assert_eq!(forward.len(), backward.len());
    assert!(forward == backward, "the two directions disagree");
    assert_eq!(tree.len(), forward.len());
    for (key, payload) in &forward {
        assert_eq!(tree.get(key), Ok(Lookup::Found(*payload)));
    }
}

fn bound<'a>(random: &mut Random, key: &'a [u8]) -> Bound<&'a [u8]> {
    match random.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(key),
        _ => Bound::Excluded(key),
    }
}

/// Runs `steps` random operations over `keys` different keys on an empty tree and on a `BTreeMap` and
/// compares all answers, leaf versions included. Then deletes everything.
///
/// # Panics
/// If the two disagree.
pub fn matches_a_sorted_map(
    tree: &impl OrderedIndex,
    shape: KeyShape,
    keys: u64,
    steps: usize,
    seed: u64,
) {
    let _announcement = announce("matches_a_sorted_map", seed);
    let mut random = Random::new(seed);
    let mut model: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    for step in 0..steps {
        // Phases of growth and of shrinkage, so that the tree gains and loses levels.
        let growing = (step * 8 / steps).is_multiple_of(2);
        let key = shape.key(random.below(keys));
        let payload = random.draw();
        let known = model.get(&key).copied();
        match random.below(20) {
            0..=5 if growing => insert(tree, &key, payload, &mut model),
            0..=5 => {
                assert_eq!(tree.delete(&key), Ok(known));
                model.remove(&key);
            }
            6 => {
                assert_eq!(tree.write(&key, payload), Ok(known));
                model.insert(key, payload);
            }
            7 => {
                assert_eq!(tree.update(&key, payload), Ok(known));
                model.entry(key).and_modify(|old| *old = payload);
            }
            8 => {
                let expected = if random.chance(1, 2) {
                    known.unwrap_or(1)
                } else {
                    payload
                };
                let removed = known == Some(expected);
                assert_eq!(tree.remove_if(&key, expected), Ok(removed));
                if removed {
                    model.remove(&key);
                }
            }
            9 => get_or_insert(tree, &key, payload, &mut model),
            10 if step.is_multiple_of(8) => {
                let other = shape.key(random.below(keys));
                let range = ScanRange {
                    start: bound(&mut random, &key),
                    end: bound(&mut random, &other),
                    direction: if random.chance(1, 2) {
                        Direction::Forward
                    } else {
                        Direction::Backward
                    },
                };
                assert_eq!(
                    scan_all(tree, range),
                    scan_model(&model, range),
                    "{range:?}"
                );
            }
            11 => {
                let batch: Vec<Vec<u8>> = (0..random.below(20))
                    .map(|_| shape.key(random.below(keys)))
                    .collect();
                let batch: Vec<&[u8]> = batch.iter().map(Vec::as_slice).collect();
                let mut out = vec![Lookup::Found(0)];
                assert_eq!(tree.get_many(&batch, &mut out), Ok(()));
                let payloads: Vec<Option<u64>> = out.into_iter().map(payload_of).collect();
                let expected: Vec<_> = batch.iter().map(|key| model.get(*key).copied()).collect();
                assert_eq!(payloads, expected);
            }
            _ => {
                let found = tree.get(&key).map(payload_of);
                assert_eq!(found, Ok(known));
            }
        }
    }
    sound(tree);
    assert_eq!(
        scan_all(tree, ScanRange::all()),
        model.into_iter().collect::<Vec<_>>()
    );
    for n in 0..keys {
        tree.delete(&shape.key(n))
            .unwrap_or_else(|error| panic!("{error}"));
    }
    assert!(tree.is_empty());
    assert_eq!(scan_all(tree, ScanRange::all()), []);
}

/// The payload found, if any.
pub(super) fn payload_of(lookup: Lookup) -> Option<u64> {
    match lookup {
        Lookup::Found(payload) => Some(payload),
        Lookup::Missing(_) => None,
    }
}

fn insert(tree: &impl OrderedIndex, key: &[u8], payload: u64, model: &mut BTreeMap<Vec<u8>, u64>) {
    let missing = tree.get(key);
    match tree.insert(key, payload) {
        Ok(InsertOutcome::Exists(old)) => assert_eq!(model.get(key), Some(&old)),
        Ok(InsertOutcome::Inserted(inserted)) => {
            assert_eq!(model.insert(key.to_vec(), payload), None);
            assert_eq!(missing, Ok(Lookup::Missing(inserted.before)));
            assert_ne!(inserted.before, inserted.after);
            let (left, right) = inserted.split.unwrap_or((inserted.after, inserted.after));
            assert_eq!(tree.current(left.leaf), Some(left));
            assert_eq!(tree.current(right.leaf), Some(right));
        }
        Err(error) => panic!("{error}"),
    }
}

fn get_or_insert(
    tree: &impl OrderedIndex,
    key: &[u8],
    payload: u64,
    model: &mut BTreeMap<Vec<u8>, u64>,
) {
    let mut calls = 0;
    let outcome = tree.get_or_insert(key, &mut || {
        calls += 1;
        payload
    });
    match (outcome, model.get(key)) {
        (
            Ok(GetOrInsert::Exists {
                payload,
                unused: None,
            }),
            Some(old),
        ) => {
            assert_eq!((payload, calls), (*old, 0));
        }
        (Ok(GetOrInsert::Inserted { payload: new, .. }), None) => {
            assert_eq!((new, calls), (payload, 1));
            model.insert(key.to_vec(), payload);
        }
        other => panic!("{other:?}"),
    }
}

/// What a scan of the model visits. The ends may be crossed, which `BTreeMap::range` refuses.
fn scan_model(model: &BTreeMap<Vec<u8>, u64>, range: ScanRange<'_>) -> Vec<(Vec<u8>, u64)> {
    let inside = |key: &[u8]| {
        (match range.start {
            Bound::Included(start) => key >= start,
            Bound::Excluded(start) => key > start,
            Bound::Unbounded => true,
        }) && (match range.end {
            Bound::Included(end) => key <= end,
            Bound::Excluded(end) => key < end,
            Bound::Unbounded => true,
        })
    };
    let entries = model
        .iter()
        .filter(|entry| inside(entry.0))
        .map(|(k, p)| (k.clone(), *p));
    match range.direction {
        Direction::Forward => entries.collect(),
        Direction::Backward => entries.rev().collect(),
    }
}
