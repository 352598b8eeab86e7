//! The runs of figures that share an experiment: which points, in turns, each run by the command that
//! measures such things.

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use namiki_platform::arguments::whole;
use namiki_platform::disk::Disk;
use namiki_platform::machine::Machine;

use super::definition::{Across, Experiment, Figure, Threads, Work};
use super::run_row::RunRow;
use crate::args::{self, OutputArgs, Switch, TimedArgs};
use crate::device::{Access, Ground, Probe};
use crate::device_choice::{Device, DeviceChoice, SharedArgs};
use crate::error::BenchError;
use crate::run_folder::Place;
use crate::txn::{self, Setup, TxnRow};

/// Runs of each point.
const REPEAT: u32 = 3;
/// Before a run of a given length. One of a number of transactions counts from the first.
const WARMUP: Duration = Duration::from_millis(500);
/// Quick runs show that all works, and nothing else.
const QUICK_THREADS: &[u16] = &[1, 2];
const QUICK_TRANSACTIONS: u64 = 1000;
const QUICK_RECORDS: u64 = 10_000;

/// What may differ from the paper's experiment.
#[derive(Args, Clone, Debug)]
pub(crate) struct RunArgs {
    /// Few transactions, records and threads, once each: to see that it works
    #[arg(long)]
    pub(crate) quick: bool,
    /// Numbers of threads [default: 1, 2, 4 and so on to twice the cores, or the paper's where threads
    /// wait for a disk]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = args::threads)]
    pub(crate) threads: Vec<NonZeroU16>,
    /// Length of a run in seconds [default: as many transactions as in the paper]
    #[arg(long, value_name = "S", value_parser = args::some_seconds)]
    pub(crate) seconds: Option<Duration>,
    /// Runs of each point, in turns (A B C A B C …) [default: 3]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=u32::MAX.into()))]
    pub(crate) repeat: Option<u32>,
    /// Records in the table [default: as many as txn has]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=1 << 30))]
    pub(crate) records: Option<u64>,
    /// Makes the transactions repeatable
    #[arg(long, default_value = "42", value_name = "N", value_parser = whole::<u64>(0..=u64::MAX))]
    pub(crate) seed: u64,
    /// Where logs go, as for txn [default: what the experiment has, nvm:50ns or file]
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<Device>,
    #[command(flatten)]
    pub(crate) shared: SharedArgs,
    /// Folder on the disk to measure. Each run uses a folder of its own inside, which is removed after
    /// it; nothing else there is touched [default: the system's temporary folder]
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

