//! `sustain`: updates until the log would be many times the size of the data, with the database's
//! resources over time.
//!
//! Checkpoints are taken when they are due. Every value contains its record's number and its count
//! of updates. The values at the end, and again after reopening, are compared with the committed
//! updates.

mod uniform_updates;

use std::num::{NonZeroU16, NonZeroU64};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::RangedU64ValueParser;
use namiki::{Database, Logging, ProtocolSpec, Stats};
use namiki_platform::machine::{Machine, resident_bytes};
use serde::Serialize;

use self::uniform_updates::{Progress, Updates};
use crate::args::{self, OutputArgs};
use crate::error::BenchError;
use crate::interrupt;
use crate::result_writer::{Cell, Report, Row};
use crate::run_folder::Place;

const MIB: NonZeroU64 = NonZeroU64::new(1 << 20).expect("not 0");
/// Interval between checks whether a line is due.
const LOOK: Duration = Duration::from_millis(100);

const NOTES: &str = "\
Threads update random records, chosen uniformly, until so much log was written. A line each minute says what the database
takes: files is what its directory has in all, write_amp the bytes written to the device for each byte of keys and values
that was changed (log frames, zeros in new log files, and checkpoints), space_amp those of files for each byte in the image.

At the end every record is compared with what was committed, and once more after the database was closed and opened.

Examples:
  namiki-bench sustain --dir /data --log-gb 50 --records 4000000 --value-bytes 1000
  namiki-bench sustain --dir /data --log-gb 2 --records 100000 --every-seconds 5 --threads 4";

/// Arguments of `sustain`.
#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub(crate) struct SustainArgs {
    /// Total amount of log to write
    #[arg(long, value_name = "GB", default_value = "50", value_parser = RangedU64ValueParser::<u64>::from(1..=1 << 20))]
    log_gb: u64,
    /// Records that the transactions choose from
    #[arg(long, value_name = "N", default_value = "4000000", value_parser = RangedU64ValueParser::<u64>::from(1..=1 << 31))]
    records: u64,
    /// Bytes of each value
    #[arg(long, value_name = "N", default_value = "1000", value_parser = RangedU64ValueParser::<u32>::from(16..=1 << 20))]
    value_bytes: u32,
    /// Updates in a transaction
    #[arg(long, value_name = "N", default_value = "10", value_parser = RangedU64ValueParser::<u64>::from(1..=1000))]
    updates: u64,
    /// Threads that commit; each waits for its commits
    #[arg(long, value_name = "N", default_value = "16", value_parser = args::threads())]
    threads: NonZeroU16,
    /// Log streams
    #[arg(long, value_name = "N", default_value = "2", value_parser = args::threads())]
    streams: NonZeroU16,
    /// Protocol
    #[arg(long, value_name = "SPEC", value_parser = args::spec, default_value_t = ProtocolSpec::DEFAULT)]
    spec: ProtocolSpec,
    /// Bytes of log after which a checkpoint is due, if more than half the data [default: the
    /// engine's, 1 GiB]
    #[arg(long, value_name = "MIB", value_parser = RangedU64ValueParser::<u64>::from(1..=1 << 30))]
    checkpoint_log_mib: Option<u64>,
    /// Rate limit of a checkpoint, in bytes of keys and values per second [default: as fast as the
    /// device]
    #[arg(long, value_name = "MIB")]
    checkpoint_mib_per_second: Option<NonZeroU64>,
    /// Interval between lines
    #[arg(long, value_name = "S", default_value = "60", value_parser = args::some_seconds)]
    every_seconds: Duration,
    /// Seed that makes the transactions repeatable
    #[arg(long, default_value = "42", value_name = "N")]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
    /// Folder on the disk to write to. The database is written into a subfolder, which is removed
    /// at the end [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// A line. The keys are a stable contract.
#[derive(Clone, Debug, Serialize)]
struct SustainRow<'a> {
    seconds: f64,
    committed: u64,
    /// Transactions per second since the previous line.
    tps: f64,
    log_gb: f64,
    checkpoints: u64,
    checkpoint_seconds: Option<f64>,
    file_bytes: u64,
    rss_bytes: u64,
    kept_for_views_bytes: u64,
    write_amplification: Option<f64>,
    space_amplification: Option<f64>,
    p99_us: f64,
    records: u64,
    value_bytes: u32,
    threads: u16,
    spec: String,
    machine: &'a Machine,
}

impl Row for SustainRow<'_> {
    fn cells(&self) -> Vec<(&'static str, Cell)> {
        vec![
            ("seconds", Cell::key(format!("{:.0}", self.seconds))),
            ("tps", Cell::measure(self.tps)),
            ("log GB", Cell::measure(self.log_gb)),
            ("checkpoints", Cell::count(self.checkpoints)),
            ("last took s", Cell::measure(self.checkpoint_seconds)),
            ("files MB", Cell::megabytes(self.file_bytes)),
            ("RSS MB", Cell::megabytes(self.rss_bytes)),
            ("kept MB", Cell::megabytes(self.kept_for_views_bytes)),
            ("write amp", Cell::measure(self.write_amplification)),
            ("space amp", Cell::measure(self.space_amplification)),
            ("p99 us", Cell::measure(self.p99_us)),
        ]
    }
}

