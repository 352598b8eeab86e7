//! `device`: the rates of the device, without a database.
//!
//! They are the limit for everything durable. Mode `memory` measures the reference by which speeds
//! from different hours are compared.

mod async_reads;
mod autotune_profile;
mod bare_uring;
mod probe;
mod read_engine;
mod read_files;

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::Arc;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use namiki_platform::disk::{
    DirectDisk, Disk, Frames, PAGE_BYTES, SlowDisk, SyncedDisk, open_best,
};
use namiki_platform::machine::{Machine, miss_ns};
use serde::Serialize;

pub(crate) use self::async_reads::AsyncReads;
pub(crate) use self::probe::{Access, Ground, Probe};
pub(crate) use self::read_files::ReadFiles;
use crate::args::{self, TimedArgs};
use crate::device_choice::Device;
use crate::error::BenchError;
use crate::latency::LatencyUs;
use crate::repetitions::in_turns;
use crate::result_writer::{Cell, Report, Row};
use crate::run_folder::Place;

const NOTES: &str = "\
Modes:
  direct     writes with O_DIRECT|O_DSYNC, each writer on a file of its own
  fdatasync  the same through the page cache, each write followed by fdatasync
  mutexed    as direct, but one file and one mutex: the writers take turns
  read       random reads with O_DIRECT, asynchronous: --readers threads (one) keep --depth reads in
             flight together, and each takes completions when there are --batch of them
  read-bare  the same in a bare io_uring loop: what the device and the system themselves cost
  read-blocking  --depth threads read, each waiting for one read at a time
  profile    what ProtocolChoice::Auto measures when a database is opened, and what it chooses
  memory     median nanoseconds of a load that misses: the yardstick (key miss_ns). Rates of
             different hours compare as rate * miss_ns / 151

Files are preallocated, filled with zeros, and written over from front to back.

With --work-us, each thread computes for so long before each write or read: what is left of the device
when its callers have other work. A workload that takes so much processor time between
its writes cannot write more often.

Examples:
  namiki-bench device --bytes 512,8192,65536 --writers 1,2,4,8,16 --mode direct
  namiki-bench device --mode direct,mutexed --bytes 8192 --writers 16 --repeat 5
  namiki-bench device --mode read --bytes 4096 --depth 1,32,128
  namiki-bench device --mode read,read-bare --depth 128 --batch 1,8,32 --repeat 5
  namiki-bench device --mode read --depth 192 --device slow:192x5ms
  namiki-bench device --bytes 6144 --writers 4 --work-us 60
  namiki-bench device --mode profile --repeat 5
  namiki-bench device --mode memory";

/// Arguments of `device`.
#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub(crate) struct DeviceArgs {
    /// Measurements to run; several with commas
    #[arg(
        long,
        value_enum,
        value_name = "MODE",
        value_delimiter = ',',
        default_value = "direct"
    )]
    mode: Vec<Mode>,
    /// Bytes of one write or read; asynchronous reads take whole pages of 4096 [default: 512, and
    /// 4096 to read]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = RangedU64ValueParser::<u32>::from(1..=1 << 30))]
    bytes: Vec<u32>,
    /// Numbers of threads that write
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1", value_parser = args::threads())]
    writers: Vec<NonZeroU16>,
    /// Numbers of reads in flight
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1", value_parser = args::threads())]
    depth: Vec<NonZeroU16>,
    /// Numbers of threads that read asynchronously and share --depth
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1", value_parser = args::threads())]
    readers: Vec<NonZeroU16>,
    /// Numbers of completions that a reader waits for per turn
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1", value_parser = args::threads())]
    batch: Vec<NonZeroU16>,
    /// Device of modes read and read-blocking: file, fdatasync (through the page cache), or
    /// slow:192x5ms
    #[arg(long, value_name = "DEVICE", default_value = "file")]
    device: Device,
    /// Processor time that each thread spends before each write or read, in microseconds
    #[arg(long, value_name = "US", default_value_t = 0, value_parser = RangedU64ValueParser::<u32>::from(0..=1_000_000))]
    work_us: u32,
    /// Length of each file [default: 16, and 256 to read]
    #[arg(long, value_name = "MB", value_parser = RangedU64ValueParser::<u64>::from(1..=1 << 20))]
    file_mb: Option<u64>,
    /// Folder on the disk to measure. Each run uses files in its own subfolder, which is removed
    /// afterwards; nothing else there is touched [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    timed: TimedArgs,
}

/// The ways of using the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// `O_DIRECT | O_DSYNC`.
    Direct,
    /// `pwrite`, `fdatasync`.
    Fdatasync,
    /// Direct writes to one file under one mutex.
    Mutexed,
    /// Asynchronous direct reads.
    Read,
    /// Asynchronous direct reads without the disk's queue.
    ReadBare,
    /// Direct reads, each by a blocking thread.
    ReadBlocking,
    /// The engine's measurement for its choice of protocol.
    Profile,
    /// Loads that miss the caches.
    Memory,
}

