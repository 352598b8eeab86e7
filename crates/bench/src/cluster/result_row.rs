//! A result of `cluster`.

use namiki_platform::machine::Machine;
use serde::Serialize;

use super::footprint::FootprintMib;
use crate::result_writer::{Cell, Row};

/// Times in milliseconds from sending a group to receiving its results.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct RoundTripMs {
    pub(super) mean: f64,
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

/// Times in milliseconds without any acknowledgement.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct FailoverMs {
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) max: f64,
}

/// The result of checking all operations.
#[derive(Clone, Debug, Serialize)]
pub(super) struct HistoryResult {
    pub(super) strictly_serializable: bool,
    pub(super) operations: usize,
    /// Number of executed commands and reads.
    pub(super) transactions: usize,
    /// Number of reads of a value that another transaction has written.
    pub(super) reads_from: usize,
    /// Number of reads of a value that another transaction has overwritten.
    pub(super) reads_overwritten: usize,
    /// Number of abandoned commands: executed ones, and others.
    pub(super) unknown_done: usize,
    pub(super) unknown_not_done: usize,
    /// Number of commands that were refused, correctly, because a value had changed.
    pub(super) refused: usize,
    /// The explanation, if the history is not serializable.
    #[serde(skip)]
    pub(super) violation: Option<String>,
}

/// The keys are a stable contract: new ones may be added, none is renamed.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ClusterRow<'a> {
    pub(super) nodes: u16,
    pub(super) workers: u16,
    pub(super) group_size: u32,
    /// Commands that a client sends together.
    pub(super) batch: u32,
    pub(super) wan: &'static str,
    /// Whether connections use TLS.
    pub(super) tls: bool,
    pub(super) workload: &'static str,
    pub(super) clients: u32,
    pub(super) pipeline: u32,
    /// Maximal number of a worker's groups in flight to a majority.
    pub(super) groups_in_flight: u32,
    pub(super) skew: f64,
    pub(super) hot_pairs: u64,
    pub(super) fault: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rate: Option<f64>,
    pub(super) seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rtt_ms: Option<RoundTripMs>,
    /// The round trip to the follower that completes a majority.
    pub(super) floor_ms: f64,
    /// Use of all processors by the nodes' processes, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu_percent: Option<f64>,
    /// Use of all processors by the clients, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) client_cpu_percent: Option<f64>,
    /// Use of all processors in each whole second of the timed part, in percent, by the node that
    /// led at its start.
    pub(super) leader_cpu_percent: Vec<f64>,
    pub(super) acknowledged: u64,
    pub(super) rejected: u64,
    pub(super) unresolved: u64,
    pub(super) lost: u64,
    pub(super) duplicated: u64,
    /// Number of rows that are missing or hold invalid values.
    pub(super) damaged: u64,
    pub(super) conserved: bool,
    pub(super) replicas_equal: bool,
    /// Number of injected faults.
    pub(super) faults: usize,
    /// Number of leader elections after faults.
    pub(super) failovers: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failover_ms: Option<FailoverMs>,
    /// The longest time without any acknowledgement in the timed part, except around faults.
    pub(super) longest_gap_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) history: Option<HistoryResult>,
    /// What the largest node took in each third of the timed part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) footprint_mib: Option<FootprintMib>,
    pub(super) seed: u64,
    pub(super) round: u32,
    pub(super) machine: &'a Machine,
}

impl ClusterRow<'_> {
    /// A description of the run's failure, if it failed.
    pub(super) fn complaint(&self) -> Option<String> {
        let mut complaints = Vec::new();
        for (count, what) in [
            (self.lost, "acknowledged commands are lost"),
            (self.duplicated, "commands were executed twice"),
            (self.damaged, "rows are missing or hold nonsense"),
        ] {
            if count > 0 {
                complaints.push(format!("{count} {what}"));
            }
        }
        if !self.conserved && self.unresolved == 0 {
            complaints.push("money was made or destroyed".to_owned());
        }
        if !self.replicas_equal {
            complaints.push("the nodes do not hold the same".to_owned());
        }
        let violation = self.history.as_ref().and_then(|it| it.violation.as_ref());
        complaints.extend(violation.cloned());
        if self.acknowledged == 0 {
            complaints.push("nothing was acknowledged, so nothing was put to the test".to_owned());
        }
        (!complaints.is_empty()).then(|| complaints.join(", "))
    }
}

impl Row for ClusterRow<'_> {
    fn cells(&self) -> Vec<(&'static str, Cell)> {
        let rtt = |of: fn(&RoundTripMs) -> f64| Cell::measure(self.rtt_ms.as_ref().map(of));
        let down = |of: fn(&FailoverMs) -> f64| Cell::measure(self.failover_ms.as_ref().map(of));
        let largest = |of: fn(&FootprintMib) -> [f64; 3]| {
            let thirds = self.footprint_mib.as_ref().map(of);
            Cell::measure(thirds.map(|thirds| thirds.into_iter().fold(0.0, f64::max)))
        };
        vec![
            ("nodes", Cell::key(self.nodes)),
            ("workers", Cell::key(self.workers)),
            ("group", Cell::key(self.group_size)),
            ("batch", Cell::key(self.batch)),
            ("wan", Cell::key(self.wan)),
            ("tls", Cell::key(if self.tls { "yes" } else { "no" })),
            ("workload", Cell::key(self.workload)),
            ("clients", Cell::key(self.clients)),
            ("fault", Cell::key(&self.fault)),
            ("tps", Cell::measure(self.tps)),
            ("mean ms", rtt(|ms| ms.mean)),
            ("p50 ms", rtt(|ms| ms.p50)),
            ("p99 ms", rtt(|ms| ms.p99)),
            ("CPU %", Cell::measure(self.cpu_percent)),
            ("acknowledged", Cell::count(self.acknowledged)),
            ("disk MiB", largest(|it| it.disk)),
            ("memory MiB", largest(|it| it.memory)),
            ("lost", Cell::count(self.lost)),
            ("twice", Cell::count(self.duplicated)),
            ("failovers", Cell::count(self.failovers as u64)),
            ("p50 ms down", down(|ms| ms.p50)),
            ("max", down(|ms| ms.max)),
            ("ms gap", Cell::measure(Some(self.longest_gap_ms))),
        ]
    }
}
