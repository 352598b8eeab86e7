//! One run of a figure: a row of its CSV file.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use namiki_platform::machine::Machine;
use serde::Serialize;
use serde_json::Value;

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

/// The columns of the CSV file, before those of the machine.
const COLUMNS: &[&str] = &[
    "line",
    "threads",
    "tasks",
    "round",
    "workload",
    "spec",
    "device",
    "records",
    "record_bytes",
    "sequencer",
    "seed",
    "seconds",
    "committed",
    "tps",
    "aborted",
    "met_locks",
    "met_changes",
    "failed_locks",
    "abort_rate",
    "paper_abort_rate",
    "flushes",
    "launched",
    "wal_bytes",
    "cas_misses",
    "cpu_us_per_transaction",
    "pause_ns",
    "reads",
    "distinct_pages",
    "merged_faults",
    "iops",
    "cpu_us_per_io",
    "cpu_percent",
    "relative_seconds",
    "relative_iops",
    "group_size",
    "in_flight",
    "mean_rtt_ms",
    "floor_ms",
    "groups_on_their_way",
    "second",
    "leader_cpu_percent",
];
const LATENCY_COLUMNS: &[&str] = &["latency_p50_us", "latency_p99_us"];
const MACHINE_COLUMNS: &[&str] = &["cores", "cpu", "disk", "kernel"];

impl Row for RunRow {
    const HEADINGS: &'static [&'static str] = &[
        "threads",
        "tps",
        "abort rate",
        "flushes",
        "WAL MB",
        "CAS misses",
        "CPU us/tx",
        "seconds",
        // Last, because the names vary in length.
        "series",
    ];

    fn cells(&self) -> Vec<Cell> {
        let count = |count: Option<u64>| Cell::measure(count.map(|count| count as f64));
        vec![
            Cell::key(self.threads),
            Cell::measure(self.tps),
            Cell::measure(self.abort_rate),
            count(self.flushes),
            Cell::measure(self.wal_bytes.map(|bytes| bytes as f64 / 1e6)),
            count(self.cas_misses),
            Cell::measure(self.cpu_us_per_transaction),
            Cell::measure(self.seconds),
            Cell::key(self.line),
        ]
    }
}

/// A run of a query, as the table for readers shows it.
#[derive(Serialize)]
#[serde(transparent)]
pub(crate) struct QueryRunRow<'a>(pub(crate) &'a RunRow);

impl Row for QueryRunRow<'_> {
    const HEADINGS: &'static [&'static str] = &[
        "threads",
        "tasks",
        "seconds",
        "reads/s",
        "CPU %",
        "CPU us/read",
        "rel. time",
        "rel. reads/s",
        "series",
    ];

    fn cells(&self) -> Vec<Cell> {
        let run = self.0;
        vec![
            Cell::key(run.threads),
            Cell::Key(run.tasks.map_or("-".to_owned(), |tasks| tasks.to_string())),
            Cell::measure(run.seconds),
            Cell::measure(run.iops),
            Cell::measure(run.cpu_percent),
            Cell::measure(run.cpu_us_per_io),
            Cell::measure(run.relative_seconds),
            Cell::measure(run.relative_iops),
            Cell::key(run.line),
        ]
    }
}

/// A run of a cluster, as the table for readers shows it.
#[derive(Serialize)]
#[serde(transparent)]
pub(crate) struct ClusterRunRow<'a>(pub(crate) &'a RunRow);

