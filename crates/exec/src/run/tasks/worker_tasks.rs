//! The tasks of a worker: made, run, blocked, woken, ended.
//!
//! # Invariants
//! - W1. Every task is in exactly one place: it runs, is in the schedule, or waits for a read.
//! - W2. Every task that is made is counted as made once and as ended once, whichever thread ends
//!   it. So are waits.
//! - W3. Tasks that wait for one page are a list, and wake together (`run/mod.rs`, T3).

use namiki_platform::disk::Frame;

use super::schedule::Schedule;
use super::task::{NONE, State, TaskId};
use super::task_slab::TaskSlab;
use super::trace::{self, Event};
use crate::row::Row;
use crate::run::adaptive_degree::AdaptiveDegree;
use crate::run::counters::WorkerCounters;
use crate::run::frame_share::FrameShare;
use crate::run::options::Options;

/// See the module.
pub(crate) struct WorkerTasks<'s> {
    counters: &'s WorkerCounters,
    slab: TaskSlab,
    schedule: Schedule,
    adaptive: Option<AdaptiveDegree>,
}

impl<'s> WorkerTasks<'s> {
    /// No tasks, with these frames for extents.
    pub(crate) fn new(
        options: &Options,
        extent_frames: FrameShare,
        counters: &'s WorkerCounters,
    ) -> Self {
        let schedule = Schedule::new(options, extent_frames);
        counters.degree_up.add(schedule.degree() as u64);
        Self {
            counters,
            slab: TaskSlab::default(),
            schedule,
            adaptive: options.is_adaptive().then(AdaptiveDegree::new),
        }
    }

    /// Prepares for a pipeline with `steps` steps and extents of up to `extent_pages` pages.
    pub(crate) fn begin(&mut self, steps: usize, extent_pages: usize) {
        self.schedule.begin(steps, extent_pages);
    }

    /// The schedule, to be asked: only the methods of this part change it.
    #[inline]
    pub(crate) fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Makes a task with a row of the first `words` words and `heap` bytes of `row`.
    pub(crate) fn make(
        &mut self,
        position: usize,
        state: State,
        row: &Row,
        words: usize,
        heap: usize,
    ) -> TaskId {
        let id = self.slab.make(position, state);
        trace::made(id, position, self.slab.state(id));
        self.slab.row(id).copy_from(row, words, heap);
        self.counters.tasks.add(1);
        id
    }

    /// Blocks a task of another thread until there is room (T2). That thread has counted it as
    /// made.
    pub(crate) fn adopt(&mut self, position: usize, state: State, row: Row) {
        let id = self.slab.make(position, state);
        trace::made(id, position, self.slab.state(id));
        *self.slab.row(id) = row;
        self.schedule.block_on_degree(position, id);
    }

    /// Ends a task, and takes the frames of its extent back.
    pub(crate) fn end(&mut self, id: TaskId, state: &State) {
        trace::task(id, Event::Ends);
        if let State::Extent(extent) = state {
            self.schedule.return_extent(extent.frames.len());
        }
        self.slab.end(id);
        self.counters.tasks_ended.add(1);
    }

    /// Ends all tasks. Their reads must have ended.
    pub(crate) fn clear(&mut self) {
        self.counters.tasks_ended.add(self.slab.live() as u64);
        self.counters.waits_ended.add(self.schedule.clear() as u64);
        self.slab.clear();
    }

    /// Whether there is no task.
    pub(crate) fn is_empty(&self) -> bool {
        self.slab.live() == 0
    }
}

