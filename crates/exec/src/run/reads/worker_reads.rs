//! The reads of a worker: requested by tasks that fault, submitted in batches, and completed in any
//! order.
//!
//! ```text
//!  fault ─▶ pending ─▶ to read ─▶ device ─▶ check ─▶ cache ─▶ tasks wake
//!                         └▶ window ─▲                 └▶ unplaced: the cache has no room now
//! ```
//!
//! # Invariants
//! - Q1. A page that several tasks wait for is read once (`run/mod.rs`, T3): [`PendingReads`] has
//!   one read of it.
//! - Q2. A task wakes after its page is in the cache and pinned, or with the frames of its extent.
//! - Q3. Pages of extents may be requested while single pages wait for frames, and the other way
//!   round: the rows of an extent may need these pages.
//!
//! Paper: oode §2

use namiki_platform::disk::{Completion, Frame, Frames, PAGE_BYTES, ReadQueue};
use namiki_segment::{Inserted, PageNo, PageReader, SegmentError};

use super::device_queue::DeviceQueue;
use super::pending_reads::{PendingReads, ReadId};
use super::window::Window;
use crate::error::ExecError;
use crate::run::counters::WorkerCounters;
use crate::run::frame_share::FrameShare;
use crate::run::shared::Shared;
use crate::run::tasks::trace::{self, ReadEvent};
use crate::run::tasks::{PageKey, TaskId, WorkerTasks};

/// Distinguishes the tags of a window's requests from those of single reads.
const RUN_TAG: u64 = 1 << 63;

/// See the module.
pub(crate) struct WorkerReads<'s> {
    shared: &'s Shared,
    counters: &'s WorkerCounters,
    device: DeviceQueue<'s>,
    pending: PendingReads,
    /// Reads that are not in the queue yet.
    to_read: Vec<ReadId>,
    /// Faults that are read in the order of their pages, if the options say so.
    window: Window,
    /// Pages that have arrived while the cache had no room.
    unplaced: Vec<(ReadId, Frame)>,
    reader: PageReader<Frame>,
    /// One bit for each page of each segment that was read.
    pages_read: Vec<Vec<u64>>,
    /// Whether extents go through the cache.
    extents_cached: bool,
}

impl<'s> WorkerReads<'s> {
    pub(crate) fn new(
        shared: &'s Shared,
        counters: &'s WorkerCounters,
        page_frames: FrameShare,
        queue: &'s mut Option<Box<dyn ReadQueue>>,
    ) -> Self {
        Self {
            shared,
            counters,
            device: DeviceQueue::new(shared, queue, page_frames),
            pending: PendingReads::default(),
            to_read: Vec::new(),
            window: Window::default(),
            unplaced: Vec::new(),
            reader: shared.resources.cache.reader(),
            pages_read: vec![Vec::new(); shared.segments.len()],
            extents_cached: false,
        }
    }

    /// Prepares for a pipeline. `extents_cached`: its driver's extents go through the cache.
    pub(crate) fn begin(&mut self, extents_cached: bool) {
        self.extents_cached = extents_cached;
    }

    /// The cached pages, which stay pinned until [`WorkerReads::release_pins`].
    #[inline]
    pub(crate) fn cached(&self) -> &PageReader<Frame> {
        &self.reader
    }

    /// Unpins all pages.
    pub(crate) fn release_pins(&mut self) {
        self.reader.release();
    }

    /// Whether all pages of an extent are in the cache.
    pub(crate) fn is_extent_cached(&self, first: PageKey, pages: usize) -> bool {
        use namiki_segment::Pages;
        let segment = &self.shared.segments[first.segment as usize].0;
        let mut numbers = (first.page.0..).take(pages);
        self.extents_cached && numbers.all(|no| self.reader.page(segment, PageNo(no)).is_some())
    }

    /// Waits for all reads in flight and forgets everything.
    pub(crate) fn drain(&mut self) {
        self.reader.release();
        self.device.drain();
        self.pending.clear();
        self.to_read.clear();
        self.unplaced.clear();
        self.window.clear();
    }

    /// Drops the read queue after a panic.
    pub(crate) fn abandon(&mut self) {
        self.device.abandon();
    }

    /// Whether reads were requested that have not ended.
    pub(crate) fn has_pending(&self) -> bool {
        self.pending.len() > 0
    }
}

