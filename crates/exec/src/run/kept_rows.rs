//! Rows that earlier pipelines have kept: as the driver of a pipeline, and in the hash table of a join.

use super::sinks::Kept;
use super::task::{State, Step};
use super::worker::{Flow, Worker};
use crate::error::ExecError;
use crate::program::ProbeStep;
use crate::row::{Row, Slot};
use crate::sinks::TOO_MUCH_TEXT;

impl Worker<'_> {
    /// What this thread begins with: its part of what a pipeline has kept.
    pub(super) fn first_kept_rows(&self, pipeline: usize) -> Vec<State> {
        let rows = Kept::rows(self.shared.kept(pipeline)).map_or(0, |rows| rows.len());
        let (number, threads) = if self.pipeline.in_order {
            // All of them, or none.
            (self.number.min(1), 1)
        } else {
            (self.number, self.shared.threads)
        };
        let next = (rows * number / threads).min(rows);
        let end = (rows * (number + 1) / threads).min(rows);
        if next < end {
            vec![State::Kept { next, end }]
        } else {
            Vec::new()
        }
    }

    /// Goes on in kept rows.
    pub(super) fn kept_rows(
        &mut self,
        pipeline: usize,
        slots: &[Slot],
        state: &mut State,
        row: &mut Row,
    ) -> Result<Step, ExecError> {
        let shared = self.shared;
        let (Some(rows), State::Kept { next, end }) = (Kept::rows(shared.kept(pipeline)), state)
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

    /// Goes on in the chain of a hash table.
    pub(super) fn chain(
        &mut self,
        position: usize,
        step: &ProbeStep,
        state: &mut State,
        row: &mut Row,
    ) -> Result<Step, ExecError> {
        let shared = self.shared;
        let Some(table) = Kept::table(shared.kept(step.pipeline)) else {
            return Ok(Step::Done);
        };
        let (hash, mut at) = match *state {
            State::Chain { hash, at } => (hash, at),
            _ => match table.hash(row.as_ref(), &step.key) {
                Some(hash) => (hash, table.head(hash)),
                None => return Ok(Step::Done),
            },
        };
        let heap_before = row.heap.len();
        while let Some((number, next)) = table.find(at, hash, row.as_ref(), &step.key) {
            at = next;
            let (found, columns) = table.row(number);
            for (column, slot) in &step.loads {
                slot.put_in(columns[*column].get(found), row)
                    .ok_or(TOO_MUCH_TEXT)?;
            }
            let flow = self.flow(position, row)?;
            row.heap.truncate(heap_before);
            match flow {
                Flow::Go => {}
                Flow::Stop => return Ok(Step::Stop),
                Flow::Full => {
                    if at == 0 {
                        break;
                    }
                    *state = State::Chain { hash, at };
                    return Ok(Step::Again);
                }
            }
        }
        Ok(Step::Done)
    }
}
