//! Checks the plausibility of each answer that the index gives while threads run.
//!
//! The order in which threads change a key is unknown. But a loaded key that is never deleted is
//! always present: every read finds it, and every scan over its position visits it once. A key that
//! is never added is never found. Every payload was written by an operation on its key, or by the
//! load.

use super::expected_presence::Facts;
use super::payload_origin::Origins;
use super::thread_tally::ThreadTally;
use crate::index::drawn_operations::Choice;
use crate::index::operation_mix::Operation;
use crate::key_encoding::Keys;

/// An observer of the index's answers. The default methods do nothing.
pub(crate) trait Witness {
    /// A read, update, delete, or returning write: the payload that the key had.
    fn found(
        &mut self,
        _operation: Operation,
        _key: u64,
        _payload: Option<u64>,
        _done: &ThreadTally,
    ) {
    }

    /// An insert: whether the key was added.
    fn inserted(&mut self, _key: u64, _added: bool) {}

    /// A scan begins at this key.
    fn scan_begins(&mut self, _key: u64) {}

    /// The scan visits a key.
    fn visited(&mut self, _key: &[u8], _payload: u64, _done: &ThreadTally) {}

    /// The scan ends, because no keys are left or it has visited enough.
    fn scan_ends(&mut self, _no_more_keys: bool) {}

    /// Whether an answer was wrong.
    fn has_objections(&self) -> bool {
        false
    }
}

/// Observes nothing, for the timed stage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoWitness;

impl Witness for NoWitness {}

/// Facts about all keys, shared by the examiners.
#[derive(Debug)]
pub(crate) struct Promises<'a> {
    keys: Keys,
    origins: Origins<'a>,
    /// The cores of the keys that are always present, ascending; for scans.
    staying: Vec<u64>,
}

impl<'a> Promises<'a> {
    /// `origins` covers all possible operations.
    pub(crate) fn new(choice: &Choice, origins: Origins<'a>) -> Self {
        let keys = choice.keys;
        let mut staying = Vec::new();
        if choice.scans() {
            let numbers = 0..keys.count;
            let always = numbers.filter(|number| origins.facts.always_there(*number));
            staying.extend(always.map(|number| keys.core(number)));
            staying.sort_unstable();
        }
        Self {
            keys,
            origins,
            staying,
        }
    }

    fn facts(&self) -> &'a Facts {
        self.origins.facts
    }
}

/// Examines the answers to one thread.
#[derive(Debug)]
pub(crate) struct Examiner<'a> {
    promises: &'a Promises<'a>,
    /// The core of the last key that a scan visited or, at its start, the smallest that it may
    /// visit.
    last: Option<u64>,
    least: u64,
    /// The next always-present key that the scan must visit.
    next: usize,
    /// The first error.
    objection: Option<String>,
}

impl<'a> Examiner<'a> {
    pub(crate) fn new(promises: &'a Promises<'a>) -> Self {
        Self {
            promises,
            last: None,
            least: 0,
            next: 0,
            objection: None,
        }
    }

    /// Returns the first error.
    pub(crate) fn objection(self) -> Result<(), String> {
        self.objection.map_or(Ok(()), Err)
    }

    fn object(&mut self, what: String) {
        self.objection.get_or_insert(what);
    }

    fn payload(&mut self, key: u64, payload: u64, done: &ThreadTally) {
        // The progress of the other threads is unknown.
        let executed = |thread| {
            if thread == done.thread {
                done.executed
            } else {
                u64::MAX
            }
        };
        let origins = &self.promises.origins;
        if let Err(why) = origins.explain(key, payload, executed) {
            self.object(why);
        }
    }
}

impl Witness for Examiner<'_> {
    fn found(&mut self, operation: Operation, key: u64, payload: Option<u64>, done: &ThreadTally) {
        let facts = self.promises.facts();
        let operation = operation.name();
        match payload {
            None if facts.always_there(key) => self.object(format!(
                "a {operation} did not find key {key}, which is always there"
            )),
            Some(_) if facts.never_there(key) => self.object(format!(
                "a {operation} found key {key}, which is never there"
            )),
            Some(payload) => self.payload(key, payload, done),
            None => {}
        }
    }

    fn inserted(&mut self, key: u64, added: bool) {
        if added && self.promises.facts().always_there(key) {
            self.object(format!("an insert added key {key}, which is always there"));
        }
    }

    fn scan_begins(&mut self, key: u64) {
        self.least = self.promises.keys.core(key);
        self.last = None;
        let staying = &self.promises.staying;
        self.next = staying.partition_point(|core| *core < self.least);
    }

    fn visited(&mut self, key: &[u8], payload: u64, done: &ThreadTally) {
        let promises = self.promises;
        let Some(number) = promises.keys.number(key) else {
            return self.object(format!("a scan visited {key:x?}, which is no key"));
        };
        let core = promises.keys.core(number);
        if self.last.map_or(core < self.least, |last| core <= last) {
            self.object(format!("a scan visited key {number} out of order"));
        }
        self.last = Some(core);
        match promises.staying.get(self.next) {
            Some(staying) if *staying == core => self.next += 1,
            Some(staying) if *staying < core => self.object(format!(
                "a scan went past {staying:#x} to {core:#x} and did not visit a key that is always there"
            )),
            _ => {}
        }
        if promises.facts().never_there(number) {
            self.object(format!("a scan visited key {number}, which is never there"));
        }
        self.payload(number, payload, done);
    }

    fn scan_ends(&mut self, no_more_keys: bool) {
        if no_more_keys && let Some(staying) = self.promises.staying.get(self.next) {
            self.object(format!(
                "a scan ended before {staying:#x}, a key that is always there"
            ));
        }
    }

    fn has_objections(&self) -> bool {
        self.objection.is_some()
    }
}
