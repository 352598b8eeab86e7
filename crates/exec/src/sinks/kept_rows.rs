//! All rows as they come: what a later pipeline begins with.

use std::sync::Arc;

use super::TOO_MUCH_TEXT;
use crate::error::ExecError;
use crate::row::{RowRef, RowStore, Slot};

/// Rows of one thread, or of all.
pub(crate) struct KeptRows {
    columns: Arc<[Slot]>,
    rows: RowStore,
}

impl KeptRows {
    pub(crate) fn new(columns: &Arc<[Slot]>) -> Self {
        Self {
            rows: RowStore::new(columns),
            columns: Arc::clone(columns),
        }
    }

    /// What it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.bytes()
    }

    /// Adds a row.
    pub(crate) fn add(&mut self, row: RowRef<'_>) -> Result<(), ExecError> {
        self.rows.push(row, &self.columns).ok_or(TOO_MUCH_TEXT)
    }

    /// Adds the rows of another thread.
    pub(crate) fn merge(&mut self, other: &Self) -> Result<(), ExecError> {
        self.rows.append(&other.rows).ok_or(TOO_MUCH_TEXT)
    }

    /// The rows.
    pub(crate) fn finish(self) -> RowStore {
        self.rows
    }
}
