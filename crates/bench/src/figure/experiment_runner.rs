//! The runs of figures that share an experiment: determines the points, and runs them interleaved,
//! each by the command that measures its kind.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use namiki_platform::machine::Machine;

use super::cluster_points::{self, ClusterPoint, cluster_points};
use super::definition::{Across, Experiment, Figure, Runs, Sweep, Threads, Transactions, Work};
use super::index_points::{self, IndexPoint, index_points};
use super::query_points::{Asked, QueryPoint, query_points};
use super::run_row::RunRow;
use super::write_points::{self, Writes, write_points};
use crate::args::{self, OutputArgs, RecordBytes, Sequencer, Switch, TimedArgs};
use crate::device_choice::{Device, DeviceChoice, SharedArgs};
use crate::error::BenchError;
use crate::index::{KEY_BYTES_MAX, KEYS_MAX};
use crate::key_encoding::CORE_BYTES;
use crate::query::{FigureQueries, FigureSetup};
use crate::run_folder::Place;
use crate::txn::{self, Setup, TxnRow};

/// Runs of each point.
const REPEAT: u32 = 3;
/// Warm-up of a run with a given duration, or half of that. A run with a number of transactions has
/// none.
const WARMUP: Duration = Duration::from_millis(500);
/// Quick runs only show that everything works.
const QUICK_THREADS: &[u16] = &[1, 2];
const QUICK_TRANSACTIONS: u64 = 1000;
const QUICK_RECORDS: u64 = 10_000;
const QUICK_CUSTOMERS: u64 = 100;
/// TPC-H's scale for generated tables, 150,000 customers, and for quick runs.
const SCALE: f64 = 1.0;
const QUICK_SCALE: f64 = 0.01;
/// Customers that a query selects, each with about a dozen reads. Ordered execution takes seconds
/// on a disk, and minutes on emulated drives.
const CUSTOMERS: u64 = 6_000;
const EMULATED_CUSTOMERS: u64 = 3_000;
/// Bytes of an index's keys.
///
/// Paper: bwtree §5.2, table 1
const KEY_BYTES: usize = 8;
/// Size of the page cache.
const CACHE_BYTES: usize = 256 << 20;

/// Parameters that may differ from the paper's experiment.
#[derive(Args, Clone, Debug)]
pub(crate) struct RunArgs {
    /// Few transactions, records and threads, and one run of each: checks that it works
    #[arg(long)]
    pub(crate) quick: bool,
    /// Numbers of threads [default: 1, 2, 4 and so on to twice the cores, or the paper's where
    /// threads wait for a disk]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = args::threads())]
    pub(crate) threads: Vec<NonZeroU16>,
    /// Numbers of tasks in each thread of a query [default: the paper's]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = args::threads())]
    pub(crate) tasks: Vec<NonZeroU16>,
    /// Numbers of workers of a cluster's nodes [default: 1, 2, 4, 8]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = RangedU64ValueParser::<u16>::from(1..=64))]
    pub(crate) workers: Vec<u16>,
    /// Bytes of a write, for the figure of writes alone [default: 512, 4096, 32768, 262144]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = RangedU64ValueParser::<u32>::from(1..=1 << 30))]
    pub(crate) bytes: Vec<u32>,
    /// Directory of a query's tables, created by `namiki load tpch` [default: small ones are made]
    #[arg(long, value_name = "DIR")]
    pub(crate) tpch: Option<PathBuf>,
    /// Length of a run of transactions in seconds [default: as many transactions as in the paper;
    /// on a cluster 3 or 10]
    #[arg(long, value_name = "S", value_parser = args::some_seconds)]
    pub(crate) seconds: Option<Duration>,
    /// Runs of each point, interleaved (A B C A B C …) [default: 3]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u32>::from(1..=u32::MAX as u64))]
    pub(crate) repeat: Option<u32>,
    /// Records in the table, or keys of an index [default: as many as txn has, or the experiment's]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u64>::from(1..=1 << 30))]
    pub(crate) records: Option<u64>,
    /// Bytes of an index's keys. The sentences of bwtree are about keys of 8 bytes and are judged
    /// only with these
    #[arg(long, value_name = "N", default_value_t = KEY_BYTES, value_parser = RangedU64ValueParser::<usize>::from(CORE_BYTES as u64..=KEY_BYTES_MAX))]
    pub(crate) key_bytes: usize,
    /// Seed that makes the transactions repeatable
    #[arg(long, default_value = "42", value_name = "N")]
    pub(crate) seed: u64,
    /// Device of logs, as for txn, or of queries' reads, as for query [default: the experiment's,
    /// nvm:50ns:64 or file]
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<Device>,
    #[command(flatten)]
    pub(crate) shared: SharedArgs,
    /// Folder on the disk to measure. Each run uses its own subfolder, which is removed afterwards;
    /// nothing else there is touched [default: the system's temporary folder; for nvm /dev/shm]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl RunArgs {
    /// Runs of each point.
    pub(crate) fn repeat(&self) -> u32 {
        self.repeat.unwrap_or(if self.quick { 1 } else { REPEAT })
    }