/// Running tasks.
impl WorkerTasks<'_> {
    /// The task to run next (T1).
    #[inline]
    pub(crate) fn next(&mut self) -> Option<TaskId> {
        self.schedule.next()
    }

    /// Takes step, state and row of a task that runs.
    #[inline]
    pub(crate) fn take(&mut self, id: TaskId) -> (usize, State, Row) {
        trace::task(id, Event::Runs);
        let state = std::mem::take(self.slab.state(id));
        let row = std::mem::take(self.slab.row(id));
        (self.slab.position(id), state, row)
    }

    /// Puts the row of a task back that ran.
    #[inline]
    pub(crate) fn put_row(&mut self, id: TaskId, row: Row) {
        *self.slab.row(id) = row;
    }

    /// Puts the state of a task back that ran and has not ended.
    #[inline]
    pub(crate) fn put_state(&mut self, id: TaskId, state: State) {
        *self.slab.state(id) = state;
    }

    /// The state of a task that does not run, to take a part of it away.
    pub(crate) fn state(&mut self, id: TaskId) -> &mut State {
        self.slab.state(id)
    }

    /// Blocks a task until fewer tasks wait than may.
    #[inline]
    pub(crate) fn block_on_degree(&mut self, id: TaskId) {
        trace::task(id, Event::BlockedOnDegree);
        self.schedule.block_on_degree(self.slab.position(id), id);
    }

    /// Blocks a range until there is room for an extent (T6).
    pub(crate) fn block_on_extent(&mut self, id: TaskId) {
        trace::task(id, Event::BlockedOnExtent);
        self.schedule.block_on_extent(id);
    }

    /// Takes the blocked task out that is nearest to the root, among the steps before `end`. A
    /// range does not count: it has to read before it gives rows.
    pub(crate) fn take_nearest_to_root(&mut self, end: usize) -> Option<TaskId> {
        for position in 0..end {
            let gives_rows = |id: &TaskId| !matches!(self.slab.state(*id), State::Range(_));
            let at = self.schedule.blocked()[position]
                .iter()
                .position(gives_rows);
            if let Some(at) = at {
                return Some(self.schedule.take_blocked(position, at));
            }
        }
        None
    }
}

/// Waiting tasks.
impl WorkerTasks<'_> {
    /// Lets a task wait for a page, in front of `others`, which wait for it already.
    #[inline]
    pub(crate) fn wait_for_page(&mut self, id: TaskId, others: TaskId) {
        self.slab.link(id, others);
        self.schedule.wait_for_page();
        self.count_wait();
    }

    /// Lets a task wait for its extent, for which there is room.
    pub(crate) fn wait_for_extent(&mut self, pages: usize) {
        self.schedule.wait_for_extent(pages);
        self.count_wait();
    }

    fn count_wait(&self) {
        let waiting = self.schedule.waiting() as u64;
        self.counters.waits_begun.add(1);
        let max = self.counters.waiting_max.get();
        self.counters.waiting_max.add(waiting.saturating_sub(max));
    }

    /// Wakes the tasks that wait for a page: `first` and those behind it.
    pub(crate) fn page_arrived(&mut self, first: TaskId) {
        let mut waiter = first;
        let mut count = 0;
        while waiter != NONE {
            trace::task(waiter, Event::Ready);
            self.schedule.page_arrived(waiter);
            waiter = self.slab.next(waiter);
            count += 1;
        }
        self.counters.waits_ended.add(count);
    }

    /// Wakes a task with the frames of its extent.
    pub(crate) fn extent_arrived(&mut self, id: TaskId, frames: Vec<Frame>) {
        if let State::Extent(extent) = self.slab.state(id) {
            extent.frames = frames;
        }
        trace::task(id, Event::Ready);
        self.schedule.extent_arrived(id);
        self.counters.waits_ended.add(1);
    }

    /// Wakes a task with its extent, of `pages` pages, in the cache.
    pub(crate) fn extent_cached(&mut self, id: TaskId, pages: usize) {
        trace::task(id, Event::Ready);
        self.schedule.extent_cached(id, pages);
        self.counters.waits_ended.add(1);
    }

    /// Resumes ranges if there is room for an extent (T6).
    pub(crate) fn resume_ranges(&mut self) {
        self.schedule.resume_ranges();
    }

    /// Adapts the degree to the device.
    pub(crate) fn adapt(&mut self) {
        let is_limited = self.schedule.is_at_degree();
        if let Some(adaptive) = &mut self.adaptive {
            let reads = self.counters.reads.get();
            let degree = adaptive.look(namiki_platform::clock::now_ns, reads, is_limited);
            let before = self.schedule.degree();
            let (up, down) = (degree.saturating_sub(before), before.saturating_sub(degree));
            self.counters.degree_up.add(up as u64);
            self.counters.degree_down.add(down as u64);
            self.schedule.set_degree(degree);
        }
    }
}
