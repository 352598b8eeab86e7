//! A result of `txn`.

use namiki_platform::machine::Machine;
use serde::Serialize;

use super::beside::BesideRow;
use super::lock_waits::LockWaits;
use crate::args::RecordBytes;
use crate::latency::LatencyUs;
use crate::result_writer::{Cell, Row};

/// The keys are a contract: more may come, none is renamed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TxnRow<'a> {
    pub(crate) workload: String,
    pub(crate) spec: String,
    pub(crate) index: String,
    pub(crate) device: String,
    pub(crate) threads: u16,
    /// Of each thread; 0: it waits itself.
    #[serde(rename = "await")]
    pub(crate) tasks: u16,
    pub(crate) streams: u16,
    pub(crate) records: u64,
    pub(crate) value_bytes: u16,
    pub(crate) skew: f64,
    pub(crate) hot_keys: &'static str,
    pub(crate) pipeline: u16,
    /// Transactions that arrive together. Latencies are those of batches then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) batch: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) in_flight: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rate: Option<u32>,
    /// Only where large transactions were committed beside.
    #[serde(flatten)]
    pub(crate) beside: Option<BesideRow>,
    pub(crate) key_bytes: usize,
    pub(crate) key_space: &'static str,
    pub(crate) key_layout: &'static str,
    pub(crate) seconds: f64,
    pub(crate) committed: u64,
    /// Payments among the committed that would have overdrawn, and so moved nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<u64>,
    pub(crate) aborted: u64,
    /// Of these: because a lock stayed taken.
    pub(crate) met_locks: u64,
    /// Because what was read had changed.
    pub(crate) met_changes: u64,
    /// Rounds in which a commit did not get all its locks; most of them were tried again and are in no other count.
    pub(crate) failed_locks: u64,
    /// Only where reads are locked. The table for people, wide as it is, leaves it out.
    #[serde(flatten)]
    pub(crate) waits: Option<LockWaits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) abort_rate: Option<f64>,
    /// The same where each failed lock is an abort, as in the paper's algorithms.
    ///
    /// Paper: tictoc-pwal Algorithm 3, line 7
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) paper_abort_rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latency_us: Option<LatencyUs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) flushes: Option<u64>,
    /// Those of them that were left to the disk while their worker went on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "launched")]
    pub(crate) submitted: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wal_bytes: Option<u64>,
    /// Those that were closed during the run.
    pub(crate) epochs: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cas_misses: Option<u64>,
    /// Of the whole process: what earlier runs left to the allocator is in it.
    pub(crate) rss_bytes: u64,
    /// Index and records of the table.
    pub(crate) table_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_us_per_transaction: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pause_ns: Option<f64>,
    pub(crate) record_bytes: RecordBytes,
    pub(crate) sequencer: &'static str,
    pub(crate) seed: u64,
    pub(crate) round: u32,
    pub(crate) machine: &'a Machine,
}

impl Row for TxnRow<'_> {
    const HEADINGS: &'static [&'static str] = &[
        "workload",
        "spec",
        "index",
        "key",
        "space",
        "layout",
        "device",
        "threads",
        "await",
        "tps",
        "abort rate",
        "p50 us",
        "p99 us",
        "max us",
        "flushes",
        "WAL MB",
        "CPU us/tx",
        "RSS MB",
    ];

    fn cells(&self) -> Vec<Cell> {
        let latency = |of: fn(&LatencyUs) -> f64| Cell::measure(self.latency_us.as_ref().map(of));
        vec![
            Cell::key(&self.workload),
            Cell::key(&self.spec),
            Cell::key(&self.index),
            Cell::key(self.key_bytes),
            Cell::key(self.key_space),
            Cell::key(self.key_layout),
            Cell::key(&self.device),
            Cell::key(self.threads),
            Cell::key(self.tasks),
            Cell::measure(self.tps),
            Cell::measure(self.abort_rate),
            latency(|us| us.p50),
            latency(|us| us.p99),
            latency(|us| us.max),
            Cell::measure(self.flushes.map(|flushes| flushes as f64)),
            Cell::measure(self.wal_bytes.map(|bytes| bytes as f64 / 1e6)),
            Cell::measure(self.cpu_us_per_transaction),
            Cell::measure(self.rss_bytes as f64 / 1e6),
        ]
    }
}
