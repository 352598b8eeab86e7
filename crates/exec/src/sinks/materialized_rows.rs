//! Materialized rows: all rows as they come, for a later pipeline to begin with.

use std::sync::Arc;

use super::TOO_MUCH_TEXT;
use super::query_memory::MergeControl;
use crate::error::ExecError;
use crate::row::{RowRef, RowStore, Slot};

/// Rows of one thread.
pub(crate) struct MaterializedRows {
    columns: Arc<[Slot]>,
    rows: RowStore,
}

impl MaterializedRows {
    pub(crate) fn new(columns: &Arc<[Slot]>) -> Self {
        Self {
            rows: RowStore::new(columns),
            columns: Arc::clone(columns),
        }
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.bytes()
    }

    /// Adds a row.
    pub(crate) fn add(&mut self, row: RowRef<'_>) -> Result<(), ExecError> {
        self.rows.push(row, &self.columns).ok_or(TOO_MUCH_TEXT)
    }

    /// The rows of all threads.
    pub(crate) fn merge(
        parts: Vec<Self>,
        control: &MergeControl<'_>,
    ) -> Result<Option<RowStore>, ExecError> {
        let stores = parts.into_iter().map(|part| part.rows);
        append_all(stores.collect(), 0, control)
    }
}

/// Appends stores of one shape to the longest, the last of equal ones. Each is dropped after it was
/// copied. `None` if there is no store. `other_bytes` are held at the same time.
pub(super) fn append_all(
    mut stores: Vec<RowStore>,
    other_bytes: usize,
    control: &MergeControl<'_>,
) -> Result<Option<RowStore>, ExecError> {
    // Stable, so that callers know the order.
    stores.sort_by_key(RowStore::len);
    let Some(mut all) = stores.pop() else {
        return Ok(None);
    };
    let mut left_bytes: usize = stores.iter().map(RowStore::bytes).sum();
    let more: usize = stores.iter().map(RowStore::len).sum();
    if more > 0 {
        // The old list is there until it was copied to the new one.
        let new_bytes = all.bytes() + all.row_bytes() * more;
        control.hold(all.bytes() + new_bytes + left_bytes + other_bytes)?;
        all.reserve(more);
    }
    for store in stores {
        for at in 0..store.len() {
            control.hold_at(at, || all.bytes() + left_bytes + other_bytes)?;
            all.push(store.row(at), store.slots())
                .ok_or(TOO_MUCH_TEXT)?;
        }
        left_bytes -= store.bytes();
    }
    control.hold(all.bytes() + other_bytes)?;
    Ok(Some(all))
}
