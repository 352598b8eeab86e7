//! Threads that each keep several random reads in flight: through the disk's own queue, or in a bare io_uring
//! loop that shows what the queue costs.
//!
//! Both do the same: as many reads in flight as told, a turn whenever so many have completed, the next
//! read for each that has.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use namiki_platform::clock::{Pause, now_ns, process_cpu_ns};
use namiki_platform::disk::{
    Completion, Disk, DiskFile, Frame, FramePool, Frames, PAGE_BYTES, ReadQueue,
};
use namiki_platform::seeded_random::Random;

use super::bare_uring::BareUring;
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
    /// Buffers that each reader reads into in turn, if more than it has reads in flight.
    pub(crate) buffers: usize,
    /// Whether to measure how long each read takes.
    pub(crate) timed: bool,
    /// Microseconds of processor time that a reader spends on each read.
    pub(crate) work_us: u32,
    /// In a bare loop instead of the disk's queue.
    pub(crate) bare: bool,
}

/// What came out.
pub(crate) struct AsyncProbed {
    pub(crate) total: Total,
    /// Times that a reader submitted reads or waited for some, in all of them.
    pub(crate) turns: u64,
    /// Processor time of the whole process.
    pub(crate) cpu_ns: u64,
    /// What carried out the reads.
    pub(crate) queue: String,
}

/// The files that are read, as if they were one.
pub(crate) struct ReadFiles {
    files: Vec<ReadFile>,
}

struct ReadFile {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    /// Where it ends, counted from the beginning of the first.
    end_bytes: u64,
}

impl ReadFiles {
    /// One new file in `dir`.
    pub(crate) fn create(disk: &dyn Disk, dir: &Path, len_bytes: u64) -> Result<Self, BenchError> {
        let path = dir.join("probe");
        let file = disk.create(&path, len_bytes);
        let file = file.map_err(BenchError::file("create", &path))?;
        let end_bytes = len_bytes;
        let files = vec![ReadFile {
            path,
            file,
            end_bytes,
        }];
        Ok(Self { files })
    }

    /// These, as far as they have whole pages.
    pub(crate) fn open(
        disk: &dyn Disk,
        paths: impl IntoIterator<Item = PathBuf>,
    ) -> Result<Self, BenchError> {
        let (mut files, mut end_bytes) = (Vec::new(), 0);
        for path in paths {
            let file = disk.open(&path).map_err(BenchError::file("open", &path))?;
            let page = PAGE_BYTES as u64;
            end_bytes += file.len_bytes() / page * page;
            files.push(ReadFile {
                path,
                file,
                end_bytes,
            });
        }
        Ok(Self { files })
    }

    fn len_bytes(&self) -> u64 {
        self.files.last().map_or(0, |last| last.end_bytes)
    }

    /// The file, and the offset in it.
    fn find(&self, at: u64) -> (usize, u64) {
        let file = self.files.partition_point(|file| file.end_bytes <= at);
        let begin = file
            .checked_sub(1)
            .map_or(0, |before| self.files[before].end_bytes);
        (file, at - begin)
    }

    /// Who is named in an error.
    fn path(&self) -> &Path {
        self.files
            .first()
            .map_or(Path::new(""), |first| &first.path)
    }
}

/// What carries out reads. A slot is a read that may be in flight.
pub(super) trait ReadEngine: Send {
    /// Notes a read at this offset of a file, told by its place among the files.
    fn push(&mut self, file: usize, at: u64, slot: usize) -> std::io::Result<()>;

    /// Submits what was noted, waits for so many reads, and adds the slots of all that have completed.
    fn turn(&mut self, at_least: usize, done: &mut Vec<usize>) -> std::io::Result<()>;

    /// What it is.
    fn describe(&self) -> &str;
}

struct Reader {
    engine: Box<dyn ReadEngine>,
    random: Random,
    thread: usize,
    /// When each slot's read was noted.
    began_ns: Vec<u64>,
    idle: Vec<usize>,
    turns: u64,
    microsecond: Pause,
}

impl AsyncReads {
    /// Runs.
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
                    let paths = files.files.iter().map(|file| file.path.as_path());
                    let bare = BareUring::open(paths, bytes, depth, self.buffers);
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

/// The disk's own queue.
struct QueueEngine {
    queue: Box<dyn ReadQueue>,
    files: Arc<ReadFiles>,
    pool: Arc<FramePool>,
    pages: usize,
    completions: Vec<Completion>,
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
        let file = &self.files.files[file].file;
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
