//! `log`: the rate of the log alone, and that of its device.
//!
//! Workers append finished commits, without concurrency control or tables, in the paper's format of
//! three records or the engine's compact one. After each run, the bare device is measured with
//! frames of the same size and the same number of threads. A perfect log would reach the device's
//! rate of writes.
//!
//! Paper: pwal §6.1 (figures 6 and 7), §6.2 (groups), §5.7 (one device for all)

mod check;

use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::builder::{RangedU64ValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use namiki::{Epoch, Generation, LogError, RecordFormat, Stamp, WorkerId};
use namiki_log::{
    CutRule, Entry, GenerationEnd, Group, Layout, Log, LogConfig, LogCounters, Placement,
    RECORD_HEADER_BYTES, Retain,
};
use namiki_platform::disk::Disk;
use namiki_platform::machine::Machine;
use serde::Serialize;

use crate::args::{self, Length, RecordBytes, Sequencer, TimedArgs};
use crate::device::{Access, Ground, Probe};
use crate::device_choice::{Device, DeviceChoice, MORE_ROOM, ReadyDisk};
use crate::error::BenchError;
use crate::interrupt;
use crate::latency::Latencies;
use crate::repetitions::in_turns;
use crate::result_writer::{Cell, Report, Row};
use crate::run_folder::Place;
use crate::run_stages::{StageResult, Stages, Total, quotient, staged};
use crate::worker_threads::share;

/// Log records of a commit in the paper's format: BEGIN, UPDATE, END.
const RECORDS_PER_COMMIT: usize = 3;
/// Payload of a compact commit: one change of an eight-byte key and value.
const COMPACT_PAYLOAD_BYTES: usize = 20;
/// Room for a frame's header.
const FRAME_ROOM_BYTES: usize = 4096;
const BUFFER_BYTES_MIN: usize = 256 << 10;
const IDENTITY: u128 = 0x6e61_6d69_6b69_2d62_656e_6368;
/// Upper bound for the length of a log file, in MiB.
const LOG_FILE_MB_MAX: u64 = 1024;
/// Default length of a log file, in MiB. A switch of log files costs a few writes to the device
/// besides those of the log.
const LOG_FILE_MB: u64 = 64;
/// Minimal length, in MiB, which is used with many streams.
const LOG_FILE_MB_MIN: u64 = 16;
/// Total length, in MiB, of the log files that are created before the clock starts; bounds the
/// default length.
const PREPARED_MB: u64 = 1024;
/// Maximal number of log files of all streams that are created before the clock starts. Each one
/// holds a file open.
const PREPARED_MAX: usize = 256;

const NOTES: &str = "\
Layouts: parallel is a stream for each worker (P-WAL), single is one stream for all, flushed under
its lock (the conventional log). The device's limit is measured in the same run, with writes of the
same size by as many threads: each on a file of its own, or for the single layout in turns on one.

The last --retain log_files of each stream are kept and read back at the end. They, and one more to go
on with, are made before the clock starts (up to 256 in all): what is measured is a log that recycles.

raw:PATH has a region for each stream and no log_files. A region is not written again, so a timed run
ends when the first is full, and --ops has to fit. Each flush there is two writes, the frame and then the
head that says how far the frames reach; the device's limit is that of the frames alone, on the same
device, so that where a write takes the same time whatever its length a half of it can be reached.

Examples:
  namiki-bench log --streams 1,2,4,8,16 --layout parallel,single --group 1,16,128 --record-bytes 512
  namiki-bench log --streams 2 --group 16 --device nvm:50ns --sequencer cas --repeat 5
  namiki-bench log --streams 4 --device raw:/data/log --raw-mb 4096";

/// Arguments of `log`.
#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub(crate) struct LogArgs {
    /// Numbers of workers, each with its own stream under the parallel layout
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1", value_parser = args::threads())]
    streams: Vec<NonZeroU16>,
    /// Mapping of workers to streams; several with commas
    #[arg(long, value_enum, value_delimiter = ',', default_value = "parallel")]
    layout: Vec<LayoutName>,
    /// Commits per flush
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "16", value_parser = RangedU64ValueParser::<u32>::from(1..=u32::MAX as u64).try_map(NonZeroU32::try_from))]
    group: Vec<NonZeroU32>,
    /// Log records: BEGIN, UPDATE and END of this many bytes each, or compact
    #[arg(long, value_name = "BYTES|compact", default_value = "512")]
    record_bytes: RecordBytes,
    /// Method of drawing log sequence numbers
    #[arg(long, value_enum, default_value = "fetch-add")]
    sequencer: Sequencer,
    /// Log files retained for each stream; raw:PATH retains everything
    #[arg(long, value_name = "N", default_value = "2", value_parser = RangedU64ValueParser::<u32>::from(2..=u32::MAX as u64))]
    retain: u32,
    /// Length of a log file [default: 64, and down to 16 with many streams]
    #[arg(long, value_name = "MB", value_parser = RangedU64ValueParser::<u64>::from(1..=LOG_FILE_MB_MAX))]
    log_file_mb: Option<u64>,
    #[command(flatten)]
    device: DeviceChoice,
    /// Folder on the disk to measure. Each run writes its log into its own subfolder, which is
    /// removed afterwards; nothing else there is touched [default: the system's temporary folder; for
    /// nvm /dev/shm]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    timed: TimedArgs,
}

