//! What becomes of tasks: made, run, blocked on a page or for lack of room, ended.

use super::task::{PageKey, State, Step, TaskId};
use super::worker::{Flow, Worker};
use crate::error::ExecError;
use crate::row::Row;

impl Worker<'_> {
    /// Lets a task go on.
    pub(super) fn run_task(&mut self, id: TaskId) -> Result<Flow, ExecError> {
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
                    self.frame_share.return_extent(extent.frames.len());
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
                self.blocked_on_degree[position].push(id);
            }
            Step::BlockOnExtent => {
                task.state = state;
                self.blocked_on_extent.push(id);
            }
        }
        Ok(Flow::Go)
    }

    /// A task in a step; its row begins as `row`.
    pub(super) fn new_task(
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

    pub(super) fn end_task(&mut self, id: TaskId) {
        self.tasks.end(id);
        self.counters.tasks_ended.add(1);
    }

    /// Lets a task wait for a page (T3). Where there is no room (T2), because it ran to give rows away, it meets its
    /// fault again later.
    #[inline]
    pub(super) fn wait_for(&mut self, id: TaskId, key: PageKey) {
        if self.is_at_degree() {
            let position = self.tasks.get(id).position;
            self.blocked_on_degree[position].push(id);
            return;
        }
        match self.pending.wait(&mut self.tasks, id, key) {
            Some(read) => self.to_read.push(read),
            None => _ = self.counters.merged_faults.add(1),
        }
        self.count_waiting();
    }

    /// Counts a task that begins to wait.
    pub(super) fn count_waiting(&mut self) {
        self.waiting += 1;
        self.counters.waits_begun.add(1);
        let max = self.counters.waiting_max.get();
        self.counters
            .waiting_max
            .add((self.waiting as u64).saturating_sub(max));
    }

    /// Counts tasks that have waited.
    pub(super) fn count_arrived(&mut self, tasks: usize) {
        self.waiting -= tasks;
        self.counters.waits_ended.add(tasks as u64);
    }

    pub(super) fn has_blocked(&self) -> bool {
        self.blocked_on_degree.iter().any(|tasks| !tasks.is_empty())
    }

    /// The deepest of those that stopped for lack of room, and of these the newest.
    pub(super) fn pop_blocked(&mut self) -> Option<TaskId> {
        self.blocked_on_degree.iter_mut().rev().find_map(Vec::pop)
    }
}
