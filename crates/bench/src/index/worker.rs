//! One thread of a run: it loads its share, then does the operations that were drawn for it.

use std::ops::{ControlFlow, Range};
use std::time::Instant;

use namiki_index::{IndexError, Lookup};

use super::done::{Done, History};
use super::measured::Measured;
use super::mix::Operation;
use super::operations::Operations;
use super::payload::{loaded, written};
use crate::error::BenchError;
use crate::latency::Latencies;
use crate::run::{StageResult, Stages};

/// Operations between two looks whether the stage is over.
const STRETCH: usize = 128;

/// A thread and all that belongs to it.
pub(crate) struct Worker<'a, I> {
    pub(crate) index: &'a I,
    pub(crate) how: How,
    /// Taken when it is loaded.
    pub(crate) load: Option<Operations>,
    pub(crate) history: History,
}

/// How operations are done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    /// Reads at a time.
    pub(crate) batch: usize,
    /// Entries that a scan visits.
    pub(crate) scan_length: u64,
    /// Whether a write asks for the payload it replaces.
    pub(crate) returning: bool,
}

impl<I: Measured> Worker<'_, I> {
    /// Loads the thread's share of the initial keys.
    pub(crate) fn load(&mut self, stages: &Stages) -> Result<StageResult, BenchError> {
        let Some(load) = self.load.take() else {
            return Err(BenchError::Check("a thread was to load twice".to_owned()));
        };
        let began = Instant::now();
        let mut done = 0;
        for place in 0..load.len() {
            if place % STRETCH == 0 && stages.must_stop() {
                break;
            }
            let payload = loaded(load.number(place));
            if !self.index.insert(load.key(place), payload)? {
                return Err(BenchError::Check(format!(
                    "key {} was there before it was loaded",
                    load.number(place)
                )));
            }
            done += 1;
        }
        Ok(result(began, done, Latencies::new()))
    }

    /// Does operations until there were `most` or the stage ends.
    pub(crate) fn run(&mut self, most: u64, stages: &Stages) -> Result<StageResult, BenchError> {
        let began = Instant::now();
        let count = self.each_stretch(most, stages, |steps, stretch| {
            let mut place = stretch.start;
            while place < stretch.end {
                place += steps.next(place)?;
            }
            Ok(())
        })?;
        Ok(result(began, count, Latencies::new()))
    }

    /// Does `most` operations, a stretch between two looks whether the stage is over. Returns how many
    /// were done.
    fn each_stretch(
        &mut self,
        most: u64,
        stages: &Stages,
        mut each: impl FnMut(&mut Steps<'_, I>, Range<usize>) -> Result<(), IndexError>,
    ) -> Result<u64, BenchError> {
        let History { operations, done } = &mut self.history;
        let before = done.executed;
        let mut steps = Steps {
            index: self.index,
            how: self.how,
            operations,
            done,
            limit: 0,
            batch_keys: Vec::new(),
            batch_found: Vec::new(),
        };
        loop {
            let left = most - (steps.done.executed - before);
            if left == 0 || stages.must_stop() {
                return Ok(steps.done.executed - before);
            }
            let start = operations.place(steps.done.executed);
            let room = operations.len() - start;
            steps.limit = start + room.min(left.try_into().unwrap_or(usize::MAX));
            let end = steps.limit.min(start + STRETCH);
            each(&mut steps, start..end)?;
        }
    }
}

/// A stage's outcome.
fn result(began: Instant, done: u64, latencies: Latencies) -> StageResult {
    StageResult {
        began,
        ended: Instant::now(),
        done,
        aborted: 0,
        latencies,
    }
}

/// Does one operation after the other.
struct Steps<'a, I> {
    index: &'a I,
    how: How,
    operations: &'a Operations,
    done: &'a mut Done,
    /// The place after the last operation that may be done.
    limit: usize,
    batch_keys: Vec<&'a [u8]>,
    batch_found: Vec<Lookup>,
}

impl<I: Measured> Steps<'_, I> {
    /// Does the operation at `place`, or the batch of reads that begins there. Returns how many it was.
    #[inline]
    fn next(&mut self, place: usize) -> Result<usize, IndexError> {
        let Self {
            index,
            operations,
            done,
            ..
        } = self;
        let operation = operations.operation(place);
        let key = operations.key(place);
        let payload = written(done.thread, done.executed);
        match operation {
            Operation::Read => {
                if self.how.batch > 1 {
                    return self.read_batch(place);
                }
                let found = index.get(key)?;
                done.seen ^= found.unwrap_or(0);
                done.add(operation, found.is_some());
            }
            Operation::Scan => {
                let mut left = self.how.scan_length;
                let mut sum = 0_u64;
                index.scan(Some(key), |_, payload| {
                    sum = sum.wrapping_add(payload);
                    left -= 1;
                    match left {
                        0 => ControlFlow::Break(()),
                        _ => ControlFlow::Continue(()),
                    }
                })?;
                done.seen ^= sum;
                let visited = self.how.scan_length - left;
                done.visited += visited;
                done.add(operation, visited > 0);
            }
            Operation::Write if self.how.returning => {
                let old = index.replace(key, payload)?;
                done.replaced(old, payload);
                done.add(operation, old.is_some());
            }
            Operation::Write => {
                index.put(key, payload)?;
                done.add(operation, true);
            }
            Operation::Insert => {
                let inserted = index.insert(key, payload)?;
                if inserted {
                    done.replaced(None, payload);
                }
                done.add(operation, inserted);
            }
            Operation::Update => {
                let old = index.update(key, payload)?;
                if old.is_some() {
                    done.replaced(old, payload);
                }
                done.add(operation, old.is_some());
            }
            Operation::Delete => {
                let old = index.delete(key)?;
                done.replaced(old, 0);
                done.add(operation, old.is_some());
            }
        }
        done.executed += 1;
        Ok(1)
    }

    /// Reads up to a batch of keys at once.
    fn read_batch(&mut self, place: usize) -> Result<usize, IndexError> {
        let end = self.limit.min(place + self.how.batch);
        let operations = self.operations;
        let reads = (place..end).take_while(|at| operations.operation(*at) == Operation::Read);
        self.batch_keys.clear();
        self.batch_keys.extend(reads.map(|at| operations.key(at)));
        self.index
            .get_many(&self.batch_keys, &mut self.batch_found)?;
        for lookup in &self.batch_found {
            let found = match lookup {
                Lookup::Found(payload) => {
                    self.done.seen ^= payload;
                    true
                }
                Lookup::Missing(_) => false,
            };
            self.done.add(Operation::Read, found);
        }
        let count = self.batch_keys.len();
        self.done.executed += count as u64;
        Ok(count)
    }
}
