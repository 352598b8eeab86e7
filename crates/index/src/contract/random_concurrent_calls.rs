//! Many threads at once: every operation takes effect at one instant.

use std::ops::Bound;
use std::sync::Barrier;
use std::thread;

use super::history::{Action, Clock, Histories, Recorder};
use super::key_shapes::{KeyShape, Random, announce};
use super::linearizability;
use super::object::{OrderedObject, PointObject};
use super::reference_map::{payload_of, scan_all, sound};
use crate::{GetOrInsert, IndexError, InsertOutcome, Lookup, PointIndex, ScanRange};

/// Size of a concurrent test.
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

/// Every key's history of point operations is linearizable: see `linearizability.rs`.
///
/// Half of the operations go to every `apart`-th key, where threads conflict. The keys between are
/// inserted and deleted in waves, so that leaves are split and merged under the operations on those
/// few. The index is empty at first.
///
/// # Panics
/// If a key's history is not.
pub fn point_operations_are_linearizable(
    index: &dyn PointObject,
    shape: KeyShape,
    load: Load,
    apart: u64,
) {
    let _announcement = announce("point_operations_are_linearizable", load.seed);
    record_and_check(index, shape, load, apart, |recorder, random, n| {
        point_operation(index, shape, recorder, random, n);
    });
}

/// The same with scans among the operations. A scan sees each leaf at one instant, so it is a read
/// of every key of its range, including the absent ones.
///
/// # Panics
/// If a key's history is not linearizable, or the tree is not sound in the end.
pub fn scans_and_point_operations_are_linearizable(
    tree: &dyn OrderedObject,
    shape: KeyShape,
    load: Load,
    apart: u64,
) {
    let _announcement = announce("scans_and_point_operations_are_linearizable", load.seed);
    let mut keys: Vec<(Vec<u8>, u64)> = (0..load.keys).map(|n| (shape.key(n), n)).collect();
    keys.sort_unstable();
    record_and_check(tree, shape, load, apart, |recorder, random, n| {
        if random.chance(1, 16) {
            scan(tree, &keys, recorder, random);
        } else {
            point_operation(tree, shape, recorder, random, n);
        }
    });
    sound(tree);
}

/// Runs the threads' operations, and checks what became of each key.
fn record_and_check(
    index: &dyn PointObject,
    shape: KeyShape,
    load: Load,
    apart: u64,
    operate: impl Fn(&mut Recorder<'_>, &mut Random, u64) + Sync,
) {
    let clock = Clock::new();
    let mut histories = record(&clock, load, |recorder, random, growing| {
        let n = random.below(load.keys);
        if random.chance(1, 2) || n.is_multiple_of(apart) {
            operate(recorder, random, n - n % apart);
        } else {
            let come = random.chance(if growing { 9 } else { 1 }, 10);
            come_or_go(index, shape, recorder, n, come);
        }
    });
    let mut last = Recorder::new(&clock, load.threads);
    for n in 0..load.keys {
        read(index, shape, &mut last, n);
    }
    merge(&mut histories, last.finish());
    for (n, history) in histories {
        if let Err(contradiction) = linearizability::check(&history) {
            panic!("key {n}, {:?}: {contradiction}", shape.key(n));
        }
    }
}

/// The history of each key over all threads. An operation is told whether the number of keys should
/// grow.
fn record(
    clock: &Clock,
    load: Load,
    operate: impl Fn(&mut Recorder<'_>, &mut Random, bool) + Sync,
) -> Histories {
    let start = Barrier::new(load.threads as usize);
    let run = |thread: u64| {
        let mut random = Random::new(load.seed.wrapping_mul(1000).wrapping_add(thread));
        let mut recorder = Recorder::new(clock, thread);
        start.wait();
        for step in 0..load.operations {
            let growing = (step * 6 / load.operations).is_multiple_of(2);
            operate(&mut recorder, &mut random, growing);
        }
        recorder.finish()
    };
    let mut histories = Histories::new();
    thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..load.threads)
            .map(|thread| scope.spawn(move || run(thread)))
            .collect();
        for thread in threads {
            let of_thread = thread.join();
            let of_thread = of_thread.unwrap_or_else(|_| panic!("a thread panicked"));
            merge(&mut histories, of_thread);
        }
    });
    histories
}

fn merge(histories: &mut Histories, others: Histories) {
    for (n, operations) in others {
        histories.entry(n).or_default().extend(operations);
    }
}

