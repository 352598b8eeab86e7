//! Memory accounting of a query.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::ExecError;

/// The memory of a query's hash tables, sorts and groups, in all of its threads.
#[derive(Debug)]
pub(crate) struct QueryMemory {
    used_bytes: AtomicUsize,
    bytes_max: usize,
}

impl QueryMemory {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            used_bytes: AtomicUsize::new(0),
            bytes_max,
        }
    }

    /// Charges memory of an operator: before it is allocated, if its size is known then.
    pub(crate) fn charge(&self, bytes: usize, operator: &'static str) -> Result<(), ExecError> {
        // Relaxed: a sum that orders nothing.
        let before = self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > self.bytes_max {
            return Err(ExecError::MemoryExceeded {
                operator,
                limit_bytes: self.bytes_max,
            });
        }
        Ok(())
    }

    /// Releases memory.
    pub(crate) fn release(&self, bytes: usize) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes that are charged.
    #[cfg(test)]
    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }
}

/// Rows that a merge processes between two checks.
const STEP_ROWS: usize = 4096;

/// Control of a merge, which can take long: it notices that the query was stopped, and accounts for
/// memory.
pub(crate) struct MergeControl<'q> {
    memory: &'q QueryMemory,
    is_stopped: &'q dyn Fn() -> bool,
    operator: &'static str,
    held_bytes: Cell<usize>,
}

impl<'q> MergeControl<'q> {
    /// The control of an operator that has charged `held_bytes`.
    pub(crate) fn new(
        memory: &'q QueryMemory,
        is_stopped: &'q dyn Fn() -> bool,
        operator: &'static str,
        held_bytes: usize,
    ) -> Self {
        Self {
            memory,
            is_stopped,
            operator,
            held_bytes: Cell::new(held_bytes),
        }
    }

    /// Charges what the operator holds now, or is about to allocate.
    ///
    /// # Errors
    /// If that is more than the query may use, or if the query was stopped: then its own error
    /// counts.
    pub(crate) fn hold(&self, bytes: usize) -> Result<(), ExecError> {
        if (self.is_stopped)() {
            return Err(ExecError::Cancelled);
        }
        let held = self.held_bytes.replace(bytes);
        if bytes > held {
            self.memory.charge(bytes - held, self.operator)
        } else {
            self.memory.release(held - bytes);
            Ok(())
        }
    }

    /// [`MergeControl::hold`] before row number `at` of many, if it is time.
    #[inline]
    pub(crate) fn hold_at(
        &self,
        at: usize,
        bytes: impl FnOnce() -> usize,
    ) -> Result<(), ExecError> {
        if at.is_multiple_of(STEP_ROWS) {
            self.hold(bytes())?;
        }
        Ok(())
    }

    /// Bytes that the operator holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes.get()
    }
}