impl Row for ClusterRunRow<'_> {
    const HEADINGS: &'static [&'static str] = &[
        "workers",
        "second",
        "tps",
        "mean RTT ms",
        "in flight",
        "CPU %",
        "leader CPU %",
        "series",
    ];

    fn cells(&self) -> Vec<Cell> {
        let run = self.0;
        vec![
            Cell::key(run.threads),
            Cell::Key(run.second.map_or("-".to_owned(), |it| it.to_string())),
            Cell::measure(run.tps),
            Cell::measure(run.mean_rtt_ms),
            Cell::measure(run.in_flight.map(|it| it as f64)),
            Cell::measure(run.cpu_percent),
            Cell::measure(run.leader_cpu_percent),
            Cell::key(run.line),
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
    Iops,
    CpuUsPerIo,
    CpuPercent,
    MeanRttMs,
    InFlight,
    GroupsOnTheirWay,
}

impl Count {
    /// All counts.
    pub(crate) const ALL: &[Self] = &[
        Self::Committed,
        Self::Aborted,
        Self::MetLocks,
        Self::MetChanges,
        Self::FailedLocks,
        Self::Flushes,
        Self::Submitted,
        Self::WalBytes,
        Self::CasMisses,
        Self::CpuUsPerTransaction,
        Self::Reads,
        Self::DistinctPages,
        Self::MergedFaults,
        Self::Iops,
        Self::CpuUsPerIo,
        Self::CpuPercent,
        Self::MeanRttMs,
        Self::InFlight,
        Self::GroupsOnTheirWay,
    ];

    /// The column's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Aborted => "aborted",
            Self::MetLocks => "met_locks",
            Self::MetChanges => "met_changes",
            Self::FailedLocks => "failed_locks",
            Self::Flushes => "flushes",
            Self::Submitted => "launched",
            Self::WalBytes => "wal_bytes",
            Self::CasMisses => "cas_misses",
            Self::CpuUsPerTransaction => "cpu_us_per_transaction",
            Self::Reads => "reads",
            Self::DistinctPages => "distinct_pages",
            Self::MergedFaults => "merged_faults",
            Self::Iops => "iops",
            Self::CpuUsPerIo => "cpu_us_per_io",
            Self::CpuPercent => "cpu_percent",
            Self::MeanRttMs => "mean_rtt_ms",
            Self::InFlight => "in_flight",
            Self::GroupsOnTheirWay => "groups_on_their_way",
        }
    }

    /// The value in a run.
    pub(crate) fn of(self, run: &RunRow) -> Option<f64> {
        let count = match self {
            Self::Committed => run.committed,
            Self::Aborted => run.aborted,
            Self::MetLocks => run.met_locks,
            Self::MetChanges => run.met_changes,
            Self::FailedLocks => run.failed_locks,
            Self::Flushes => run.flushes,
            Self::Submitted => run.submitted,
            Self::WalBytes => run.wal_bytes,
            Self::CasMisses => run.cas_misses,
            Self::Reads => run.reads,
            Self::DistinctPages => run.distinct_pages,
            Self::MergedFaults => run.merged_faults,
            Self::CpuUsPerTransaction => return run.cpu_us_per_transaction,
            Self::Iops => return run.iops,
            Self::CpuUsPerIo => return run.cpu_us_per_io,
            Self::CpuPercent => return run.cpu_percent,
            Self::MeanRttMs => return run.mean_rtt_ms,
            Self::GroupsOnTheirWay => return run.groups_on_their_way,
            Self::InFlight => run.in_flight,
        };
        count.map(|count| count as f64)
    }
}

/// A CSV file of runs, each of which is written as soon as it ends.
pub(crate) struct RunsFile {
    file: csv::Writer<BufWriter<File>>,
    path: PathBuf,
    machine: Vec<String>,
}

impl RunsFile {
    /// Creates or truncates the file.
    pub(crate) fn create(path: &Path, machine: &Machine) -> Result<Self, BenchError> {
        let file = File::create(path).map_err(BenchError::file("write", path))?;
        let mut runs = Self {
            file: csv::Writer::from_writer(BufWriter::new(file)),
            path: path.to_owned(),
            machine: vec![
                machine.cores.to_string(),
                machine.cpu.clone(),
                machine.disk.clone(),
                machine.kernel.clone(),
            ],
        };
        let columns = [COLUMNS, LATENCY_COLUMNS, MACHINE_COLUMNS].concat();
        let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
        runs.line(&columns)?;
        Ok(runs)
    }

    /// Adds a run.
    pub(crate) fn run(&mut self, row: &RunRow) -> Result<(), BenchError> {
        let fields = serde_json::to_value(row)
            .map_err(|error| BenchError::file("write", &self.path)(error.into()))?;
        let mut texts: Vec<String> = COLUMNS.iter().map(|name| text(&fields[name])).collect();
        let latency = |of: fn(&LatencyUs) -> f64| {
            let latency = row.latency_us.as_ref().map(of);
            latency.map_or(String::new(), |us| us.to_string())
        };
        texts.extend([latency(|us| us.p50), latency(|us| us.p99)]);
        texts.extend(self.machine.iter().cloned());
        self.line(&texts)
    }

    fn line(&mut self, texts: &[String]) -> Result<(), BenchError> {
        let written = self.file.write_record(texts).map_err(Into::into);
        written
            .and_then(|()| self.file.flush())
            .map_err(BenchError::file("write", &self.path))
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_a_run_has_a_column() {
        let fields = serde_json::to_value(RunRow::default()).unwrap();
        let fields = fields.as_object().unwrap();
        assert_eq!(fields.len(), COLUMNS.len());
        assert!(COLUMNS.iter().all(|name| fields.contains_key(*name)));
        assert!(
            Count::ALL
                .iter()
                .all(|count| COLUMNS.contains(&count.name()))
        );
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
        assert!(lines[1].starts_with("TT(NLR)+PWAL(1),2,,0,,,"), "{text}");
        assert!(lines[1].contains(",1.5,,"), "{text}");
        assert!(
            lines[1].ends_with(r#",2,"one, two","a ""fast"" one",Linux"#),
            "{text}"
        );
    }
}
