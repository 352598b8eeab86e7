//! Which task of a thread goes on next, which may wait, and what a task may hold while it waits: T1, T2 and T6.
//!
//! All that decides whether a thread makes progress is here, apart from pages and rows, so that a model can try all that may
//! happen between a thread, its device and the threads that give it work (`progress_model.rs`).
//!
//! # Invariants
//! - S1. A task that waits for an extent has the frames of the extent: they are taken from the thread's share when the extent is
//!   asked for, not when it is read. Without them there is no such task: the range itself is blocked, and holds nothing.
//! - S2. A range is blocked on extents only while extents of its thread are on their way, or hold frames. Either of these ends
//!   without the range, and then the range is looked at again.

use super::task::TaskId;
use crate::run::frame_share::{EXTENTS_IN_FLIGHT, FrameShare};
use crate::run::options::Options;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Schedule {
    /// Tasks that can go on: the newest last.
    ready: Vec<TaskId>,
    /// Tasks that can go on when there is room, by the position of their step: the newest last.
    blocked_on_degree: Vec<Vec<TaskId>>,
    /// Ranges that go on when there is room for an extent.
    blocked_on_extent: Vec<TaskId>,
    /// Tasks that wait for pages.
    waiting: usize,
    /// Of these, those that wait for extents.
    extents: usize,
    degree: usize,
    window_tasks: usize,
    /// Pages of an extent of the driver's range, at most.
    extent_pages: usize,
    /// Frames of pages on their way, and of extents that tasks go through.
    pub(crate) frames: FrameShare,
}

impl Schedule {
    /// The schedule of a thread that has so many frames.
    pub(crate) fn new(options: &Options, frames: usize) -> Self {
        Self {
            ready: Vec::new(),
            blocked_on_degree: vec![Vec::new()],
            blocked_on_extent: Vec::new(),
            waiting: 0,
            extents: 0,
            degree: options.first_degree(),
            window_tasks: options.window_tasks,
            extent_pages: 1,
            frames: FrameShare::new(options, frames),
        }
    }

    /// Prepares for a pipeline of so many steps, and for extents of up to so many pages.
    pub(crate) fn begin(&mut self, steps: usize, extent_pages: usize) {
        self.blocked_on_degree.resize_with(steps + 1, Vec::new);
        self.extent_pages = extent_pages.clamp(1, self.frames.extent_pages_max());
    }

    /// Ends all tasks. Tells how many have waited.
    pub(crate) fn clear(&mut self) -> usize {
        self.ready.clear();
        self.blocked_on_degree.iter_mut().for_each(Vec::clear);
        self.blocked_on_extent.clear();
        self.extents = 0;
        self.frames.return_all();
        std::mem::take(&mut self.waiting)
    }

    /// Pages of an extent, at most.
    pub(crate) fn extent_pages(&self) -> usize {
        self.extent_pages
    }
}

/// What goes on.
impl Schedule {
    /// The next to go on: of what is ready the newest; otherwise the deepest of those that stopped for lack of room, and of
    /// these the newest (T1).
    #[inline]
    pub(crate) fn next(&mut self) -> Option<TaskId> {
        let deepest = |blocked: &mut Vec<Vec<TaskId>>| blocked.iter_mut().rev().find_map(Vec::pop);
        self.ready
            .pop()
            .or_else(|| deepest(&mut self.blocked_on_degree))
    }

    /// Whether there is a next one.
    pub(crate) fn has_next(&self) -> bool {
        !self.ready.is_empty() || self.has_blocked()
    }

    /// Whether tasks have stopped for lack of room.
    pub(crate) fn has_blocked(&self) -> bool {
        self.blocked_on_degree.iter().any(|tasks| !tasks.is_empty())
    }

    /// Tasks that there are, but for ranges that are blocked on extents.
    pub(crate) fn load(&self) -> usize {
        let blocked: usize = self.blocked_on_degree.iter().map(Vec::len).sum();
        self.waiting + self.ready.len() + blocked
    }