/// Log layouts, by their names on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LayoutName {
    /// P-WAL.
    Parallel,
    /// The conventional log.
    Single,
}

/// One combination of the requested parameters.
#[derive(Clone, Copy, Debug)]
struct Combination {
    layout: LayoutName,
    streams: NonZeroU16,
    group: NonZeroU32,
}

/// A result. The keys are a stable contract.
#[derive(Clone, Debug, Serialize)]
struct LogRow<'a> {
    layout: &'static str,
    streams: u16,
    group: u32,
    record_bytes: RecordBytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    commits_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flushes_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mb_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_limit_flushes_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fraction_of_limit: Option<f64>,
    device: String,
    sequencer: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cas_misses: Option<u64>,
    commits: u64,
    flush_bytes: u32,
    seconds: f64,
    round: u32,
    machine: &'a Machine,
}

impl Row for LogRow<'_> {
    fn cells(&self) -> Vec<(&'static str, Cell)> {
        vec![
            ("layout", Cell::key(self.layout)),
            ("streams", Cell::key(self.streams)),
            ("group", Cell::key(self.group)),
            ("record bytes", Cell::key(self.record_bytes)),
            ("commits/s", Cell::measure(self.commits_per_s)),
            ("flushes/s", Cell::measure(self.flushes_per_s)),
            ("MB/s", Cell::measure(self.mb_per_s)),
            ("device/s", Cell::measure(self.device_limit_flushes_per_s)),
            ("fraction", Cell::measure(self.fraction_of_limit)),
        ]
    }
}

impl LayoutName {
    fn layout(self) -> Layout {
        match self {
            Self::Parallel => Layout::PerWorker,
            Self::Single => Layout::Single,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Parallel => "parallel",
            Self::Single => "single",
        }
    }

