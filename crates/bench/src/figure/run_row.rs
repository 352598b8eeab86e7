//! One run of a figure: a row of its CSV file.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use namiki_platform::machine::Machine;
use serde::Serialize;

use crate::error::BenchError;
use crate::latency::LatencyUs;
use crate::result_writer::{Cell, Row};
use crate::run_stages::quotient;

/// A run. Values that were not measured, or that do not apply, are absent.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct RunRow {
    pub(crate) line: &'static str,
    /// For a cluster, the workers of each node.
    pub(crate) threads: u16,
    /// Tasks of each thread of a query.
    pub(crate) tasks: Option<u16>,
    pub(crate) round: u32,
    pub(crate) workload: Option<String>,
    pub(crate) spec: Option<String>,
    pub(crate) device: String,
    pub(crate) records: Option<u64>,
    pub(crate) record_bytes: Option<String>,
    pub(crate) sequencer: Option<&'static str>,
    pub(crate) seed: u64,
    pub(crate) seconds: f64,
    /// Transactions that committed, or had their log written.
    pub(crate) committed: Option<u64>,
    pub(crate) tps: Option<f64>,
    pub(crate) aborted: Option<u64>,
    pub(crate) met_locks: Option<u64>,
    pub(crate) met_changes: Option<u64>,
    pub(crate) failed_locks: Option<u64>,
    pub(crate) abort_rate: Option<f64>,
    pub(crate) paper_abort_rate: Option<f64>,
    pub(crate) flushes: Option<u64>,
    #[serde(rename = "launched")]
    pub(crate) submitted: Option<u64>,
    pub(crate) wal_bytes: Option<u64>,
    pub(crate) cas_misses: Option<u64>,
    pub(crate) cpu_us_per_transaction: Option<f64>,
    #[serde(skip)]
    pub(crate) latency_us: Option<LatencyUs>,
    pub(crate) pause_ns: Option<f64>,
    pub(crate) reads: Option<u64>,
    pub(crate) distinct_pages: Option<u64>,
    pub(crate) merged_faults: Option<u64>,
    /// Calls that submitted reads or asked for their completions.
    pub(crate) polls: Option<u64>,
    /// How often threads of the process were woken after a wait.
    pub(crate) wake_ups: Option<u64>,
    pub(crate) iops: Option<f64>,
    pub(crate) cpu_us_per_io: Option<f64>,
    pub(crate) cpu_percent: Option<f64>,
    /// Time relative to ordered execution in the same round.
    pub(crate) relative_seconds: Option<f64>,
    pub(crate) relative_iops: Option<f64>,
    /// Transactions per group of a cluster.
    pub(crate) group_size: Option<u32>,
    /// Transactions that clients have in flight.
    pub(crate) in_flight: Option<u64>,
    pub(crate) mean_rtt_ms: Option<f64>,
    /// The round trip to the follower that completes a majority, where distances are emulated.
    pub(crate) floor_ms: Option<f64>,
    /// Lower bound for the groups of a worker in flight at the same time, from throughput and
    /// `floor_ms`.
    pub(crate) groups_on_their_way: Option<f64>,
    /// Seconds since the start, in a run that is sampled over time.
    pub(crate) second: Option<u16>,
    /// Use of all processors by the leader's node in the previous second, in percent.
    pub(crate) leader_cpu_percent: Option<f64>,
    /// Bytes of a write, in a run that only writes.
    pub(crate) write_bytes: Option<u32>,
    pub(crate) megabytes_per_second: Option<f64>,
    /// Bytes of an index's keys.
    pub(crate) key_bytes: Option<usize>,
    /// Operations of an index, or writes.
    pub(crate) operations: Option<u64>,
    pub(crate) operations_per_second: Option<f64>,
    /// The percentile of the latencies that the row has, in a run whose operations are timed one by
    /// one.
    pub(crate) percentile: Option<u16>,
    pub(crate) latency_ns: Option<f64>,
    /// Nodes of an index rebuilt without the leftovers of their updates.
    pub(crate) consolidations: Option<u64>,
    pub(crate) consolidations_failed: Option<u64>,
    /// Deltas of an index's leaves that searches visited to learn the range of their page.
    pub(crate) delta_visits: Option<u64>,
}