    /// The flags that differ from their defaults, in command-line syntax.
    pub(crate) fn flags(&self) -> String {
        let mut flags = String::new();
        let mut add = |flag: &str, value: Option<String>| {
            if let Some(value) = value {
                flags.push_str(&format!(" --{flag} {value}"));
            }
        };
        let threads: Vec<String> = self.threads.iter().map(ToString::to_string).collect();
        add("threads", (!threads.is_empty()).then(|| threads.join(",")));
        let tasks: Vec<String> = self.tasks.iter().map(ToString::to_string).collect();
        add("tasks", (!tasks.is_empty()).then(|| tasks.join(",")));
        let workers: Vec<String> = self.workers.iter().map(ToString::to_string).collect();
        add("workers", (!workers.is_empty()).then(|| workers.join(",")));
        let bytes: Vec<String> = self.bytes.iter().map(ToString::to_string).collect();
        add("bytes", (!bytes.is_empty()).then(|| bytes.join(",")));
        let tpch = self.tpch.as_ref().map(|dir| dir.display().to_string());
        add("tpch", tpch);
        let seconds = self.seconds.map(|length| length.as_secs_f64().to_string());
        add("seconds", seconds);
        add("repeat", self.repeat.map(|repeat| repeat.to_string()));
        add("records", self.records.map(|records| records.to_string()));
        let other_bytes = self.key_bytes != KEY_BYTES;
        add("key-bytes", other_bytes.then(|| self.key_bytes.to_string()));
        add("seed", Some(self.seed.to_string()));
        add("device", self.device.as_ref().map(ToString::to_string));
        if matches!(self.device, Some(Device::Raw(_))) {
            add("raw-mb", Some(self.shared.raw_mb.to_string()));
        }
        let dir = self.dir.as_ref().map(|dir| dir.display().to_string());
        add("dir", dir);
        for (flag, given) in [
            ("--overwrite-device", self.shared.overwrite_device),
            ("--quick", self.quick),
        ] {
            if given {
                flags.push(' ');
                flags.push_str(flag);
            }
        }
        flags
    }

    /// The length of a run, in words.
    pub(crate) fn length_text(&self, experiment: &Experiment, prepared: &Prepared) -> String {
        if let Some(queries) = &prepared.0 {
            return queries.borrow().describe();
        }
        let transactions = match experiment.runs {
            Runs::Transactions { transactions, .. } => transactions.text(),
            Runs::Queries(_) => String::new(),
            Runs::Cluster { seconds, .. } => {
                let length = cluster_points::length(self.seconds, seconds, self.quick);
                return format!("five nodes, {} s a run", length.as_secs_f64());
            }
            Runs::Writes { seconds, .. } => {
                let timed = self.write_timing(seconds);
                return write_points::length_text(&timed, self.quick);
            }
            Runs::Index {
                operations,
                keys,
                skew,
                ..
            } => {
                let operations = self.operations(operations);
                let length = index_points::length_text(self.seconds, operations);
                let keys = index_points::keys_text(self.keys(keys), self.key_bytes, skew);
                return format!("{length}, {keys}");
            }
        };
        let length = match self.seconds {
            Some(length) => format!("{} s a run", length.as_secs_f64()),
            None if self.quick => format!("{QUICK_TRANSACTIONS} transactions"),
            None => transactions,
        };
        match self.records() {
            Some(records) => format!("{length}, {records} records"),
            None => length,
        }
    }

