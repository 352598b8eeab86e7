//! `recover`: measures the speed of log recovery.
//!
//! The recovered tables are compared, record by record, with the outcome that the writers of the
//! log expect.
//!
//! Paper: pwal §4.3, tictoc-pwal §3.4

mod build_log;

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use namiki::{Builder, Database, Logging, ProtocolSpec, RecoveryReport, ReplayOrder, TreeKind};
use namiki_platform::clock::Stopwatch;
use namiki_platform::disk::{DirectDisk, Disk, SyncedDisk, open_best};
use namiki_platform::machine::{Machine, resident_bytes};
use serde::Serialize;

use self::build_log::{Build, Built, LogLength, TABLE, keep_log};
use crate::args::{self, OutputArgs, RecordBytes, Switch};
use crate::error::BenchError;
use crate::interrupt;
use crate::repetitions::in_turns;
use crate::result_writer::{Cell, Report, Row};
use crate::run_folder::{Place, Scratch};
use crate::run_stages::quotient;
use crate::worker_threads::on_processors;

/// Records in one transaction of the comparison.
const BATCH_RECORDS: u64 = 10_000;

const NOTES: &str = "\
A log of U-1 transactions is written under each protocol, its pages are dropped from memory, and it
is recovered as after a crash, with each number of threads in each order:
  highest-stamp  streams in parallel, of each key the version with the highest stamp wins
  merge          the papers' order, by stamp or by log sequence number, on one thread
A log of operations (+ARIES) has one order, whatever is asked for, and is recovered once:
  aries          history repeated by log sequence number on one thread, losers undone

Rows in one run recover the same log. records_per_s counts commits, of one change each.

A recovery is as long as its log, so there is no --seconds, and --ops is the number of transactions in
the log. There is no --warmup: each recovery begins with nothing of the log in memory.

With --pin on, the threads that recover, and those that read ahead for them, have as many processors to
themselves as threads were asked for, if there are so many.

Examples:
  namiki-bench recover --spec 'TT(NLR)+PWAL(16)' --log-mb 1024 --record-bytes 512 --threads 1,2
  namiki-bench recover --spec 'TT(ELR)+PWAL(16)' --order highest-stamp,merge --repeat 3
  namiki-bench recover --ops 1000000 --threads 2 --pin off";

/// Arguments of `recover`.
#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub(crate) struct RecoverArgs {
    /// Protocol under which the log is written; may be repeated
    #[arg(long, value_name = "SPEC", value_parser = args::spec, default_value = "TT(NLR)+PWAL(16)")]
    spec: Vec<ProtocolSpec>,
    /// Length of the log
    #[arg(long, value_name = "MB", default_value = "256", value_parser = RangedU64ValueParser::<u64>::from(1..=1 << 20))]
    log_mb: u64,
    /// Write a log of this many transactions in all instead of one of a length
    #[arg(long, value_name = "N", conflicts_with = "log_mb", value_parser = RangedU64ValueParser::<u64>::from(1..=u64::MAX))]
    ops: Option<u64>,
    /// Log records: compact, or BEGIN, UPDATE and END of this many bytes each
    #[arg(long, value_name = "compact|BYTES", default_value = "compact")]
    record_bytes: RecordBytes,
    /// Numbers of threads that recover
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1", value_parser = args::threads())]
    threads: Vec<NonZeroU16>,
    /// Replay order of commits; several with commas
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "highest-stamp"
    )]
    order: Vec<Order>,
    /// Records that the transactions choose from
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = RangedU64ValueParser::<u64>::from(1..=1 << 31))]
    records: u64,
    /// Log streams, each with a thread that writes it
    #[arg(long, value_name = "N", default_value = "2", value_parser = args::threads())]
    streams: NonZeroU16,
    /// Index of the table
    #[arg(long, value_name = "TREE", default_value_t = TreeKind::default())]
    index: TreeKind,
    /// Read path of the log
    #[arg(long, value_enum, default_value = "file")]
    device: ReadFrom,
    /// Recoveries of each combination, interleaved; each is one row
    #[arg(long, default_value = "1", value_name = "N", value_parser = RangedU64ValueParser::<u32>::from(1..=u32::MAX as u64))]
    repeat: u32,
    /// Seed that makes the transactions repeatable
    #[arg(long, default_value = "42", value_name = "N")]
    seed: u64,
    /// Pin each recovering thread to a processor of its own if there are enough
    #[arg(long, value_enum, default_value = "on")]
    pin: Switch,
    #[command(flatten)]
    output: OutputArgs,
    /// Folder on the disk to recover from. The logs are written into subfolders, which are removed
    /// at the end; nothing else there is touched [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Replay orders, by their names on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Order {
    /// The newest version of each key, by stamp.
    HighestStamp,
    /// The papers' merge order.
    Merge,
}

