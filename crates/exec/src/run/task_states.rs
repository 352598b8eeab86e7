//! Running a task, up to its end or to what it waits for.

use super::tasks::{PageKey, Step, TaskId};
use super::worker::{Flow, Worker};
use crate::error::ExecError;

impl Worker<'_> {
    /// Runs a task.
    pub(crate) fn run_task(&mut self, id: TaskId) -> Result<Flow, ExecError> {
        let (position, mut state, mut row) = self.tasks.take(id);
        let heap_before = row.heap.len();
        row.words.resize(self.pipeline.words, 0);
        let step = self.advance(position, &mut state, &mut row);
        row.heap.truncate(heap_before);
        self.tasks.put_row(id, row);
        let step = step?;
        if let Step::Done | Step::Stop = step {
            self.tasks.end(id, &state);
            let is_stop = matches!(step, Step::Stop);
            return Ok(if is_stop { Flow::Stop } else { Flow::Go });
        }
        self.tasks.put_state(id, state);
        match step {
            Step::Done | Step::Stop => {}
            Step::Wait(key) => self.wait_for_page(id, key),
            Step::Again => self.tasks.block_on_degree(id),
            Step::BlockOnExtent => self.tasks.block_on_extent(id),
        }
        Ok(Flow::Go)
    }

    /// Lets a task wait for a page (`run/mod.rs`, T3). If as many tasks wait as may (T2), because
    /// the task ran in a hand-over, it is blocked, and meets its fault again later.
    #[inline]
    pub(crate) fn wait_for_page(&mut self, id: TaskId, key: PageKey) {
        if self.tasks.schedule().is_at_degree() {
            self.tasks.block_on_degree(id);
        } else {
            self.reads.request_page(&mut self.tasks, id, key);
        }
    }
}
