//! All rows, put in order at the end.

use std::cmp::Ordering;
use std::sync::Arc;

use super::TOO_MUCH_TEXT;
use crate::error::ExecError;
use crate::program::SortSink;
use crate::row::{RowRef, RowStore, Slot};

/// Rows of one thread, or of all.
pub(crate) struct SortRows {
    sink: Arc<SortSink>,
    /// The columns, then what decides.
    from: Vec<Slot>,
    rows: RowStore,
}

impl SortRows {
    pub(crate) fn new(sink: &Arc<SortSink>) -> Self {
        let by = sink.by.iter().map(|(slot, _)| *slot);
        let from: Vec<Slot> = sink.columns.iter().copied().chain(by).collect();
        Self {
            sink: Arc::clone(sink),
            rows: RowStore::new(&from),
            from,
        }
    }

    /// What it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.bytes()
    }

    /// Adds a row. Where only the first rows are asked for, others are left out from time to time.
    pub(crate) fn add(&mut self, row: RowRef<'_>) -> Result<(), ExecError> {
        self.rows.push(row, &self.from).ok_or(TOO_MUCH_TEXT)?;
        if let Some(max) = self.rows_max()
            && self.rows.len() >= max.saturating_mul(4).max(4096)
        {
            self.rows = self.in_order()?;
        }
        Ok(())
    }

    fn rows_max(&self) -> Option<usize> {
        self.sink
            .rows_max
            .map(|max| usize::try_from(max).unwrap_or(usize::MAX))
    }

    /// Adds the rows of another thread.
    pub(crate) fn merge(&mut self, other: &Self) -> Result<(), ExecError> {
        self.rows.append(&other.rows).ok_or(TOO_MUCH_TEXT)
    }

    /// The rows in their order, those that are asked for.
    fn in_order(&self) -> Result<RowStore, ExecError> {
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        let compare = |a: &usize, b: &usize| self.compare(*a, *b);
        match self.rows_max() {
            Some(max) if max < order.len() => {
                if max > 0 {
                    order.select_nth_unstable_by(max - 1, compare);
                }
                order.truncate(max);
            }
            _ => {}
        }
        order.sort_unstable_by(compare);
        let mut store = RowStore::new(&self.from);
        for at in order {
            store
                .push(self.rows.row(at), self.rows.slots())
                .ok_or(TOO_MUCH_TEXT)?;
        }
        Ok(store)
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        let (a, b) = (self.rows.row(a), self.rows.row(b));
        let (columns, by) = self.rows.slots().split_at(self.sink.columns.len());
        for (slot, (_, descending)) in by.iter().zip(&self.sink.by) {
            let order = slot.get(a).total_cmp(slot.get(b));
            if order.is_ne() {
                return if *descending { order.reverse() } else { order };
            }
        }
        let mut columns = columns
            .iter()
            .map(|slot| slot.get(a).total_cmp(slot.get(b)));
        columns
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    /// The rows in their order, the columns alone.
    pub(crate) fn finish(self) -> Result<RowStore, ExecError> {
        let ordered = self.in_order()?;
        let slots = &ordered.slots()[..self.sink.columns.len()];
        let mut store = RowStore::new(slots);
        for at in 0..ordered.len() {
            store.push(ordered.row(at), slots).ok_or(TOO_MUCH_TEXT)?;
        }
        Ok(store)
    }
}
