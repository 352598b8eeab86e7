//! What a figure is: data, from which its runs, its chart and its verdicts are made.

use super::claim::Claim;
use super::run_row::RunRow;
use crate::args::{RecordBytes, Sequencer};
use crate::cluster::Wan;
use crate::txn::Workload;

/// A figure of a paper.
#[derive(Debug)]
pub(crate) struct Figure {
    /// The paper's short name, as in `tictoc-pwal`.
    pub(crate) paper: &'static str,
    pub(crate) number: u16,
    /// Where the paper describes it, as in `4.1.3`.
    pub(crate) section: &'static str,
    /// What it shows.
    pub(crate) title: &'static str,
    pub(crate) experiment: &'static Experiment,
    pub(crate) lines: &'static [Line],
    pub(crate) across: Across,
    pub(crate) value: Measure,
    /// What the paper says of it.
    pub(crate) claims: &'static [Claim],
    /// In what this experiment differs from the paper's, for the reader of the verdicts.
    pub(crate) notes: &'static [&'static str],
}

/// How the lines of a figure are measured. Figures that show different values of the same runs have
/// the same.
#[derive(Debug)]
pub(crate) struct Experiment {
    /// Different for each.
    pub(crate) name: &'static str,
    /// As `--device` has it.
    pub(crate) device: &'static str,
    pub(crate) runs: Runs,
}

/// What an experiment runs.
#[derive(Debug)]
pub(crate) enum Runs {
    /// Transactions, or what of them goes to the log.
    Transactions {
        threads: Threads,
        transactions: Transactions,
        record_bytes: RecordBytes,
        sequencer: Sequencer,
    },
    /// The query of `oode`, from an empty cache.
    Queries(Sweep),
    /// Transfers on a cluster of processes: the distances are those of its lines.
    Cluster {
        /// The default numbers of workers of each node.
        workers: &'static [u16],
        /// The default length of a run.
        seconds: u16,
        /// Whether a run is looked at each second, from its first transaction on.
        each_second: bool,
    },
}

/// What of a query's execution differs from point to point.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sweep {
    /// The number of threads, each with so many tasks.
    Threads {
        tasks: u16,
        /// On a disk.
        counts: &'static [u16],
        /// On emulated drives: the paper's.
        emulated: &'static [u16],
    },
    /// The number of tasks of each thread. There are as many threads as processors.
    Tasks {
        /// On a disk.
        counts: &'static [u16],
        /// On emulated drives: the paper's.
        emulated: &'static [u16],
        /// The paper's number of threads, for emulated drives.
        emulated_threads: u16,
    },
}

/// The default number of threads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Threads {
    /// 1, 2, 4 and so on up to as many as there are cores, twice as many, and of these those for
    /// which there are cores.
    Cores { also: &'static [u16] },
    /// So many, whatever the number of cores: most of them wait for the device.
    Waiting(&'static [u16]),
}

/// How many transactions a run has, if it has no given length.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transactions {
    /// Each thread runs so many.
    PerThread(u64),
    /// All threads together run so many.
    InAll(u64),
}

impl Transactions {
    /// Those of all threads.
    pub(crate) fn in_all(self, threads: u16) -> u64 {
        match self {
            Self::PerThread(number) => number * u64::from(threads),
            Self::InAll(number) => number,
        }
    }

    /// In words.
    pub(crate) fn text(self) -> String {
        match self {
            Self::PerThread(number) => format!("{number} transactions a thread"),
            Self::InAll(number) => format!("{number} transactions"),
        }
    }
}

/// A line of a figure: the same over different numbers of threads.
#[derive(Debug)]
pub(crate) struct Line {
    /// Different for each of an experiment.
    pub(crate) name: &'static str,
    pub(crate) work: Work,
}

/// What its threads do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// Transactions under a protocol, spelled as `--spec` has it.
    Transactions {
        workload: Workload,
        spec: &'static str,
    },
    /// The writes of a log, each of so many bytes and as large as those of so many transactions.
    LogWrites { bytes: u32, transactions: u64 },
    /// The query with one task in one thread: what other runs are relative to.
    OrderedQuery,
    /// The query with many tasks.
    Query(QueryThreads),
    /// Transfers on a cluster.
    Cluster(ClusterWork),
}

/// What runs on a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClusterWork {
    /// Transactions of a group: the paper's GrpSize.
    pub(crate) group_size: u32,
    /// Groups of a worker that may be on their way to a majority, if not as many as nodes have by default.
    pub(crate) groups_in_flight: Option<u32>,
    pub(crate) wan: Wan,
    /// Only with so many workers, if that is not nothing.
    pub(crate) workers: Option<u16>,
    pub(crate) clients: u32,
    /// Groups of a client in flight.
    pub(crate) pipeline: u32,
}

/// How many threads a query has where the number of tasks differs from point to point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryThreads {
    /// As many as the experiment says.
    All,
    /// One. Not on emulated drives, where that takes hours.
    One,
}

/// The horizontal axis.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Across {
    /// Numbers of threads, a line for each line.
    Threads,
    /// Numbers of tasks in each thread.
    Tasks,
    /// Numbers of workers of each node, a line for each line.
    Workers,
    /// Seconds since a run began.
    Seconds,
    /// Reads per second, relative to ordered execution: where the points of such numbers lie.
    RelativeIops { of_tasks: bool },
    /// Kinds of lines, at so many threads: a bar for each line.
    Kinds {
        threads: u16,
        kinds: &'static [&'static str],
        /// Bars of the same colour: their name, and their line of each kind.
        bars: &'static [(&'static str, &'static [&'static str])],
    },
}