    /// Records in the table; `None` means `txn`'s default.
    fn records(&self) -> Option<u64> {
        self.records.or(self.quick.then_some(QUICK_RECORDS))
    }

    /// Keys of an index.
    fn keys(&self, default: u64) -> u64 {
        let most = if self.quick { QUICK_RECORDS } else { u64::MAX };
        self.records.unwrap_or(default.min(most))
    }

    /// The number of operations of a run without a given length.
    fn operations(&self, default: u64) -> u64 {
        if self.quick {
            QUICK_TRANSACTIONS
        } else {
            default
        }
    }

    /// The reason why these runs decide none of the paper's sentences, if there is one.
    pub(crate) fn unlike_paper(&self, experiment: &Experiment) -> Option<String> {
        let is_unlike =
            matches!(experiment.runs, Runs::Index { .. }) && self.key_bytes != KEY_BYTES;
        is_unlike.then(|| format!("needs --key-bytes {KEY_BYTES}"))
    }

    /// The measured device.
    pub(crate) fn device(&self, experiment: &Experiment) -> Result<Device, BenchError> {
        match &self.device {
            Some(device) if experiment.takes(device) => Ok(device.clone()),
            _ => experiment.device.parse().map_err(BenchError::Usage),
        }
    }

    /// Numbers of threads, ascending.
    fn threads(&self, default: Threads, figures: &[&Figure], cores: usize) -> Vec<u16> {
        if !self.threads.is_empty() {
            let asked: BTreeSet<u16> = self.threads.iter().map(|threads| threads.get()).collect();
            return asked.into_iter().collect();
        }
        if self.quick {
            return QUICK_THREADS.to_vec();
        }
        match default {
            Threads::Waiting(all) => {
                let alone = figures.iter().map(|figure| match figure.across {
                    Across::Kinds { threads, .. } => Some(threads),
                    _ => None,
                });
                match alone.collect::<Option<BTreeSet<u16>>>() {
                    Some(these) => these.into_iter().collect(),
                    None => all.to_vec(),
                }
            }
            Threads::Cores { also } => {
                let cores = u16::try_from(cores).unwrap_or(u16::MAX).clamp(1, 512);
                let doubling = std::iter::successors(Some(1_u16), |threads| Some(threads * 2));
                let named = also.iter().copied().filter(|threads| *threads <= cores);
                let mut threads: BTreeSet<u16> =
                    doubling.take_while(|threads| *threads < cores).collect();
                threads.extend(named);
                threads.extend([cores, cores * 2]);
                threads.into_iter().collect()
            }
        }
    }

    /// Prepares the state that the points of an experiment share.
    pub(crate) fn prepare(
        &self,
        experiment: &Experiment,
        place: &Place,
    ) -> Result<Prepared, BenchError> {
        let Runs::Queries(_) = experiment.runs else {
            return Ok(Prepared(None));
        };
        let device = self.device(experiment)?;
        let customers = match device {
            _ if self.quick => QUICK_CUSTOMERS,
            Device::Slow(_) => EMULATED_CUSTOMERS,
            _ => CUSTOMERS,
        };
        let setup = FigureSetup {
            tpch: self.tpch.as_deref(),
            scale: if self.quick { QUICK_SCALE } else { SCALE },
            customers,
            device,
            cache_bytes: CACHE_BYTES,
            timed: self.timed(None),
        };
        let queries = FigureQueries::prepare(setup, place)?;
        Ok(Prepared(Some(Rc::new(RefCell::new(queries)))))
    }