/// Requests.
impl WorkerReads<'_> {
    /// Lets a task wait for a page (Q1).
    #[inline]
    pub(crate) fn request_page(&mut self, tasks: &mut WorkerTasks<'_>, id: TaskId, key: PageKey) {
        let (read, others) = self.pending.wait(id, key);
        trace::waits(id, key, 1, read.is_some());
        match read {
            Some(read) => self.to_read.push(read),
            None => _ = self.counters.merged_faults.add(1),
        }
        tasks.wait_for_page(id, others);
    }

    /// Lets a task wait for an extent, for which there is room.
    pub(crate) fn request_extent(
        &mut self,
        tasks: &mut WorkerTasks<'_>,
        id: TaskId,
        first: PageKey,
        pages: usize,
    ) {
        trace::waits(id, first, pages, true);
        let read = self.pending.add_extent(id, first, pages as u32);
        self.to_read.push(read);
        tasks.wait_for_extent(pages);
    }

    /// Submits the requested reads, and wakes the tasks of those that have completed. `wait`: for
    /// one completion at least, because no task can run.
    pub(crate) fn turn(
        &mut self,
        tasks: &mut WorkerTasks<'_>,
        wait: bool,
    ) -> Result<(), ExecError> {
        for (id, frame) in std::mem::take(&mut self.unplaced) {
            self.page_arrived(tasks, id, frame)?;
        }
        self.submit(tasks, wait)?;
        if self.device.in_flight() == 0 {
            // Pages wait for frames or for room in the cache, that is, for other threads to unpin
            // pages. These do so before they wait for their device or for work.
            std::thread::yield_now();
            return Ok(());
        }
        self.counters.turns.add(1);
        let mut done = self.device.turn(usize::from(wait))?;
        // The newest task runs first, so the tasks of the first read become the newest.
        let result = done
            .drain(..)
            .rev()
            .try_for_each(|completion| self.completed(tasks, completion));
        self.device.reuse(done);
        tasks.resume_ranges();
        result
    }

    /// `all`: no more faults come before something arrives.
    fn submit(&mut self, tasks: &WorkerTasks<'_>, all: bool) -> Result<(), ExecError> {
        if self.to_read.is_empty() && self.window.len() == 0 {
            return Ok(());
        }
        self.device.open()?;
        if self.shared.options.window_tasks > 0 {
            self.submit_window(tasks, all);
            return Ok(());
        }
        let mut left = 0;
        // In their order, but with single pages and extents apart (Q3).
        let (mut pages_blocked, mut extents_blocked) = (false, false);
        for at in 0..self.to_read.len() {
            let id = self.to_read[at];
            let is_blocked = if self.pending.get(id).is_extent {
                &mut extents_blocked
            } else {
                &mut pages_blocked
            };
            if *is_blocked || !self.push(id) {
                *is_blocked = true;
                self.to_read[left] = id;
                left += 1;
            }
        }
        self.to_read.truncate(left);
        Ok(())
    }

    fn push(&mut self, id: ReadId) -> bool {
        let read = self.pending.get(id);
        let (pages, tag) = (read.pages as usize, u64::from(id));
        if read.is_extent {
            self.device.push(read.key, pages, tag)
        } else {
            self.device.push_pages(read.key, pages, tag)
        }
    }

    /// Pushes as many requests of the window as the degree allows. Waits for more faults unless
    /// there are enough, or `all`.
    fn submit_window(&mut self, tasks: &WorkerTasks<'_>, all: bool) {
        for id in std::mem::take(&mut self.to_read) {
            let read = self.pending.get(id);
            if read.is_extent {
                // The pages of the driver are consecutive already.
                if !self.push(id) {
                    self.to_read.push(id);
                }
            } else {
                self.window.add(read.key, id);
            }
        }
        if !all && self.window.len() * 2 < tasks.schedule().task_limit() {
            return;
        }
        while self.device.in_flight() < tasks.schedule().degree()
            && let Some((number, pages)) = self.window.next_run(self.device.run_pages_max())
        {
            let first = self.window.first_page(number);
            let tag = RUN_TAG | u64::from(number);
            if !self.device.push_pages(first, pages as usize, tag) {
                self.window.put_back(number, |id| self.pending.get(id).key);
                break;
            }
        }
    }
}