/// One combination of the requested parameters.
#[derive(Clone, Copy, Debug)]
struct Combination {
    mode: Mode,
    bytes: u32,
    /// Number of writers, or of reads in flight.
    threads: NonZeroU16,
    /// Readers of asynchronous reads.
    readers: NonZeroU16,
    batch: NonZeroU16,
}

/// A result. The keys are a stable contract.
#[derive(Clone, Debug, Serialize)]
struct DeviceRow<'a> {
    mode: &'static str,
    bytes: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    writers: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    depth: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    readers: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    /// The name of the engine that executed the reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    work_us: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    ops_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mb_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_us_per_op: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_us: Option<LatencyUs>,
    seconds: f64,
    round: u32,
    machine: &'a Machine,
}

impl Row for DeviceRow<'_> {
    fn cells(&self) -> Vec<(&'static str, Cell)> {
        let count = |count: Option<u16>| count.map_or("-".to_owned(), |count| count.to_string());
        let latency = |of: fn(&LatencyUs) -> f64| Cell::measure(self.latency_us.as_ref().map(of));
        vec![
            ("mode", Cell::key(self.mode)),
            ("bytes", Cell::key(self.bytes)),
            ("writers", Cell::Key(count(self.writers))),
            ("depth", Cell::Key(count(self.depth))),
            ("readers", Cell::Key(count(self.readers))),
            ("batch", Cell::Key(count(self.batch))),
            ("work us", Cell::key(self.work_us)),
            ("ops/s", Cell::measure(self.ops_per_s)),
            ("MB/s", Cell::measure(self.mb_per_s)),
            ("CPU us/op", Cell::measure(self.cpu_us_per_op)),
            ("p50 us", latency(|us| us.p50)),
            ("p99 us", latency(|us| us.p99)),
        ]
    }
}

/// The reference speed of memory.
#[derive(Clone, Debug, Serialize)]
struct MemoryRow<'a> {
    mode: &'static str,
    miss_ns: f64,
    round: u32,
    machine: &'a Machine,
}

impl Row for MemoryRow<'_> {
    fn cells(&self) -> Vec<(&'static str, Cell)> {
        vec![
            ("mode", Cell::key(self.mode)),
            ("miss ns", Cell::measure(self.miss_ns)),
        ]
    }
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Fdatasync => "fdatasync",
            Self::Mutexed => "mutexed",
            Self::Read => "read",
            Self::ReadBare => "read-bare",
            Self::ReadBlocking => "read-blocking",
            Self::Profile => "profile",
            Self::Memory => "memory",
        }
    }

    fn access(self) -> Access {
        match self {
            Self::Mutexed => Access::OneFileInTurns,
            Self::ReadBlocking => Access::Read,
            _ => Access::OwnFiles,
        }
    }

    fn disk(self) -> Arc<dyn Disk> {
        match self {
            Self::Fdatasync => Arc::new(SyncedDisk::new()),
            _ => Arc::new(DirectDisk::new()),
        }
    }

    fn reads(self) -> bool {
        matches!(self, Self::Read | Self::ReadBare | Self::ReadBlocking)
    }

    /// Whether a thread keeps several reads in flight.
    fn is_asynchronous(self) -> bool {
        matches!(self, Self::Read | Self::ReadBare)
    }

    fn file_mb(self) -> u64 {
        if self.reads() { 256 } else { 16 }
    }
}

/// Runs the command.
pub(crate) fn run(args: &DeviceArgs) -> Result<(), BenchError> {
    args.check()?;
    let place = Place::new(args.dir.as_deref())?;
    let machine = Machine::describe(place.path());
    if !args.mode.contains(&Mode::Memory) {
        place.note_memory(&machine);
    }
    let mut report = Report::new(args.timed.output.format);
    let mut said = BTreeSet::new();
    let outcome = in_turns(
        args.timed.repeat,
        &args.combinations(),
        |combination, round| {
            if combination.mode == Mode::Profile {
                return report.row(&autotune_profile::row(&place, &machine, round)?);
            }
            if combination.mode == Mode::Memory {
                let miss_ns = miss_ns().map_err(BenchError::system("measure memory"))?;
                let machine = &machine;
                return report.row(&MemoryRow {
                    mode: "memory",
                    miss_ns,
                    round,
                    machine,
                });
            }
            let row = args.run_one(*combination, &place, &machine, round)?;
            if let Some(queue) = row.queue.clone()
                && said.insert(queue.clone())
            {
                eprintln!("reads: {queue}");
            }
            report.row(&row)
        },
    );
    report.finish()?;
    outcome
}

