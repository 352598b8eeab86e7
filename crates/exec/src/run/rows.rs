//! Answers of running queries: rows as they come.

use std::sync::Arc;

use namiki_data::columns::{Datum, Value};

use crate::error::ExecError;
use crate::explain::{Explanation, explain};
use crate::query_statistics::{LiveCounters, Statistics};
use crate::row::{RowRef, RowStore, Slot};
use crate::run::counters::sum;
use crate::run::shared::Shared;

/// The rows of a query, which runs while they are taken. Dropped before the end, it cancels the
/// query and waits until its tasks and page frames are free. In a forked child, where the query
/// does not run, it does neither.
pub struct Rows {
    shared: Arc<Shared>,
    batch: RowStore,
    at: usize,
    is_over: bool,
}

/// Cancels a query, or watches it, from any thread.
#[derive(Clone)]
pub struct Canceller(Arc<Shared>);

impl Canceller {
    /// Ends the query with [`ExecError::Cancelled`]. Returns at once; reads in flight are waited
    /// for by the query's threads.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// The live counters, for a thread that does not take the rows.
    #[must_use]
    pub fn live(&self) -> LiveCounters {
        sum(&self.0.counters)
    }
}

/// One row of an answer.
#[derive(Clone, Copy)]
pub struct AnswerRow<'r> {
    row: RowRef<'r>,
    slots: &'r [Slot],
}

impl<'r> AnswerRow<'r> {
    /// The value of column `at`.
    ///
    /// # Panics
    /// If there are fewer columns.
    #[must_use]
    pub fn value(&self, at: usize) -> Value<'r> {
        self.slots[at].get(self.row)
    }

    /// Number of columns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no columns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// All values.
    #[must_use]
    pub fn to_datums(&self) -> Vec<Datum> {
        self.slots
            .iter()
            .map(|slot| slot.get(self.row).to_datum())
            .collect()
    }
}

impl Rows {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            batch: RowStore::new(&shared.output_slots),
            at: 0,
            is_over: false,
            shared,
        }
    }

    /// The names of the columns, which are all different: a name that several columns have has its
    /// table's before it (`customer.id`), and a number behind it where two columns would still be
    /// called the same.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.shared
            .program
            .output
            .iter()
            .map(|(name, _)| name.as_str())
    }

    /// The next row; `None` at the end. Waits for it.
    ///
    /// # Errors
    /// The reason why the query stopped, once. The rows before it are right, but not all.
    pub fn next_row(&mut self) -> Result<Option<AnswerRow<'_>>, ExecError> {
        while self.at == self.batch.len() {
            if self.is_over {
                return Ok(None);
            }
            if !self.shared.process.is_current() {
                self.is_over = true;
                return Err(ExecError::Forked);
            }
            match self.shared.output.receive() {
                Some(batch) => {
                    self.batch = batch;
                    self.at = 0;
                }
                None => {
                    self.is_over = true;
                    self.shared.wait_until_left();
                    if let Some(error) = self.shared.failure() {
                        return Err(error);
                    }
                }
            }
        }
        self.at += 1;
        Ok(Some(AnswerRow {
            row: self.batch.row(self.at - 1),
            slots: self.batch.slots(),
        }))
    }

    /// All rows that are left.
    ///
    /// # Errors
    /// As [`Rows::next_row`].
    pub fn collect_all(&mut self) -> Result<Vec<Vec<Datum>>, ExecError> {
        let mut rows = Vec::new();
        while let Some(row) = self.next_row()? {
            rows.push(row.to_datums());
        }
        Ok(rows)
    }

    /// A handle by which another thread cancels the query.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller(Arc::clone(&self.shared))
    }

    /// The live counters.
    #[must_use]
    pub fn live(&self) -> LiveCounters {
        sum(&self.shared.counters)
    }

    /// The statistics of the query. Complete once it has ended, that is, after [`Rows::next_row`]
    /// has returned nothing or an error.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.shared.statistics()
    }

    /// The plan that runs, its estimated cost, and its statistics: complete once it has ended.
    #[must_use]
    pub fn explain(&self) -> Explanation {
        let (plan, tables) = &self.shared.planned;
        let options = &self.shared.options;
        explain(plan, tables, &options.prices, options.is_ordered())
            .after(&self.shared.operator_rows(), self.shared.statistics())
    }

    /// Cancels the query, waits until its threads have left, and returns its statistics.
    #[must_use]
    pub fn cancel(self) -> Statistics {
        self.shared.cancel();
        self.shared.wait_until_left();
        self.shared.statistics()
    }
}

impl Iterator for Rows {
    type Item = Result<Vec<Datum>, ExecError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.next_row() {
            Ok(row) => row.map(|row| Ok(row.to_datums())),
            Err(error) => Some(Err(error)),
        }
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.cancel();
            self.shared.wait_until_left();
        }
    }
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows")
            .field("live", &self.live())
            .finish_non_exhaustive()
    }
}
