//! Threads that each keep several random reads in flight: through the disk's own queue, or in a bare io_uring
//! loop that shows what the queue costs.
//!
//! Both do the same: as many reads in flight as told, a turn whenever so many have completed, the next
//! read for each that has.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use namiki_platform::clock::{Pause, now_ns, process_cpu_ns};
use namiki_platform::disk::{Disk, FramePool, PAGE_BYTES};
use namiki_platform::seeded_random::Random;

use super::bare_uring::BareUring;
use super::read_engine::{QueueEngine, ReadEngine};
use crate::args::{Length, TimedArgs};
use crate::error::BenchError;
use crate::latency::Latencies;
use crate::run_stages::{StageResult, Stages, Total, staged};
use crate::worker_threads::share;

/// What the readers do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AsyncReads {
    /// Bytes of one read: whole pages.
    pub(crate) bytes: u32,
    /// Reads in flight, of all readers together.
    pub(crate) depth: u16,
    /// Threads.
    pub(crate) readers: u16,
    /// Completions that a reader waits for at a time.
    pub(crate) batch: u16,
    /// Length of the file.
    pub(crate) file_bytes: u64,
    /// Microseconds of processor time that a reader spends on each read.
    pub(crate) work_us: u32,
    /// In a bare loop instead of the disk's queue.
    pub(crate) bare: bool,
}

/// What came out.
pub(crate) struct AsyncProbed {
    pub(crate) total: Total,
    /// Processor time of the whole process.
    pub(crate) cpu_ns: u64,
    /// What carried out the reads.
    pub(crate) queue: String,
}

struct Reader {
    engine: Box<dyn ReadEngine>,
    random: Random,
    thread: usize,
    /// When each slot's read was noted.
    began_ns: Vec<u64>,
    idle: Vec<usize>,
    microsecond: Pause,
}

impl AsyncReads {
    /// Makes the file in `dir` and runs.
    pub(crate) fn run(
        &self,
        disk: &Arc<dyn Disk>,
        dir: &Path,
        timed: &TimedArgs,
    ) -> Result<AsyncProbed, BenchError> {
        let path = dir.join("probe");
        let bytes = u64::from(self.bytes);
        let len_bytes = self.file_bytes.max(bytes).next_multiple_of(bytes);
        let file = disk
            .create(&path, len_bytes)
            .map_err(BenchError::file("create", &path))?;
        let frames = usize::from(self.depth) * self.pages();
        let pool = FramePool::new(frames).map_err(BenchError::system("make page frames"))?;
        let microsecond = Pause::calibrated(Duration::from_micros(self.work_us.min(1).into()));
        let run = staged(
            usize::from(self.readers),
            timed,
            &format!("{} reads of {bytes} bytes in flight", self.depth),
            |thread| {
                let depth = self.depth_of(thread);
                let engine: Box<dyn ReadEngine> = if self.bare {
                    let bare = BareUring::open(&path, self.bytes, depth);
                    Box::new(bare.map_err(BenchError::file("read", &path))?)
                } else {
                    let queue = disk.reads(depth, &pool);
                    let queue = queue.map_err(BenchError::file("read", &path))?;
                    Box::new(QueueEngine::new(queue, &file, &pool, self.pages()))
                };
                Ok(Reader {
                    engine,
                    random: Random::stream(timed.seed, thread as u64),
                    thread,
                    began_ns: vec![0; depth],
                    idle: (0..depth).collect(),
                    microsecond,
                })
            },
            |reader, length, stages| self.stage(reader, length, stages, &path, len_bytes),
            || process_cpu_ns().map_err(BenchError::system("ask for processor time")),
        )?;
        let queue = run.workers.first().map(|reader| reader.engine.describe());
        Ok(AsyncProbed {
            queue: queue.unwrap_or_default().to_owned(),
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
        path: &Path,
        len_bytes: u64,
    ) -> Result<StageResult, BenchError> {
        let bytes = u64::from(self.bytes);
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
                let at = reader.random.below(len_bytes / bytes) * bytes;
                reader.began_ns[slot] = now_ns();
                let pushed = reader.engine.push(at, slot);
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
            let now = now_ns();
            for slot in completed.drain(..) {
                latencies.add_ns(now - reader.began_ns[slot]);
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
