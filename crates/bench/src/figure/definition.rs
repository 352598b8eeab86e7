//! The definition of a figure as data, which determines its runs, its chart and its verdicts.

use namiki::index::TreeKind;

use super::claim::Claim;
use super::measure::Measure;
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
    /// The section that describes it, as in `4.1.3`.
    pub(crate) section: &'static str,
    /// The title.
    pub(crate) title: &'static str,
    pub(crate) experiment: &'static Experiment,
    pub(crate) lines: &'static [Line],
    pub(crate) across: Across,
    pub(crate) value: Measure,
    /// The paper's claims about it.
    pub(crate) claims: &'static [Claim],
    /// The differences between this experiment and the paper's, for the reader of the verdicts.
    pub(crate) notes: &'static [&'static str],
}

/// The measurement of a figure's lines. Figures that show different values of the same runs share
/// it.
#[derive(Debug)]
pub(crate) struct Experiment {
    /// A unique name.
    pub(crate) name: &'static str,
    /// The value of `--device`.
    pub(crate) device: &'static str,
    /// Values of the same runs that are drawn beside each figure, in charts of their own.
    pub(crate) beside: &'static [Measure],
    pub(crate) runs: Runs,
}

/// The runs of an experiment.
#[derive(Debug)]
pub(crate) enum Runs {
    /// Transactions, or only their log writes.
    Transactions {
        threads: Threads,
        transactions: Transactions,
        record_bytes: RecordBytes,
        sequencer: Sequencer,
    },
    /// The query of `oode`, from an empty cache.
    Queries(Sweep),
    /// Transfers on a cluster of processes; each line has its emulated distances.
    Cluster {
        /// The default numbers of workers of each node.
        workers: &'static [u16],
        /// The default length of a run.
        seconds: u16,
        /// Whether a run is sampled each second, from its first transaction on.
        each_second: bool,
    },
    /// Writes to the device alone.
    Writes {
        /// The default lengths of a write in bytes.
        bytes: &'static [u32],
        /// The default length of a run in seconds.
        seconds: u16,
    },
    /// Operations on an index alone.
    Index {
        /// Percent of each operation, in the syntax of `--mix`.
        mix: &'static str,
        /// The default number of keys, all of which are loaded.
        keys: u64,
        /// The exponent of Zipf's law by which keys are drawn.
        skew: f64,
        /// The default numbers of threads of lines without a number of their own.
        threads: Threads,
        /// The number of operations of a run without a given length.
        operations: u64,
        /// Whether operations are also timed one by one; each percentile of the latencies is then
        /// a row.
        each_percentile: bool,
    },
}

/// The parameter of a query's execution that varies from point to point.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sweep {
    /// The number of threads, with a fixed number of tasks each.
    Threads {
        tasks: u16,
        /// The numbers on a disk.
        counts: &'static [u16],
        /// The paper's numbers, on emulated drives.
        emulated: &'static [u16],
    },
    /// The number of tasks of each thread, with one thread per processor.
    Tasks {
        /// The numbers on a disk.
        counts: &'static [u16],
        /// The paper's numbers, on emulated drives.
        emulated: &'static [u16],
        /// The paper's number of threads, on emulated drives.
        emulated_threads: u16,
    },
}

/// The default number of threads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Threads {
    /// 1, 2, 4 and so on up to the number of cores, twice the number of cores, and those numbers of
    /// `also` for which there are enough cores.
    Cores { also: &'static [u16] },
    /// Fixed numbers, independent of the cores: most threads wait for the device.
    Waiting(&'static [u16]),
}

/// The number of transactions of a run without a given length.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transactions {
    /// The number of transactions of each thread.
    PerThread(u64),
    /// The number of transactions of all threads together.
    InAll(u64),
}

impl Transactions {
    /// The total over all threads.
    pub(crate) fn in_all(self, threads: u16) -> u64 {
        match self {
            Self::PerThread(number) => number * u64::from(threads),
            Self::InAll(number) => number,
        }
    }

    /// A description for readers.
    pub(crate) fn text(self) -> String {
        match self {
            Self::PerThread(number) => format!("{number} transactions a thread"),
            Self::InAll(number) => format!("{number} transactions"),
        }
    }
}

/// A line of a figure: one workload over different numbers of threads.
#[derive(Debug)]
pub(crate) struct Line {
    /// A unique name within the experiment.
    pub(crate) name: &'static str,
    pub(crate) work: Work,
}