/// The vertical axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Transactions in a second.
    Tps,
    /// Seconds for 100,000 transactions.
    Seconds,
    /// Aborts among attempts as the paper counts them, a failed lock among them, in percent.
    PaperAbortPercent,
    /// Failed attempts to draw a log sequence number, for 100,000 transactions.
    CasMisses,
    /// A query's time, that of ordered execution being 1.
    RelativeSeconds,
    /// A query's reads per second, those of ordered execution being 1.
    RelativeIops,
    /// Processor time of a query, in percent of all processors.
    CpuPercent,
    /// From sending a transaction to knowing that it has committed, in milliseconds.
    MeanRttMs,
    /// Processor time of the leader's node, in percent of all processors.
    LeaderCpuPercent,
}

/// As many transactions as one run of `pwal` §6 has.
const RUN: f64 = 100_000.0;

impl Measure {
    /// As a run has it.
    pub(crate) fn of(self, run: &RunRow) -> Option<f64> {
        match self {
            Self::Tps => run.tps,
            Self::Seconds => run.tps.filter(|tps| *tps > 0.0).map(|tps| RUN / tps),
            Self::PaperAbortPercent => run.paper_abort_rate.map(|rate| rate * 100.0),
            Self::CasMisses => {
                let committed = run.committed.unwrap_or(0).max(1) as f64;
                run.cas_misses.map(|misses| misses as f64 * RUN / committed)
            }
            Self::RelativeSeconds => run.relative_seconds,
            Self::RelativeIops => run.relative_iops,
            Self::CpuPercent => run.cpu_percent,
            Self::MeanRttMs => run.mean_rtt_ms,
            Self::LeaderCpuPercent => run.leader_cpu_percent,
        }
    }

    /// What the axis says.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Tps => "transactions per second",
            Self::Seconds => "seconds for 100,000 transactions",
            Self::PaperAbortPercent => "aborts and failed locks, % of attempts",
            Self::CasMisses => "failed CAS per 100,000 transactions",
            Self::RelativeSeconds => "time, ordered execution = 1",
            Self::RelativeIops => "reads per second, ordered execution = 1",
            Self::CpuPercent => "CPU use, % of all processors",
            Self::MeanRttMs => "mean round trip of a transaction, ms",
            Self::LeaderCpuPercent => "CPU use of the leader's node, % of all processors",
        }
    }

    /// The key of a row.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Tps => "tps",
            Self::Seconds => "seconds_per_100000",
            Self::PaperAbortPercent => "paper_abort_percent",
            Self::CasMisses => "cas_misses_per_100000",
            Self::RelativeSeconds => "relative_seconds",
            Self::RelativeIops => "relative_iops",
            Self::CpuPercent => "cpu_percent",
            Self::MeanRttMs => "mean_rtt_ms",
            Self::LeaderCpuPercent => "leader_cpu_percent",
        }
    }
}

impl Across {
    /// What differs along a line, as a flag is called.
    pub(crate) fn flag(self) -> &'static str {
        match self {
            Self::Tasks | Self::RelativeIops { of_tasks: true } => "tasks",
            Self::Workers => "workers",
            Self::Seconds => "seconds",
            Self::Threads | Self::Kinds { .. } | Self::RelativeIops { of_tasks: false } => {
                "threads"
            }
        }
    }

    /// Where on its line a run lies; nothing if it has no such number.
    pub(crate) fn place(self, run: &RunRow) -> Option<u16> {
        match self.flag() {
            "tasks" => run.tasks,
            "seconds" => run.second,
            _ => Some(run.threads),
        }
    }
}

impl Figure {
    /// The name of its files, without their endings.
    pub(crate) fn slug(&self) -> String {
        format!("{}-{}", self.paper, self.number)
    }

    /// The names of its lines.
    pub(crate) fn line_names(&self) -> Vec<&'static str> {
        self.lines.iter().map(|line| line.name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_runs() {
        let run = RunRow {
            committed: Some(50_000),
            tps: Some(1000.0),
            abort_rate: Some(0.01),
            paper_abort_rate: Some(0.25),
            cas_misses: Some(7),
            ..RunRow::default()
        };
        assert_eq!(Measure::Tps.of(&run), Some(1000.0));
        assert_eq!(Measure::Seconds.of(&run), Some(100.0));
        assert_eq!(Measure::PaperAbortPercent.of(&run), Some(25.0));
        assert_eq!(Measure::CasMisses.of(&run), Some(14.0));
        assert_eq!(Measure::PaperAbortPercent.of(&RunRow::default()), None);
        let query = RunRow {
            threads: 2,
            tasks: Some(16),
            relative_iops: Some(3.0),
            ..RunRow::default()
        };
        assert_eq!(Measure::RelativeIops.of(&query), Some(3.0));
        assert_eq!(Across::Threads.place(&query), Some(2));
        assert_eq!(Across::Workers.place(&query), Some(2));
        assert_eq!(Across::Seconds.place(&query), None);
        let rates = Across::RelativeIops { of_tasks: true };
        assert_eq!(rates.place(&query), Some(16));
        assert_eq!(rates.place(&run), None);
        assert_eq!(Transactions::PerThread(5).in_all(3), 15);
        assert_eq!(Transactions::InAll(5).in_all(3), 5);
    }
}
