//! The sink of a worker: its part of what the pipeline produces, and the budget of rows.
//!
//! # Invariants
//! - K1. Every byte that the part occupies is charged to the query, at the latest when the budget
//!   is used up. The budget bounds how much a part grows before that.
//! - K2. Answer rows leave in batches, and before the worker waits for anything with none in
//!   flight.

use super::output::{BATCH_BYTES, BATCH_ROWS, Output};
use super::sink_part::SinkPart;
use crate::error::ExecError;
use crate::program::Pipeline;
use crate::row::{Row, RowStore, Slot};
use crate::run::counters::WorkerCounters;
use crate::sinks::{MergeControl, QueryMemory};

/// Rows processed or filtered between two polls of completions and rings.
const BUDGET_ROWS: i32 = 1024;

/// A row with more text than this counts as several against the budget.
const BUDGET_ROW_BYTES: usize = 1 << 10;

/// See the module.
pub(crate) struct WorkerSink<'s> {
    output: &'s Output,
    output_slots: &'s [Slot],
    memory: &'s QueryMemory,
    counters: &'s WorkerCounters,
    part: SinkPart,
    /// Bytes of the part that were charged.
    charged_bytes: usize,
    budget: i32,
    /// Rows that began each step, and those that came to the sink.
    step_rows: Vec<u64>,
    /// Processor time of the thread that was counted.
    cpu_ns: u64,
}

impl<'s> WorkerSink<'s> {
    pub(crate) fn new(
        output: &'s Output,
        output_slots: &'s [Slot],
        memory: &'s QueryMemory,
        counters: &'s WorkerCounters,
    ) -> Self {
        Self {
            output,
            output_slots,
            memory,
            counters,
            part: SinkPart::Output(RowStore::default()),
            charged_bytes: 0,
            budget: 0,
            step_rows: Vec::new(),
            cpu_ns: namiki_platform::clock::thread_cpu_ns(),
        }
    }

    /// Prepares for a pipeline.
    pub(crate) fn begin(&mut self, pipeline: &Pipeline) {
        self.part = SinkPart::new(pipeline, self.output_slots);
        self.charged_bytes = 0;
        self.step_rows.clear();
        self.step_rows.resize(pipeline.steps.len() + 1, 0);
    }

    /// Counts a row that begins a step, or comes to the sink.
    #[inline]
    pub(crate) fn count_row(&mut self, step: usize) {
        self.step_rows[step] += 1;
    }

    /// Keeps a row.
    #[inline]
    pub(crate) fn add(&mut self, row: &Row) -> Result<(), ExecError> {
        self.part.add(row.as_ref(), self.output_slots)?;
        // So the sink is looked at before it has grown by much more than 1 MiB (K1).
        let more = (row.heap.len() / BUDGET_ROW_BYTES) as i32;
        self.budget = self.budget.saturating_sub(more);
        Ok(())
    }

    /// Counts a row, or a task, against the budget.
    #[inline]
    pub(crate) fn spend(&mut self) {
        self.budget -= 1;
    }

    /// Whether it is time to poll completions and rings.
    #[inline]
    pub(crate) fn is_budget_spent(&self) -> bool {
        self.budget <= 0
    }

    pub(crate) fn renew_budget(&mut self) {
        self.budget = BUDGET_ROWS;
    }

    /// Sends a full batch of answer rows, or any if no task waits, and charges what the part
    /// occupies.
    pub(crate) fn flush(&mut self, waiting: usize) -> Result<(), ExecError> {
        if let SinkPart::Output(rows) = &mut self.part {
            let is_full = rows.len() >= BATCH_ROWS || rows.bytes() >= BATCH_BYTES;
            if is_full || rows.len() > 0 && waiting == 0 {
                let full = std::mem::replace(rows, RowStore::new(self.output_slots));
                self.counters.rows.add(full.len() as u64);
                self.count_cpu();
                self.output.send(full);
            }
            return Ok(());
        }
        let (bytes, operator) = self.part.bytes();
        if bytes > self.charged_bytes {
            self.memory.charge(bytes - self.charged_bytes, operator)?;
            self.charged_bytes = bytes;
        }
        Ok(())
    }

    /// Does what can be done with the rows of this thread alone, when all are there.
    pub(crate) fn finish(&mut self, is_stopped: &dyn Fn() -> bool) -> Result<(), ExecError> {
        let (_, operator) = self.part.bytes();
        let control = MergeControl::new(self.memory, is_stopped, operator, self.charged_bytes);
        let finished = self.part.finish(&control);
        self.charged_bytes = control.held_bytes();
        finished
    }

    /// Ends the pipeline: sends the last answer rows unless the query was stopped. Returns the part
    /// and the bytes that are charged for it.
    pub(crate) fn end(&mut self, is_stopped: bool) -> (SinkPart, usize) {
        let none = SinkPart::Output(RowStore::default());
        let mut part = std::mem::replace(&mut self.part, none);
        self.count_cpu();
        if let SinkPart::Output(rows) = &mut part
            && rows.len() > 0
            && !is_stopped
        {
            self.counters.rows.add(rows.len() as u64);
            self.output.send(std::mem::take(rows));
        }
        (part, self.charged_bytes)
    }

    /// Rows that began each step, and those that came to the sink.
    pub(crate) fn step_rows(&self) -> &[u64] {
        &self.step_rows
    }

    fn count_cpu(&mut self) {
        let now = namiki_platform::clock::thread_cpu_ns();
        self.counters.cpu_ns.add(now.saturating_sub(self.cpu_ns));
        self.cpu_ns = now;
    }
}
