//! Checks that the numbers of operations and of answers in a run are possible.

use super::thread_tally::ThreadTally;
use crate::index::drawn_operations::{Choice, Operations};
use crate::index::operation_mix::Operation;

/// The counts of all threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts<'a> {
    pub(crate) choice: &'a Choice,
    /// The operations of each thread.
    pub(crate) operations: &'a [Operations],
    /// The tally of each thread.
    pub(crate) done: &'a [ThreadTally],
}

impl Counts<'_> {
    /// The sum over all threads.
    fn sum(&self, of: impl Fn(&ThreadTally) -> u64) -> u64 {
        self.done.iter().map(of).sum()
    }

    /// Checks that the number of keys is the number loaded and added, less the number deleted.
    ///
    /// Blind writes may have added any number of keys up to their own number.
    pub(crate) fn balance(&self, there: u64) -> Result<(), String> {
        let succeeded = |operation| self.sum(|done| done.count(operation).succeeded);
        let asked = |operation| self.sum(|done| done.count(operation).asked);
        let loaded = self.choice.initial;
        let inserted = succeeded(Operation::Insert);
        let deleted = succeeded(Operation::Delete);
        let (least, most, words) = if self.choice.returning {
            let added = asked(Operation::Write) - succeeded(Operation::Write);
            (added, added, "")
        } else {
            (0, asked(Operation::Write), "up to ")
        };
        let balance = loaded + inserted;
        if (balance + least..=balance + most).contains(&(there + deleted)) {
            return Ok(());
        }
        Err(format!(
            "{there} keys are left, but {loaded} were loaded, {inserted} inserted, {words}{most} added by \
             writes and {deleted} deleted"
        ))
    }

    /// If every key is present from start to end, every read and update must find its key, and
    /// every scan must visit its full length.
    pub(crate) fn answers(&self) -> Result<(), String> {
        let Choice { mix, keys, .. } = self.choice;
        if self.choice.initial < keys.count || mix.has(Operation::Delete) {
            return Ok(());
        }
        for operation in [Operation::Read, Operation::Update] {
            let missed = self.sum(|done| {
                let count = done.count(operation);
                count.asked - count.succeeded
            });
            if missed > 0 {
                return Err(format!(
                    "{missed} {operation}s did not find their keys, all of which are always there",
                    operation = operation.name()
                ));
            }
        }
        if !mix.has(Operation::Scan) {
            return Ok(());
        }
        let (visited, expected) = (self.sum(|done| done.visited), self.visits_expected());
        if visited == expected {
            return Ok(());
        }
        Err(format!(
            "scans visited {visited} entries where {expected} were to be visited"
        ))
    }

    /// The number of entries that scans visit if all keys are present.
    fn visits_expected(&self) -> u64 {
        let keys = self.choice.keys;
        let ascending = keys.ascending();
        // For each key, the number of keys from it on.
        let mut from_here = vec![0; ascending.len()];
        for (left, number) in (1..).zip(ascending.iter().rev()) {
            from_here[*number as usize] = left;
        }
        let threads = self.operations.iter().zip(self.done);
        let visited = threads.map(|(operations, done)| {
            let of = |places: std::ops::Range<usize>| -> u64 {
                let scans = places.filter(|at| operations.operation(*at) == Operation::Scan);
                let key = |at| operations.number(at) as usize;
                scans
                    .map(|at| self.choice.scan_length.min(from_here[key(at)]))
                    .sum()
            };
            let rounds = done.executed / operations.len() as u64;
            let whole = match rounds {
                0 => 0,
                _ => rounds * of(0..operations.len()),
            };
            whole + of(0..operations.place(done.executed))
        });
        visited.sum()
    }
}
