//! What faults act on, and what they have done.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::local_cluster::LocalCluster;
use super::small_disk::SmallDisk;
use super::start_times::StartTimes;

/// Interval between checks for the end of the run.
const INTERVAL: Duration = Duration::from_millis(10);

/// A fault or its repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FaultEvent {
    pub(super) at: Instant,
    pub(super) what: &'static str,
    pub(super) nodes: Vec<u64>,
    /// True for a fault, false for its repair.
    pub(super) breaks: bool,
    /// Whether a leader was elected after it: another node, or the same one in a new term.
    pub(super) elected: bool,
}

/// One absence of a follower.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Absence {
    /// Commands that the leader has applied in the meantime.
    pub(super) commands: u64,
    pub(super) seconds: f64,
    /// What the node did when, after that.
    #[serde(flatten)]
    pub(super) start: StartTimes,
    /// From the start of the process until the node votes, and its disk has all entries that were committed when it first
    /// answered: it acknowledges later ones.
    pub(super) has_log_ms: f64,
    /// Until it has applied them.
    pub(super) back_ms: f64,
    /// From the first to the last part of images that it has copied, by its own log. `None`: its log was enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) image_copy_ms: Option<f64>,
    /// These over that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) log_to_copy_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) back_to_copy_ratio: Option<f64>,
}

/// What faults act on.
#[derive(Clone, Copy)]
pub(super) struct FaultContext<'a> {
    pub(super) cluster: &'a LocalCluster,
    /// The disk of the last node, with the fault `full-disk`.
    pub(super) small_disk: Option<&'a SmallDisk>,
    /// Set when the run is over.
    pub(super) is_over: &'a AtomicBool,
}

impl FaultContext<'_> {
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Returns at this time, or with false when the run is over.
    pub(super) fn sleep_until(&self, at: Instant) -> bool {
        while Instant::now() < at && !self.is_over() {
            std::thread::sleep(INTERVAL);
        }
        !self.is_over()
    }
}

/// What the faults of a run have done.
#[derive(Clone, Debug, Default)]
pub(super) struct FaultReport {
    pub(super) events: Vec<FaultEvent>,
    /// Rolling restarts that have reached every node.
    pub(super) rounds: u64,
    pub(super) absences: Vec<Absence>,
    /// Frames of payloads that `damage-everywhere` has damaged.
    pub(super) frames_damaged: u64,
    /// How often a node with a full disk has waited for room while the others served.
    pub(super) waits_for_room: u64,
}

impl FaultReport {
    /// Records a fault (`breaks`) or its repair.
    pub(super) fn note(&mut self, what: &'static str, nodes: &[u64], breaks: bool) {
        eprintln!("{what} {nodes:?}");
        self.events.push(FaultEvent {
            at: Instant::now(),
            what,
            nodes: nodes.to_vec(),
            breaks,
            elected: false,
        });
    }
}
