//! Checks the final state of an index, after all threads have ended, against the executed
//! operations.
//!
//! - L1. Every key that must be present is present, and no impossible key is.
//! - L2. Every payload was written to its key by an executed operation, and the same thread did not
//!   later execute an operation on the key that must have replaced it.
//! - L3. The number of keys is the number loaded and added, less the number deleted; the counts of
//!   answers are possible ([`Counts`]).
//! - L4. The sum of the payloads written equals the sum of those removed and those left.
//! - L5. The index reports its number of keys, and visits exactly these keys, in order.
//!
//! Blind writes hide some of this: L4 is then unknown, and L3 is incomplete where keys are deleted.

use std::ops::ControlFlow;

use super::expected_presence::Facts;
use super::operation_counts::Counts;
use super::payload_origin::Origins;
use super::thread_tally::ThreadTally;
use crate::error::BenchError;
use crate::index::drawn_operations::{Choice, Operations};
use crate::index::measured_index::Measured;
use crate::index::operation_mix::Operation;
use crate::index::payload_writer_id::{Writer, loaded, writer};

/// The payload of an absent key; no operation writes it.
const ABSENT: u64 = u64::MAX;

/// The executed operations and their parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished<'a> {
    pub(crate) choice: &'a Choice,
    /// The operations of each thread.
    pub(crate) operations: &'a [Operations],
    /// The tally of each thread.
    pub(crate) done: &'a [ThreadTally],
}

impl Finished<'_> {
    /// Checks the whole final state.
    pub(crate) fn check(&self, index: &impl Measured) -> Result<(), BenchError> {
        let executed = self.operations.iter().zip(self.done);
        let executed = executed.map(|(operations, done)| (operations, done.executed));
        let facts = Facts::of(self.choice, executed);
        let left = self.look_up_all(index)?;
        let check = || {
            self.presence(&facts, &left)?;
            self.origins(&facts, &left)?;
            let there = left.iter().filter(|payload| **payload != ABSENT).count() as u64;
            let says = index.len();
            if says != there {
                return Err(format!(
                    "the index says it has {says} keys, and {there} were found in it"
                ));
            }
            let counts = Counts {
                choice: self.choice,
                operations: self.operations,
                done: self.done,
            };
            counts.balance(there)?;
            counts.answers()?;
            self.sum(&facts, &left)
        };
        check().map_err(BenchError::Check)?;
        if index.is_ordered() {
            self.visit_all(index, &left)?;
        }
        Ok(())
    }

    /// Looks up the payload of every key.
    fn look_up_all(&self, index: &impl Measured) -> Result<Vec<u64>, BenchError> {
        let keys = self.choice.keys;
        let mut left = Vec::with_capacity(keys.count as usize);
        let mut bytes = Vec::new();
        for number in 0..keys.count {
            bytes.clear();
            keys.append(number, &mut bytes);
            left.push(index.get(&bytes)?.unwrap_or(ABSENT));
        }
        Ok(left)
    }

    /// L1.
    fn presence(&self, facts: &Facts, left: &[u64]) -> Result<(), String> {
        for (key, payload) in (0..).zip(left) {
            match facts.there_at_the_end(key) {
                Some(true) if *payload == ABSENT => {
                    return Err(format!("key {key} was added, never deleted, and is gone"));
                }
                Some(false) if *payload != ABSENT => {
                    return Err(format!("key {key} is there and was never added"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// L2.
    fn origins(&self, facts: &Facts, left: &[u64]) -> Result<(), String> {
        let origins = Origins {
            facts,
            operations: self.operations,
        };
        let executed = |thread: usize| self.done[thread].executed;
        for (key, payload) in (0..).zip(left).filter(|(_, payload)| **payload != ABSENT) {
            origins.explain(key, *payload, executed)?;
        }
        let mut last = vec![0; left.len()];
        for (operations, done) in self.operations.iter().zip(self.done) {
            last.fill(0);
            self.last_writes(facts, operations, done, &mut last);
            for ((key, payload), last) in (0..).zip(left).zip(&last) {
                let replaced = match writer(*payload) {
                    _ if *payload == ABSENT => false,
                    Writer::Load(_) => *last > 0,
                    Writer::Operation { thread, number } => {
                        thread == done.thread && number + 1 < *last
                    }
                };
                if replaced {
                    return Err(format!(
                        "key {key} holds payload {payload:#x}, which operation {} of thread {} must have \
                         replaced: a write was lost",
                        last - 1,
                        done.thread
                    ));
                }
            }
        }
        Ok(())
    }

    /// For each key, the last operation of a thread that certainly left its payload there, counted
    /// from 1.
    fn last_writes(
        &self,
        facts: &Facts,
        operations: &Operations,
        done: &ThreadTally,
        last: &mut [u64],
    ) {
        let rounds = operations.len() as u64;
        // In repeated rounds, only the last execution of an operation counts.
        for number in done.executed.saturating_sub(rounds)..done.executed {
            let place = operations.place(number);
            let key = operations.number(place);
            let surely = match operations.operation(place) {
                Operation::Write => true,
                Operation::Update => facts.always_there(key),
                _ => false,
            };
            if surely {
                last[key as usize] = number + 1;
            }
        }
    }

    /// L4.
    fn sum(&self, facts: &Facts, left: &[u64]) -> Result<(), String> {
        if self.choice.mix.has(Operation::Write) && !self.choice.returning {
            return Ok(());
        }
        let keys = 0..self.choice.keys.count;
        let loads = keys.filter(|key| facts.is_loaded(*key)).map(loaded);
        let went_in = self.done.iter().map(|done| done.payloads_in).chain(loads);
        let came_out = self.done.iter().map(|done| done.payloads_out);
        let are_left = left.iter().copied().filter(|payload| *payload != ABSENT);
        let total = |numbers: &mut dyn Iterator<Item = u64>| numbers.fold(0, u64::wrapping_add);
        let went_in = total(&mut went_in.into_iter());
        let came_out = total(&mut came_out.chain(are_left));
        if went_in == came_out {
            return Ok(());
        }
        Err(format!(
            "payloads that sum up to {went_in:#x} went into the index, and those that came out or are \
             left sum up to {came_out:#x}: one was lost or came out twice"
        ))
    }

    /// Checks the second half of L5.
    fn visit_all(&self, index: &impl Measured, left: &[u64]) -> Result<(), BenchError> {
        let keys = self.choice.keys;
        let there = (0..).zip(left).filter(|(_, payload)| **payload != ABSENT);
        let mut expected: Vec<(u64, u64)> = there.map(|(key, _)| (keys.core(key), key)).collect();
        expected.sort_unstable();
        let mut expected = expected.into_iter().map(|(_, key)| key);
        let mut wrong = None;
        index.scan(None, u64::MAX, |key, payload| {
            let number = keys.number(key);
            let next = expected.next();
            if number.is_some() && number == next && left[number.unwrap_or(0) as usize] == payload {
                return ControlFlow::Continue(());
            }
            wrong = Some(format!(
                "a scan of everything visited key {number:?} with payload {payload:#x} where key {next:?} \
                 was to come"
            ));
            ControlFlow::Break(())
        })?;
        if wrong.is_none()
            && let Some(missed) = expected.next()
        {
            wrong = Some(format!("a scan of everything ended before key {missed}"));
        }
        wrong.map_or(Ok(()), |wrong| Err(BenchError::Check(wrong)))
    }
}