    /// The points of an experiment: every line at each number of threads, or of tasks.
    pub(crate) fn points(
        &self,
        experiment: &Experiment,
        figures: &[&Figure],
        cores: usize,
        prepared: &Prepared,
    ) -> Result<Vec<Point>, BenchError> {
        match experiment.runs {
            Runs::Transactions {
                threads,
                transactions,
                record_bytes,
                sequencer,
            } => {
                let of_runs = TransactionRuns {
                    transactions,
                    record_bytes,
                    sequencer,
                };
                let threads = self.threads(threads, figures, cores);
                self.transaction_points(experiment, figures, &threads, of_runs)
            }
            Runs::Queries(sweep) => self.query_points(experiment, sweep, figures, cores, prepared),
            Runs::Cluster {
                workers,
                seconds,
                each_second,
            } => {
                let asked = cluster_points::Asked {
                    workers: &self.workers,
                    default_workers: workers,
                    length: cluster_points::length(self.seconds, seconds, self.quick),
                    each_second,
                    quick: self.quick,
                    seed: self.seed,
                };
                let points = cluster_points(figures, asked).into_iter();
                let points = points.map(|it| Point::new(it.line, it.run.workers, Job::Cluster(it)));
                Ok(points.collect())
            }
            Runs::Writes { bytes, seconds } => {
                let asked = write_points::Asked {
                    bytes: if self.bytes.is_empty() {
                        bytes
                    } else {
                        &self.bytes
                    },
                    device: DeviceChoice {
                        device: self.device(experiment)?,
                        shared: self.shared,
                    },
                    timed: self.write_timing(seconds),
                    quick: self.quick,
                };
                let points = write_points(figures, &asked).into_iter();
                let points = points.map(|(line, it)| Point::new(line, it.threads, Job::Writes(it)));
                Ok(points.collect())
            }
            Runs::Index {
                mix,
                keys,
                skew,
                threads,
                operations,
                each_percentile,
            } => {
                let keys = self.keys(keys);
                if keys > KEYS_MAX {
                    let why = format!("--records {keys}: an index has at most {KEYS_MAX} keys");
                    return Err(BenchError::Usage(why));
                }
                let timed = self.timed(Some(self.operations(operations)));
                let asked = index_points::Asked {
                    threads: &self.threads(threads, figures, cores),
                    mix: mix.parse().map_err(BenchError::Usage)?,
                    keys,
                    key_bytes: self.key_bytes,
                    skew,
                    warmup: timed.warmup_length(),
                    timed: timed.length(),
                    each_percentile,
                    seed: self.seed,
                };
                let points = index_points(figures, asked).into_iter();
                let points = points.map(|it| Point::new(it.line, it.run.threads, Job::Index(it)));
                Ok(points.collect())
            }
        }
    }

    /// The points of a query, which need no tables yet.
    fn queries(
        &self,
        experiment: &Experiment,
        sweep: Sweep,
        figures: &[&Figure],
        cores: usize,
    ) -> Result<Vec<QueryPoint>, BenchError> {
        let numbers = |given: &[NonZeroU16]| given.iter().map(|it| it.get()).collect::<Vec<u16>>();
        let (threads, tasks) = (numbers(&self.threads), numbers(&self.tasks));
        let asked = Asked {
            threads: &threads,
            tasks: &tasks,
            quick: self.quick,
            is_emulated: matches!(self.device(experiment)?, Device::Slow(_)),
            cores,
        };
        Ok(query_points(sweep, figures, asked))
    }

    fn query_points(
        &self,
        experiment: &Experiment,
        sweep: Sweep,
        figures: &[&Figure],
        cores: usize,
        prepared: &Prepared,
    ) -> Result<Vec<Point>, BenchError> {
        let Some(queries) = &prepared.0 else {
            return Ok(Vec::new());
        };
        let is_emulated = matches!(self.device(experiment)?, Device::Slow(_));
        let points = self.queries(experiment, sweep, figures, cores)?.into_iter();
        let points = points.map(|it| Point {
            is_rare: it.is_ordered && is_emulated,
            ..Point::new(it.line, it.threads, Job::Query(it, Rc::clone(queries)))
        });
        Ok(points.collect())
    }

    /// The number of runs of an experiment, each of whose points has `repeat`.
    pub(crate) fn run_count(
        &self,
        experiment: &Experiment,
        figures: &[&Figure],
        cores: usize,
        repeat: u32,
    ) -> Result<usize, BenchError> {
        let points = match experiment.runs {
            Runs::Queries(sweep) => self.queries(experiment, sweep, figures, cores)?.len(),
            Runs::Transactions { .. }
            | Runs::Cluster { .. }
            | Runs::Writes { .. }
            | Runs::Index { .. } => {
                let points = self.points(experiment, figures, cores, &Prepared(None))?;
                points.len()
            }
        };
        Ok(points * repeat as usize)
    }

