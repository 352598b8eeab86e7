//! Loom models with two threads: every interleaving, up to a bound of preemptions, of a change of a
//! tree and of a concurrent operation. All code is that of production, with the smallest sizes;
//! only the atomics are loom's.
//!
//! Where the bound is 1, it matters which of the two runs on the main thread. The main thread runs
//! first; to leave it counts as a preemption, to return to it after the other thread has ended does
//! not. So `work` may be interrupted at any point by the whole of `change`, or `change` runs
//! completely before it. Models that interrupt `change` as well run both orders ([`both_ways`]) or
//! set the bound to 2.
#![allow(clippy::unwrap_used, reason = "a model fails by panicking")]

use std::cell::Cell;

use loom::sync::Arc;
use loom::thread;
use namiki_platform::model_checker::explore;

use crate::shared::defer::end_of_run;
use crate::{InsertOutcome, Lookup, OrderedIndex, PointIndex};

/// Runs `change` concurrently with `work` on a tree made by `make`, and then `look`.
pub fn beside<T: Send + Sync + 'static>(
    preemptions: usize,
    make: impl Fn() -> T + Send + Sync + 'static,
    change: fn(&T),
    work: fn(&T),
    look: fn(&T),
) {
    end_of_run::begin();
    explore(preemptions, move || {
        let tree = Arc::new(make());
        let changer = thread::spawn({
            let tree = Arc::clone(&tree);
            move || change(&tree)
        });
        work(&tree);
        changer.join().unwrap();
        look(&tree);
        drop(tree);
        end_of_run::reach();
    });
}

/// The same with one preemption, in each of the two orders.
pub fn both_ways<T: Send + Sync + 'static>(
    make: impl Fn() -> T + Copy + Send + Sync + 'static,
    one: fn(&T),
    other: fn(&T),
    look: fn(&T),
) {
    beside(1, make, one, other, look);
    beside(1, make, other, one, look);
}

/// The payload of a key in these models: in few enough bits for every tree.
pub const fn payload_of(key: u64) -> u64 {
    !key >> 3
}

/// Inserts a key that is absent.
pub fn insert(tree: &impl PointIndex, key: u64) {
    let inserted = tree.insert(&key.to_be_bytes(), payload_of(key));
    assert!(matches!(inserted, Ok(InsertOutcome::Inserted(_))));
}

/// Writes a key's payload without checking whether the key is present.
pub fn put(tree: &impl PointIndex, key: u64) {
    assert_eq!(tree.put(&key.to_be_bytes(), payload_of(key)), Ok(()));
}

pub fn delete(tree: &impl PointIndex, key: u64) {
    assert_eq!(tree.delete(&key.to_be_bytes()), Ok(Some(payload_of(key))));
}

pub fn is_there(tree: &impl PointIndex, key: u64) {
    assert_eq!(
        tree.get(&key.to_be_bytes()),
        Ok(Lookup::Found(payload_of(key)))
    );
}

pub fn is_gone(tree: &impl PointIndex, key: u64) {
    assert!(matches!(
        tree.get(&key.to_be_bytes()),
        Ok(Lookup::Missing(_))
    ));
}

/// A tree with these keys alone: `empty` is loaded with them.
pub fn loaded<T: OrderedIndex>(empty: T, keys: &[u64]) -> T {
    let sorted = keys.iter().map(|key| (key.to_be_bytes(), payload_of(*key)));
    assert_eq!(empty.bulk_load(sorted), Ok(keys.len()));
    empty
}

/// Updates the payload of a key that is present and that no other thread updates; then
/// [`is_updated`] holds.
pub fn update(tree: &impl PointIndex, key: u64) {
    let old = tree.update(&key.to_be_bytes(), UPDATED);
    assert_eq!(old, Ok(Some(payload_of(key))));
}

pub fn is_updated(tree: &impl PointIndex, key: u64) {
    assert_eq!(tree.get(&key.to_be_bytes()), Ok(Lookup::Found(UPDATED)));
}

const UPDATED: u64 = 99;

/// Asserts that the tree has exactly these keys, none of them updated.
pub fn has(tree: &impl PointIndex, keys: &[u64]) {
    keys.iter().for_each(|key| is_there(tree, *key));
    assert_eq!(tree.len(), keys.len());
}

/// The payloads of these two keys report the result of the reader that relies on an absence, and of
/// the inserter.
const STAMP: u64 = 7;
pub const READER: u64 = 10;
pub const WRITER: u64 = 30;

/// Counts of the runs of one model in which the reader relied on the absence, and in which it did
/// not.
#[derive(Clone, Copy, Default)]
struct Outcomes {
    relied: u64,
    did_not: u64,
}

thread_local! {
    /// One thread of the operating system runs all threads of a model, and all of its runs.
    static OUTCOMES: Cell<Outcomes> = const { Cell::new(Outcomes { relied: 0, did_not: 0 }) };
}

/// Runs `read`, which ends with [`rely_on_absence`], concurrently with `insert`, which ends with
/// [`insert_and_look`], both ways: the inserter detects the reader.
pub fn no_insert_slips_past<T: PointIndex + Send + Sync + 'static>(
    make: impl Fn() -> T + Copy + Send + Sync + 'static,
    read: fn(&T),
    insert: fn(&T),
) {
    OUTCOMES.set(Outcomes::default());
    both_ways(make, read, insert, did_not_slip_past);
    let Outcomes { relied, did_not } = OUTCOMES.get();
    assert!(relied > 0, "no reader ever relied on the absence");
    assert!(did_not > 0, "the insert never came before the reader");
}

/// Relies on a key's absence, and records whether that succeeded.
pub fn rely_on_absence(tree: &impl PointIndex, key: &[u8]) {
    if let Ok(Lookup::Missing(seen)) = tree.get(key)
        && tree.raise_and_check(seen, STAMP)
    {
        update(tree, READER);
    }
}

/// Inserts a key, and records the stamp of the leaf that it went to.
pub fn insert_and_look(tree: &impl PointIndex, key: &[u8]) {
    let Ok(InsertOutcome::Inserted(done)) = tree.insert(key, INSERTED) else {
        panic!("it was absent")
    };
    let rts = tree.leaf_rts(done.before.leaf);
    tree.put(&WRITER.to_be_bytes(), rts).unwrap();
}

const INSERTED: u64 = 5;

fn did_not_slip_past(tree: &impl PointIndex) {
    let mut outcomes = OUTCOMES.get();
    if tree.get(&READER.to_be_bytes()) == Ok(Lookup::Found(UPDATED)) {
        outcomes.relied += 1;
        let rts = tree.get(&WRITER.to_be_bytes());
        assert_eq!(rts, Ok(Lookup::Found(STAMP)), "an insert slipped past");
    } else {
        outcomes.did_not += 1;
    }
    OUTCOMES.set(outcomes);
}
