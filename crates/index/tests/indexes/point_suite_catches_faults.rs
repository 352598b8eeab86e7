//! The suite of the point trait, under test itself: a plain map behind a lock passes, and the same map
//! with a fault that only concurrency shows does not.
#![expect(clippy::unwrap_used, reason = "a lock that only a failed test poisons")]

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::thread;

use namiki_index::contract::{self, KeyShape, Load};
use namiki_index::{
    Change, Changed, Expected, IndexError, Inserted, LeafVersion, Lookup, PointIndex, Statistics,
};

/// The fault of a faulty map: mostly two steps that should be one atomic step.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// A write removes the key, and then inserts it.
    WriteHidesTheKey,
    /// An insert looks for the key, and then puts it there.
    InsertChecksFirst,
    /// A delete looks the key up, and then removes it with any payload.
    DeleteLooksFirst,
    /// An update reads the old payload, and then puts the new one.
    UpdateReadsFirst,
    /// A get answers from the map's contents at the previous get of any thread.
    GetIsStale,
}

#[derive(Default)]
struct State {
    map: BTreeMap<Vec<u8>, u64>,
    /// The map's contents at the last get.
    earlier: BTreeMap<Vec<u8>, u64>,
    counter: u64,
    rts: u64,
}

/// An index of one leaf.
struct LockedMap {
    state: Mutex<State>,
    fault: Fault,
}

impl LockedMap {
    fn new(fault: Fault) -> Self {
        Self {
            state: Mutex::default(),
            fault,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Lets other threads run between two steps, if the map has this fault.
    fn pause<'a>(&'a self, fault: Fault, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if self.fault != fault {
            return state;
        }
        drop(state);
        thread::yield_now();
        self.lock()
    }
}

impl State {
    fn version(&self) -> LeafVersion {
        LeafVersion {
            leaf: 0,
            counter: self.counter,
        }
    }

    fn put(&mut self, key: &[u8], payload: u64) -> Inserted {
        let before = self.version();
        if self.map.insert(key.to_vec(), payload).is_none() {
            self.counter += 1;
        }
        Inserted {
            before,
            after: self.version(),
            split: None,
        }
    }

    fn remove(&mut self, key: &[u8]) {
        self.counter += u64::from(self.map.remove(key).is_some());
    }
}

impl PointIndex for LockedMap {
    fn get(&self, key: &[u8]) -> Result<Lookup, IndexError> {
        let mut state = self.lock();
        if self.fault == Fault::GetIsStale {
            let now = state.map.clone();
            let earlier = std::mem::replace(&mut state.earlier, now);
            return Ok(match earlier.get(key) {
                Some(payload) => Lookup::Found(*payload),
                None => Lookup::Missing(state.version()),
            });
        }
        Ok(match state.map.get(key) {
            Some(payload) => Lookup::Found(*payload),
            None => Lookup::Missing(state.version()),
        })
    }

    fn change(
        &self,
        key: &[u8],
        _: Expected,
        mut decide: impl FnMut(Option<u64>) -> Change,
    ) -> Result<Changed, IndexError> {
        let mut state = self.lock();
        let old = state.map.get(key).copied();
        match (decide(old), old) {
            (Change::Keep, _) | (Change::Delete, None) => {}
            (Change::Put(payload), None) => {
                let mut state = self.pause(Fault::InsertChecksFirst, state);
                return Ok(Changed::added(state.put(key, payload)));
            }
            (Change::Put(payload), Some(_)) => {
                if self.fault == Fault::WriteHidesTheKey {
                    state.remove(key);
                }
                let state = self.pause(Fault::WriteHidesTheKey, state);
                self.pause(Fault::UpdateReadsFirst, state).put(key, payload);
            }
            (Change::Delete, Some(_)) => self.pause(Fault::DeleteLooksFirst, state).remove(key),
        }
        Ok(Changed::from(old))
    }

    fn leaf_rts(&self, _leaf: u64) -> u64 {
        self.lock().rts
    }

    fn raise_and_check(&self, seen: LeafVersion, rts: u64) -> bool {
        let mut state = self.lock();
        state.rts = state.rts.max(rts);
        state.version() == seen
    }

    fn current(&self, _leaf: u64) -> Option<LeafVersion> {
        Some(self.lock().version())
    }

    fn statistics(&self) -> Statistics {
        Statistics::default()
    }

    fn memory_bytes(&self) -> usize {
        0
    }

    fn len(&self) -> usize {
        self.lock().map.len()
    }
}

const LOAD: Load = Load {
    threads: 4,
    operations: 2_000,
    keys: 6,
    seed: 1,
};

fn linearizable(fault: Fault) {
    let index = LockedMap::new(fault);
    contract::point_operations_are_linearizable(&index, KeyShape::Dense, LOAD, 3);
}

#[test]
fn a_locked_map_passes() {
    let new = || LockedMap::new(Fault::None);
    contract::matches_a_map(&new(), KeyShape::Nested, 400, 8_000, 1);
    contract::no_insert_slips_past_a_successful_check(new, KeyShape::Dense, 100, 2);
    contract::gets_never_miss_a_key_that_stays(&new(), KeyShape::Sparse, LOAD);
    linearizable(Fault::None);
}

#[test]
#[should_panic(expected = "not linearizable")]
fn a_write_that_hides_the_key_is_caught() {
    linearizable(Fault::WriteHidesTheKey);
}

#[test]
#[should_panic(expected = "panicked")]
fn a_write_that_hides_a_key_that_stays_is_caught() {
    let index = LockedMap::new(Fault::WriteHidesTheKey);
    contract::gets_never_miss_a_key_that_stays(&index, KeyShape::Dense, LOAD);
}

#[test]
#[should_panic(expected = "not linearizable")]
fn an_insert_that_checks_first_is_caught() {
    linearizable(Fault::InsertChecksFirst);
}

#[test]
#[should_panic(expected = "not linearizable")]
fn a_delete_that_looks_first_is_caught() {
    linearizable(Fault::DeleteLooksFirst);
}

#[test]
#[should_panic(expected = "not linearizable")]
fn an_update_that_reads_first_is_caught() {
    linearizable(Fault::UpdateReadsFirst);
}

#[test]
#[should_panic(expected = "not linearizable")]
fn a_stale_get_is_caught() {
    linearizable(Fault::GetIsStale);
}
