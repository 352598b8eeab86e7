//! Threads that only write to, or read from, the device.
//!
//! Files are allocated and filled with zeros before the clock starts. They are then overwritten
//! from front to back, as a log does once its files are prepared, or at random; no write changes
//! metadata. A shared device is overwritten in the same way, each writer in its own part.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use namiki_platform::clock::{Pause, now_ns, process_cpu_ns};
use namiki_platform::disk::{AlignedBuf, Disk, DiskFile};
use namiki_platform::seeded_random::Random;

use crate::args::{Length, TimedArgs};
use crate::device_choice::{MORE_ROOM, ReadyDisk};
use crate::error::BenchError;
use crate::interrupt;
use crate::latency::Latencies;
use crate::run_stages::{StageResult, Stages, Total, staged};
use crate::worker_threads::share;

/// Alignment of the parts of a device.
const PART_ALIGN_BYTES: u64 = 4096;
/// The smallest allocation that justifies a huge page.
const BUFFERS_BYTES_MIN: usize = 1 << 20;

/// The work of a probe's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Each thread writes its own file, or its own part of the device, from front to back.
    OwnFiles,
    /// Each thread writes random blocks of its own file, or of its own part of the device.
    OwnFilesAtRandom,
    /// All threads write one file, or the device, one at a time: the rate of a device behind a
    /// mutex.
    ///
    /// Paper: pwal §6.1, figure 7 (the conventional log)
    OneFileInTurns,
    /// Each thread reads random blocks of one file.
    Read,
}

/// The files or the device to write to or read from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ground<'a> {
    /// New files in this folder, which must be empty.
    Folder(&'a Path),
    /// An existing device or file, which may be overwritten.
    Device(&'a Path),
}

impl<'a> Ground<'a> {
    /// The target of a log on this disk: the device that its streams share, otherwise `folder`.
    pub(crate) fn of(disk: &'a ReadyDisk, folder: &'a Path) -> Self {
        match &disk.shared {
            Some((path, _)) => Self::Device(path),
            None => Self::Folder(folder),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Folder(path) | Self::Device(path) => path,
        }
    }
}

/// The parameters of a probe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub(crate) access: Access,
    /// Bytes of one write or read.
    pub(crate) bytes: u32,
    pub(crate) threads: u16,
    /// Length of each file. A device is used with its own length.
    pub(crate) file_bytes: u64,
    /// Microseconds of processor time that a thread spends before each write or read.
    pub(crate) work_us: u32,
}

/// The results of a probe.
pub(crate) struct Probed {
    pub(crate) total: Total,
    /// Processor time of the whole process.
    pub(crate) cpu_ns: u64,
}

/// A file, a part of it, and the next offset in that part.
struct Target {
    file: Arc<dyn DiskFile>,
    part: Range<u64>,
    at: u64,
}

struct Worker {
    target: Arc<Mutex<Target>>,
    /// The same file as in `target`, without its lock.
    file: Arc<dyn DiskFile>,
    buffer: AlignedBuf,
    random: Random,
    thread: usize,
    microsecond: Pause,
}

impl Probe {
    /// Length of the files that measure a log's device.
    pub(crate) const FILE_BYTES: u64 = 16 << 20;

    /// Creates the files, if necessary, and runs.
    pub(crate) fn run(
        &self,
        disk: &Arc<dyn Disk>,
        ground: Ground<'_>,
        timed: &TimedArgs,
    ) -> Result<Probed, BenchError> {
        let targets = self.targets(&**disk, ground)?;
        let buffers = self.buffers();
        // Work is counted and not timed: a thread that has lost its processor does no work. Without
        // work there is nothing to calibrate.
        let microsecond = Pause::calibrated(Duration::from_micros(self.work_us.min(1).into()));
        let run = staged(
            usize::from(self.threads),
            timed,
            &format!("{:?} of {} bytes", self.access, self.bytes),
            |thread| {
                let target = Arc::clone(&targets[thread % targets.len()]);
                let file = Arc::clone(&lock(&target).file);
                let mut buffer = std::mem::take(&mut lock(&buffers)[thread]);
                let mut random = Random::stream(timed.seed, thread as u64);
                random.fill(&mut buffer);
                Ok(Worker {
                    target,
                    file,
                    buffer,
                    random,
                    thread,
                    microsecond,
                })
            },
            |worker, length, stages| self.stage(worker, length, stages, ground),
            || process_cpu_ns().map_err(BenchError::system("ask for processor time")),
        )?;
        Ok(Probed {
            total: run.total,
            cpu_ns: run.after - run.before,
        })
    }

