//! What carries out the asynchronous reads that are measured.

use std::io;
use std::sync::Arc;

use namiki_platform::disk::{
    Completion, DiskFile, Frame, FramePool, Frames, PAGE_BYTES, ReadQueue,
};

/// What carries out reads of one file. A slot is a read that may be in flight.
pub(super) trait ReadEngine: Send {
    /// Notes a read at this offset.
    fn push(&mut self, at: u64, slot: usize) -> io::Result<()>;

    /// Submits what was noted, waits for so many reads, and adds the slots of all that have completed.
    fn turn(&mut self, at_least: usize, done: &mut Vec<usize>) -> io::Result<()>;

    /// What it is.
    fn describe(&self) -> &str;
}

/// The disk's own queue.
pub(super) struct QueueEngine {
    queue: Box<dyn ReadQueue>,
    file: Arc<dyn DiskFile>,
    pool: Arc<FramePool>,
    pages: usize,
    completions: Vec<Completion>,
}

impl QueueEngine {
    /// Reads of so many pages each.
    pub(super) fn new(
        queue: Box<dyn ReadQueue>,
        file: &Arc<dyn DiskFile>,
        pool: &Arc<FramePool>,
        pages: usize,
    ) -> Self {
        Self {
            queue,
            file: Arc::clone(file),
            pool: Arc::clone(pool),
            pages,
            completions: Vec::new(),
        }
    }

    fn frames(&self) -> Option<Frames> {
        if self.pages == 1 {
            return self.pool.take().map(Frames::from);
        }
        let taken: Vec<Frame> = (0..self.pages).map_while(|_| self.pool.take()).collect();
        (taken.len() == self.pages).then(|| taken.into())
    }
}

impl ReadEngine for QueueEngine {
    fn push(&mut self, at: u64, slot: usize) -> io::Result<()> {
        let frames = self.frames().ok_or(io::ErrorKind::OutOfMemory)?;
        let pushed = self.queue.push(&self.file, at, frames, slot as u64);
        pushed.map_err(|_| io::Error::other("the queue of reads is full"))
    }

    fn turn(&mut self, at_least: usize, done: &mut Vec<usize>) -> io::Result<()> {
        self.queue.turn(at_least, &mut self.completions)?;
        for completion in self.completions.drain(..) {
            if completion.result? != self.pages * PAGE_BYTES {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            done.push(completion.tag as usize);
        }
        Ok(())
    }

    fn describe(&self) -> &str {
        self.queue.describe()
    }
}
