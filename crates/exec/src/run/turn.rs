//! Reads: what was asked for goes to the device in one call, and what has arrived wakes its tasks.
//!
//! Paper: oode §2

use namiki_platform::disk::{Completion, Frame, Frames};
use namiki_segment::{Inserted, PageNo, Segment, SegmentError};

use super::flights::FlightId;
use super::task::{NONE, PageKey, State};
use super::worker::Worker;
use crate::error::ExecError;

/// Reads that a thread's queue can have in flight.
const QUEUE_DEPTH: usize = 1024;

impl Worker<'_> {
    /// Submits the reads that were asked for, and takes what has arrived. Waits for one if `wait`.
    pub(super) fn turn(&mut self, wait: bool) -> Result<(), ExecError> {
        self.place()?;
        self.push_reads()?;
        let Some(queue) = self.queue.as_mut() else {
            return Ok(());
        };
        if queue.in_flight() == 0 {
            // No frame is free: other queries have them.
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
        result
    }

    fn push_reads(&mut self) -> Result<(), ExecError> {
        if self.to_read.is_empty() {
            return Ok(());
        }
        if self.queue.is_none() {
            let ground = &self.shared.ground;
            let queue = ground.disk.reads(QUEUE_DEPTH, &ground.pool);
            *self.queue = Some(queue.map_err(|error| system("prepare asynchronous reads", error))?);
        }
        let mut left = 0;
        for at in 0..self.to_read.len() {
            let id = self.to_read[at];
            if left > 0 || !self.push_read(id) {
                self.to_read[left] = id;
                left += 1;
            }
        }
        self.to_read.truncate(left);
        Ok(())
    }

    /// Puts a read into the queue, unless there is no frame for it or the queue is full.
    fn push_read(&mut self, id: FlightId) -> bool {
        let flight = self.flights.get(id);
        let frames = match flight.pages {
            1 => self.take_frame().map(Frames::from),
            pages => (0..pages).map(|_| self.take_frame()).collect(),
        };
        let (Some(frames), Some(queue)) = (frames, self.queue.as_mut()) else {
            return false;
        };
        let segment = &self.shared.segments[flight.key.segment as usize].0;
        let at = Segment::page_offset(flight.key.page);
        if queue.in_flight() == 0 {
            self.shared.set_device(queue.describe());
        }
        queue
            .push(segment.file(), at, frames, u64::from(id))
            .is_ok()
    }

    fn take_frame(&self) -> Option<Frame> {
        let ground = &self.shared.ground;
        ground.pool.take().or_else(|| {
            ground.cache.evict(FRAMES_PER_EVICTION);
            ground.pool.take()
        })
    }

    /// Takes the pages of a read.
    fn arrived(&mut self, completion: Completion) -> Result<(), ExecError> {
        let id = completion.tag as FlightId;
        let flight = self.flights.get(id);
        let (segment, table) = &self.shared.segments[flight.key.segment as usize];
        let failed = |error: SegmentError| ExecError::source(table, error);
        let bytes = completion
            .result
            .map_err(|error| failed(SegmentError::reading(segment.path(), error)))?;
        self.counters.reads.add(1);
        self.counters.pages.add(u64::from(flight.pages));
        self.note_pages(flight.key, flight.pages);
        for (frame, at) in completion.frames.iter().zip(0..) {
            let page = PageNo(flight.key.page.0 + at);
            let begin = at as usize * frame.len();
            let there = bytes.saturating_sub(begin).min(frame.len());
            if there < frame.len() {
                // The file is shorter than it was: the check says so.
                segment.verify_page(page, &frame[..there]).map_err(failed)?;
            }
        }
        if flight.is_extent {
            return self.extent_arrived(id, completion.frames);
        }
        match completion.frames.into_first() {
            Some(frame) => self.page_arrived(id, frame),
            None => Ok(()),
        }
    }

    /// Gives an extent to its task: the pages themselves, or through the cache.
    fn extent_arrived(&mut self, id: FlightId, frames: Frames) -> Result<(), ExecError> {
        let flight = self.flights.take(id);
        let (segment, table) = &self.shared.segments[flight.key.segment as usize];
        let failed = |error: SegmentError| ExecError::source(table, error);
        let mut kept = Vec::new();
        for (frame, at) in frames.into_iter().zip(flight.key.page.0..) {
            if self.extents_cached {
                // One for which there is no room is read again when its rows are wanted.
                let _ = self
                    .reader
                    .insert(segment, PageNo(at), frame)
                    .map_err(failed)?;
            } else {
                segment
                    .verify_page(PageNo(at), &frame[..])
                    .map_err(failed)?;
                kept.push(frame);
            }
        }
        if let State::Extent(extent) = &mut self.tasks.get(flight.waiters).state {
            extent.frames = kept;
        }
        self.ready.push(flight.waiters);
        self.count_arrived(1);
        self.extents -= 1;
        // There is room for another one, behind all that has arrived.
        self.stalled[0].splice(0..0, self.parked.drain(..));
        Ok(())
    }

    fn page_arrived(&mut self, id: FlightId, frame: Frame) -> Result<(), ExecError> {
        let key = self.flights.get(id).key;
        let (segment, table) = &self.shared.segments[key.segment as usize];
        let inserted = self.reader.insert(segment, key.page, frame);
        match inserted.map_err(|error| ExecError::source(table, error))? {
            Inserted::Resident | Inserted::Duplicate => self.wake(id),
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
    fn wake(&mut self, id: FlightId) {
        let mut waiter = self.flights.take(id).waiters;
        let mut count = 0;
        while waiter != NONE {
            self.ready.push(waiter);
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
    pub(super) fn wait_for_reads(&mut self) {
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
