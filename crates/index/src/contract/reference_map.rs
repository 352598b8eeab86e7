//! Comparison of an index with a sorted map.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use super::key_shapes::{KeyShape, Random, announce};
use super::object::{OrderedObject, PointObject};
use crate::{
    Direction, GetOrInsert, InsertOutcome, LeafVersion, Lookup, PointIndex, ScanItem, ScanRange,
};

type Model = BTreeMap<Vec<u8>, u64>;

/// High bits of a payload that some indexes reserve.
const RESERVED_BITS: u32 = 3;

/// All entries of a range, as a scan reports them. Checks that a leaf comes first.
///
/// # Panics
/// If the scan breaks its contract.
pub fn scan_all(tree: &dyn OrderedObject, range: ScanRange<'_>) -> Vec<(Vec<u8>, u64)> {
    let mut entries: Vec<(Vec<u8>, u64)> = Vec::new();
    let mut leaves: Vec<LeafVersion> = Vec::new();
    let scanned = tree.scan_to(range, &mut |item| {
        match item {
            ScanItem::Leaf(version) => leaves.push(version),
            ScanItem::Ahead(_) => {}
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

/// Checks that both scans of the whole tree, `len` and point reads agree. No thread may be writing.
///
/// # Panics
/// If they do not.
pub fn sound(tree: &dyn OrderedObject) {
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

/// Size of a test against a model.
#[derive(Debug, Clone, Copy)]
struct Course {
    shape: KeyShape,
    keys: u64,
    steps: usize,
}

/// Runs `steps` random operations over `keys` different keys on an empty index and on a `BTreeMap` and
/// compares all answers, leaf versions included. Then deletes everything.
///
/// # Panics
/// If the two disagree.
pub fn matches_a_map(index: &dyn PointObject, shape: KeyShape, keys: u64, steps: usize, seed: u64) {
    let _announcement = announce("matches_a_map", seed);
    let course = Course { shape, keys, steps };
    let model = run(index, course, seed, |_, _, _| ());
    assert_eq!(index.len(), model.len());
    delete_all(index, course);
}

/// The same with scans among the operations.
///
/// # Panics
/// If the two disagree.
pub fn matches_a_sorted_map(
    tree: &dyn OrderedObject,
    shape: KeyShape,
    keys: u64,
    steps: usize,
    seed: u64,
) {
    let _announcement = announce("matches_a_sorted_map", seed);
    let course = Course { shape, keys, steps };
    let model = run(tree, course, seed, |step, random, model| {
        if step.is_multiple_of(160) {
            scan(tree, course, random, model);
        }
    });
    sound(tree);
    assert_eq!(
        scan_all(tree, ScanRange::all()),
        model.into_iter().collect::<Vec<_>>()
    );
    delete_all(tree, course);
    assert_eq!(scan_all(tree, ScanRange::all()), []);
}

/// Runs random operations, with `between` before each, and returns the model.
fn run(
    index: &dyn PointObject,
    course: Course,
    seed: u64,
    mut between: impl FnMut(usize, &mut Random, &Model),
) -> Model {
    let mut random = Random::new(seed);
    let mut model = Model::new();
    for step in 0..course.steps {
        between(step, &mut random, &model);
        // Phases of growth and of shrinkage, so that a tree gains and loses levels.
        let growing = (step * 8 / course.steps).is_multiple_of(2);
        let key = course.shape.key(random.below(course.keys));
        match random.below(20) {
            0..=5 if !growing => delete(index, &key, &mut model),
            11 => get_many(index, course, &mut random, &model),
            choice => operate(index, key, choice, &mut random, &mut model),
        }
    }
    model
}

fn delete_all(index: &dyn PointObject, course: Course) {
    for n in 0..course.keys {
        index
            .delete(&course.shape.key(n))
            .unwrap_or_else(|error| panic!("{error}"));
    }
    assert!(index.is_empty());
}

/// One operation on one key.
fn operate(
    index: &dyn PointObject,
    key: Vec<u8>,
    choice: u64,
    random: &mut Random,
    model: &mut Model,
) {
    let payload = random.draw() >> RESERVED_BITS;
    let known = model.get(&key).copied();
    match choice {
        0..=5 => insert(index, &key, payload, model),
        6 => {
            if random.chance(1, 2) {
                assert_eq!(index.write(&key, payload), Ok(known));
            } else {
                assert_eq!(index.put(&key, payload), Ok(()));
            }
            model.insert(key, payload);
        }
        7 => {
            assert_eq!(index.update(&key, payload), Ok(known));
            model.entry(key).and_modify(|old| *old = payload);
        }
        8 => {
            let expected = if random.chance(1, 2) {
                known.unwrap_or(1)
            } else {
                payload
            };
            let removed = known == Some(expected);
            assert_eq!(index.remove_if(&key, expected), Ok(removed));
            if removed {
                model.remove(&key);
            }
        }
        9 => get_or_insert(index, &key, payload, model),
        _ => assert_eq!(index.get(&key).map(payload_of), Ok(known)),
    }
}

fn delete(index: &dyn PointObject, key: &[u8], model: &mut Model) {
    assert_eq!(index.delete(key), Ok(model.remove(key)));
}

fn get_many(index: &dyn PointObject, course: Course, random: &mut Random, model: &Model) {
    let batch: Vec<Vec<u8>> = (0..random.below(20))
        .map(|_| course.shape.key(random.below(course.keys)))
        .collect();
    let batch: Vec<&[u8]> = batch.iter().map(Vec::as_slice).collect();
    let mut out = vec![Lookup::Found(0)];
    assert_eq!(index.get_many(&batch, &mut out), Ok(()));
    let payloads: Vec<Option<u64>> = out.into_iter().map(payload_of).collect();
    let expected: Vec<_> = batch.iter().map(|key| model.get(*key).copied()).collect();
    assert_eq!(payloads, expected);
}

fn scan(tree: &dyn OrderedObject, course: Course, random: &mut Random, model: &Model) {
    let [one, other] = [(); 2].map(|()| course.shape.key(random.below(course.keys)));
    let range = ScanRange {
        start: bound(random, &one),
        end: bound(random, &other),
        direction: if random.chance(1, 2) {
            Direction::Forward
        } else {
            Direction::Backward
        },
    };
    assert_eq!(scan_all(tree, range), scan_model(model, range), "{range:?}");
}

/// The payload found, if any.
pub(super) fn payload_of(lookup: Lookup) -> Option<u64> {
    match lookup {
        Lookup::Found(payload) => Some(payload),
        Lookup::Missing(_) => None,
    }
}

fn insert(tree: &dyn PointObject, key: &[u8], payload: u64, model: &mut Model) {
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

fn get_or_insert(tree: &dyn PointObject, key: &[u8], payload: u64, model: &mut Model) {
    let mut calls = 0;
    let outcome = tree.get_or_insert(key, || {
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

/// The entries that a scan of the model visits. The ends may be crossed, which `BTreeMap::range`
/// refuses.
fn scan_model(model: &Model, range: ScanRange<'_>) -> Vec<(Vec<u8>, u64)> {
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
