//! The schedule of a thread: which task runs next, how many may wait, and the frames that a waiting
//! task holds. It keeps T1, T2 and T6.
//!
//! Everything that decides about progress is here, without pages and rows. So a model can try all
//! orders of events between a thread, its device and other threads (`progress_model.rs`).
//!
//! # Invariants
//! - S1. A task that waits for an extent holds the extent's frames. They are taken from the
//!   thread's share when the extent is requested, not when it is read. Without frames there is no
//!   such task: the range itself is blocked, and holds nothing.
//! - S2. A range is blocked on extents only while extents of its thread are in flight or hold
//!   frames. These end without the range, and their end resumes it.

use super::task::TaskId;
use crate::run::frame_share::{EXTENT_PAGES_MAX, EXTENTS_IN_FLIGHT, FrameShare};
use crate::run::options::Options;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Schedule {
    /// Tasks that can run, the newest last.
    ready: Vec<TaskId>,
    /// Tasks that can run once there is room, by the position of their step, the newest last.
    blocked_on_degree: Vec<Vec<TaskId>>,
    /// Ranges that can run once there is room for an extent.
    blocked_on_extent: Vec<TaskId>,
    /// Tasks that wait for pages or extents.
    waiting: usize,
    /// Tasks that wait for extents.
    extents: usize,
    degree: usize,
    window_tasks: usize,
    /// Longest extent of the driver's range, in pages.
    extent_pages: usize,
    /// Frames of extents in flight, and of extents that tasks read rows from.
    extent_frames: FrameShare,
}

impl Schedule {
    /// The schedule of a thread with these frames for extents.
    pub(crate) fn new(options: &Options, extent_frames: FrameShare) -> Self {
        Self {
            ready: Vec::new(),
            blocked_on_degree: vec![Vec::new()],
            blocked_on_extent: Vec::new(),
            waiting: 0,
            extents: 0,
            degree: options.first_degree(),
            window_tasks: options.window_tasks,
            extent_pages: 1,
            extent_frames,
        }
    }

    /// Prepares for a pipeline with `steps` steps and extents of up to `extent_pages` pages.
    pub(crate) fn begin(&mut self, steps: usize, extent_pages: usize) {
        self.blocked_on_degree.resize_with(steps + 1, Vec::new);
        let longest = self.extent_frames.read_pages_max(EXTENT_PAGES_MAX);
        self.extent_pages = extent_pages.clamp(1, longest);
    }

    /// Ends all tasks. Returns how many were waiting.
    pub(crate) fn clear(&mut self) -> usize {
        self.ready.clear();
        self.blocked_on_degree.iter_mut().for_each(Vec::clear);
        self.blocked_on_extent.clear();
        self.extents = 0;
        self.extent_frames.put_back_all();
        std::mem::take(&mut self.waiting)
    }

    /// Frames of extents, for a model that breaks S1.
    #[cfg(all(test, not(loom)))]
    pub(super) fn extent_frames(&mut self) -> &mut FrameShare {
        &mut self.extent_frames
    }

    /// Longest extent, in pages.
    pub(crate) fn extent_pages(&self) -> usize {
        self.extent_pages
    }
}

/// Tasks that can run.
impl Schedule {
    /// The task to run next: the newest ready one, otherwise the newest of the deepest step that is
    /// blocked on the degree (`run/mod.rs`, T1).
    #[inline]
    pub(crate) fn next(&mut self) -> Option<TaskId> {
        let deepest = |blocked: &mut Vec<Vec<TaskId>>| blocked.iter_mut().rev().find_map(Vec::pop);
        self.ready
            .pop()
            .or_else(|| deepest(&mut self.blocked_on_degree))
    }

    /// Whether there is a task to run next.
    pub(crate) fn has_next(&self) -> bool {
        !self.ready.is_empty() || self.has_blocked()
    }

    fn has_blocked(&self) -> bool {
        self.blocked_on_degree.iter().any(|tasks| !tasks.is_empty())
    }

    /// Number of tasks, without ranges that are blocked on extents.
    pub(crate) fn load(&self) -> usize {
        let blocked: usize = self.blocked_on_degree.iter().map(Vec::len).sum();
        self.waiting + self.ready.len() + blocked
    }

    /// Blocks a task until fewer tasks wait than may.
    #[inline]
    pub(crate) fn block_on_degree(&mut self, position: usize, id: TaskId) {
        self.blocked_on_degree[position].push(id);
    }