/// Disks to recover from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReadFrom {
    /// The fastest durable disk that works in the folder.
    File,
    /// Without the page cache.
    Direct,
    /// Through the page cache, which is empty at first.
    Fdatasync,
}

/// One combination of the requested parameters.
struct Combination<'a> {
    log: &'a (ProtocolSpec, Scratch, Built),
    replay: Replay,
    threads: NonZeroU16,
}

/// The units of replay, by their names in the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replay {
    /// Commits, in this order.
    Commits(Order),
    /// Operations, which have only one order.
    Aries,
}

impl Replay {
    /// The distinct replays among the requested ones.
    fn of(spec: ProtocolSpec, orders: &[Order]) -> Vec<Self> {
        let mut all = Vec::new();
        for &order in orders {
            let replay = if spec.logs_operations() {
                Self::Aries
            } else {
                Self::Commits(order)
            };
            if !all.contains(&replay) {
                all.push(replay);
            }
        }
        all
    }

    fn name(self) -> &'static str {
        match self {
            Self::Commits(order) => order.name(),
            Self::Aries => "aries",
        }
    }

    fn apply(self, builder: Builder) -> Builder {
        match self {
            Self::Commits(order) => builder.replay_order(order.order()),
            Self::Aries => builder,
        }
    }
}

/// A result. The keys are a stable contract.
#[derive(Clone, Debug, Serialize)]
struct RecoverRow<'a> {
    spec: String,
    transactions: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    records_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mb_per_s: Option<f64>,
    seconds: f64,
    order: &'static str,
    threads: u16,
    equal_to_oracle: bool,
    record_bytes: RecordBytes,
    log_bytes: u64,
    streams: u16,
    records: u64,
    open_seconds: f64,
    rss_bytes: u64,
    round: u32,
    machine: &'a Machine,
}

impl Row for RecoverRow<'_> {
    fn cells(&self) -> Vec<(&'static str, Cell)> {
        vec![
            ("spec", Cell::key(&self.spec)),
            ("record bytes", Cell::key(self.record_bytes)),
            ("order", Cell::key(self.order)),
            ("threads", Cell::key(self.threads)),
            ("records/s", Cell::measure(self.records_per_s)),
            ("MB/s", Cell::measure(self.mb_per_s)),
            ("seconds", Cell::measure(self.seconds)),
            ("transactions", Cell::count(self.transactions)),
            (
                "equal",
                Cell::key(if self.equal_to_oracle { "yes" } else { "NO" }),
            ),
        ]
    }
}

impl Order {
    fn order(self) -> ReplayOrder {
        match self {
            Self::HighestStamp => ReplayOrder::HighestStamp,
            Self::Merge => ReplayOrder::Merge,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::HighestStamp => "highest-stamp",
            Self::Merge => "merge",
        }
    }
}