    fn access(self) -> Access {
        match self {
            Self::Parallel => Access::OwnFiles,
            Self::Single => Access::OneFileInTurns,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &LogArgs) -> Result<(), BenchError> {
    args.check()?;
    let place = Place::for_device(args.dir.as_deref(), &args.device.device)?;
    let machine = Machine::describe(place.path());
    if matches!(args.device.device, Device::File | Device::Fdatasync) {
        place.note_memory(&machine);
    }
    let mut combinations = Vec::new();
    for &layout in &args.layout {
        for &group in &args.group {
            combinations.extend(args.streams.iter().map(|&streams| Combination {
                layout,
                streams,
                group,
            }));
        }
    }
    let mut report = Report::new(args.timed.output.format);
    let outcome = in_turns(args.timed.repeat, &combinations, |combination, round| {
        report.row(&args.run_one(*combination, &place, &machine, round)?)
    });
    report.finish()?;
    outcome
}

/// An appending thread.
struct Worker {
    log: Arc<Log<()>>,
    number: usize,
    workers: usize,
    payload: Vec<u8>,
    /// Commits of all stages so far.
    committed: u64,
    /// Whether a stage ended early because the region was full.
    found_no_room: bool,
}

/// The log's counters for a run.
struct Logged {
    total: Total,
    counters: LogCounters,
    seal: GenerationEnd,
    /// Commits of each worker.
    committed: Vec<u64>,
}

impl LogArgs {
    fn check(&self) -> Result<(), BenchError> {
        if let Device::Raw(_) = self.device.device {
            return match self.log_file_mb {
                None => Ok(()),
                Some(_) => Err(BenchError::Usage(
                    "--log-file-mb: --device raw:PATH has no log files".to_owned(),
                )),
            };
        }
        let group_max = self.group.iter().max().map_or(0, |group| group.get());
        let frame_bytes = self.commit_bytes() as u64 * u64::from(group_max);
        let log_file_mb = self
            .streams
            .iter()
            .map(|&streams| self.log_file_mb(streams));
        let log_file_mb_min = log_file_mb.min().unwrap_or(LOG_FILE_MB_MAX);
        if frame_bytes + FRAME_ROOM_BYTES as u64 * 4 > log_file_mb_min << 20 {
            return Err(BenchError::Usage(format!(
                "--group {group_max}: such a group has {frame_bytes} bytes and does not fit into a \
                 log_file; lower it, or raise --log-file-mb (at most {LOG_FILE_MB_MAX})"
            )));
        }
        Ok(())
    }

    /// Adds the responsible flags to a failure on a device that is too small.
    fn advise(&self, error: BenchError) -> BenchError {
        match (&self.device.device, &error) {
            (
                Device::Raw(_),
                BenchError::Log(
                    LogError::InvalidConfig { .. }
                    | LogError::DeviceTooSmall { .. }
                    | LogError::RegionFull { .. },
                ),
            ) => BenchError::Usage(format!(
                "{}; {MORE_ROOM} --streams, --group, --warmup or --ops",
                error.with_causes()
            )),
            _ => error,
        }
    }

    /// Length of a log file for this number of streams, in MiB.
    fn log_file_mb(&self, streams: NonZeroU16) -> u64 {
        let prepared = u64::from(streams.get()).saturating_mul(u64::from(self.retain) + 1);
        self.log_file_mb
            .unwrap_or_else(|| (PREPARED_MB / prepared).clamp(LOG_FILE_MB_MIN, LOG_FILE_MB))
    }

    /// Size of a commit in the log, in bytes.
    fn commit_bytes(&self) -> usize {
        match self.record_bytes.0 {
            RecordFormat::Compact => RECORD_HEADER_BYTES + COMPACT_PAYLOAD_BYTES,
            RecordFormat::Fixed(bytes) => RECORDS_PER_COMMIT * usize::from(bytes.get()),
        }
    }

    fn config(&self, combination: Combination, ready: &ReadyDisk) -> LogConfig {
        let frame_bytes = self.commit_bytes() * combination.group.get() as usize;
        let last = NonZeroU32::MIN.saturating_add(self.retain - 1);
        let (placement, retain) = match &ready.shared {
            None => {
                let log_file_bytes = self.log_file_mb(combination.streams) << 20;
                (Placement::Files { log_file_bytes }, Retain::Last(last))
            }
            Some((path, region_bytes)) => {
                let (path, region_bytes) = (path.clone(), *region_bytes);
                (Placement::Shared { path, region_bytes }, Retain::All)
            }
        };
        LogConfig {
            layout: combination.layout.layout(),
            streams: combination.streams,
            group: Group::Count(combination.group),
            group_wait_max: Duration::MAX,
            sequencer: self.sequencer.kind(),
            buffer_bytes: BUFFER_BYTES_MIN.max(frame_bytes + FRAME_ROOM_BYTES),
            placement,
            retain,
            ..LogConfig::new(IDENTITY, Generation(1))
        }
    }

    fn run_one<'a>(
        &self,
        combination: Combination,
        place: &Place,
        machine: &'a Machine,
        round: u32,
    ) -> Result<LogRow<'a>, BenchError> {
        let threads = combination.streams.get();
        let dir = place.scratch()?;
        let streams = match combination.layout {
            LayoutName::Parallel => threads,
            LayoutName::Single => 1,
        };
        let ready = self.device.open(dir.path(), streams, true)?;
        let config = self.config(combination, &ready);
        let disk: Arc<dyn Disk> = ready.disk.clone();
        let logged = Log::create(Arc::clone(&disk), dir.path(), config.clone())
            .map_err(BenchError::from)
            .and_then(|log| {
                // With one file more than are retained, the log recycles from its first switch of
                // log files on, as it does in steady state.
                let prepared = (self.retain as usize).saturating_add(1);
                log.prepare_log_files(prepared.min(PREPARED_MAX / log.streams()))?;
                self.append(combination, &log, &ready)
            })
            .map_err(|error| self.advise(ready.disk.explain(error)))?;
        if self.device.device.keeps() {
            let mut info = config.generation_info(CutRule::Lsn);
            info.seal = Some(logged.seal);
            check::check_tail(&disk, dir.path(), IDENTITY, &info, &logged.committed)?;
        } else {
            eprintln!("nothing to read back from this device: only counts were checked");
        }
        interrupt::check()?;

        let LogCounters {
            flushes,
            frame_bytes,
            ..
        } = logged.counters;
        let unit = self.device.device.write_unit_bytes();
        let flush_bytes = (frame_bytes / flushes.max(1)).max(1).next_multiple_of(unit) as u32;
        let probe_dir = place.scratch()?;
        let ground = Ground::of(&ready, probe_dir.path());
        let probe = Probe {
            access: combination.layout.access(),
            bytes: flush_bytes,
            threads,
            file_bytes: Probe::FILE_BYTES,
            work_us: 0,
        };
        // Measures the device for as long as the log. That run may have ended when the device was
        // full.
        let timed = TimedArgs {
            seconds: Some(Duration::from_secs_f64(logged.total.seconds).min(self.timed.seconds())),
            ..self.timed.clone()
        };
        let limit = probe.run(&disk, ground, &timed)?;
        let limit = limit.total.per_second();
        let flushes_per_s = logged.total.rate(flushes);
        Ok(LogRow {
            layout: combination.layout.name(),
            streams: threads,
            group: combination.group.get(),
            record_bytes: self.record_bytes,
            commits_per_s: logged.total.per_second(),
            flushes_per_s,
            mb_per_s: logged.total.rate(frame_bytes).map(|rate| rate / 1e6),
            device_limit_flushes_per_s: limit,
            fraction_of_limit: flushes_per_s
                .zip(limit)
                .and_then(|(rate, limit)| quotient(rate, limit)),
            device: self.device.device.to_string(),
            sequencer: self.sequencer.name(),
            cas_misses: (self.sequencer == Sequencer::Cas).then_some(logged.counters.cas_misses),
            commits: logged.total.done,
            flush_bytes,
            seconds: logged.total.seconds,
            round,
            machine,
        })
    }

