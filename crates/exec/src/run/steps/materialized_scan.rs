//! Numbered rows as drivers: the result of an earlier pipeline, and combinations of values that a
//! key is looked up by.

use crate::bind::KeyLists;
use crate::error::ExecError;
use crate::row::{Row, Slot};
use crate::run::sink::Materialized;
use crate::run::tasks::{State, Step};
use crate::run::worker::{Flow, Worker};
use crate::sinks::TOO_MUCH_TEXT;

impl Worker<'_> {
    /// The first tasks of this thread: its part of the result of a pipeline.
    pub(crate) fn first_materialized_rows(&self, pipeline: usize) -> Vec<State> {
        let kept = Materialized::rows(self.shared.pipelines[pipeline].materialized());
        self.first_rows(kept.map_or(0, |rows| rows.len()))
    }

    /// The first tasks of this thread: its part of rows that are numbered.
    pub(crate) fn first_rows(&self, rows: usize) -> Vec<State> {
        let (number, threads) = if self.pipeline.in_order {
            // All of them, or none.
            (self.number.min(1), 1)
        } else {
            (self.number, self.shared.peers.count())
        };
        let next = (rows * number / threads).min(rows);
        let end = (rows * (number + 1) / threads).min(rows);
        if next < end {
            vec![State::Materialized { next, end }]
        } else {
            Vec::new()
        }
    }

    /// Continues in the rows of an earlier pipeline.
    pub(crate) fn materialized_rows(
        &mut self,
        pipeline: usize,
        slots: &[Slot],
        state: &mut State,
        row: &mut Row,
    ) -> Result<Step, ExecError> {
        let Some(rows) = Materialized::rows(self.shared.pipelines[pipeline].materialized()) else {
            return Ok(Step::Done);
        };
        self.numbered_rows(state, row, |number, row| {
            let kept = rows.row(number);
            let mut slots = rows.slots().iter().zip(slots);
            slots.try_for_each(|(from, to)| to.put_in(from.get(kept), row))
        })
    }

    /// Continues in combinations of values.
    pub(crate) fn combinations(
        &mut self,
        keys: &KeyLists,
        slots: &[Slot],
        state: &mut State,
        row: &mut Row,
    ) -> Result<Step, ExecError> {
        self.numbered_rows(state, row, |number, row| {
            let mut values = keys.combination(number);
            values.try_for_each(|(column, value)| slots[column].put_in(value.value(), row))
        })
    }

    /// Continues in rows that are numbered. `put` makes the row of a number, or says that its text
    /// has no room.
    fn numbered_rows(
        &mut self,
        state: &mut State,
        row: &mut Row,
        put: impl Fn(usize, &mut Row) -> Option<()>,
    ) -> Result<Step, ExecError> {
        let State::Materialized { next, end } = state else {
            return Ok(Step::Done);
        };
        while *next < *end {
            row.heap.clear();
            put(*next, row).ok_or(TOO_MUCH_TEXT)?;
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
