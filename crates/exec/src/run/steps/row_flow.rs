//! Row flow: sends a row through the steps of a pipeline, depth first, up to the first fault.

use crate::error::ExecError;
use crate::program::{self, Driver, Reach};
use crate::row::Row;
use crate::run::tasks::{State, Step};
use crate::run::worker::{Flow, Worker};

impl Worker<'_> {
    /// Sends a row through the steps from `at` on.
    #[inline]
    pub(crate) fn flow(&mut self, mut at: usize, row: &mut Row) -> Result<Flow, ExecError> {
        let pipeline = self.pipeline;
        loop {
            self.sink.count_row(at);
            match pipeline.steps.get(at) {
                None => return self.arrive(row),
                Some(program::Step::Filter(keep)) => {
                    if keep.truth(row.as_ref())? != Some(true) {
                        return Ok(self.after_row());
                    }
                }
                Some(program::Step::Compute(columns)) => compute(columns, row)?,
                Some(program::Step::Limit(_)) => {
                    match self.shared.pipelines[self.pipeline_number].pass_limit(at) {
                        None => {
                            self.shared.peers.end_pipeline();
                            return Ok(Flow::Stop);
                        }
                        // The last one that may pass.
                        Some(0) => {
                            self.flow(at + 1, row)?;
                            self.shared.peers.end_pipeline();
                            return Ok(Flow::Stop);
                        }
                        Some(_) => {}
                    }
                }
                Some(program::Step::Read(step)) => {
                    return self.expand(at + 1, step.words_before, row);
                }
                Some(program::Step::Probe(step)) => {
                    return self.expand(at + 1, step.words_before, row);
                }
            }
            at += 1;
        }
    }

    /// Counts a row that has gone through.
    #[inline]
    pub(crate) fn after_row(&mut self) -> Flow {
        self.sink.spend();
        if self.is_full() { Flow::Full } else { Flow::Go }
    }

    /// Counts a row that a step's own filter has rejected. Returns whether it is time to poll
    /// completions and rings.
    #[inline]
    pub(crate) fn reject_row(&mut self) -> bool {
        self.sink.spend();
        self.sink.is_budget_spent()
    }

    #[inline]
    fn arrive(&mut self, row: &Row) -> Result<Flow, ExecError> {
        self.sink.add(row)?;
        Ok(self.after_row())
    }

    /// Lets a row begin a step that may need pages or give many rows, up to the first fault.
    fn expand(
        &mut self,
        position: usize,
        words_before: usize,
        row: &mut Row,
    ) -> Result<Flow, ExecError> {
        let heap_before = row.heap.len();
        if self.channels.is_handing_over()
            && self.channels.hand_over_row(position, row, words_before)
        {
            let is_last = !self.channels.is_handing_over();
            return Ok(if is_last { Flow::Full } else { Flow::Go });
        }
        self.counters.rows_between.add(1);
        if self.gathers.is_gathering(position)
            && let Some(program::Step::Read(step)) = self.pipeline.steps.get(position - 1)
            && let Reach::Key(key) = &step.reach
        {
            if self.gathers.is_full(position) {
                let flow = self.look_up_gathered_from(position)?;
                if flow == Flow::Stop {
                    return Ok(flow);
                }
            }
            if !self.gathers.is_full(position) {
                return self.gather_row(position, step, key, row);
            }
            // No room for the rows that were looked up: this one waits, too.
            let id = self
                .tasks
                .make(position, State::Start, row, words_before, heap_before);
            self.tasks.block_on_degree(id);
            return Ok(Flow::Full);
        }
        let mut state = State::Start;
        let step = self.advance(position, &mut state, row)?;
        row.heap.truncate(heap_before);
        match step {
            // No step but a driver waits for extents.
            Step::Done | Step::BlockOnExtent => {}
            Step::Stop => return Ok(Flow::Stop),
            Step::Wait(key) => {
                let id = self
                    .tasks
                    .make(position, state, row, words_before, heap_before);
                self.wait_for_page(id, key);
            }
            Step::Again => {
                let id = self
                    .tasks
                    .make(position, state, row, words_before, heap_before);
                self.tasks.block_on_degree(id);
                return Ok(Flow::Full);
            }
        }
        Ok(self.after_row())
    }

    /// Continues in a step.
    pub(crate) fn advance(
        &mut self,
        position: usize,
        state: &mut State,
        row: &mut Row,
    ) -> Result<Step, ExecError> {
        let pipeline = self.pipeline;
        let step = match position.checked_sub(1).map(|at| &pipeline.steps[at]) {
            None => match &pipeline.driver {
                Driver::Read(step) => step,
                Driver::Materialized { pipeline, slots } => {
                    return self.materialized_rows(*pipeline, slots, state, row);
                }
                Driver::Combinations { keys, slots } => {
                    return self.combinations(keys, slots, state, row);
                }
            },
            Some(program::Step::Read(step)) => step,
            Some(program::Step::Probe(step)) => {
                return self.probe_chain(position, step, state, row);
            }
            // No task begins in another step.
            Some(_) => return Ok(Step::Done),
        };
        self.read(position, step, state, row)
    }
}

fn compute(columns: &[(program::Eval, crate::row::Slot)], row: &mut Row) -> Result<(), ExecError> {
    for (eval, slot) in columns {
        let value = eval.value(row.as_ref())?;
        let value = match value.without_bytes() {
            Some(value) => slot.put_in(value, row),
            // The text may lie in the row that it goes to.
            None => slot.put_in(value.to_datum().value(), row),
        };
        value.ok_or_else(|| ExecError::Overflow {
            expression: "a calculated column".to_owned(),
        })?;
    }
    Ok(())
}