    /// A buffer for each thread, in huge pages like the log's own, which the device transfers
    /// faster.
    fn buffers(&self) -> Mutex<Vec<AlignedBuf>> {
        // Unused buffers are never touched.
        let count = usize::from(self.threads).max(BUFFERS_BYTES_MIN / self.bytes as usize);
        Mutex::new(AlignedBuf::zeroed_together(count, self.bytes as usize))
    }

    fn targets(
        &self,
        disk: &dyn Disk,
        ground: Ground<'_>,
    ) -> Result<Vec<Arc<Mutex<Target>>>, BenchError> {
        let count = match self.access {
            Access::OwnFiles | Access::OwnFilesAtRandom => self.threads,
            Access::OneFileInTurns | Access::Read => 1,
        };
        let targets = (0..count).map(|number| {
            interrupt::check()?;
            let target = match ground {
                Ground::Folder(dir) => {
                    self.create(disk, &dir.join(format!("probe-{number:04}")))?
                }
                Ground::Device(path) => part_of(disk, path, number.into(), count.into())?,
            };
            let block = target.file.block_bytes();
            if !(self.bytes as usize).is_multiple_of(block) {
                return Err(BenchError::Usage(format!(
                    "--bytes {}: this device's blocks have {block} bytes",
                    self.bytes
                )));
            }
            if target.part.end - target.part.start < u64::from(self.bytes) {
                return Err(BenchError::Usage(format!(
                    "a writer's part of {} is shorter than {} bytes; {MORE_ROOM} the bytes",
                    ground.path().display(),
                    self.bytes
                )));
            }
            Ok(Arc::new(Mutex::new(target)))
        });
        targets.collect()
    }

    fn create(&self, disk: &dyn Disk, path: &Path) -> Result<Target, BenchError> {
        let bytes = u64::from(self.bytes);
        let len_bytes = self.file_bytes.max(bytes).next_multiple_of(bytes);
        let len_bytes = len_bytes.next_multiple_of(bytes.max(4096));
        let file = disk
            .create(path, len_bytes)
            .map_err(BenchError::file("create", path))?;
        Ok(Target {
            file,
            part: 0..len_bytes,
            at: 0,
        })
    }

    fn stage(
        &self,
        worker: &mut Worker,
        length: Length,
        stages: &Stages,
        ground: Ground<'_>,
    ) -> Result<StageResult, BenchError> {
        let end = match length {
            Length::Time(_) => u64::MAX,
            Length::Operations(total) => share(total, worker.thread, usize::from(self.threads)),
        };
        let mut latencies = Latencies::new();
        let mut done = 0;
        let began = Instant::now();
        while done < end && !stages.must_stop() {
            (0..self.work_us).for_each(|_| worker.microsecond.wait());
            let start = now_ns();
            let path = ground.path();
            match self.access {
                Access::Read => worker.read().map_err(BenchError::file("read from", path))?,
                Access::OwnFilesAtRandom => worker
                    .write_at_random()
                    .map_err(BenchError::file("write to", path))?,
                Access::OwnFiles | Access::OneFileInTurns => {
                    worker.write().map_err(BenchError::file("write to", path))?;
                }
            }
            latencies.add_ns(now_ns() - start);
            done += 1;
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

impl Worker {
    /// Writes the next block under the lock. Only threads that take turns share it.
    fn write(&mut self) -> std::io::Result<()> {
        let mut target = lock(&self.target);
        target.file.write_durable(target.at, &self.buffer)?;
        target.at += self.buffer.len() as u64;
        if target.at + self.buffer.len() as u64 > target.part.end {
            target.at = target.part.start;
        }
        Ok(())
    }

    /// Writes a block of the thread's own part.
    fn write_at_random(&mut self) -> std::io::Result<()> {
        let bytes = self.buffer.len() as u64;
        let part = lock(&self.target).part.clone();
        let block = self.random.below((part.end - part.start) / bytes);
        self.file
            .write_durable(part.start + block * bytes, &self.buffer)
    }

    fn read(&mut self) -> std::io::Result<()> {
        let bytes = self.buffer.len() as u64;
        let at = self.random.below(self.file.len_bytes() / bytes) * bytes;
        let read = self.file.read_at(at, &mut self.buffer)?;
        if read as u64 == bytes {
            Ok(())
        } else {
            Err(std::io::ErrorKind::UnexpectedEof.into())
        }
    }
}

/// One of `count` parts of a device.
fn part_of(disk: &dyn Disk, path: &Path, number: u64, count: u64) -> Result<Target, BenchError> {
    let file = disk.open(path).map_err(BenchError::file("open", path))?;
    let part_bytes = file.len_bytes() / count / PART_ALIGN_BYTES * PART_ALIGN_BYTES;
    let start = number * part_bytes;
    Ok(Target {
        file,
        part: start..start + part_bytes,
        at: start,
    })
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A panic leaves a valid offset in the file.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
