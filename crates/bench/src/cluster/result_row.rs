//! A result of `cluster`.

use namiki_platform::machine::Machine;
use serde::Serialize;

use super::fault_context::Absence;
use super::footprint::{DirectoryRatio, FootprintMib};
use super::image_times::DuringImages;
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
    /// What the largest directory takes besides its log, over the bytes of the rows.
    #[serde(skip_serializing_if = "DirectoryRatio::is_empty")]
    pub(super) directory_ratio: DirectoryRatio,
    /// The throughput while the leader wrote images. `None` if the nodes show no metrics.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) during_images: Option<DuringImages>,
    /// Rolling restarts that have reached every node, with that fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rolling_rounds: Option<u64>,
    /// Absences of followers, with the fault `away`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) absences: Option<Vec<Absence>>,
    /// Frames of payloads that were damaged, with the fault `damage-everywhere`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) frames_damaged: Option<u64>,
    /// How often a node waited for room while the others served, with the fault `full-disk`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waits_for_room: Option<u64>,
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

impl ClusterRow<'_> {
    /// The cells that only some faults have. All rows of a table have the same fault.
    fn cells_of_fault(&self) -> Vec<(&'static str, Cell)> {
        let mut cells = Vec::new();
        for (heading, count) in [
            ("rounds", self.rolling_rounds),
            ("frames damaged", self.frames_damaged),
            ("waits for room", self.waits_for_room),
        ] {
            if count.is_some() {
                cells.push((heading, Cell::count(count)));
            }
        }
        if let Some(absences) = &self.absences {
            let longest = absences.iter().max_by_key(|it| it.commands);
            let away = |of: fn(&Absence) -> Option<f64>| Cell::measure(longest.and_then(of));
            cells.extend([
                ("commands away", away(|it| Some(it.commands as f64))),
                ("ms votes", away(|it| it.start.votes_ms)),
                ("ms stale", away(|it| it.start.stale_read_ms)),
                ("ms back", away(|it| Some(it.back_ms))),
                ("ms copy", away(|it| it.image_copy_ms)),
                ("log/copy", away(|it| it.log_to_copy_ratio)),
                ("back/copy", away(|it| it.back_to_copy_ratio)),
            ]);
        }
        cells
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
        let images = self.during_images.as_ref();
        let images = images.and_then(|it| it.tps_during_images_ratio);
        let mut cells = vec![
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
            (
                "disk/rows",
                Cell::measure(self.directory_ratio.outside_transfers),
            ),
            (
                "in transfer",
                Cell::measure(self.directory_ratio.in_transfers),
            ),
            ("tps ratio in image", Cell::measure(images)),
            ("lost", Cell::count(self.lost)),
            ("twice", Cell::count(self.duplicated)),
            ("failovers", Cell::count(self.failovers as u64)),
            ("p50 ms down", down(|ms| ms.p50)),
            ("max", down(|ms| ms.max)),
            ("ms gap", Cell::measure(Some(self.longest_gap_ms))),
        ];
        cells.extend(self.cells_of_fault());
        cells
    }
}