impl RunRow {
    /// Stores the comparison of this run with one of ordered execution.
    ///
    /// Paper: oode §3 (相対処理時間, 相対 IOPS 性能)
    pub(crate) fn relate_to(&mut self, ordered: &Self) {
        self.relative_seconds = quotient(self.seconds, ordered.seconds);
        let rates = self.iops.zip(ordered.iops);
        self.relative_iops = rates.and_then(|(own, ordered)| quotient(own, ordered));
    }
}

impl Row for RunRow {
    fn cells(&self) -> Vec<(&'static str, Cell)> {
        vec![
            ("threads", Cell::key(self.threads)),
            ("tps", Cell::measure(self.tps)),
            ("abort rate", Cell::measure(self.abort_rate)),
            ("flushes", Cell::count(self.flushes)),
            ("WAL MB", Cell::megabytes(self.wal_bytes)),
            ("CAS misses", Cell::count(self.cas_misses)),
            ("CPU us/tx", Cell::measure(self.cpu_us_per_transaction)),
            ("seconds", Cell::measure(self.seconds)),
            // Last, because the names vary in length.
            ("series", Cell::key(self.line)),
        ]
    }
}

/// A run of a query, as the table for readers shows it.
#[derive(Serialize)]
#[serde(transparent)]
pub(crate) struct QueryRunRow<'a>(pub(crate) &'a RunRow);

impl Row for QueryRunRow<'_> {
    fn cells(&self) -> Vec<(&'static str, Cell)> {
        let run = self.0;
        vec![
            ("threads", Cell::key(run.threads)),
            (
                "tasks",
                Cell::Key(run.tasks.map_or("-".to_owned(), |tasks| tasks.to_string())),
            ),
            ("seconds", Cell::measure(run.seconds)),
            ("reads/s", Cell::measure(run.iops)),
            ("CPU %", Cell::measure(run.cpu_percent)),
            ("CPU us/read", Cell::measure(run.cpu_us_per_io)),
            ("rel. time", Cell::measure(run.relative_seconds)),
            ("rel. reads/s", Cell::measure(run.relative_iops)),
            ("series", Cell::key(run.line)),
        ]
    }
}

/// A run of a cluster, as the table for readers shows it.
#[derive(Serialize)]
#[serde(transparent)]
pub(crate) struct ClusterRunRow<'a>(pub(crate) &'a RunRow);

impl Row for ClusterRunRow<'_> {
    fn cells(&self) -> Vec<(&'static str, Cell)> {
        let run = self.0;
        vec![
            ("workers", Cell::key(run.threads)),
            (
                "second",
                Cell::Key(run.second.map_or("-".to_owned(), |it| it.to_string())),
            ),
            ("tps", Cell::measure(run.tps)),
            ("mean RTT ms", Cell::measure(run.mean_rtt_ms)),
            ("in flight", Cell::count(run.in_flight)),
            ("CPU %", Cell::measure(run.cpu_percent)),
            ("leader CPU %", Cell::measure(run.leader_cpu_percent)),
            ("series", Cell::key(run.line)),
        ]
    }
}

/// A run of an index, as the table for readers shows it.
#[derive(Serialize)]
#[serde(transparent)]
pub(crate) struct IndexRunRow<'a>(pub(crate) &'a RunRow);

impl IndexRunRow<'_> {
    /// Whether the table has this row: of the percentiles, it has two.
    pub(crate) fn is_in_table(&self) -> bool {
        matches!(self.0.percentile, None | Some(50 | 99))
    }
}

