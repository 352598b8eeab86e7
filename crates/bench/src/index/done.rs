//! What a thread knows it did: enough to explain afterwards what is left in the index.

use super::mix::Operation;
use super::operations::Operations;

/// Counts of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// How often it was asked for.
    pub(crate) asked: u64,
    /// How often it found its key, or, an insert, its key absent.
    pub(crate) succeeded: u64,
}

/// A thread's operations, and what came of those it did.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) operations: Operations,
    pub(crate) done: Done,
}

/// What a thread did in all stages.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) thread: usize,
    /// Operations done; the next one's number.
    pub(crate) executed: u64,
    pub(crate) counts: [Count; Operation::ALL.len()],
    /// Entries that scans visited.
    pub(crate) visited: u64,
    /// Sum of all payloads that went into the index, wrapping around.
    pub(crate) payloads_in: u64,
    /// Sum of those that came out again: replaced or deleted.
    pub(crate) payloads_out: u64,
    /// Folds what reads and scans returned, so that nobody can leave them out.
    pub(crate) seen: u64,
}

impl Done {
    /// A thread that has done nothing yet.
    pub(crate) fn new(thread: usize) -> Self {
        Self {
            thread,
            executed: 0,
            counts: Default::default(),
            visited: 0,
            payloads_in: 0,
            payloads_out: 0,
            seen: 0,
        }
    }

    /// Counts of one operation.
    pub(crate) const fn count(&self, operation: Operation) -> Count {
        self.counts[operation as usize]
    }

    #[inline]
    pub(crate) fn add(&mut self, operation: Operation, succeeded: bool) {
        let count = &mut self.counts[operation as usize];
        count.asked += 1;
        count.succeeded += u64::from(succeeded);
    }

    /// A payload took the place of another, or of none.
    #[inline]
    pub(crate) fn replaced(&mut self, old: Option<u64>, new: u64) {
        self.payloads_in = self.payloads_in.wrapping_add(new);
        self.payloads_out = self.payloads_out.wrapping_add(old.unwrap_or(0));
    }
}
