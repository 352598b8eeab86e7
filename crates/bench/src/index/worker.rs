//! One thread of a run: it loads its share, then executes the operations drawn for it.

use std::ops::{ControlFlow, Range};
use std::time::Instant;

use namiki_index::{IndexError, Lookup};
use namiki_platform::clock::now_ns;

use super::check::live_answers::{Examiner, NoWitness, Promises, Witness};
use super::check::thread_tally::ThreadTally;
use super::drawn_operations::{Choice, Operations};
use super::measured_index::Measured;
use super::operation_mix::Operation;
use super::payload_writer_id::{loaded, written};
use crate::error::BenchError;
use crate::latency::Latencies;
use crate::run_stages::{StageResult, Stages};

/// Operations between checks for the end of the stage.
const STRETCH: usize = 128;

/// A thread and its state.
pub(crate) struct Worker<'a, I> {
    pub(crate) index: &'a I,
    pub(crate) choice: &'a Choice,
    /// The load of this thread; taken when it is loaded.
    pub(crate) load: Option<Operations>,
    pub(crate) operations: &'a Operations,
    pub(crate) done: ThreadTally,
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

    /// Executes operations until `most` are done or the stage ends.
    pub(crate) fn run(&mut self, most: u64, stages: &Stages) -> Result<StageResult, BenchError> {
        let began = Instant::now();
        let done = self.stretches(most, stages, NoWitness, |steps, stretch| {
            let mut place = stretch.start;
            while place < stretch.end {
                place += steps.next(place)?;
            }
            Ok(())
        })?;
        Ok(result(began, done.0, Latencies::new()))
    }

    /// Executes operations with the clock around each operation or batch.
    pub(crate) fn run_timing_each(
        &mut self,
        most: u64,
        stages: &Stages,
    ) -> Result<StageResult, BenchError> {
        let mut latencies = Latencies::new();
        let began = Instant::now();
        let done = self.stretches(most, stages, NoWitness, |steps, stretch| {
            let mut place = stretch.start;
            while place < stretch.end {
                let start = now_ns();
                place += steps.next(place)?;
                latencies.add_ns(now_ns() - start);
            }
            Ok(())
        })?;
        Ok(result(began, done.0, latencies))
    }

    /// Executes operations and examines each answer.
    pub(crate) fn run_examining(
        &mut self,
        most: u64,
        stages: &Stages,
        promises: &Promises<'_>,
    ) -> Result<StageResult, BenchError> {
        let began = Instant::now();
        let examiner = Examiner::new(promises);
        let (done, examiner) = self.stretches(most, stages, examiner, |steps, stretch| {
            let mut place = stretch.start;
            while place < stretch.end && !steps.witness.has_objections() {
                place += steps.next(place)?;
            }
            Ok(())
        })?;
        examiner.objection().map_err(BenchError::Check)?;
        Ok(result(began, done, Latencies::new()))
    }

    /// Executes `most` operations and checks for the end of the stage between stretches of them.
    /// Returns the number executed, and the witness.
    #[inline]
    fn stretches<W: Witness>(
        &mut self,
        most: u64,
        stages: &Stages,
        witness: W,
        mut each: impl FnMut(&mut Steps<'_, I, W>, Range<usize>) -> Result<(), IndexError>,
    ) -> Result<(u64, W), BenchError> {
        let operations = self.operations;
        let before = self.done.executed;
        let mut steps = Steps {
            index: self.index,
            batch: self.choice.batch as usize,
            scan_length: self.choice.scan_length,
            returning: self.choice.returning,
            operations,
            done: &mut self.done,
            witness,
            limit: 0,
            batch_keys: Vec::new(),
            batch_found: Vec::new(),
        };
        loop {
            let count = steps.done.executed - before;
            let left = most - count;
            if left == 0 || stages.must_stop() || steps.witness.has_objections() {
                return Ok((count, steps.witness));
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

/// Executes operations in order.
struct Steps<'a, I, W> {
    index: &'a I,
    batch: usize,
    scan_length: u64,
    returning: bool,
    operations: &'a Operations,
    done: &'a mut ThreadTally,
    witness: W,
    /// The position after the last operation that may be executed.
    limit: usize,
    batch_keys: Vec<&'a [u8]>,
    batch_found: Vec<Lookup>,
}

impl<I: Measured, W: Witness> Steps<'_, I, W> {
    /// Executes the operation at `place`, or the batch of reads that begins there. Returns the
    /// number of operations executed.
    #[inline]
    fn next(&mut self, place: usize) -> Result<usize, IndexError> {
        let operation = self.operations.operation(place);
        let number = self.operations.number(place);
        let key = self.operations.key(place);
        let payload = written(self.done.thread, self.done.executed);
        let (index, done) = (self.index, &mut *self.done);
        let found = match operation {
            Operation::Read if self.batch > 1 => return self.read_batch(place),
            Operation::Read => {
                let found = index.get(key)?;
                done.seen ^= found.unwrap_or(0);
                found
            }
            Operation::Scan => {
                self.scan(number, key)?;
                return Ok(1);
            }
            Operation::Write if !self.returning => {
                index.put(key, payload)?;
                done.add(operation, true);
                done.executed += 1;
                return Ok(1);
            }
            Operation::Write => {
                let old = index.replace(key, payload)?;
                done.went_in(payload);
                done.came_out(old);
                old
            }
            Operation::Insert => {
                let added = index.insert(key, payload)?;
                if added {
                    done.went_in(payload);
                }
                done.add(operation, added);
                done.executed += 1;
                self.witness.inserted(number, added);
                return Ok(1);
            }
            Operation::Update => {
                let old = index.update(key, payload)?;
                if old.is_some() {
                    done.went_in(payload);
                }
                done.came_out(old);
                old
            }
            Operation::Delete => {
                let old = index.delete(key)?;
                done.came_out(old);
                old
            }
        };
        done.add(operation, found.is_some());
        done.executed += 1;
        self.witness.found(operation, number, found, done);
        Ok(1)
    }

    fn scan(&mut self, number: u64, key: &[u8]) -> Result<(), IndexError> {
        let (witness, done) = (&mut self.witness, &mut *self.done);
        witness.scan_begins(number);
        let mut left = self.scan_length;
        let mut sum = 0_u64;
        self.index.scan(Some(key), left, |key, payload| {
            witness.visited(key, payload, done);
            sum = sum.wrapping_add(payload);
            left -= 1;
            match left {
                0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        })?;
        witness.scan_ends(left > 0);
        done.seen ^= sum;
        done.visited += self.scan_length - left;
        done.add(Operation::Scan, left < self.scan_length);
        done.executed += 1;
        Ok(())
    }

    /// Reads up to a batch of keys at once.
    fn read_batch(&mut self, place: usize) -> Result<usize, IndexError> {
        let end = self.limit.min(place + self.batch);
        let operations = self.operations;
        let reads = (place..end).take_while(|at| operations.operation(*at) == Operation::Read);
        self.batch_keys.clear();
        self.batch_keys.extend(reads.map(|at| operations.key(at)));
        self.index
            .get_many(&self.batch_keys, &mut self.batch_found)?;
        let count = self.batch_keys.len();
        self.done.executed += count as u64;
        for (at, lookup) in (place..).zip(&self.batch_found) {
            let found = match lookup {
                Lookup::Found(payload) => Some(*payload),
                Lookup::Missing(_) => None,
            };
            self.done.seen ^= found.unwrap_or(0);
            self.done.add(Operation::Read, found.is_some());
            let number = operations.number(at);
            self.witness
                .found(Operation::Read, number, found, self.done);
        }
        Ok(count)
    }
}