    /// Blocks a range until there is room for an extent, after [`Schedule::has_room_for_extent`]
    /// has denied it.
    pub(crate) fn block_on_extent(&mut self, id: TaskId) {
        debug_assert!(self.extents > 0 || !self.extent_frames.is_unused());
        self.blocked_on_extent.push(id);
    }

    /// Resumes ranges if there is room for an extent. Must be called after an extent has arrived,
    /// and after one has ended (S2).
    pub(crate) fn resume_ranges(&mut self) {
        if !self.has_room_for_extent(self.extent_pages) {
            return;
        }
        if self.task_limit() == 1 {
            // Behind everything that has arrived: one read at a time.
            self.blocked_on_degree[0].splice(0..0, self.blocked_on_extent.drain(..));
        } else {
            // Before the rows of extents that have arrived: the device reads while they are used.
            self.ready.append(&mut self.blocked_on_extent);
        }
    }

    /// Tasks that are blocked on the degree, by the positions of their steps.
    pub(crate) fn blocked(&self) -> &[Vec<TaskId>] {
        &self.blocked_on_degree
    }

    /// Takes a task out of [`Schedule::blocked`].
    pub(crate) fn take_blocked(&mut self, position: usize, at: usize) -> TaskId {
        self.blocked_on_degree[position].remove(at)
    }

    /// Blocked tasks of the driver.
    pub(crate) fn blocked_drivers(&self) -> Vec<TaskId> {
        [&self.blocked_on_degree[0][..], &self.blocked_on_extent].concat()
    }

    /// Whether another thread could run a task of this one.
    pub(crate) fn has_work_for_others(&self) -> bool {
        self.has_blocked() || !self.blocked_on_extent.is_empty()
    }
}

/// Tasks that wait.
impl Schedule {
    /// Number of tasks that may have reads in flight.
    pub(crate) fn degree(&self) -> usize {
        self.degree
    }

    pub(crate) fn set_degree(&mut self, degree: usize) {
        self.degree = degree;
    }

    /// Number of tasks that may wait.
    #[inline]
    pub(crate) fn task_limit(&self) -> usize {
        self.degree.max(self.window_tasks)
    }

    /// Number of tasks that wait.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether as many tasks wait as may (T2).
    #[inline]
    pub(crate) fn is_at_degree(&self) -> bool {
        self.waiting >= self.task_limit()
    }

    /// Extents that may be in flight: half of the degree, so that their rows can wait for pages.
    fn extents_max(&self) -> usize {
        EXTENTS_IN_FLIGHT.min((self.task_limit() / 2).max(1))
    }

    /// Whether an extent of `pages` pages may be requested.
    pub(crate) fn has_room_for_extent(&self, pages: usize) -> bool {
        self.extents < self.extents_max() && self.extent_frames.has_room(pages)
    }

    /// Counts a task that waits for an extent, for which there is room. It holds the extent's
    /// frames from now on (S1).
    pub(crate) fn wait_for_extent(&mut self, pages: usize) {
        debug_assert!(self.has_room_for_extent(pages));
        self.extent_frames.take(pages);
        self.extents += 1;
        self.waiting += 1;
    }

    /// Counts a task that waits for a page.
    #[inline]
    pub(crate) fn wait_for_page(&mut self) {
        self.waiting += 1;
    }

    /// Makes a task ready, with its extent. The task holds the frames until
    /// [`Schedule::return_extent`].
    pub(crate) fn extent_arrived(&mut self, id: TaskId) {
        self.extents -= 1;
        self.waiting -= 1;
        self.ready.push(id);
    }

    /// Makes a task ready, with its extent in the cache: the task holds no frames. The caller
    /// resumes ranges.
    pub(crate) fn extent_cached(&mut self, id: TaskId, pages: usize) {
        self.extent_arrived(id);
        self.extent_frames.put_back(pages);
    }

    /// Makes a task ready, with its page.
    #[inline]
    pub(crate) fn page_arrived(&mut self, id: TaskId) {
        self.waiting -= 1;
        self.ready.push(id);
    }

    /// Takes the frames of an extent back, and resumes ranges.
    pub(crate) fn return_extent(&mut self, pages: usize) {
        if pages > 0 {
            self.extent_frames.put_back(pages);
            self.resume_ranges();
        }
    }
}