/// Completions.
impl WorkerReads<'_> {
    fn completed(
        &mut self,
        tasks: &mut WorkerTasks<'_>,
        completion: Completion,
    ) -> Result<(), ExecError> {
        if completion.tag & RUN_TAG != 0 {
            return self.run_completed(tasks, completion);
        }
        let id = completion.tag as ReadId;
        let read = self.pending.get(id);
        self.check(read.key, &completion)?;
        if read.is_extent {
            return self.extent_arrived(tasks, id, completion.frames);
        }
        match completion.frames.into_first() {
            Some(frame) => self.page_arrived(tasks, id, frame),
            None => Ok(()),
        }
    }

    /// Takes the pages of a window's request, wanted or not.
    fn run_completed(
        &mut self,
        tasks: &mut WorkerTasks<'_>,
        completion: Completion,
    ) -> Result<(), ExecError> {
        let number = (completion.tag & !RUN_TAG) as u32;
        let (key, reads) = self.window.take_run(number);
        self.check(key, &completion)?;
        let mut wanted = reads.iter().copied().peekable();
        for (frame, page) in completion.frames.into_iter().zip(key.page.0..) {
            match wanted.next_if(|id| self.pending.get(*id).key.page.0 == page) {
                Some(id) => self.page_arrived(tasks, id, frame)?,
                None => self.keep_in_cache(key.segment, PageNo(page), frame)?,
            }
        }
        self.window.reuse(number, reads);
        Ok(())
    }

    /// Counts a read, and checks that it has brought all of its bytes.
    fn check(&mut self, first: PageKey, completion: &Completion) -> Result<(), ExecError> {
        let (segment, table) = &self.shared.segments[first.segment as usize];
        let failed = |error: SegmentError| ExecError::source(table, error);
        let bytes = match &completion.result {
            Ok(bytes) => *bytes,
            Err(error) => {
                // The error itself stays with the completion.
                let error = match error.raw_os_error() {
                    Some(code) => std::io::Error::from_raw_os_error(code),
                    None => std::io::Error::new(error.kind(), error.to_string()),
                };
                return Err(failed(SegmentError::reading(segment.path(), error)));
            }
        };
        let pages = completion.frames.len() as u32;
        trace::read(first, pages as usize, ReadEvent::Completed);
        self.counters.reads.add(1);
        self.counters.pages.add(u64::from(pages));
        self.note_pages(first, pages);
        if bytes < completion.frames.len_bytes() {
            // The file became shorter: the check of the page that it ends in says so.
            let short = bytes / PAGE_BYTES;
            let there = &completion.frames[short][..bytes % PAGE_BYTES];
            segment
                .verify_page(PageNo(first.page.0 + short as u32), there)
                .map_err(failed)?;
        }
        Ok(())
    }

    fn note_pages(&mut self, first: PageKey, pages: u32) {
        let bits = &mut self.pages_read[first.segment as usize];
        let end = first.page.0 as usize + pages as usize;
        if bits.len() * 64 < end {
            bits.resize(end.div_ceil(64), 0);
        }
        for page in first.page.0 as usize..end {
            bits[page / 64] |= 1 << (page % 64);
        }
    }

    /// Keeps a page that no task waits for, if the cache has room.
    fn keep_in_cache(&mut self, segment: u32, page: PageNo, frame: Frame) -> Result<(), ExecError> {
        let (segment, table) = &self.shared.segments[segment as usize];
        // Not every page between leaves is one that look-ups need. Every page is checked.
        let inserted = self.reader.insert(segment, page, frame);
        inserted.map_err(|error| ExecError::source(table, error))?;
        self.device.page_placed();
        Ok(())
    }

    /// Wakes the tasks that wait for a page, once it is in the cache (Q2).
    fn page_arrived(
        &mut self,
        tasks: &mut WorkerTasks<'_>,
        id: ReadId,
        frame: Frame,
    ) -> Result<(), ExecError> {
        let key = self.pending.get(id).key;
        let (segment, table) = &self.shared.segments[key.segment as usize];
        let inserted = self.reader.insert(segment, key.page, frame);
        match inserted.map_err(|error| ExecError::source(table, error))? {
            Inserted::Resident | Inserted::Duplicate => {
                self.device.page_placed();
                tasks.page_arrived(self.pending.take(id).waiters);
            }
            Inserted::Full(frame) => {
                trace::read(key, 1, ReadEvent::Unplaced);
                self.unplaced.push((id, frame));
            }
        }
        Ok(())
    }

    /// Wakes a task with its extent: the frames themselves, or through the cache.
    fn extent_arrived(
        &mut self,
        tasks: &mut WorkerTasks<'_>,
        id: ReadId,
        frames: Frames,
    ) -> Result<(), ExecError> {
        let read = self.pending.take(id);
        if !self.extents_cached {
            // Checked when their rows are read.
            tasks.extent_arrived(read.waiters, frames.into_iter().collect());
            return Ok(());
        }
        let (segment, table) = &self.shared.segments[read.key.segment as usize];
        for (frame, at) in frames.into_iter().zip(read.key.page.0..) {
            // A page for which there is no room is read again when its rows are needed.
            let inserted = self.reader.insert(segment, PageNo(at), frame);
            let _: Inserted<Frame> = inserted.map_err(|error| ExecError::source(table, error))?;
        }
        tasks.extent_cached(read.waiters, read.pages as usize);
        Ok(())
    }
}

impl Drop for WorkerReads<'_> {
    fn drop(&mut self) {
        self.shared.report.add_pages_read(&self.pages_read);
    }
}
