//! The read queue of a worker, with the frames of its single pages.
//!
//! # Invariants
//! - D1. A single page, or a run of a window, is pushed only while the share of page frames has
//!   room for it. The frames of an extent were counted when it was requested (`tasks/schedule.rs`,
//!   S1).
//! - D2. The queue belongs to its thread and outlives the query. After an error it is dropped, and
//!   then it waits for reads in flight or keeps their frames.

use namiki_platform::disk::{Completion, Frame, Frames, ReadQueue};
use namiki_segment::Segment;

use crate::error::ExecError;
use crate::run::frame_share::{FrameShare, QUEUE_DEPTH, RUN_PAGES_MAX};
use crate::run::shared::Shared;
use crate::run::tasks::PageKey;
use crate::run::tasks::trace::{self, ReadEvent};

/// Pages that are evicted at a time when frames are needed.
const FRAMES_PER_EVICTION: usize = 16;

/// See the module.
pub(crate) struct DeviceQueue<'s> {
    shared: &'s Shared,
    queue: &'s mut Option<Box<dyn ReadQueue>>,
    done: Vec<Completion>,
    /// Frames of single pages, from their request until the cache has them.
    page_frames: FrameShare,
}

impl<'s> DeviceQueue<'s> {
    pub(crate) fn new(
        shared: &'s Shared,
        queue: &'s mut Option<Box<dyn ReadQueue>>,
        page_frames: FrameShare,
    ) -> Self {
        Self {
            shared,
            queue,
            done: Vec::new(),
            page_frames,
        }
    }

    /// Makes the queue, unless the thread has one.
    pub(crate) fn open(&mut self) -> Result<(), ExecError> {
        if self.queue.is_none() {
            let resources = &self.shared.resources;
            let queue = resources.disk.reads(QUEUE_DEPTH, &resources.pool);
            *self.queue = Some(queue.map_err(|error| system("prepare asynchronous reads", error))?);
        }
        Ok(())
    }

    /// Requests in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.in_flight())
    }

    /// Longest run of a window, in pages.
    pub(crate) fn run_pages_max(&self) -> usize {
        self.page_frames.read_pages_max(RUN_PAGES_MAX)
    }

    /// Pushes a read of single pages, unless a frame, room in the share or in the queue is missing.
    pub(crate) fn push_pages(&mut self, first: PageKey, pages: usize, tag: u64) -> bool {
        if !self.page_frames.has_room(pages) {
            return false;
        }
        let is_pushed = self.push(first, pages, tag);
        if is_pushed {
            self.page_frames.take(pages);
        }
        is_pushed
    }

    /// Pushes a read, unless a frame or room in the queue is missing. The frames of an extent are
    /// counted already (D1).
    pub(crate) fn push(&mut self, first: PageKey, pages: usize, tag: u64) -> bool {
        let frames = if pages == 1 {
            self.take_frame().map(Frames::from)
        } else {
            (0..pages).map(|_| self.take_frame()).collect()
        };
        let (Some(frames), Some(queue)) = (frames, self.queue.as_mut()) else {
            return false;
        };
        let segment = &self.shared.segments[first.segment as usize].0;
        if queue.in_flight() == 0 {
            self.shared.report.set_device(queue.describe());
        }
        let at = Segment::page_offset(first.page);
        let is_pushed = queue.push(segment.file(), at, frames, tag).is_ok();
        if is_pushed {
            trace::read(first, pages, ReadEvent::Submitted);
        }
        is_pushed
    }

    fn take_frame(&self) -> Option<Frame> {
        let resources = &self.shared.resources;
        resources.pool.take().or_else(|| {
            resources.cache.evict(FRAMES_PER_EVICTION);
            resources.pool.take()
        })
    }

    /// Counts the frame of a page that the cache has taken, or did not need.
    #[inline]
    pub(crate) fn page_placed(&mut self) {
        self.page_frames.put_back(1);
    }

    /// Submits requests and takes completions, waiting for `at_least`. They return by
    /// [`DeviceQueue::reuse`].
    pub(crate) fn turn(&mut self, at_least: usize) -> Result<Vec<Completion>, ExecError> {
        if let Some(queue) = self.queue.as_mut() {
            let turned = queue.turn(at_least, &mut self.done);
            turned.map_err(|error| system("read", error))?;
        }
        Ok(std::mem::take(&mut self.done))
    }

    /// Keeps the memory of a list of completions.
    pub(crate) fn reuse(&mut self, mut done: Vec<Completion>) {
        done.clear();
        self.done = done;
    }

    /// Waits for all reads in flight, and returns all frames.
    pub(crate) fn drain(&mut self) {
        while let Some(queue) = self.queue.as_mut()
            && queue.in_flight() > 0
        {
            if queue.turn(queue.in_flight(), &mut self.done).is_err() {
                self.abandon();
            }
            self.done.clear();
        }
        self.done.clear();
        self.page_frames.put_back_all();
    }

    /// Drops the queue (D2).
    pub(crate) fn abandon(&mut self) {
        *self.queue = None;
    }
}

fn system(doing: &'static str, source: std::io::Error) -> ExecError {
    ExecError::System {
        doing,
        source: source.into(),
    }
}
