//! Reads: what was asked for goes to the device in one call, and what has arrived wakes its tasks.
//!
//! Paper: oode §2

use namiki_platform::disk::{Completion, Frame, Frames, PAGE_BYTES};
use namiki_segment::{Inserted, PageNo, Segment, SegmentError};

use super::pending_reads::ReadId;
use crate::error::ExecError;
use crate::run::frame_share::QUEUE_DEPTH;
use crate::run::tasks::{NONE, PageKey, State};
use crate::run::worker::Worker;

impl Worker<'_> {
    /// Submits the reads that were asked for, and takes what has arrived. Waits for one if `wait`.
    pub(crate) fn turn(&mut self, wait: bool) -> Result<(), ExecError> {
        self.place()?;
        self.push_reads(wait)?;
        let Some(queue) = self.queue.as_mut() else {
            return Ok(());
        };
        if queue.in_flight() == 0 {
            // Pages wait for frames, or for room in the cache, while this thread has nothing on its way: for other threads
            // to unpin the pages that they look at, which they do before they wait for the device or for work.
            std::thread::yield_now();
            return Ok(());
        }
        self.counters.turns.add(1);
        let turned = queue.turn(usize::from(wait), &mut self.done);
        turned.map_err(|error| system("read", error))?;
        let mut done = std::mem::take(&mut self.done);
        // The newest task runs first; so those of the first read are to be the newest.
        let result = done
            .drain(..)
            .rev()
            .try_for_each(|completion| self.arrived(completion));
        done.clear();
        self.done = done;
        self.schedule.resume_ranges();
        result
    }

    /// `all`: no more faults come before something arrives.
    fn push_reads(&mut self, all: bool) -> Result<(), ExecError> {
        if self.to_read.is_empty() && self.window.len() == 0 {
            return Ok(());
        }
        if self.queue.is_none() {
            let resources = &self.shared.resources;
            let queue = resources.disk.reads(QUEUE_DEPTH, &resources.pool);
            *self.queue = Some(queue.map_err(|error| system("prepare asynchronous reads", error))?);
        }
        if self.shared.options.window_tasks > 0 {
            return self.push_window(all);
        }
        let mut left = 0;
        // In their order; but pages do not stand behind extents: the rows of these may need them.
        let (mut pages_blocked, mut extents_blocked) = (false, false);
        for at in 0..self.to_read.len() {
            let id = self.to_read[at];
            let is_blocked = if self.pending.get(id).is_extent {
                &mut extents_blocked
            } else {
                &mut pages_blocked
            };
            if *is_blocked || !self.push_read(id) {
                *is_blocked = true;
                self.to_read[left] = id;
                left += 1;
            }
        }
        self.to_read.truncate(left);
        Ok(())
    }

    /// Puts a read into the queue, unless there is no frame for it, or this thread has its share of them, or the queue is
    /// full.
    pub(crate) fn push_read(&mut self, id: ReadId) -> bool {
        let read = self.pending.get(id);
        // An extent has its frames (T6).
        if !read.is_extent && !self.schedule.frames.has_room_for_pages(1) {
            return false;
        }
        let frames = match read.pages {
            1 => self.take_frame().map(Frames::from),
            pages => (0..pages).map(|_| self.take_frame()).collect(),
        };
        let (Some(frames), Some(queue)) = (frames, self.queue.as_mut()) else {
            return false;
        };
        let segment = &self.shared.segments[read.key.segment as usize].0;
        let at = Segment::page_offset(read.key.page);
        if queue.in_flight() == 0 {
            self.shared.set_device(queue.describe());
        }
        let pushed = queue.push(segment.file(), at, frames, u64::from(id));
        if pushed.is_ok() && !read.is_extent {
            self.schedule.frames.take_pages(1);
        }
        pushed.is_ok()
    }

    pub(crate) fn take_frame(&self) -> Option<Frame> {
        let resources = &self.shared.resources;
        resources.pool.take().or_else(|| {
            resources.cache.evict(FRAMES_PER_EVICTION);
            resources.pool.take()
        })
    }

    /// Takes the pages of a read.
    fn arrived(&mut self, completion: Completion) -> Result<(), ExecError> {
        let Some(completion) = self.run_arrived(completion)? else {
            return Ok(());
        };
        let id = completion.tag as ReadId;
        let read = self.pending.get(id);
        self.check_read(read.key, &completion)?;
        if read.is_extent {
            return self.extent_arrived(id, completion.frames);
        }
        match completion.frames.into_first() {
            Some(frame) => self.page_arrived(id, frame),
            None => Ok(()),
        }
    }

    /// Whether a read has brought all it was to bring. Counts it.
    pub(crate) fn check_read(
        &mut self,
        first: PageKey,
        completion: &Completion,
    ) -> Result<(), ExecError> {
        let (segment, table) = &self.shared.segments[first.segment as usize];
        let failed = |error: SegmentError| ExecError::source(table, error);
        let bytes = match &completion.result {
            Ok(bytes) => *bytes,
            Err(error) => {
                // The error itself goes with the completion.
                let error = match error.raw_os_error() {
                    Some(code) => std::io::Error::from_raw_os_error(code),
                    None => std::io::Error::new(error.kind(), error.to_string()),
                };
                return Err(failed(SegmentError::reading(segment.path(), error)));
            }
        };
        let pages = completion.frames.len() as u32;
        self.counters.reads.add(1);
        self.counters.pages.add(u64::from(pages));
        self.note_pages(first, pages);
        if bytes < completion.frames.len_bytes() {
            // The file is shorter than it was: the check of the page that it ends in says so.
            let short = bytes / PAGE_BYTES;
            let there = &completion.frames[short][..bytes % PAGE_BYTES];
            segment
                .verify_page(PageNo(first.page.0 + short as u32), there)
                .map_err(failed)?;
        }
        Ok(())
    }

    /// Keeps a page for which no task waits, if there is room for it.
    pub(crate) fn keep_in_cache(
        &mut self,
        segment: u32,
        page: PageNo,
        frame: Frame,
    ) -> Result<(), ExecError> {
        let (segment, table) = &self.shared.segments[segment as usize];
        // Not all that lies between leaves is a page that look-ups may want; all of it is checked.
        let inserted = self.reader.insert(segment, page, frame);
        inserted.map_err(|error| ExecError::source(table, error))?;
        self.schedule.frames.return_pages(1);
        Ok(())
    }

    /// Gives an extent to its task: the pages themselves, or through the cache.
    fn extent_arrived(&mut self, id: ReadId, frames: Frames) -> Result<(), ExecError> {
        let read = self.pending.take(id);
        let (segment, table) = &self.shared.segments[read.key.segment as usize];
        let failed = |error: SegmentError| ExecError::source(table, error);
        let mut kept = Vec::new();
        for (frame, at) in frames.into_iter().zip(read.key.page.0..) {
            if self.extents_cached {
                // One for which there is no room is read again when its rows are wanted.
                let _ = self
                    .reader
                    .insert(segment, PageNo(at), frame)
                    .map_err(failed)?;
            } else {
                // Checked when its rows are gone through.
                kept.push(frame);
            }
        }
        if let State::Extent(extent) = &mut self.tasks.get(read.waiters).state {
            extent.frames = kept;
        }
        self.schedule.extent_arrived(read.waiters);
        self.count_arrived(1);
        if self.extents_cached {
            self.schedule.frames.return_extent(read.pages as usize);
        }
        Ok(())
    }

    pub(crate) fn page_arrived(&mut self, id: ReadId, frame: Frame) -> Result<(), ExecError> {
        let key = self.pending.get(id).key;
        let (segment, table) = &self.shared.segments[key.segment as usize];
        let inserted = self.reader.insert(segment, key.page, frame);
        match inserted.map_err(|error| ExecError::source(table, error))? {
            Inserted::Resident | Inserted::Duplicate => {
                self.schedule.frames.return_pages(1);
                self.wake(id);
            }
            Inserted::Full(frame) => self.unplaced.push((id, frame)),
        }
        Ok(())
    }

    /// Tries again to find room for pages that have arrived.
    fn place(&mut self) -> Result<(), ExecError> {
        for (id, frame) in std::mem::take(&mut self.unplaced) {
            self.page_arrived(id, frame)?;
        }
        Ok(())
    }

    /// Wakes the tasks that wait for a page.
    fn wake(&mut self, id: ReadId) {
        let mut waiter = self.pending.take(id).waiters;
        let mut count = 0;
        while waiter != NONE {
            self.schedule.page_arrived(waiter);
            waiter = self.tasks.next(waiter);
            count += 1;
        }
        self.count_arrived(count);
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

    /// Waits for all reads in flight, and lets their frames go.
    pub(crate) fn wait_for_reads(&mut self) {
        let Some(queue) = self.queue.as_mut() else {
            return;
        };
        while queue.in_flight() > 0 {
            if queue.turn(queue.in_flight(), &mut self.done).is_err() {
                // A queue that cannot be waited for is dropped, and keeps what it cannot call off.
                *self.queue = None;
                break;
            }
            self.done.clear();
        }
        self.done.clear();
    }
}

/// Pages that leave the cache at a time where frames are needed.
const FRAMES_PER_EVICTION: usize = 16;

fn system(doing: &'static str, source: std::io::Error) -> ExecError {
    ExecError::System {
        doing,
        source: source.into(),
    }
}
