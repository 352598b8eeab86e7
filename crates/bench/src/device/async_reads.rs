//! Threads that each keep several random reads in flight: through the disk's own queue, or in a
//! bare io_uring loop that shows the cost of the queue.
//!
//! Both variants keep the given number of reads in flight. A turn ends when the given number of
//! reads has completed, and each completed read is replaced by the next.

use std::sync::Arc;
use std::time::{Duration, Instant};

use namiki_platform::clock::{Pause, now_ns, process_cpu_ns};
use namiki_platform::disk::{Disk, FramePool, PAGE_BYTES};
use namiki_platform::seeded_random::Random;

use super::bare_uring::BareUring;
use super::read_engine::{QueueEngine, ReadEngine};
use super::read_files::ReadFiles;
use crate::args::{Length, TimedArgs};
use crate::error::BenchError;
use crate::latency::Latencies;
use crate::run_stages::{StageResult, Stages, Total, staged};
use crate::worker_threads::share;

/// The work of the readers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AsyncReads {
    /// Bytes of one read: whole pages.
    pub(crate) bytes: u32,
    /// Reads in flight, of all readers together.
    pub(crate) depth: u16,
    /// Threads.
    pub(crate) readers: u16,
    /// Number of completions that a reader waits for per turn.
    pub(crate) batch: u16,
    /// Buffers that each reader uses in rotation, if more than its reads in flight.
    pub(crate) buffers: usize,
    /// Whether to measure the latency of each read.
    pub(crate) timed: bool,
    /// Microseconds of processor time that a reader spends on each read.
    pub(crate) work_us: u32,
    /// Whether to use a bare loop instead of the disk's queue.
    pub(crate) bare: bool,
}

/// The results.
pub(crate) struct AsyncProbed {
    pub(crate) total: Total,
    /// Number of turns (submit reads, or wait for some) of all readers.
    pub(crate) turns: u64,
    /// Processor time of the whole process.
    pub(crate) cpu_ns: u64,
    /// The name of the engine that executed the reads.
    pub(crate) queue: String,
}

struct Reader {
    engine: Box<dyn ReadEngine>,
    random: Random,
    thread: usize,
    /// The start time of each slot's read.
    began_ns: Vec<u64>,
    idle: Vec<usize>,
    turns: u64,
    microsecond: Pause,
}

impl AsyncReads {
    /// Runs the readers.
    pub(crate) fn run(
        &self,
        disk: &Arc<dyn Disk>,
        files: &Arc<ReadFiles>,
        timed: &TimedArgs,
    ) -> Result<AsyncProbed, BenchError> {
        let bytes = self.bytes;
        let readers = usize::from(self.readers);
        let path = files.path();
        let frames = usize::from(self.depth).max(self.buffers * readers) * self.pages();
        let pool = (!self.bare).then(|| FramePool::new(frames)).transpose();
        let pool = pool.map_err(BenchError::system("make page frames"))?;
        let microsecond = Pause::calibrated(Duration::from_micros(self.work_us.min(1).into()));
        let run = staged(
            readers,
            timed,
            &format!("{} reads of {bytes} bytes in flight", self.depth),
            |thread| {
                let depth = self.depth_of(thread);
                let engine: Box<dyn ReadEngine> = if let Some(pool) = &pool {
                    let queue = disk.reads(depth, pool);
                    Box::new(QueueEngine {
                        queue: queue.map_err(BenchError::file("read", path))?,
                        files: Arc::clone(files),
                        pool: Arc::clone(pool),
                        pages: self.pages(),
                        completions: Vec::new(),
                    })
                } else {
                    let bare = BareUring::open(files.paths(), bytes, depth, self.buffers);
                    Box::new(bare.map_err(BenchError::file("read", path))?)
                };
                Ok(Reader {
                    engine,
                    random: Random::stream(timed.seed, thread as u64),
                    thread,
                    began_ns: vec![0; depth],
                    idle: (0..depth).collect(),
                    turns: 0,
                    microsecond,
                })
            },
            |reader, length, stages| self.stage(reader, length, stages, files),
            || process_cpu_ns().map_err(BenchError::system("ask for processor time")),
        )?;
        let queue = run.workers.first().map(|reader| reader.engine.describe());
        Ok(AsyncProbed {
            queue: queue.unwrap_or_default().to_owned(),
            turns: run.workers.iter().map(|reader| reader.turns).sum(),
            total: run.total,
            cpu_ns: run.after - run.before,
        })
    }

    fn pages(&self) -> usize {
        self.bytes as usize / PAGE_BYTES
    }

    fn depth_of(&self, thread: usize) -> usize {
        share(self.depth.into(), thread, self.readers.into()) as usize
    }

    fn stage(
        &self,
        reader: &mut Reader,
        length: Length,
        stages: &Stages,
        files: &ReadFiles,
    ) -> Result<StageResult, BenchError> {
        let (path, bytes) = (files.path(), u64::from(self.bytes));
        let places = files.len_bytes() / bytes;
        if places == 0 {
            let why = format!("{}: nothing to read", path.display());
            return Err(BenchError::Usage(why));
        }
        reader.turns = 0;
        let end = match length {
            Length::Time(_) => u64::MAX,
            Length::Operations(total) => share(total, reader.thread, self.readers.into()),
        };
        let depth = reader.began_ns.len();
        let mut latencies = Latencies::new();
        let (mut started, mut done) = (0, 0);
        let mut completed = Vec::with_capacity(depth);
        let began = Instant::now();
        loop {
            let stopped = stages.must_stop();
            while !stopped
                && started < end
                && let Some(slot) = reader.idle.pop()
            {
                let (file, at) = files.find(reader.random.below(places) * bytes);
                if self.timed {
                    reader.began_ns[slot] = now_ns();
                }
                let pushed = reader.engine.push(file, at, slot);
                pushed.map_err(BenchError::file("read from", path))?;
                started += 1;
            }
            let in_flight = depth - reader.idle.len();
            if in_flight == 0 {
                break;
            }
            let at_least = usize::from(self.batch).min(in_flight);
            let turned = reader.engine.turn(at_least, &mut completed);
            turned.map_err(BenchError::file("read from", path))?;
            reader.turns += 1;
            let now = if self.timed { now_ns() } else { 0 };
            for slot in completed.drain(..) {
                if self.timed {
                    latencies.add_ns(now - reader.began_ns[slot]);
                }
                (0..self.work_us).for_each(|_| reader.microsecond.wait());
                reader.idle.push(slot);
                done += 1;
            }
        }
        Ok(StageResult {
            began,
            ended: Instant::now(),
            done,
            aborted: 0,
            latencies,
        })
    }
}
