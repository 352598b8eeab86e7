//! Plants faults in an index, and checks that a run over it fails with the right message.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use namiki_index::{IndexError, LeafVersion, Lookup, Statistics};

use super::drawn_operations::Choice;
use super::measured_index::Measured;
use super::result_row::{Outcome, Results};
use super::run_one::Plan;
use crate::args::{Length, Switch};
use crate::error::BenchError;
use crate::key_encoding::{KeyLayout, KeySpace, Keys};

/// A fault that happens once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Nothing,
    /// A read finds nothing.
    Misses,
    /// A read finds a payload that was never written to the key.
    Mixes,
    /// A batched look-up swaps two answers.
    Exchanges,
    /// A write is not executed.
    LosesWrite,
    /// A write stores a payload that belongs to no operation.
    Corrupts,
    /// An update is not executed, but reports success.
    LosesUpdate,
    /// An insert is not executed, but reports success.
    LosesInsert,
    /// An insert replaces an existing payload.
    InsertsTwice,
    /// A delete is not executed, but reports success.
    KeepsDeleted,
    /// A delete does not return the deleted payload.
    DeletesInSilence,
    /// An update deletes another key.
    DeletesOther,
    /// A scan skips a key.
    Skips,
    /// A scan visits a key twice.
    Doubles,
    /// A scan ends early.
    EndsEarly,
    /// A scan begins before its start.
    BeginsEarly,
    /// The number of keys is always wrong.
    Miscounts,
}

/// A correct index with one fault, at one of the calls in which it can happen.
struct Faulty {
    map: Mutex<BTreeMap<Vec<u8>, u64>>,
    fault: Fault,
    /// Remaining calls before the fault.
    before: AtomicU64,
}

impl Faulty {
    fn new(fault: Fault, before: u64) -> Self {
        Self {
            map: Mutex::default(),
            fault,
            before: AtomicU64::new(before),
        }
    }

    fn map(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, u64>> {
        self.map.lock().unwrap()
    }

    /// Whether the fault happens in this call.
    fn happens(&self, fault: Fault) -> bool {
        self.fault == fault && self.before.fetch_sub(1, Ordering::Relaxed) == 0
    }
}

impl Measured for Faulty {
    fn lacks(&self, _choice: &Choice) -> Option<&'static str> {
        None
    }

    fn is_ordered(&self) -> bool {
        true
    }

    fn get(&self, key: &[u8]) -> Result<Option<u64>, IndexError> {
        let found = self.map().get(key).copied();
        if self.happens(Fault::Misses) {
            return Ok(None);
        }
        if self.happens(Fault::Mixes) {
            return Ok(found.map(|payload| payload + 1));
        }
        Ok(found)
    }

    fn get_many(&self, keys: &[&[u8]], found: &mut Vec<Lookup>) -> Result<(), IndexError> {
        let map = self.map();
        found.clear();
        found.extend(keys.iter().map(|key| match map.get(*key) {
            Some(payload) => Lookup::Found(*payload),
            None => Lookup::Missing(LeafVersion {
                leaf: 0,
                counter: 0,
            }),
        }));
        if self.happens(Fault::Exchanges) {
            found.reverse();
        }
        Ok(())
    }

