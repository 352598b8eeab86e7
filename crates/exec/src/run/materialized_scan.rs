//! Rows that an earlier pipeline has kept, and combinations of values that a key is looked up by, as drivers.

use super::task::{State, Step};
use super::worker::{Flow, Worker};
use super::worker_sink::Materialized;
use crate::bind::KeyLists;
use crate::error::ExecError;
use crate::row::{Row, Slot};
use crate::sinks::TOO_MUCH_TEXT;

impl Worker<'_> {
    /// What this thread begins with: its part of what a pipeline has kept.
    pub(super) fn first_materialized_rows(&self, pipeline: usize) -> Vec<State> {
        let kept = Materialized::rows(self.shared.materialized(pipeline));
        self.first_rows(kept.map_or(0, |rows| rows.len()))
    }

    /// What this thread begins with: its part of so many rows that are numbered.
    pub(super) fn first_rows(&self, rows: usize) -> Vec<State> {
        let (number, threads) = if self.pipeline.in_order {
            // All of them, or none.
            (self.number.min(1), 1)
        } else {
            (self.number, self.shared.threads)
        };
        let next = (rows * number / threads).min(rows);
        let end = (rows * (number + 1) / threads).min(rows);
        if next < end {
            vec![State::Materialized { next, end }]
        } else {
            Vec::new()
        }
    }

    /// Goes on in kept rows.
    pub(super) fn materialized_rows(
        &mut self,
        pipeline: usize,
        slots: &[Slot],
        state: &mut State,
        row: &mut Row,
    ) -> Result<Step, ExecError> {
        let shared = self.shared;
        let (Some(rows), State::Materialized { next, end }) =
            (Materialized::rows(shared.materialized(pipeline)), state)
        else {
            return Ok(Step::Done);
        };
        while *next < *end {
            let kept = rows.row(*next);
            *next += 1;
            row.heap.clear();
            for (from, to) in rows.slots().iter().zip(slots) {
                to.put_in(from.get(kept), row).ok_or(TOO_MUCH_TEXT)?;
            }
            match self.flow(0, row)? {
                Flow::Go => {}
                Flow::Full => {
                    row.heap.clear();
                    return Ok(Step::Again);
                }
                Flow::Stop => return Ok(Step::Stop),
            }
        }
        row.heap.clear();
        Ok(Step::Done)
    }

    /// Goes on in combinations of values.
    pub(super) fn combinations(
        &mut self,
        keys: &KeyLists,
        slots: &[Slot],
        state: &mut State,
        row: &mut Row,
    ) -> Result<Step, ExecError> {
        let State::Materialized { next, end } = state else {
            return Ok(Step::Done);
        };
        while *next < *end {
            row.heap.clear();
            for (column, value) in keys.combination(*next) {
                let put = slots[column].put_in(value.value(), row);
                put.ok_or(TOO_MUCH_TEXT)?;
            }
            *next += 1;
            match self.flow(0, row)? {
                Flow::Go => {}
                Flow::Full => {
                    row.heap.clear();
                    return Ok(Step::Again);
                }
                Flow::Stop => return Ok(Step::Stop),
            }
        }
        row.heap.clear();
        Ok(Step::Done)
    }
}