    fn transaction_points(
        &self,
        experiment: &Experiment,
        figures: &[&Figure],
        threads: &[u16],
        of_runs: TransactionRuns,
    ) -> Result<Vec<Point>, BenchError> {
        let mut points: Vec<Point> = Vec::new();
        for &threads in threads {
            for line in figures.iter().flat_map(|figure| figure.lines) {
                let mut before = points.iter().rev();
                if before.any(|point| (point.line, point.threads) == (line.name, threads)) {
                    continue;
                }
                let Some(job) = self.job(experiment, of_runs, line.work, threads)? else {
                    continue;
                };
                points.push(Point::new(line.name, threads, job));
            }
        }
        Ok(points)
    }

    fn timed(&self, operations: Option<u64>) -> TimedArgs {
        TimedArgs {
            seconds: self.seconds,
            ops: operations.filter(|_| self.seconds.is_none()),
            repeat: self.repeat(),
            warmup: match self.seconds {
                _ if self.quick => Duration::ZERO,
                Some(length) => WARMUP.min(length / 2),
                None => WARMUP,
            },
            seed: self.seed,
            pin: Switch::On,
            output: self.output,
        }
    }

    /// The length of a run of writes alone.
    fn write_timing(&self, default_seconds: u16) -> TimedArgs {
        let default = Duration::from_secs(default_seconds.into());
        let seconds = self.seconds.or((!self.quick).then_some(default));
        TimedArgs {
            seconds,
            ops: seconds.is_none().then_some(write_points::QUICK_WRITES),
            ..self.timed(None)
        }
    }

    /// `None` if the line does not run transactions.
    fn job(
        &self,
        experiment: &Experiment,
        of_runs: TransactionRuns,
        work: Work,
        threads: u16,
    ) -> Result<Option<Job>, BenchError> {
        let device = DeviceChoice {
            device: self.device(experiment)?,
            shared: self.shared,
        };
        let transactions = if self.quick {
            QUICK_TRANSACTIONS
        } else {
            of_runs.transactions.in_all(threads)
        };
        match work {
            Work::Transactions { workload, spec } => {
                let point = txn::Point::new(Setup {
                    workload,
                    spec: args::spec(spec).map_err(BenchError::Usage)?,
                    threads: NonZeroU16::new(threads).unwrap_or(NonZeroU16::MIN),
                    records: self.records(),
                    record_format: of_runs.record_bytes,
                    sequencer: of_runs.sequencer,
                    device,
                    timed: self.timed(Some(transactions)),
                })?;
                Ok(Some(Job::Transactions(Box::new(point))))
            }
            Work::LogWrites {
                bytes,
                transactions: per_write,
            } => {
                let timed = self.timed(Some(transactions.div_ceil(per_write)));
                let log = Writes::of_log(bytes, per_write, threads, device, timed);
                Ok(Some(Job::Writes(log)))
            }
            Work::OrderedQuery
            | Work::Query(_)
            | Work::Cluster(_)
            | Work::Writes(_)
            | Work::Index(_) => Ok(None),
        }
    }
}

impl Experiment {
    /// Whether the experiment can run on a device.
    pub(crate) fn takes(&self, device: &Device) -> bool {
        match self.runs {
            Runs::Queries(_) => matches!(device, Device::File | Device::Slow(_)),
            Runs::Cluster { .. } => matches!(device, Device::File),
            Runs::Index { .. } => matches!(device, Device::Null),
            // Emulated drives delay reads only.
            Runs::Transactions { .. } | Runs::Writes { .. } => !matches!(device, Device::Slow(_)),
        }
    }

    /// The device for readers. An index alone writes to none.
    pub(crate) fn device_text(&self, device: &Device) -> String {
        match self.runs {
            Runs::Index { .. } => "in memory".to_owned(),
            Runs::Transactions { .. }
            | Runs::Queries(_)
            | Runs::Writes { .. }
            | Runs::Cluster { .. } => device.to_string(),
        }
    }
}

/// The run parameters of an experiment with transactions.
#[derive(Clone, Copy)]
struct TransactionRuns {
    transactions: Transactions,
    record_bytes: RecordBytes,
    sequencer: Sequencer,
}

/// State that the points of an experiment share: the tables and the session of queries.
pub(crate) struct Prepared(Option<Rc<RefCell<FigureQueries>>>);