/// Runs the command.
pub(crate) fn run(args: &SustainArgs) -> Result<(), BenchError> {
    if args.spec.logging == Logging::None {
        let why = format!("--spec {} logs nothing, so nothing is bounded", args.spec);
        return Err(BenchError::Usage(why));
    }
    let place = Place::new(args.dir.as_deref())?;
    let machine = Machine::describe(place.path());
    place.note_memory(&machine);
    let dir = place.scratch()?;
    let mut builder = Database::builder()
        .spec(args.spec)
        .streams(args.streams)
        .interrupt(interrupt::flag());
    if let Some(mib) = args.checkpoint_log_mib {
        builder = builder.checkpoint_log_bytes(mib << 20);
    }
    if let Some(mib) = args.checkpoint_mib_per_second {
        builder = builder.checkpoint_bytes_per_second(mib.saturating_mul(MIB));
    }
    let updates = Updates {
        records: args.records,
        value_bytes: args.value_bytes as usize,
        updates: args.updates,
        seed: args.seed,
    };
    let db = builder.clone().open(dir.path())?;
    let table = updates.load(&db)?;
    let mut report = Report::new(args.output.format);
    let log_bytes_max = args.log_gb.saturating_mul(1_000_000_000);
    let progress = Progress::new(args.records);
    let mut lines = Lines::new(args, &machine);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..args.threads.get())
            .map(|number| {
                let (updates, db, table, progress) = (&updates, &db, &table, &progress);
                scope.spawn(move || updates.run(db, table, number, progress))
            })
            .collect();
        let watched = loop {
            std::thread::sleep(LOOK);
            let log_bytes = db.counters().log.frame_bytes;
            let is_over = log_bytes >= log_bytes_max
                || interrupt::asked()
                || threads.iter().any(|thread| thread.is_finished());
            let line = lines.line_if_due(&db, is_over);
            let written = line.and_then(|line| line.map_or(Ok(()), |line| report.row(&line)));
            if is_over || written.is_err() {
                break written;
            }
        };
        progress.stop.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().map_err(|_| BenchError::Panicked)??;
        }
        watched
    })?;
    report.finish()?;
    interrupt::check()?;
    updates.check(&db, &table, &progress)?;
    eprint!("{}", db.stats());
    db.close()?;
    drop((db, table));
    let began = Instant::now();
    let db = builder.open(dir.path())?;
    let table = updates.table(&db)?;
    updates.check(&db, &table, &progress)?;
    eprintln!(
        "closed, opened and checked again in {:.1?}, {} bytes of log read",
        began.elapsed(),
        db.recovery().bytes
    );
    db.close()?;
    Ok(())
}

/// The time at which the next line is due, and the counters at the previous one.
struct Lines<'a> {
    args: &'a SustainArgs,
    machine: &'a Machine,
    began: Instant,
    last: Instant,
    committed: u64,
}

impl<'a> Lines<'a> {
    fn new(args: &'a SustainArgs, machine: &'a Machine) -> Self {
        Self {
            args,
            machine,
            began: Instant::now(),
            last: Instant::now(),
            committed: 0,
        }
    }

    fn line_if_due(
        &mut self,
        db: &Database,
        is_last: bool,
    ) -> Result<Option<SustainRow<'a>>, BenchError> {
        let since = self.last.elapsed();
        if since < self.args.every_seconds && !is_last {
            return Ok(None);
        }
        self.last = Instant::now();
        let stats: Stats = db.stats();
        let committed = stats.counters.committed;
        let before = std::mem::replace(&mut self.committed, committed);
        let checkpoints = &stats.checkpoints;
        Ok(Some(SustainRow {
            seconds: self.began.elapsed().as_secs_f64(),
            committed,
            tps: (committed - before) as f64 / since.as_secs_f64(),
            log_gb: stats.counters.log.frame_bytes as f64 / 1e9,
            checkpoints: checkpoints.taken,
            checkpoint_seconds: checkpoints.last.map(|last| last.took.as_secs_f64()),
            file_bytes: stats.disk_use.file_bytes,
            rss_bytes: resident_bytes().map_err(BenchError::system("ask for memory in use"))?,
            kept_for_views_bytes: stats.views.kept_bytes,
            write_amplification: stats.disk_use.write_amplification(),
            space_amplification: stats.disk_use.space_amplification(),
            p99_us: stats.commit_latency.p99.as_secs_f64() * 1e6,
            records: self.args.records,
            value_bytes: self.args.value_bytes,
            threads: self.args.threads.get(),
            spec: self.args.spec.to_string(),
            machine: self.machine,
        }))
    }
}
