//! Page-sorted windows: many faults wait together, and are read in the order of their pages, neighbours in one request.
//!
//! A join that reaches a good part of a table's pages reaches many of them side by side, if not one after the other. With a
//! window, far more tasks may fault than reads are in flight; what they wait for is read in the order of the elevator (SCAN)
//! algorithm, upwards from where it is and again from below at the end, and pages that lie close together go into one request with the few
//! pages between. So from a handful of look-ups to most of a table there is no step at which a scan would have to take
//! over: the look-ups become one.
//!
//! Pages between that none waits for now go into the cache.

use std::collections::BTreeSet;

use namiki_platform::disk::{Completion, Frames};
use namiki_segment::{PageNo, Segment};

use super::pending_reads::{ReadId, number_of};
use super::task::PageKey;
use super::worker::Worker;
use crate::error::ExecError;

/// Pages that are read because they lie between two that are wanted, at most side by side.
const BETWEEN_MAX: u32 = 3;

/// Pages of a request, at most.
const RUN_PAGES_MAX: u32 = 32;

/// What tells the tags of these requests from those of single reads.
const RUN_TAG: u64 = 1 << 63;

/// Faults that wait for their turn.
#[derive(Default)]
pub(super) struct Window {
    /// By their pages.
    waiting: BTreeSet<(u64, ReadId)>,
    /// Where the elevator is.
    at: u64,
    runs: Vec<Run>,
    free: Vec<u32>,
}

/// A request for pages side by side.
#[derive(Default)]
struct Run {
    first: u64,
    /// The reads that it carries out, in the order of their pages.
    reads: Vec<ReadId>,
}

impl Window {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn add(&mut self, key: PageKey, read: ReadId) {
        self.waiting.insert((number_of(key), read));
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.runs.clear();
        self.free.clear();
    }

    /// The next pages to read in one request: their number and the request's.
    fn next_run(&mut self) -> Option<(u32, u32)> {
        let above = self.waiting.range((self.at, 0)..).next();
        let first = above.or_else(|| self.waiting.first()).copied()?;
        let number = self.free.pop().unwrap_or_else(|| {
            self.runs.push(Run::default());
            self.runs.len() as u32 - 1
        });
        let run = &mut self.runs[number as usize];
        run.first = first.0;
        run.reads.clear();
        let mut last = first.0;
        while let Some(&(page, read)) = self.waiting.range((last, 0)..).next() {
            // Another segment's pages are far away in these numbers.
            if page - last > u64::from(BETWEEN_MAX) + 1
                || page - first.0 >= u64::from(RUN_PAGES_MAX)
            {
                break;
            }
            self.waiting.remove(&(page, read));
            run.reads.push(read);
            last = page;
        }
        self.at = last + 1;
        Some((number, (last - first.0) as u32 + 1))
    }

    /// Puts a request back that could not be made.
    fn put_back(&mut self, number: u32, keys: impl Fn(ReadId) -> PageKey) {
        let run = &mut self.runs[number as usize];
        for read in run.reads.drain(..) {
            self.waiting.insert((number_of(keys(read)), read));
        }
        self.at = run.first;
        self.free.push(number);
    }
}

impl Worker<'_> {
    /// Puts as many requests into the queue as the degree allows for. Waits for more faults to be sorted in, unless there
    /// are enough, or `all`: no more come.
    pub(super) fn push_window(&mut self, all: bool) -> Result<(), ExecError> {
        for id in std::mem::take(&mut self.to_read) {
            let read = self.pending.get(id);
            if read.is_extent {
                // The driver's pages lie side by side already.
                if !self.push_read(id) {
                    self.to_read.push(id);
                }
            } else {
                self.window.add(read.key, id);
            }
        }
        if !all && self.window.len() * 2 < self.task_limit() {
            return Ok(());
        }
        while self.reads_in_flight() < self.degree
            && let Some((number, pages)) = self.window.next_run()
        {
            if !self.push_run(number, pages) {
                let pending = &self.pending;
                self.window.put_back(number, |id| pending.get(id).key);
                break;
            }
        }
        Ok(())
    }

    fn push_run(&mut self, number: u32, pages: u32) -> bool {
        let Some(&first) = self.window.runs[number as usize].reads.first() else {
            return true;
        };
        let key = self.pending.get(first).key;
        let frames: Option<Frames> = (0..pages).map(|_| self.take_frame()).collect();
        let (Some(frames), Some(queue)) = (frames, self.queue.as_mut()) else {
            return false;
        };
        let segment = &self.shared.segments[key.segment as usize].0;
        let at = Segment::page_offset(key.page);
        if queue.in_flight() == 0 {
            self.shared.set_device(queue.describe());
        }
        queue
            .push(segment.file(), at, frames, RUN_TAG | u64::from(number))
            .is_ok()
    }

    /// Takes the pages of a request of the window; nothing if it is none.
    pub(super) fn run_arrived(
        &mut self,
        completion: Completion,
    ) -> Result<Option<Completion>, ExecError> {
        if completion.tag & RUN_TAG == 0 {
            return Ok(Some(completion));
        }
        let number = (completion.tag & !RUN_TAG) as u32;
        let run = &mut self.window.runs[number as usize];
        let first = run.first;
        let mut reads = std::mem::take(&mut run.reads);
        self.window.free.push(number);
        let key = PageKey {
            segment: (first >> 32) as u32,
            page: PageNo(first as u32),
        };
        self.check_read(key, &completion)?;
        let mut wanted = reads.iter().copied().peekable();
        for (frame, page) in completion.frames.into_iter().zip(key.page.0..) {
            match wanted.next_if(|id| self.pending.get(*id).key.page.0 == page) {
                Some(id) => self.page_arrived(id, frame)?,
                None => self.keep_in_cache(key.segment, PageNo(page), frame)?,
            }
        }
        // Its memory is for the next request.
        reads.clear();
        self.window.runs[number as usize].reads = reads;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(segment: u32, page: u32) -> PageKey {
        PageKey {
            segment,
            page: PageNo(page),
        }
    }

    #[test]
    fn neighbours_are_read_together_and_upwards() {
        let mut window = Window::default();
        let pages = [
            (0, 100),
            (0, 3),
            (0, 5),
            (0, 4),
            (1, 6),
            (0, 9),
            (0, 14),
            (1, 0),
        ];
        for (id, (segment, page)) in pages.into_iter().enumerate() {
            window.add(key(segment, page), id as ReadId);
        }
        window.at = number_of(key(0, 50));
        let mut runs = Vec::new();
        while let Some((number, count)) = window.next_run() {
            runs.push((window.runs[number as usize].reads.clone(), count));
            window.free.push(number);
        }
        let expected: [(&[ReadId], u32); 5] = [
            (&[0], 1),
            (&[7], 1),
            (&[4], 1),
            (&[1, 3, 2, 5], 7),
            (&[6], 1),
        ];
        let expected = expected.map(|(reads, pages)| (reads.to_vec(), pages));
        assert_eq!(runs, expected);
        assert_eq!(window.len(), 0);
    }

    #[test]
    fn a_request_is_no_longer_than_allowed_and_can_be_put_back() {
        let mut window = Window::default();
        for page in 0..100 {
            window.add(key(0, page), page);
        }
        let (number, pages) = window.next_run().unwrap();
        assert_eq!(pages, RUN_PAGES_MAX);
        window.put_back(number, |read| key(0, read));
        assert_eq!((window.len(), window.at), (100, 0));
        assert_eq!(window.next_run(), Some((0, RUN_PAGES_MAX)));
    }
}
