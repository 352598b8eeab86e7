//! Requests of a page-sorted window: into the queue, and what they bring back.

use namiki_platform::disk::{Completion, Frames};
use namiki_segment::{PageNo, Segment};

use crate::error::ExecError;
use crate::run::worker::Worker;

/// What tells the tags of these requests from those of single reads.
const RUN_TAG: u64 = 1 << 63;

impl Worker<'_> {
    /// Puts as many requests into the queue as the degree allows for. Waits for more faults to be sorted in, unless there
    /// are enough, or `all`: no more come.
    pub(crate) fn push_window(&mut self, all: bool) -> Result<(), ExecError> {
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
        if !all && self.window.len() * 2 < self.schedule.task_limit() {
            return Ok(());
        }
        while self.reads_in_flight() < self.schedule.degree()
            && let Some((number, pages)) =
                self.window.next_run(self.schedule.frames.run_pages_max())
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
        let Some(&first) = self.window.reads(number).first() else {
            return true;
        };
        let key = self.pending.get(first).key;
        if !self.schedule.frames.has_room_for_pages(pages as usize) {
            return false;
        }
        let frames: Option<Frames> = (0..pages).map(|_| self.take_frame()).collect();
        let (Some(frames), Some(queue)) = (frames, self.queue.as_mut()) else {
            return false;
        };
        let segment = &self.shared.segments[key.segment as usize].0;
        let at = Segment::page_offset(key.page);
        if queue.in_flight() == 0 {
            self.shared.set_device(queue.describe());
        }
        let pushed = queue.push(segment.file(), at, frames, RUN_TAG | u64::from(number));
        if pushed.is_ok() {
            self.schedule.frames.take_pages(pages as usize);
        }
        pushed.is_ok()
    }

    /// Takes the pages of a request of the window; nothing if it is none.
    pub(crate) fn run_arrived(
        &mut self,
        completion: Completion,
    ) -> Result<Option<Completion>, ExecError> {
        if completion.tag & RUN_TAG == 0 {
            return Ok(Some(completion));
        }
        let number = (completion.tag & !RUN_TAG) as u32;
        let (key, reads) = self.window.take_run(number);
        self.check_read(key, &completion)?;
        let mut wanted = reads.iter().copied().peekable();
        for (frame, page) in completion.frames.into_iter().zip(key.page.0..) {
            match wanted.next_if(|id| self.pending.get(*id).key.page.0 == page) {
                Some(id) => self.page_arrived(id, frame)?,
                None => self.keep_in_cache(key.segment, PageNo(page), frame)?,
            }
        }
        self.window.reuse(number, reads);
        Ok(None)
    }
}