impl DeviceArgs {
    fn combinations(&self) -> Vec<Combination> {
        let mut combinations = Vec::new();
        let one = &[NonZeroU16::MIN][..];
        for &mode in &self.mode {
            let none_given = self.bytes.is_empty();
            let bytes = match mode {
                Mode::Memory | Mode::Profile => &[0][..],
                _ if none_given && mode.reads() => &[PAGE_BYTES as u32],
                _ if none_given => &[512],
                _ => &self.bytes,
            };
            let threads = match mode {
                Mode::Memory | Mode::Profile => one,
                _ if mode.reads() => &self.depth,
                _ => &self.writers,
            };
            let (readers, batches) = if mode.is_asynchronous() {
                (&self.readers[..], &self.batch[..])
            } else {
                (one, one)
            };
            for &bytes in bytes {
                for &threads in threads {
                    for &readers in readers {
                        combinations.extend(batches.iter().map(|&batch| Combination {
                            mode,
                            bytes,
                            threads,
                            readers,
                            batch,
                        }));
                    }
                }
            }
        }
        combinations
    }

    /// Refuses parameters that cannot be combined.
    fn check(&self) -> Result<(), BenchError> {
        let usage = |why: String| Err(BenchError::Usage(why));
        for (mode, name) in [(Mode::Memory, "memory"), (Mode::Profile, "profile")] {
            if self.mode.contains(&mode) && self.mode.len() > 1 {
                return usage(format!(
                    "--mode {name} has columns of its own; run it by itself"
                ));
            }
        }
        if !matches!(
            self.device,
            Device::File | Device::Fdatasync | Device::Slow(_)
        ) {
            return usage(format!(
                "--device {}: reads are measured of file, fdatasync and slow:192x5ms",
                self.device
            ));
        }
        for Combination {
            mode,
            bytes,
            threads,
            readers,
            ..
        } in self.combinations()
        {
            let other_device = self.device != Device::File;
            if other_device && !matches!(mode, Mode::Read | Mode::ReadBlocking) {
                let name = mode.name();
                return usage(format!("--mode {name} takes no --device"));
            }
            if mode.is_asynchronous() && !(bytes as usize).is_multiple_of(PAGE_BYTES) {
                return usage(format!(
                    "--bytes {bytes}: asynchronous reads are of whole pages of {PAGE_BYTES} bytes; \
                     --mode read-blocking reads less"
                ));
            }
            if mode.is_asynchronous() && bytes as usize > Frames::MAX * PAGE_BYTES {
                return usage(format!("--bytes {bytes}: at most {} pages", Frames::MAX));
            }
            if readers > threads {
                return usage(format!(
                    "--readers {readers}: --depth {threads} is less than a read for each"
                ));
            }
        }
        Ok(())
    }

    fn disk(&self, mode: Mode, place: &Place) -> Result<Arc<dyn Disk>, BenchError> {
        Ok(match self.device {
            Device::Fdatasync => Arc::new(SyncedDisk::new()),
            Device::Slow(drives) => {
                let best = open_best(place.path());
                let (best, _) = best.map_err(BenchError::file("write to", place.path()))?;
                Arc::new(SlowDisk::new(best, drives))
            }
            _ => mode.disk(),
        })
    }

    fn run_one<'a>(
        &self,
        combination: Combination,
        place: &Place,
        machine: &'a Machine,
        round: u32,
    ) -> Result<DeviceRow<'a>, BenchError> {
        let Combination {
            mode,
            bytes,
            threads,
            readers,
            batch,
        } = combination;
        let dir = place.scratch()?;
        let disk = self.disk(mode, place)?;
        let file_bytes = self.file_mb.unwrap_or(mode.file_mb()) << 20;
        let (total, cpu_ns, queue) = if mode.is_asynchronous() {
            let probe = AsyncReads {
                bytes,
                depth: threads.get(),
                readers: readers.get(),
                batch: batch.get(),
                buffers: 0,
                timed: true,
                work_us: self.work_us,
                bare: mode == Mode::ReadBare,
            };
            let unit = u64::from(bytes);
            let len_bytes = file_bytes.max(unit).next_multiple_of(unit);
            let files = ReadFiles::create(&*disk, dir.path(), len_bytes)?;
            let probed = probe.run(&disk, &Arc::new(files), &self.timed)?;
            (probed.total, probed.cpu_ns, Some(probed.queue))
        } else {
            let probe = Probe {
                access: mode.access(),
                bytes,
                threads: threads.get(),
                file_bytes,
                work_us: self.work_us,
            };
            let probed = probe.run(&disk, Ground::Folder(dir.path()), &self.timed)?;
            (probed.total, probed.cpu_ns, None)
        };
        let reads = mode.reads();
        Ok(DeviceRow {
            mode: mode.name(),
            bytes,
            writers: (!reads).then_some(threads.get()),
            depth: reads.then_some(threads.get()),
            readers: mode.is_asynchronous().then_some(readers.get()),
            batch: mode.is_asynchronous().then_some(batch.get()),
            device: reads.then(|| self.device.to_string()),
            queue,
            work_us: self.work_us,
            ops_per_s: total.per_second(),
            mb_per_s: total.per_second().map(|rate| rate * f64::from(bytes) / 1e6),
            cpu_us_per_op: total.per_operation(cpu_ns as f64 / 1e3),
            latency_us: total.latencies.summary(),
            seconds: total.seconds,
            round,
            machine,
        })
    }
}
