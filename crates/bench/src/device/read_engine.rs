//! The engines that execute the reads of a measured loop. One is the disk's own queue.

use std::sync::Arc;

use namiki_platform::disk::{Completion, Frame, FramePool, Frames, PAGE_BYTES, ReadQueue};

use super::read_files::ReadFiles;

/// An engine that executes reads. A slot is a read that may be in flight.
pub(super) trait ReadEngine: Send {
    /// Queues a read at this offset of a file, which is given by its index among the files.
    fn push(&mut self, file: usize, at: u64, slot: usize) -> std::io::Result<()>;

    /// Submits the queued reads, waits for `at_least` completions, and appends the slots of all
    /// completed reads.
    fn turn(&mut self, at_least: usize, done: &mut Vec<usize>) -> std::io::Result<()>;

    /// The engine's name.
    fn describe(&self) -> &str;
}

/// The disk's own queue.
pub(super) struct QueueEngine {
    pub(super) queue: Box<dyn ReadQueue>,
    pub(super) files: Arc<ReadFiles>,
    pub(super) pool: Arc<FramePool>,
    /// Pages per read.
    pub(super) pages: usize,
    pub(super) completions: Vec<Completion>,
}

impl QueueEngine {
    fn frames(&self) -> Option<Frames> {
        if self.pages == 1 {
            return self.pool.take().map(Frames::from);
        }
        let taken: Vec<Frame> = (0..self.pages).map_while(|_| self.pool.take()).collect();
        (taken.len() == self.pages).then(|| taken.into())
    }
}

impl ReadEngine for QueueEngine {
    fn push(&mut self, file: usize, at: u64, slot: usize) -> std::io::Result<()> {
        let file = self.files.file(file);
        let frames = self.frames().ok_or(std::io::ErrorKind::OutOfMemory)?;
        let pushed = self.queue.push(file, at, frames, slot as u64);
        pushed.map_err(|_| std::io::Error::other("the queue of reads is full"))
    }

    fn turn(&mut self, at_least: usize, done: &mut Vec<usize>) -> std::io::Result<()> {
        self.queue.turn(at_least, &mut self.completions)?;
        for completion in self.completions.drain(..) {
            if completion.result? != self.pages * PAGE_BYTES {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            done.push(completion.tag as usize);
        }
        Ok(())
    }

    fn describe(&self) -> &str {
        self.queue.describe()
    }
}