/// A line at a number of threads, and of tasks.
pub(crate) struct Point {
    pub(crate) line: &'static str,
    pub(crate) threads: u16,
    /// Whether a run is so slow that only the first round has one.
    pub(crate) is_rare: bool,
    job: Job,
}

impl Point {
    fn new(line: &'static str, threads: u16, job: Job) -> Self {
        Self {
            line,
            threads,
            is_rare: false,
            job,
        }
    }
}

enum Job {
    Transactions(Box<txn::Point>),
    Writes(Writes),
    Query(QueryPoint, Rc<RefCell<FigureQueries>>),
    Cluster(ClusterPoint),
    Index(IndexPoint),
}

impl Point {
    /// The line and its numbers, for readers.
    pub(crate) fn describe(&self) -> String {
        let (line, number) = (self.line, self.threads);
        match &self.job {
            Job::Query(QueryPoint { tasks, .. }, _) => match tasks {
                Some(tasks) => format!("{line}, {number} threads with {tasks} tasks"),
                None => format!("{line}, {number} threads"),
            },
            Job::Cluster(_) => format!("{line}, {number} workers"),
            Job::Writes(writes) => writes.describe(line),
            Job::Transactions(_) | Job::Index(_) => {
                format!("{line}, {number} threads")
            }
        }
    }

    /// Whether the point runs a query.
    pub(crate) fn is_query(&self) -> bool {
        matches!(self.job, Job::Query(..))
    }

    /// Whether the point runs a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.job, Job::Cluster(_))
    }

    /// Whether the point writes without a log.
    pub(crate) fn is_writes_alone(&self) -> bool {
        matches!(&self.job, Job::Writes(writes) if writes.transactions.is_none())
    }

    /// Whether the point runs an index alone.
    pub(crate) fn is_index(&self) -> bool {
        matches!(self.job, Job::Index(_))
    }

    /// Whether other points are relative to this one.
    pub(crate) fn is_reference(&self) -> bool {
        matches!(&self.job, Job::Query(point, _) if point.is_ordered)
    }

    /// One run, with one row, or several if it is sampled over time.
    pub(crate) fn run(
        &self,
        place: &Place,
        machine: &Machine,
        round: u32,
    ) -> Result<Vec<RunRow>, BenchError> {
        let rows = match &self.job {
            Job::Transactions(point) => vec![of_transactions(point.run(place, machine, round)?)],
            Job::Writes(writes) => vec![writes.run(place)?],
            Job::Query(point, queries) => vec![point.run(queries, machine, round)?],
            Job::Cluster(point) => point.run(place, machine)?,
            Job::Index(point) => point.run()?,
        };
        let rows = rows.into_iter().map(|row| RunRow {
            line: self.line,
            threads: self.threads,
            round,
            ..row
        });
        Ok(rows.collect())
    }
}

