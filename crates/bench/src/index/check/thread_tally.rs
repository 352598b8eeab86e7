//! What a thread knows it did: enough to explain afterwards what is left in the index.

use crate::index::operation_mix::Operation;

/// Counts of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// How often it was asked for.
    pub(crate) asked: u64,
    /// How often it found its key; an insert: its key absent; a write that does not ask: always.
    pub(crate) succeeded: u64,
}

/// What a thread did in all stages.
#[derive(Clone, Debug)]
pub(crate) struct ThreadTally {
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
    /// Folds what reads and scans returned, so that the compiler cannot leave them out.
    pub(crate) seen: u64,
}

impl ThreadTally {
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

    /// One more of them.
    #[inline]
    pub(crate) fn add(&mut self, operation: Operation, succeeded: bool) {
        let count = &mut self.counts[operation as usize];
        count.asked += 1;
        count.succeeded += u64::from(succeeded);
    }

    /// A payload went in.
    #[inline]
    pub(crate) fn went_in(&mut self, payload: u64) {
        self.payloads_in = self.payloads_in.wrapping_add(payload);
    }

    /// A payload came out, if there was one.
    #[inline]
    pub(crate) fn came_out(&mut self, payload: Option<u64>) {
        self.payloads_out = self.payloads_out.wrapping_add(payload.unwrap_or(0));
    }
}