    /// The flags that differ from their defaults, as one would type them.
    pub(crate) fn flags(&self) -> String {
        let mut flags = String::new();
        let mut add = |flag: &str, value: Option<String>| {
            if let Some(value) = value {
                flags.push_str(&format!(" --{flag} {value}"));
            }
        };
        let threads: Vec<String> = self.threads.iter().map(ToString::to_string).collect();
        add("threads", (!threads.is_empty()).then(|| threads.join(",")));
        let seconds = self.seconds.map(|length| length.as_secs_f64().to_string());
        add("seconds", seconds);
        add("repeat", self.repeat.map(|repeat| repeat.to_string()));
        add("records", self.records.map(|records| records.to_string()));
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

    /// How long a run is, in words.
    pub(crate) fn length_text(&self, experiment: &Experiment) -> String {
        let length = match self.seconds {
            Some(length) => format!("{} s a run", length.as_secs_f64()),
            None if self.quick => format!("{QUICK_TRANSACTIONS} transactions"),
            None => experiment.transactions.text(),
        };
        match self.records() {
            Some(records) => format!("{length}, {records} records"),
            None => length,
        }
    }

    /// Records in the table, if not as many as `txn` has.
    fn records(&self) -> Option<u64> {
        self.records.or(self.quick.then_some(QUICK_RECORDS))
    }

    /// The device that is measured.
    pub(crate) fn device(&self, experiment: &Experiment) -> Result<Device, BenchError> {
        match &self.device {
            Some(device) => Ok(device.clone()),
            None => experiment.device.parse().map_err(BenchError::Usage),
        }
    }

    /// Numbers of threads, fewest first.
    fn threads(&self, experiment: &Experiment, figures: &[&Figure], cores: usize) -> Vec<u16> {
        if !self.threads.is_empty() {
            let asked: BTreeSet<u16> = self.threads.iter().map(|threads| threads.get()).collect();
            return asked.into_iter().collect();
        }
        if self.quick {
            return QUICK_THREADS.to_vec();
        }
        match experiment.threads {
            Threads::Waiting(all) => {
                let alone = figures.iter().map(|figure| match figure.across {
                    Across::Kinds { threads, .. } => Some(threads),
                    Across::Threads => None,
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

    /// What to run for figures of one experiment: for each number of threads, every line.
    pub(crate) fn points(
        &self,
        experiment: &Experiment,
        figures: &[&Figure],
        cores: usize,
    ) -> Result<Vec<Point>, BenchError> {
        let mut points: Vec<Point> = Vec::new();
        for threads in self.threads(experiment, figures, cores) {
            for line in figures.iter().flat_map(|figure| figure.lines) {
                let mut before = points.iter().rev();
                if before.any(|point| (point.line, point.threads) == (line.name, threads)) {
                    continue;
                }
                points.push(Point {
                    line: line.name,
                    threads,
                    job: self.job(experiment, line.work, threads)?,
                });
            }
        }
        Ok(points)
    }

    fn job(&self, experiment: &Experiment, work: Work, threads: u16) -> Result<Job, BenchError> {
        let device = DeviceChoice {
            device: self.device(experiment)?,
            shared: self.shared,
        };
        let transactions = match self.quick {
            true => QUICK_TRANSACTIONS,
            false => experiment.transactions.in_all(threads),
        };
        let per_operation = match work {
            Work::Transactions { .. } => 1,
            Work::LogWrites { transactions, .. } => transactions,
        };
        let timed = TimedArgs {
            seconds: self.seconds,
            ops: self
                .seconds
                .is_none()
                .then(|| transactions.div_ceil(per_operation)),
            repeat: self.repeat(),
            warmup: if self.quick { Duration::ZERO } else { WARMUP },
            seed: self.seed,
            pin: Switch::On,
            output: self.output,
        };
        match work {
            Work::Transactions { workload, spec } => {
                let point = txn::Point::new(Setup {
                    workload,
                    spec: args::spec(spec).map_err(BenchError::Usage)?,
                    threads: NonZeroU16::new(threads).unwrap_or(NonZeroU16::MIN),
                    records: self.records(),
                    record_format: experiment.record_bytes,
                    sequencer: experiment.sequencer,
                    device,
                    timed,
                })?;
                Ok(Job::Transactions(Box::new(point)))
            }
            Work::LogWrites {
                bytes,
                transactions,
            } => Ok(Job::Writes(Writes {
                bytes,
                transactions,
                threads,
                device,
                timed,
            })),
        }
    }
}

/// A line at a number of threads.
pub(crate) struct Point {
    pub(crate) line: &'static str,
    pub(crate) threads: u16,
    job: Job,
}

enum Job {
    Transactions(Box<txn::Point>),
    Writes(Writes),
}

/// The writes of a log without a log, as `device` has them.
struct Writes {
    bytes: u32,
    /// As many as a write stands for.
    transactions: u64,
    threads: u16,
    device: DeviceChoice,
    timed: TimedArgs,
}

impl Point {
    /// One run.
    pub(crate) fn run(
        &self,
        place: &Place,
        machine: &Machine,
        round: u32,
    ) -> Result<RunRow, BenchError> {
        let row = match &self.job {
            Job::Transactions(point) => of_transactions(point.run(place, machine, round)?),
            Job::Writes(writes) => writes.run(place)?,
        };
        Ok(RunRow {
            line: self.line,
            threads: self.threads,
            round,
            ..row
        })
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
        committed: row.committed,
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

impl Writes {
    fn run(&self, place: &Place) -> Result<RunRow, BenchError> {
        let dir = place.scratch()?;
        let ready = self.device.open(dir.path(), self.threads, true)?;
        let probe = Probe {
            access: Access::OwnFiles,
            bytes: self.bytes,
            threads: self.threads,
            file_bytes: Probe::FILE_BYTES,
            work_us: 0,
        };
        let disk: Arc<dyn Disk> = ready.disk.clone();
        // A log makes the shared file when it is opened. Here no log is, and the writes need as much as one block
        // and no more than they are measured with elsewhere.
        if let Some((path, region_bytes)) = &ready.shared
            && !path.exists()
        {
            let bytes = (*region_bytes).min(Probe::FILE_BYTES) * u64::from(self.threads);
            disk.create(path, bytes)
                .map_err(BenchError::file("create", path))?;
        }
        let probed = probe.run(&disk, Ground::of(&ready, dir.path()), &self.timed)?;
        let total = probed.total;
        let tps = total.rate(total.done * self.transactions);
        Ok(RunRow {
            device: self.device.device.to_string(),
            seed: self.timed.seed,
            seconds: total.seconds,
            committed: total.done * self.transactions,
            tps,
            flushes: Some(total.done),
            wal_bytes: Some(total.done * u64::from(self.bytes)),
            cpu_us_per_transaction: total
                .per_operation(probed.cpu_ns as f64 / 1e3)
                .map(|us| us / self.transactions as f64),
            latency_us: total.latencies.summary(),
            pause_ns: ready.pause_ns,
            ..RunRow::default()
        })
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
        args(flags).threads(figures[0].experiment, figures, cores)
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

    /// Figures that share an experiment share its runs, and each point is run once a round.
    #[test]
    fn points_are_each_line_at_each_number_of_threads() {
        let both = [figure("pwal", 9), figure("pwal", 11)];
        let points = args(&[]).points(both[0].experiment, &both, 2).unwrap();
        assert_eq!(points.len(), 6 * 5);
        let first: Vec<u16> = points[..7].iter().map(|point| point.threads).collect();
        assert_eq!(first, [1, 1, 1, 1, 1, 1, 2]);
        let alone = args(&[]).points(both[0].experiment, &both[1..], 2).unwrap();
        assert_eq!(alone.len(), 3 * 5);
    }

    #[test]
    fn flags_are_shown_as_they_were_given() {
        assert_eq!(args(&[]).flags(), " --seed 42");
        let given = "--threads 1,3 --seconds 0.5 --repeat 2 --records 10 --seed 7 \
                     --device raw:/dev/log --raw-mb 64 --dir /data --overwrite-device --quick";
        let flags: Vec<&str> = given.split_whitespace().collect();
        let length = |flags| args(flags).length_text(figure("pwal", 7).experiment);
        assert_eq!(length(&flags[..]), "0.5 s a run, 10 records");
        assert_eq!(length(&[]), "100000 transactions");
        assert_eq!(
            args(&flags).flags().split_whitespace().collect::<Vec<_>>(),
            flags
        );
    }
}