    /// A task goes on when there is room.
    #[inline]
    pub(crate) fn block_on_degree(&mut self, position: usize, id: TaskId) {
        self.blocked_on_degree[position].push(id);
    }

    /// A range goes on when there is room for an extent ([`Schedule::has_room_for_extent`] says that there is none).
    pub(crate) fn block_on_extent(&mut self, id: TaskId) {
        debug_assert!(self.extents > 0 || self.frames.has_extents());
        self.blocked_on_extent.push(id);
    }

    /// Lets ranges go on if there is room for an extent: to be called when an extent has arrived, and when one has ended
    /// (S2).
    pub(crate) fn resume_ranges(&mut self) {
        if !self.has_room_for_extent(self.extent_pages) {
            return;
        }
        if self.task_limit() == 1 {
            // Behind all that has arrived: one read at a time.
            self.blocked_on_degree[0].splice(0..0, self.blocked_on_extent.drain(..));
        } else {
            // The next extents are asked for before the rows of those that have arrived are gone through: otherwise the
            // device has nothing to do meanwhile.
            self.ready.append(&mut self.blocked_on_extent);
        }
    }

    /// The tasks that stopped for lack of room, by the positions of their steps.
    pub(crate) fn blocked(&self) -> &[Vec<TaskId>] {
        &self.blocked_on_degree
    }

    /// Takes one of these out.
    pub(crate) fn take_blocked(&mut self, position: usize, at: usize) -> TaskId {
        self.blocked_on_degree[position].remove(at)
    }

    /// The driver's tasks that do not go on now.
    pub(crate) fn blocked_drivers(&self) -> Vec<TaskId> {
        [&self.blocked_on_degree[0][..], &self.blocked_on_extent].concat()
    }

    /// Whether there is something that another thread could go on with.
    pub(crate) fn has_work_for_others(&self) -> bool {
        self.has_blocked() || !self.blocked_on_extent.is_empty()
    }
}

/// What waits.
impl Schedule {
    /// How many tasks may have reads on their way.
    pub(crate) fn degree(&self) -> usize {
        self.degree
    }

    pub(crate) fn set_degree(&mut self, degree: usize) {
        self.degree = degree;
    }

    /// How many tasks may wait.
    #[inline]
    pub(crate) fn task_limit(&self) -> usize {
        self.degree.max(self.window_tasks)
    }

    /// Tasks that wait.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether as many tasks wait as may (T2).
    #[inline]
    pub(crate) fn is_at_degree(&self) -> bool {
        self.waiting >= self.task_limit()
    }

    /// How many extents may be on their way: half of the degree, so that their rows can wait for pages meanwhile.
    fn extents_max(&self) -> usize {
        EXTENTS_IN_FLIGHT.min((self.task_limit() / 2).max(1))
    }

    /// Whether an extent of so many pages may be asked for.
    pub(crate) fn has_room_for_extent(&self, pages: usize) -> bool {
        self.extents < self.extents_max() && self.frames.has_room_for_extent(pages)
    }

    /// A task waits for an extent of so many pages, for which there is room. It has the extent's frames from now on (S1).
    pub(crate) fn wait_for_extent(&mut self, pages: usize) {
        debug_assert!(self.has_room_for_extent(pages));
        self.frames.take_extent(pages);
        self.extents += 1;
        self.waiting += 1;
    }

    /// A task waits for a page.
    #[inline]
    pub(crate) fn wait_for_page(&mut self) {
        self.waiting += 1;
    }

    /// The extent of a task has arrived. Its frames are the task's until [`Schedule::return_extent`].
    pub(crate) fn extent_arrived(&mut self, id: TaskId) {
        self.extents -= 1;
        self.waiting -= 1;
        self.ready.push(id);
    }

    /// The page of a task has arrived.
    #[inline]
    pub(crate) fn page_arrived(&mut self, id: TaskId) {
        self.waiting -= 1;
        self.ready.push(id);
    }

    /// Takes frames of an extent back: its rows are through.
    pub(crate) fn return_extent(&mut self, pages: usize) {
        if pages > 0 {
            self.frames.return_extent(pages);
            self.resume_ranges();
        }
    }
}