    /// Runs the workers, closes the log, and checks its counts.
    fn append(
        &self,
        combination: Combination,
        log: &Arc<Log<()>>,
        ready: &ReadyDisk,
    ) -> Result<Logged, BenchError> {
        let workers = usize::from(combination.streams.get());
        let run = staged(
            workers,
            &self.timed,
            &format!(
                "log {} in groups of {}",
                combination.layout.name(),
                combination.group
            ),
            |number| {
                Ok(Worker {
                    log: Arc::clone(log),
                    number,
                    workers,
                    payload: vec![0x5a; self.commit_bytes() - RECORD_HEADER_BYTES],
                    committed: 0,
                    found_no_room: false,
                })
            },
            |worker, length, stages| worker.stage(length, stages),
            || {
                ready.disk.started();
                Ok(log.counters())
            },
        )?;
        let seal = log.close()?;
        if run.workers.iter().any(|worker| worker.found_no_room) {
            let seconds = run.total.seconds;
            eprintln!("{} was full after {seconds:.2} s", self.device.device);
        }
        let committed: Vec<u64> = run.workers.iter().map(|worker| worker.committed).collect();
        let (appended, hardened) = (committed.iter().sum::<u64>(), log.counters().commits);
        if appended != hardened {
            return Err(BenchError::Check(format!(
                "{appended} commits were appended and {hardened} hardened"
            )));
        }
        Ok(Logged {
            total: run.total,
            counters: LogCounters {
                flushes: run.after.flushes - run.before.flushes,
                frame_bytes: run.after.frame_bytes - run.before.frame_bytes,
                cas_misses: run.after.cas_misses - run.before.cas_misses,
                ..run.after
            },
            seal,
            committed,
        })
    }
}

impl Worker {
    /// Appends commits and starts a flush whenever a group is full.
    fn stage(&mut self, length: Length, stages: &Stages) -> Result<StageResult, BenchError> {
        let end = match length {
            Length::Time(_) => u64::MAX,
            Length::Operations(total) => self.committed + share(total, self.number, self.workers),
        };
        // The number of workers comes from a u16.
        let stream = self.log.stream(WorkerId(self.number as u16));
        let first = self.committed;
        let began = Instant::now();
        while self.committed < end && !stages.must_stop() {
            let number = self.committed + 1;
            let mark = check::mark(self.number, number);
            let payload = &self.payload;
            let encode = |into: &mut [u8], _| {
                into.copy_from_slice(payload);
                into[..check::MARK_BYTES].copy_from_slice(&mark);
            };
            let appended = stream.append(
                Entry::Commit,
                Stamp(number),
                Epoch(1),
                payload.len(),
                encode,
                |_| {},
            );
            let appended = match appended {
                Err(LogError::RegionFull { .. })
                    if matches!(length, Length::Time(_))
                        && (self.committed > first || stages.must_stop()) =>
                {
                    self.found_no_room = true;
                    stages.end_early();
                    break;
                }
                appended => appended?,
            };
            self.committed = number;
            if appended.group_is_full {
                stream.begin_flush(appended.ticket)?;
            }
        }
        stream.flush()?;
        Ok(StageResult {
            began,
            ended: Instant::now(),
            done: self.committed - first,
            aborted: 0,
            latencies: Latencies::new(),
        })
    }
}