fn of_transactions(row: TxnRow<'_>) -> RunRow {
    RunRow {
        workload: Some(row.workload),
        spec: Some(row.spec),
        device: row.device,
        records: Some(row.records),
        record_bytes: Some(row.record_bytes.to_string()),
        sequencer: Some(row.sequencer),
        seed: row.seed,
        seconds: row.seconds,
        committed: Some(row.committed),
        tps: row.tps,
        aborted: Some(row.aborted),
        met_locks: Some(row.met_locks),
        met_changes: Some(row.met_changes),
        failed_locks: Some(row.failed_locks),
        abort_rate: row.abort_rate,
        paper_abort_rate: row.paper_abort_rate,
        flushes: row.flushes,
        submitted: row.submitted,
        wal_bytes: row.wal_bytes,
        cas_misses: row.cas_misses,
        cpu_us_per_transaction: row.cpu_us_per_transaction,
        latency_us: row.latency_us,
        pause_ns: row.pause_ns,
        ..RunRow::default()
    }
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::super::catalogue::figures;
    use super::*;

    fn args(flags: &[&str]) -> RunArgs {
        let command = RunArgs::augment_args(clap::Command::new("figure"));
        let matches = command.try_get_matches_from([&["figure"], flags].concat());
        RunArgs::from_arg_matches(&matches.unwrap()).unwrap()
    }

    fn figure(paper: &str, number: u16) -> &'static Figure {
        let mut all = figures();
        all.find(|figure| figure.paper == paper && figure.number == number)
            .unwrap()
    }

    fn threads(flags: &[&str], figures: &[&Figure], cores: usize) -> Vec<u16> {
        let Runs::Transactions { threads, .. } = figures[0].experiment.runs else {
            panic!("{} has no transactions", figures[0].slug());
        };
        args(flags).threads(threads, figures, cores)
    }

    #[test]
    fn threads_go_to_twice_the_cores() {
        let many = [figure("tictoc-pwal", 10)];
        for (cores, expected) in [
            (1, &[1, 2][..]),
            (2, &[1, 2, 4]),
            (3, &[1, 2, 3, 6]),
            (24, &[1, 2, 4, 8, 10, 16, 24, 48]),
            (64, &[1, 2, 4, 8, 10, 16, 32, 64, 128]),
        ] {
            assert_eq!(threads(&[], &many, cores), expected, "{cores} cores");
        }
        assert_eq!(threads(&["--threads", "4,1"], &many, 64), [1, 4]);
        assert_eq!(threads(&["--quick"], &many, 64), [1, 2]);
    }

    #[test]
    fn waiting_threads_need_no_cores_and_bars_one_number() {
        let (lines, bars) = (figure("pwal", 9), figure("pwal", 10));
        assert_eq!(threads(&[], &[lines], 2), [1, 2, 4, 8, 16]);
        assert_eq!(threads(&[], &[bars], 2), [8]);
        assert_eq!(threads(&[], &[lines, bars], 2), [1, 2, 4, 8, 16]);
    }

    /// Figures that share an experiment share its runs; each point runs once per round.
    #[test]
    fn points_are_each_line_at_each_number_of_threads() {
        let both = [figure("pwal", 9), figure("pwal", 11)];
        let none = Prepared(None);
        let points = args(&[])
            .points(both[0].experiment, &both, 2, &none)
            .unwrap();
        assert_eq!(points.len(), 8 * 5);
        let first: Vec<u16> = points[..9].iter().map(|point| point.threads).collect();
        assert_eq!(first, [1, 1, 1, 1, 1, 1, 1, 1, 2]);
        let alone = args(&[])
            .points(both[0].experiment, &both[1..], 2, &none)
            .unwrap();
        assert_eq!(alone.len(), 4 * 5);
    }

    #[test]
    fn flags_are_shown_as_they_were_given() {
        assert_eq!(args(&[]).flags(), " --seed 42");
        let given = "--threads 1,3 --tasks 8 --workers 1,30 --bytes 512,4096 --tpch /tpch --seconds 0.5 --repeat 2 \
                     --records 10 --key-bytes 32 --seed 7 --device raw:/dev/log --raw-mb 64 --dir /data --overwrite-device --quick";
        let flags: Vec<&str> = given.split_whitespace().collect();
        let length = |flags| args(flags).length_text(figure("pwal", 7).experiment, &Prepared(None));
        assert_eq!(length(&flags[..]), "0.5 s a run, 10 records");
        assert_eq!(length(&[]), "100000 transactions");
        let of_index = |flags| {
            let experiment = figure("bwtree", 16).experiment;
            let args = args(flags);
            let length = args.length_text(experiment, &Prepared(None));
            (length, args.unlike_paper(experiment))
        };
        let usual = "2000000 operations, 1000000 keys of 8 bytes";
        assert_eq!(of_index(&[]), (usual.to_owned(), None));
        let skewed = args(&[]).length_text(figure("bwtree", 20).experiment, &Prepared(None));
        assert_eq!(skewed, format!("{usual} drawn by Zipf's law with s = 1"));
        let few = |flags| args(flags).length_text(figure("bwtree", 19).experiment, &Prepared(None));
        assert_eq!(few(&[]), "2000000 operations, 8 keys of 8 bytes");
        assert_eq!(few(&["--quick"]), "1000 operations, 8 keys of 8 bytes");
        let long = of_index(&flags[..]);
        assert_eq!(long.0, "0.5 s a run, 10 keys of 32 bytes");
        assert_eq!(long.1.as_deref(), Some("needs --key-bytes 8"));
        assert_eq!(
            args(&flags).flags().split_whitespace().collect::<Vec<_>>(),
            flags
        );
    }
}
