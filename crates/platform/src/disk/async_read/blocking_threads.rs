//! Asynchronous reads where the system has none: a few threads that each wait for one read at a time.
//!
//! For machines that refuse io_uring, as many containers do, and for disks that can only be read by a thread
//! that waits. A read costs two hand-overs between threads more than one by io_uring, and no more reads
//! reach the device at once than there are threads.
//!
//! # Invariants
//! - B1. A job is in `pushed`, in `jobs`, with one thread, or in `done`: so its frames come back
//!   (`async_read/mod.rs`, Q1).
//! - B2. A thread adds a completion for each job that it takes, also if the file's code panics.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use super::read_frames::read_frames;
use super::{Completion, Frames, ReadQueue};
use crate::disk::DiskFile;
use crate::threads;

/// Threads of one queue at most.
const THREADS_MAX: usize = 16;

/// A queue of reads that blocking threads carry out.
pub struct BlockingThreads {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    pushed: Vec<Job>,
    depth: usize,
    in_flight: usize,
    description: String,
}

struct Job {
    file: Arc<dyn DiskFile>,
    at: u64,
    frames: Frames,
    tag: u64,
}

#[derive(Default)]
struct Shared {
    jobs: Mutex<Jobs>,
    /// A job was added, or the queue is closed.
    work: Condvar,
    done: Mutex<Vec<Completion>>,
    /// A completion was added.
    completed: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    closed: bool,
}

impl BlockingThreads {
    /// A queue of `depth` reads, at least one. `why` says why it is not io_uring's. Its threads are started
    /// as reads need them.
    #[must_use]
    pub fn new(depth: usize, why: &str) -> Self {
        let depth = depth.max(1);
        let threads = depth.min(THREADS_MAX);
        Self {
            shared: Arc::default(),
            threads: Vec::new(),
            pushed: Vec::new(),
            depth,
            in_flight: 0,
            description: format!("{threads} blocking threads ({why})"),
        }
    }

    /// Starts threads until there are as many as reads, or as there may be.
    fn start_threads(&mut self) -> io::Result<()> {
        while self.threads.len() < self.in_flight.min(THREADS_MAX) {
            let shared = Arc::clone(&self.shared);
            match threads::start("namiki-read", move || shared.work()) {
                Ok(thread) => self.threads.push(thread),
                Err(error) if self.threads.is_empty() => return Err(error),
                // Fewer do as well, more slowly.
                Err(_) => break,
            }
        }
        Ok(())
    }
}

impl Shared {
    /// The loop of a thread: runs jobs until the queue is closed.
    fn work(&self) {
        loop {
            let job = {
                let mut jobs = self.jobs.lock();
                loop {
                    if jobs.closed {
                        return;
                    }
                    match jobs.waiting.pop_front() {
                        Some(job) => break job,
                        None => self.work.wait(&mut jobs),
                    }
                }
            };
            let completion = job.carry_out();
            self.done.lock().push(completion);
            self.completed.notify_one();
        }
    }
}

impl Job {
    fn carry_out(self) -> Completion {
        let Self {
            file,
            at,
            mut frames,
            tag,
        } = self;
        // Frames are bytes: a panic leaves nothing half-done in them.
        let read = catch_unwind(AssertUnwindSafe(|| read_frames(&*file, at, &mut frames)));
        let result = read.unwrap_or_else(|_| {
            let error = format!("the read at offset {at} of {file:?} panicked");
            Err(io::Error::other(error))
        });
        Completion {
            tag,
            frames,
            result,
        }
    }
}

impl ReadQueue for BlockingThreads {
    fn push(
        &mut self,
        file: &Arc<dyn DiskFile>,
        at: u64,
        frames: Frames,
        tag: u64,
    ) -> Result<(), Frames> {
        if self.in_flight == self.depth {
            return Err(frames);
        }
        self.in_flight += 1;
        self.pushed.push(Job {
            file: Arc::clone(file),
            at,
            frames,
            tag,
        });
        Ok(())
    }

    fn turn(&mut self, at_least: usize, done: &mut Vec<Completion>) -> io::Result<()> {
        self.start_threads()?;
        if !self.pushed.is_empty() {
            let count = self.pushed.len();
            self.shared
                .jobs
                .lock()
                .waiting
                .extend(self.pushed.drain(..));
            for _ in 0..count.min(self.threads.len()) {
                self.shared.work.notify_one();
            }
        }
        let at_least = at_least.min(self.in_flight);
        let mut completed = self.shared.done.lock();
        while completed.len() < at_least {
            self.shared.completed.wait(&mut completed);
        }
        self.in_flight -= completed.len();
        done.append(&mut completed);
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn describe(&self) -> &str {
        &self.description
    }
}

impl Drop for BlockingThreads {
    fn drop(&mut self) {
        {
            let mut jobs = self.shared.jobs.lock();
            jobs.closed = true;
            jobs.waiting.clear();
        }
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so on standard error.
            let _ = thread.join();
        }
    }
}
