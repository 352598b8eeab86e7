//! A thread's own record of its operations, which suffices to explain the final state of the index.

use crate::index::operation_mix::Operation;

/// Counts of one kind of operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Number of executions.
    pub(crate) asked: u64,
    /// Number of successes: the key was found; for an insert, the key was absent; a blind write
    /// always succeeds.
    pub(crate) succeeded: u64,
}

/// The operations of a thread in all stages.
#[derive(Clone, Debug)]
pub(crate) struct ThreadTally {
    pub(crate) thread: usize,
    /// Number of executed operations, which is the number of the next one.
    pub(crate) executed: u64,
    pub(crate) counts: [Count; Operation::ALL.len()],
    /// Entries that scans visited.
    pub(crate) visited: u64,
    /// Sum of all payloads written to the index, wrapping around.
    pub(crate) payloads_in: u64,
    /// Sum of the payloads replaced or deleted.
    pub(crate) payloads_out: u64,
    /// Folds the results of reads and scans, so that the compiler cannot eliminate them.
    pub(crate) seen: u64,
}

impl ThreadTally {
    /// Creates the tally of a thread that has executed nothing.
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

    /// The counts of one kind of operation.
    pub(crate) const fn count(&self, operation: Operation) -> Count {
        self.counts[operation as usize]
    }

    /// Counts one execution.
    #[inline]
    pub(crate) fn add(&mut self, operation: Operation, succeeded: bool) {
        let count = &mut self.counts[operation as usize];
        count.asked += 1;
        count.succeeded += u64::from(succeeded);
    }

    /// Adds a payload that was written.
    #[inline]
    pub(crate) fn went_in(&mut self, payload: u64) {
        self.payloads_in = self.payloads_in.wrapping_add(payload);
    }

    /// Adds a payload that was removed, if there was one.
    #[inline]
    pub(crate) fn came_out(&mut self, payload: Option<u64>) {
        self.payloads_out = self.payloads_out.wrapping_add(payload.unwrap_or(0));
    }
}