/// A panic instead of an error.
fn done<T>(result: Result<T, IndexError>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

/// One random operation on key number `n`.
fn point_operation(
    index: &dyn PointObject,
    shape: KeyShape,
    recorder: &mut Recorder<'_>,
    random: &mut Random,
    n: u64,
) {
    let key = &shape.key(n);
    match random.below(10) {
        0 => insert(index, key, recorder, n),
        1 => get_or_insert(index, key, recorder, n),
        2 => recorder.record(|payload| {
            let found = done(index.write(key, payload));
            [(n, Action::Write { payload, found })]
        }),
        8 if random.chance(1, 2) => recorder.record(|payload| {
            done(index.put(key, payload));
            [(n, Action::Put { payload })]
        }),
        3 => recorder.record(|payload| {
            let found = done(index.update(key, payload));
            [(n, Action::Update { payload, found })]
        }),
        4 | 5 => delete(index, key, recorder, n),
        6 => {
            let expected = read(index, shape, recorder, n).unwrap_or(0);
            recorder.record(|_| {
                let removed = done(index.remove_if(key, expected));
                [(n, Action::RemoveIf { expected, removed })]
            });
        }
        7 => read_many(index, shape, recorder, [n, n + 1, n, n + 2]),
        _ => {
            read(index, shape, recorder, n);
        }
    }
}

/// Part of a wave that fills or empties the leaves.
fn come_or_go(
    index: &dyn PointObject,
    shape: KeyShape,
    recorder: &mut Recorder<'_>,
    n: u64,
    come: bool,
) {
    let key = &shape.key(n);
    if come {
        insert(index, key, recorder, n);
    } else {
        delete(index, key, recorder, n);
    }
}

fn insert(index: &dyn PointObject, key: &[u8], recorder: &mut Recorder<'_>, n: u64) {
    recorder.record(|payload| {
        let found = match done(index.insert(key, payload)) {
            InsertOutcome::Inserted(_) => None,
            InsertOutcome::Exists(found) => Some(found),
        };
        [(n, Action::Insert { payload, found })]
    });
}

fn get_or_insert(index: &dyn PointObject, key: &[u8], recorder: &mut Recorder<'_>, n: u64) {
    recorder.record(|payload| {
        let (found, made) = match done(index.get_or_insert(key, || payload)) {
            GetOrInsert::Inserted { payload, .. } => (None, Some(payload)),
            GetOrInsert::Exists { payload, unused } => (Some(payload), unused),
        };
        assert!(made.is_none_or(|made| made == payload), "{made:?}");
        // An unused payload shows that the key was first seen to be absent.
        let absent = (found.is_some() && made.is_some()).then_some(Action::Read { found: None });
        let last = Some(Action::Insert { payload, found });
        [absent, last]
            .into_iter()
            .flatten()
            .map(move |action| (n, action))
    });
}

fn delete(index: &dyn PointObject, key: &[u8], recorder: &mut Recorder<'_>, n: u64) {
    recorder.record(|_| {
        let found = done(index.delete(key));
        [(n, Action::Delete { found })]
    });
}

fn read(
    index: &dyn PointObject,
    shape: KeyShape,
    recorder: &mut Recorder<'_>,
    n: u64,
) -> Option<u64> {
    let key = &shape.key(n);
    let mut found = None;
    recorder.record(|_| {
        found = payload_of(done(index.get(key)));
        [(n, Action::Read { found })]
    });
    found
}

fn read_many(
    index: &dyn PointObject,
    shape: KeyShape,
    recorder: &mut Recorder<'_>,
    numbers: [u64; 4],
) {
    let keys = numbers.map(|n| shape.key(n));
    let mut found: Vec<Lookup> = Vec::new();
    recorder.record(|_| {
        done(index.get_many(&keys.each_ref().map(Vec::as_slice), &mut found));
        assert_eq!(found.len(), numbers.len());
        let reads = found.into_iter().map(|lookup| Action::Read {
            found: payload_of(lookup),
        });
        numbers.into_iter().zip(reads)
    });
}

/// Scans a range of some of the keys, which come in their order with their numbers, either way.
fn scan(
    tree: &dyn OrderedObject,
    keys: &[(Vec<u8>, u64)],
    recorder: &mut Recorder<'_>,
    random: &mut Random,
) {
    let first = random.below(keys.len() as u64) as usize;
    let most = if random.chance(1, 8) { keys.len() } else { 16 };
    let part = &keys[first..keys.len().min(first + most)];
    let (start, end) = (
        Bound::Included(&*part[0].0),
        Bound::Included(&*part[part.len() - 1].0),
    );
    let forward = random.chance(1, 2);
    let range = if forward {
        ScanRange::forward(start, end)
    } else {
        ScanRange::backward(start, end)
    };
    recorder.record(|_| {
        let mut reads: Vec<(u64, Action)> = Vec::with_capacity(part.len());
        let mut entries = scan_all(tree, range);
        if !forward {
            entries.reverse();
        }
        let mut entries = entries.into_iter().peekable();
        for (key, n) in part {
            let found = entries
                .next_if(|entry| entry.0 == *key)
                .map(|entry| entry.1);
            reads.push((*n, Action::Read { found }));
        }
        assert_eq!(entries.next(), None, "a key that was never inserted");
        reads
    });
}
