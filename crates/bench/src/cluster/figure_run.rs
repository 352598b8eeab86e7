//! A run as a point of a figure: five nodes, the paper's transfers, no faults.
//!
//! Paper: raft-pwal §4.1, §4.2

use std::path::Path;
use std::time::Duration;

use namiki_platform::machine::Machine;

use super::Wan;
use super::faults::Fault;
use super::run::Run;
use super::shape::Shape;
use super::workload::{PlanSizes, Workload};
use crate::error::BenchError;

/// The paper's number of nodes.
const NODES: u16 = 5;

/// The parameters that vary from point to point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FigureRun {
    pub(crate) workers: u16,
    pub(crate) group_size: u32,
    /// Groups in flight of a worker; `None` means the nodes' default.
    pub(crate) groups_in_flight: Option<u32>,
    pub(crate) wan: Wan,
    pub(crate) clients: u32,
    /// Groups in flight of a client.
    pub(crate) pipeline: u32,
    pub(crate) warmup: Duration,
    pub(crate) length: Duration,
    pub(crate) seed: u64,
}

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct FigureRunResult {
    pub(crate) seconds: f64,
    pub(crate) acknowledged: u64,
    pub(crate) tps: Option<f64>,
    pub(crate) mean_rtt_ms: Option<f64>,
    /// The round trip to the follower that completes a majority.
    pub(crate) floor_ms: f64,
    /// Use of all processors by nodes and clients together, in percent.
    pub(crate) cpu_percent: Option<f64>,
    /// Use of all processors in each second by the leader's node, in percent.
    pub(crate) leader_cpu_percent: Vec<f64>,
}

impl FigureRun {
    /// Starts a cluster in the folder, runs the clients, compares with the witness, and stops the
    /// cluster.
    pub(crate) fn run(&self, dir: &Path, machine: &Machine) -> Result<FigureRunResult, BenchError> {
        let usual = Shape::default();
        let run = Run {
            shape: Shape {
                nodes: NODES,
                workers: self.workers,
                group_size: self.group_size,
                groups_in_flight: self.groups_in_flight.unwrap_or(usual.groups_in_flight),
                wan: self.wan,
                ..usual
            },
            workload: Workload::Transfer,
            sizes: PlanSizes {
                clients: self.clients,
                pipeline: self.pipeline,
                batch: self.group_size,
                pairs: 0,
                skew: 0.0,
                hot_pairs: 0,
                registers: 0,
                rows: 0,
                row_bytes: 8,
                seed: self.seed,
            },
            reads: 0.0,
            history: None,
            fault: Fault::NONE,
            rate: None,
            warmup: self.warmup,
            length: self.length,
            floor_ms: self.wan.floor_ms(NODES),
            leader: self.wan.leader(),
            machine,
            round: 1,
        };
        let row = run.run(dir)?;
        if let Some(complaint) = row.complaint() {
            return Err(BenchError::Check(complaint));
        }
        let used = [row.cpu_percent, row.client_cpu_percent];
        Ok(FigureRunResult {
            seconds: row.seconds,
            acknowledged: row.acknowledged,
            tps: row.tps,
            mean_rtt_ms: row.rtt_ms.map(|ms| ms.mean),
            floor_ms: row.floor_ms,
            cpu_percent: used.into_iter().sum(),
            leader_cpu_percent: row.leader_cpu_percent,
        })
    }
}