impl Row for IndexRunRow<'_> {
    fn cells(&self) -> Vec<(&'static str, Cell)> {
        let run = self.0;
        let percentile = run.percentile.map_or("-".to_owned(), |it| it.to_string());
        vec![
            ("threads", Cell::key(run.threads)),
            ("percentile", Cell::Key(percentile)),
            ("latency ns", Cell::measure(run.latency_ns)),
            ("operations/s", Cell::measure(run.operations_per_second)),
            ("CAS misses", Cell::count(run.cas_misses)),
            ("consolidations", Cell::count(run.consolidations)),
            ("failed", Cell::count(run.consolidations_failed)),
            ("delta visits", Cell::count(run.delta_visits)),
            ("seconds", Cell::measure(run.seconds)),
            ("series", Cell::key(run.line)),
        ]
    }
}

/// A run of writes alone, as the table for readers shows it.
#[derive(Serialize)]
#[serde(transparent)]
pub(crate) struct WriteRunRow<'a>(pub(crate) &'a RunRow);

impl Row for WriteRunRow<'_> {
    fn cells(&self) -> Vec<(&'static str, Cell)> {
        let run = self.0;
        let latency = |of: fn(&LatencyUs) -> f64| Cell::measure(run.latency_us.as_ref().map(of));
        vec![
            ("bytes", Cell::key(run.write_bytes.unwrap_or_default())),
            ("writers", Cell::key(run.threads)),
            ("MB/s", Cell::measure(run.megabytes_per_second)),
            ("writes/s", Cell::measure(run.operations_per_second)),
            ("p50 us", latency(|us| us.p50)),
            ("p99 us", latency(|us| us.p99)),
            ("seconds", Cell::measure(run.seconds)),
            ("series", Cell::key(run.line)),
        ]
    }
}

/// Counts in addition to the values that a figure shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    Committed,
    Aborted,
    /// Aborts because a lock remained held.
    MetLocks,
    /// Aborts because a value read had changed.
    MetChanges,
    /// Failed rounds of a commit's locking; most were retried.
    FailedLocks,
    Flushes,
    Submitted,
    WalBytes,
    CasMisses,
    CpuUsPerTransaction,
    Reads,
    DistinctPages,
    MergedFaults,
    /// Calls that submitted reads or asked for their completions.
    Polls,
    /// How often threads of the process were woken after a wait.
    WakeUps,
    Iops,
    CpuUsPerIo,
    CpuPercent,
    MeanRttMs,
    InFlight,
    GroupsOnTheirWay,
    Operations,
    Consolidations,
    /// Consolidations that another thread's change made useless.
    ConsolidationsFailed,
    /// Deltas that searches visited to learn the range of their page.
    DeltaVisits,
}

// Each count has a row in the table.
const _: () = assert!(Count::DeltaVisits as usize + 1 == Count::TABLE.len());

impl Count {
    /// All counts, with the names of their columns and their values in a run.
    const TABLE: &[(Self, &str, fn(&RunRow) -> Option<f64>)] = &[
        (Self::Committed, "committed", |run| whole(run.committed)),
        (Self::Aborted, "aborted", |run| whole(run.aborted)),
        (Self::MetLocks, "met_locks", |run| whole(run.met_locks)),
        (Self::MetChanges, "met_changes", |run| {
            whole(run.met_changes)
        }),
        (Self::FailedLocks, "failed_locks", |run| {
            whole(run.failed_locks)
        }),
        (Self::Flushes, "flushes", |run| whole(run.flushes)),
        (Self::Submitted, "launched", |run| whole(run.submitted)),
        (Self::WalBytes, "wal_bytes", |run| whole(run.wal_bytes)),
        (Self::CasMisses, "cas_misses", |run| whole(run.cas_misses)),
        (Self::CpuUsPerTransaction, "cpu_us_per_transaction", |run| {
            run.cpu_us_per_transaction
        }),
        (Self::Reads, "reads", |run| whole(run.reads)),
        (Self::DistinctPages, "distinct_pages", |run| {
            whole(run.distinct_pages)
        }),
        (Self::MergedFaults, "merged_faults", |run| {
            whole(run.merged_faults)
        }),
        (Self::Polls, "polls", |run| whole(run.polls)),
        (Self::WakeUps, "wake_ups", |run| whole(run.wake_ups)),
        (Self::Iops, "iops", |run| run.iops),
        (Self::CpuUsPerIo, "cpu_us_per_io", |run| run.cpu_us_per_io),
        (Self::CpuPercent, "cpu_percent", |run| run.cpu_percent),
        (Self::MeanRttMs, "mean_rtt_ms", |run| run.mean_rtt_ms),
        (Self::InFlight, "in_flight", |run| whole(run.in_flight)),
        (Self::GroupsOnTheirWay, "groups_on_their_way", |run| {
            run.groups_on_their_way
        }),
        (Self::Operations, "operations", |run| whole(run.operations)),
        (Self::Consolidations, "consolidations", |run| {
            whole(run.consolidations)
        }),
        (Self::ConsolidationsFailed, "consolidations_failed", |run| {
            whole(run.consolidations_failed)
        }),
        (Self::DeltaVisits, "delta_visits", |run| {
            whole(run.delta_visits)
        }),
    ];