/// The work of a line's threads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// Transactions under a protocol, in the syntax of `--spec`.
    Transactions {
        workload: Workload,
        spec: &'static str,
    },
    /// The writes of a log without a log. Each has `bytes` bytes, the log of `transactions`
    /// transactions.
    LogWrites { bytes: u32, transactions: u64 },
    /// Writes of no log, of the experiment's lengths.
    Writes(WriteWork),
    /// The query with one task in one thread: the reference of other runs.
    OrderedQuery,
    /// The query with many tasks.
    Query(QueryThreads),
    /// Transfers on a cluster.
    Cluster(ClusterWork),
    /// Operations on an index alone.
    Index(IndexWork),
}

/// The writers of a line. Each has its own file, or its own part of the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteWork {
    pub(crate) writers: u16,
    pub(crate) order: WriteOrder,
}

/// The places of one write after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteOrder {
    /// From front to back.
    Sequential,
    /// Drawn uniformly.
    Random,
}

/// The index of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexWork {
    pub(crate) tree: TreeKind,
    /// If given, the line is measured only with this number of threads, whatever is requested.
    pub(crate) threads: Option<u16>,
}

/// The load of a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClusterWork {
    /// Transactions per group: the paper's GrpSize.
    pub(crate) group_size: u32,
    /// Groups of a worker that may be in flight to a majority; `None` means the nodes' default.
    pub(crate) groups_in_flight: Option<u32>,
    pub(crate) wan: Wan,
    /// If given, the line is measured only with this number of workers.
    pub(crate) workers: Option<u16>,
    pub(crate) clients: u32,
    /// Groups in flight of a client.
    pub(crate) pipeline: u32,
}

/// The number of a query's threads in a figure over tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryThreads {
    /// The number that the experiment gives.
    All,
    /// One thread; omitted on emulated drives, where it takes hours.
    One,
    /// The number that the experiment gives, with as many tasks as the executor finds useful: its
    /// default. In a figure over tasks, the line is level.
    AllAdaptive,
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
    /// Percentiles of the latencies of operations.
    Percentiles,
    /// Lengths of writes in bytes.
    WriteBytes,
    /// Reads per second, relative to ordered execution; each point lies at its own rate.
    RelativeIops { of_tasks: bool },
    /// Kinds of lines, at a fixed number of threads: a bar for each line.
    Kinds {
        threads: u16,
        kinds: &'static [&'static str],
        /// Bars of the same colour: their name, and their line in each kind.
        bars: &'static [(&'static str, &'static [&'static str])],
    },
}

impl Across {
    /// The flag for the quantity that varies along a line.
    pub(crate) fn flag(self) -> &'static str {
        match self {
            Self::Tasks | Self::RelativeIops { of_tasks: true } => "tasks",
            Self::Workers => "workers",
            Self::Seconds => "seconds",
            Self::Percentiles => "percentile",
            Self::WriteBytes => "bytes",
            Self::Threads | Self::Kinds { .. } | Self::RelativeIops { of_tasks: false } => {
                "threads"
            }
        }
    }

    /// The position of a run on its line; `None` if the run has no such number.
    pub(crate) fn place(self, run: &RunRow) -> Option<u32> {
        let place = match self.flag() {
            "bytes" => return run.write_bytes,
            "tasks" => run.tasks,
            "seconds" => run.second,
            "percentile" => run.percentile,
            _ => Some(run.threads),
        };
        place.map(u32::from)
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
            failed_locks: Some(3),
            ..RunRow::default()
        };
        assert_eq!(Measure::FailedLocks.of(&run), Some(6.0));
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
        let percentile = RunRow {
            threads: 112,
            percentile: Some(95),
            operations_per_second: Some(2e6),
            latency_ns: Some(400.0),
            ..RunRow::default()
        };
        assert_eq!(Across::Percentiles.place(&percentile), Some(95));
        assert_eq!(Measure::LatencyNs.of(&percentile), Some(400.0));
        assert_eq!(Measure::OperationsPerSecond.of(&percentile), Some(2e6));
        let writes = RunRow {
            write_bytes: Some(1 << 20),
            megabytes_per_second: Some(90.0),
            ..RunRow::default()
        };
        assert_eq!(Across::WriteBytes.place(&writes), Some(1 << 20));
        assert_eq!(Measure::MegabytesPerSecond.of(&writes), Some(90.0));
        let rates = Across::RelativeIops { of_tasks: true };
        assert_eq!(rates.place(&query), Some(16));
        assert_eq!(rates.place(&run), None);
        assert_eq!(Transactions::PerThread(5).in_all(3), 15);
        assert_eq!(Transactions::InAll(5).in_all(3), 5);
    }
}