    fn scan(
        &self,
        start: Option<&[u8]>,
        _most: u64,
        mut visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        let map = self.map();
        let start = start.map_or(Bound::Unbounded, Bound::Included);
        if self.happens(Fault::BeginsEarly)
            && let Some((key, payload)) = map.first_key_value()
            && visit(key, *payload).is_break()
        {
            return Ok(());
        }
        for (at, (key, payload)) in map.range::<[u8], _>((start, Bound::Unbounded)).enumerate() {
            if at == 2 && self.happens(Fault::Skips) {
                continue;
            }
            if at == 2 && self.happens(Fault::EndsEarly) {
                break;
            }
            if at == 2 && self.happens(Fault::Doubles) && visit(key, *payload).is_break() {
                break;
            }
            if visit(key, *payload).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn put(&self, key: &[u8], payload: u64) -> Result<(), IndexError> {
        self.replace(key, payload).map(drop)
    }

    fn replace(&self, key: &[u8], payload: u64) -> Result<Option<u64>, IndexError> {
        if self.happens(Fault::LosesWrite) {
            return self.get(key);
        }
        let payload = payload + u64::from(self.happens(Fault::Corrupts));
        Ok(self.map().insert(key.to_vec(), payload))
    }

    fn insert(&self, key: &[u8], payload: u64) -> Result<bool, IndexError> {
        let mut map = self.map();
        if map.contains_key(key) {
            if self.happens(Fault::InsertsTwice) {
                map.insert(key.to_vec(), payload);
                return Ok(true);
            }
            return Ok(false);
        }
        if !self.happens(Fault::LosesInsert) {
            map.insert(key.to_vec(), payload);
        }
        Ok(true)
    }

    fn update(&self, key: &[u8], payload: u64) -> Result<Option<u64>, IndexError> {
        let mut map = self.map();
        if self.happens(Fault::DeletesOther) {
            map.pop_last();
        }
        let Some(present) = map.get_mut(key) else {
            return Ok(None);
        };
        let old = *present;
        if !self.happens(Fault::LosesUpdate) {
            *present = payload;
        }
        Ok(Some(old))
    }

    fn delete(&self, key: &[u8]) -> Result<Option<u64>, IndexError> {
        let mut map = self.map();
        if map.contains_key(key) && self.happens(Fault::KeepsDeleted) {
            return Ok(map.get(key).copied());
        }
        let old = map.remove(key);
        if old.is_some() && self.happens(Fault::DeletesInSilence) {
            return Ok(None);
        }
        Ok(old)
    }

    fn len(&self) -> u64 {
        self.map().len() as u64 + u64::from(self.fault == Fault::Miscounts)
    }

    fn statistics(&self) -> Option<Statistics> {
        None
    }

    fn memory_bytes(&self) -> Option<u64> {
        None
    }
}

/// Number of timed operations; as many are examined.
const OPS: u64 = 3000;

fn choice(mix: &str) -> Choice {
    Choice {
        keys: Keys {
            count: 200,
            bytes: 16,
            space: KeySpace::Sparse,
            layout: KeyLayout::RandomHead,
        },
        initial: 200,
        mix: mix.parse().unwrap(),
        skew: 0.5,
        batch: 1,
        scan_length: 10,
        returning: false,
        seed: 7,
        threads: 1,
    }
}

fn run(choice: &Choice, faulty: &Faulty) -> Result<Box<Results>, BenchError> {
    let plan = Plan {
        choice,
        sorted: false,
        warmup: Length::Operations(0),
        timed: Length::Operations(OPS),
        latency_ops: 100,
        clock_ns: 0,
        pin: Switch::Off,
    };
    match plan.run(faulty, "faulty")? {
        Outcome::Measured(results) => Ok(results),
        Outcome::LeftOut(why) => panic!("left out: {why}"),
    }
}

/// Checks that a fault at this call makes the run fail with these words.
fn fails(choice: &Choice, fault: Fault, before: u64, words: &str) {
    let faulty = Faulty::new(fault, before);
    let said = match run(choice, &faulty) {
        Err(BenchError::Check(said)) => said,
        other => panic!("{fault:?} after {before}: {other:?}"),
    };
    assert!(
        said.contains(words),
        "{fault:?} after {before}: {said}, not {words}"
    );
}

const ALL_SIX: &str = "read=20,scan=5,write=20,insert=20,update=15,delete=20";

#[test]
fn an_index_without_faults_passes_whatever_is_done_to_it() {
    for mix in [
        ALL_SIX,
        "read=100",
        "scan=100",
        "write=100",
        "insert=100",
        "update=100",
        "delete=100",
        "insert=50,delete=50",
        "write=50,delete=50",
        "scan=20,update=80",
    ] {
        for (initial, threads, returning, batch) in [
            (200, 1, false, 1),
            (0, 2, true, 1),
            (77, 3, false, 5),
            (200, 2, true, 16),
        ] {
            let choice = Choice {
                initial,
                threads,
                returning,
                batch,
                ..choice(mix)
            };
            let results = run(&choice, &Faulty::new(Fault::Nothing, 0));
            let results = results.unwrap_or_else(|error| panic!("{choice:?}: {error}"));
            assert_eq!(results.ops, OPS);
            assert_eq!(results.bytes_per_key, None);
            assert_eq!(results.load_mops.is_some(), initial > 0);
        }
    }
}

#[test]
fn one_key_is_enough() {
    let mut choice = choice(ALL_SIX);
    choice.keys.count = 1;
    for initial in [0, 1] {
        choice.initial = initial;
        run(&choice, &Faulty::new(Fault::Nothing, 0)).unwrap();
    }
}

/// Early, while single answers are not examined: the counts reveal the fault.
#[test]
fn answers_that_cannot_be_are_counted() {
    let reads = choice("read=100");
    fails(&reads, Fault::Misses, 5, "1 reads did not find");
    let scans = choice("scan=100");
    fails(&scans, Fault::EndsEarly, 5, "scans visited");
}

/// Late, while each answer is examined.
#[test]
fn answers_that_cannot_be_are_seen() {
    let late = OPS + 150;
    let reads = choice("read=100");
    fails(&reads, Fault::Misses, late, "a read did not find key");
    fails(&reads, Fault::Mixes, late, "holds payload");
    let scans = choice("scan=100");
    for (fault, words) in [
        (Fault::Skips, "did not visit a key that is always there"),
        (Fault::Doubles, "out of order"),
        (Fault::BeginsEarly, "out of order"),
        (Fault::EndsEarly, "a scan ended before"),
    ] {
        fails(&scans, fault, late, words);
    }
    let inserts = choice("insert=100");
    fails(&inserts, Fault::InsertsTwice, late, "an insert added key");
    let batches = Choice {
        batch: 10,
        ..choice("read=100")
    };
    fails(&batches, Fault::Exchanges, late / 10, "holds payload");
}

#[test]
fn what_is_left_must_be_explained() {
    let writes = choice("write=100");
    // The last write of a key among the timed or examined operations.
    let lost = (0..OPS).rev().find_map(|before| {
        let outcome = run(&writes, &Faulty::new(Fault::LosesWrite, before + OPS));
        outcome.err().map(|error| error.to_string())
    });
    assert!(lost.unwrap().contains("a write was lost"));
    fails(&writes, Fault::Miscounts, 0, "the index says it has 201");
    let last = 2 * OPS + 99;
    fails(&writes, Fault::Corrupts, last, "holds payload");
    let updates = choice("update=100");
    fails(&updates, Fault::LosesUpdate, last, "a write was lost");
    fails(&updates, Fault::DeletesOther, last, "and is gone");
    let mut inserts = choice("insert=100");
    inserts.initial = 0;
    fails(&inserts, Fault::LosesInsert, 30, "keys are left");
}

/// Where threads add and delete the same keys, it is unknown which keys are left, but not how many.
#[test]
fn keys_and_payloads_balance() {
    let churn = choice("insert=50,delete=50");
    fails(&churn, Fault::LosesInsert, 210, "keys are left, but");
    fails(&churn, Fault::KeepsDeleted, 10, "keys are left, but");
    fails(&churn, Fault::DeletesInSilence, 10, "keys are left, but");
    fails(&churn, Fault::InsertsTwice, 10, "keys are left, but");
    let returning = Choice {
        returning: true,
        ..choice("read=20,write=30,insert=10,update=20,delete=20")
    };
    for fault in [Fault::LosesWrite, Fault::LosesUpdate] {
        fails(&returning, fault, 10, "was lost or came out twice");
    }
}

#[test]
fn a_key_that_is_not_empty_at_first_is_noticed() {
    let faulty = Faulty::new(Fault::Nothing, 0);
    let choice = choice("read=100");
    run(&choice, &faulty).unwrap();
    let again = run(&choice, &faulty).unwrap_err();
    assert!(again.to_string().contains("before it was loaded"));
}