    /// All counts.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Self::TABLE.iter().map(|(count, ..)| *count)
    }

    /// The column's name.
    pub(crate) fn name(self) -> &'static str {
        Self::TABLE[self as usize].1
    }

    /// The value in a run.
    pub(crate) fn of(self, run: &RunRow) -> Option<f64> {
        Self::TABLE[self as usize].2(run)
    }
}

fn whole(count: Option<u64>) -> Option<f64> {
    count.map(|count| count as f64)
}

/// A CSV file of runs, each of which is written as soon as it ends: its fields, its latency, and
/// the machine.
pub(crate) struct RunsFile {
    file: csv::Writer<BufWriter<File>>,
    path: PathBuf,
    machine: Machine,
}

#[derive(Serialize)]
struct LatencyColumns {
    latency_p50_us: Option<f64>,
    latency_p99_us: Option<f64>,
}

impl RunsFile {
    /// Creates or truncates the file.
    pub(crate) fn create(path: &Path, machine: &Machine) -> Result<Self, BenchError> {
        let file = File::create(path).map_err(BenchError::file("write", path))?;
        Ok(Self {
            file: csv::Writer::from_writer(BufWriter::new(file)),
            path: path.to_owned(),
            machine: machine.clone(),
        })
    }

    /// Adds a run.
    pub(crate) fn run(&mut self, row: &RunRow) -> Result<(), BenchError> {
        let latency = row.latency_us.as_ref();
        let latency = LatencyColumns {
            latency_p50_us: latency.map(|us| us.p50),
            latency_p99_us: latency.map(|us| us.p99),
        };
        let written = self.file.serialize((row, latency, &self.machine));
        written
            .map_err(Into::into)
            .and_then(|()| self.file.flush())
            .map_err(BenchError::file("write", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_has_a_row_and_a_column() {
        let fields = serde_json::to_value(RunRow::default()).unwrap();
        for (at, (count, name, _)) in Count::TABLE.iter().enumerate() {
            assert_eq!(*count as usize, at, "{name}");
            assert!(fields.get(name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_runs_file_has_a_line_per_run() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("runs.csv");
        let machine = Machine {
            cores: 2,
            cpu: "one, two".to_owned(),
            disk: "a \"fast\" one".to_owned(),
            kernel: "Linux".to_owned(),
        };
        let mut runs = RunsFile::create(&path, &machine).unwrap();
        let row = RunRow {
            line: "TT(NLR)+PWAL(1)",
            threads: 2,
            tps: Some(1.5),
            ..RunRow::default()
        };
        runs.run(&row).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("line,threads,tasks,round,"), "{text}");
        let last = ",latency_p50_us,latency_p99_us,cores,cpu,disk,kernel";
        assert!(lines[0].ends_with(last), "{text}");
        assert!(lines[1].starts_with("TT(NLR)+PWAL(1),2,,0,,,"), "{text}");
        assert!(lines[1].contains(",1.5,,"), "{text}");
        assert!(
            lines[1].ends_with(r#",2,"one, two","a ""fast"" one",Linux"#),
            "{text}"
        );
    }
}