impl ReadFrom {
    fn disk(self, dir: &Path) -> Result<Arc<dyn Disk>, BenchError> {
        match self {
            Self::File => Ok(open_best(dir).map_err(BenchError::file("write to", dir))?.0),
            Self::Direct => Ok(Arc::new(DirectDisk::new())),
            Self::Fdatasync => Ok(Arc::new(SyncedDisk::new())),
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &RecoverArgs) -> Result<(), BenchError> {
    if let Some(spec) = args.spec.iter().find(|spec| spec.logging == Logging::None) {
        let why = format!("--spec {spec} logs nothing that could be recovered");
        return Err(BenchError::Usage(why));
    }
    let place = Place::new(args.dir.as_deref())?;
    let machine = Machine::describe(place.path());
    let mut logs = Vec::new();
    for &spec in &args.spec {
        let dir = place.scratch()?;
        let built = args.build(spec).run(dir.path())?;
        logs.push((spec, dir, built));
    }
    let mut combinations = Vec::new();
    for log in &logs {
        for replay in Replay::of(log.0, &args.order) {
            combinations.extend(args.threads.iter().map(|&threads| Combination {
                log,
                replay,
                threads,
            }));
        }
    }
    let mut report = Report::new(args.output.format);
    let outcome = in_turns(args.repeat, &combinations, |combination, round| {
        let row = args.run_one(combination, &machine, round)?;
        report.row(&row)?;
        if row.equal_to_oracle {
            return Ok(());
        }
        Err(BenchError::Check(format!(
            "the recovered table of {} is not what its transactions left",
            row.spec
        )))
    });
    report.finish()?;
    outcome
}

impl RecoverArgs {
    fn build(&self, spec: ProtocolSpec) -> Build {
        Build {
            spec,
            record_bytes: self.record_bytes,
            length: match self.ops {
                Some(transactions) => LogLength::Transactions(transactions),
                None => LogLength::Bytes(self.log_mb << 20),
            },
            records: self.records,
            streams: self.streams,
            seed: self.seed,
        }
    }

    fn run_one<'a>(
        &self,
        combination: &Combination<'_>,
        machine: &'a Machine,
        round: u32,
    ) -> Result<RecoverRow<'a>, BenchError> {
        let (spec, dir, built) = combination.log;
        let dir = dir.path();
        built.crash(dir)?;
        let builder = Database::builder()
            .spec(*spec)
            .index(self.index)
            .streams(self.streams)
            .disk(self.device.disk(dir)?)
            .recovery_threads(combination.threads)
            .interrupt(interrupt::flag())
            .create(false);
        let builder = keep_log(combination.replay.apply(builder));
        let threads = usize::from(combination.threads.get());
        let (db, open_seconds) = on_processors(threads, self.pin, || {
            let watch = Stopwatch::start();
            let db = builder.open(dir)?;
            Ok((db, watch.elapsed_s()))
        })?;
        let rss_bytes = resident_bytes().map_err(BenchError::system("ask for memory in use"))?;
        let equal_to_oracle = built.equals(&db)?;
        let RecoveryReport {
            replayed,
            bytes,
            seconds,
            ..
        } = *db.recovery();
        db.close()?;
        Ok(RecoverRow {
            spec: spec.to_string(),
            transactions: replayed,
            records_per_s: quotient(replayed as f64, seconds),
            mb_per_s: quotient(bytes as f64 / 1e6, seconds),
            seconds,
            order: combination.replay.name(),
            threads: combination.threads.get(),
            equal_to_oracle,
            record_bytes: self.record_bytes,
            log_bytes: bytes,
            streams: self.streams.get(),
            records: self.records,
            open_seconds,
            rss_bytes,
            round,
            machine,
        })
    }
}

impl Built {
    /// Whether all commits were replayed, and the table has exactly the records' last values.
    fn equals(&self, db: &Database) -> Result<bool, BenchError> {
        if db.recovery().replayed != self.committed {
            return Ok(false);
        }
        let table = db.table::<u64, u64>(TABLE)?;
        let records = self.oracle.len() as u64;
        let mut equal = true;
        let mut start = 0;
        while start < records {
            let end = records.min(start + BATCH_RECORDS);
            let found = db.transact(|tx| tx.scan(&table, start..end))?;
            let expected = (start..end)
                .map(|key| (key, self.oracle[key as usize]))
                .filter(|(_, (stamp, _))| *stamp > 0)
                .map(|(key, (_, value))| (key, value));
            equal &= expected.eq(found);
            start = end;
        }
        Ok(equal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of one algorithm under two names would suggest a comparison.
    #[test]
    fn operations_are_recovered_in_one_order_under_its_own_name() {
        let both = [Order::HighestStamp, Order::Merge];
        let names = |spec: &str| -> Vec<&str> {
            let replays = Replay::of(spec.parse().unwrap(), &both);
            replays.into_iter().map(Replay::name).collect()
        };
        assert_eq!(names("TT(ELR)+PWAL(16)"), ["highest-stamp", "merge"]);
        assert_eq!(names("S2PL(ELR)+PWAL(16)"), ["highest-stamp", "merge"]);
        assert_eq!(names("S2PL(ELR)+PWAL(16)+ARIES"), ["aries"]);
    }

    #[test]
    fn a_table_that_is_not_the_oracles_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let build = Build {
            spec: ProtocolSpec::DEFAULT,
            record_bytes: "compact".parse().unwrap(),
            length: LogLength::Bytes(1),
            records: 50,
            streams: NonZeroU16::MIN,
            seed: 1,
        };
        let mut built = build.run(dir.path()).unwrap();
        built.crash(dir.path()).unwrap();
        let db = Database::builder().create(false).open(dir.path()).unwrap();
        assert!(built.equals(&db).unwrap());
        built.committed += 1;
        assert!(!built.equals(&db).unwrap(), "a commit is missing");
        built.committed -= 1;
        let written = built
            .oracle
            .iter()
            .position(|(stamp, _)| *stamp > 0)
            .unwrap();
        built.oracle[written].1 ^= 1;
        assert!(!built.equals(&db).unwrap(), "a record has another value");
        built.oracle[written] = (0, 0);
        assert!(!built.equals(&db).unwrap(), "a record should not be there");
    }
}
