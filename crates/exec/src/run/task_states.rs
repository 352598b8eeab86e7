//! What becomes of tasks: made, run, blocked on a page or for lack of room, ended.

use crate::error::ExecError;
use crate::row::Row;
use crate::run::tasks::{PageKey, State, Step, TaskId};
use crate::run::worker::{Flow, Worker};

impl Worker<'_> {
    /// Lets a task go on.
    pub(crate) fn run_task(&mut self, id: TaskId) -> Result<Flow, ExecError> {
        let task = self.tasks.get(id);
        let position = task.position;
        let mut row = std::mem::take(&mut task.row);
        let mut state = std::mem::take(&mut task.state);
        let heap_before = row.heap.len();
        row.words.resize(self.pipeline.words, 0);
        let step = self.advance(position, &mut state, &mut row);
        row.heap.truncate(heap_before);
        let task = self.tasks.get(id);
        task.row = row;
        match step? {
            Step::Done => {
                if let State::Extent(extent) = &state {
                    self.schedule.return_extent(extent.frames.len());
                }
                self.end_task(id);
            }
            Step::Stop => {
                self.end_task(id);
                return Ok(Flow::Stop);
            }
            Step::Wait(key) => {
                task.state = state;
                self.wait_for(id, key);
            }
            Step::Again => {
                task.state = state;
                self.schedule.block_on_degree(position, id);
            }
            Step::BlockOnExtent => {
                task.state = state;
                self.schedule.block_on_extent(id);
            }
        }
        Ok(Flow::Go)
    }

    /// A task in a step; its row begins as `row`.
    pub(crate) fn new_task(
        &mut self,
        position: usize,
        state: State,
        row: &Row,
        words: usize,
        heap: usize,
    ) -> TaskId {
        let id = self.tasks.make(position);
        let task = self.tasks.get(id);
        task.state = state;
        task.row.copy_from(row, words, heap);
        self.counters.tasks.add(1);
        id
    }

    pub(crate) fn end_task(&mut self, id: TaskId) {
        self.tasks.end(id);
        self.counters.tasks_ended.add(1);
    }

    /// Lets a task wait for a page (T3). Where there is no room (T2), because it ran to give rows away, it meets its
    /// fault again later.
    #[inline]
    pub(crate) fn wait_for(&mut self, id: TaskId, key: PageKey) {
        if self.schedule.is_at_degree() {
            let position = self.tasks.get(id).position;
            self.schedule.block_on_degree(position, id);
            return;
        }
        match self.pending.wait(&mut self.tasks, id, key) {
            Some(read) => self.to_read.push(read),
            None => _ = self.counters.merged_faults.add(1),
        }
        self.schedule.wait_for_page();
        self.count_waiting();
    }

    /// Counts a task that has begun to wait.
    pub(crate) fn count_waiting(&self) {
        let waiting = self.schedule.waiting() as u64;
        self.counters.waits_begun.add(1);
        let max = self.counters.waiting_max.get();
        self.counters.waiting_max.add(waiting.saturating_sub(max));
    }

    /// Counts tasks that have waited.
    pub(crate) fn count_arrived(&self, tasks: usize) {
        self.counters.waits_ended.add(tasks as u64);
    }
}
