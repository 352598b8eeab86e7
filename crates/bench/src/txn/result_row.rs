//! A result of `txn`.

use namiki_platform::machine::Machine;
use serde::Serialize;

use super::beside::BesideRow;
use super::lock_waits::LockWaits;
use crate::args::RecordBytes;
use crate::latency::LatencyUs;
use crate::result_writer::{Cell, Row};

/// The keys are a stable contract: new ones may be added, none is renamed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TxnRow<'a> {
    pub(crate) workload: String,
    pub(crate) spec: String,
    pub(crate) index: String,
    pub(crate) device: String,
    pub(crate) threads: u16,
    /// Tasks of each thread; 0: the thread itself waits.
    #[serde(rename = "await")]
    pub(crate) tasks: u16,
    pub(crate) streams: u16,
    pub(crate) records: u64,
    pub(crate) value_bytes: u16,
    pub(crate) skew: f64,
    pub(crate) hot_keys: &'static str,
    pub(crate) pipeline: u16,
    /// Transactions that arrive together. If present, latencies are per batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) batch: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) in_flight: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rate: Option<u32>,
    /// Present only with background work.
    #[serde(flatten)]
    pub(crate) beside: Option<BesideRow>,
    pub(crate) key_bytes: usize,
    pub(crate) key_space: &'static str,
    pub(crate) key_layout: &'static str,
    pub(crate) seconds: f64,
    pub(crate) committed: u64,
    /// Committed payments that would have overdrawn, and therefore moved nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<u64>,
    pub(crate) aborted: u64,
    /// Aborts because a lock remained held.
    pub(crate) met_locks: u64,
    /// Aborts because a value read had changed.
    pub(crate) met_changes: u64,
    /// Rounds in which a commit failed to acquire all its locks. Most were retried and appear in no
    /// other counter.
    pub(crate) failed_locks: u64,
    /// Present only under locked reads. The wide table for readers omits it.
    #[serde(flatten)]
    pub(crate) waits: Option<LockWaits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) abort_rate: Option<f64>,
    /// Abort rate in which each failed lock is an abort, as in the paper's algorithms.
    ///
    /// Paper: tictoc-pwal Algorithm 3, line 7
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) paper_abort_rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latency_us: Option<LatencyUs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) flushes: Option<u64>,
    /// Asynchronous flushes, which were in progress while their worker continued.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "launched")]
    pub(crate) submitted: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wal_bytes: Option<u64>,
    /// Epochs closed during the run.
    pub(crate) epochs: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cas_misses: Option<u64>,
    /// Resident memory of the whole process; includes memory that the allocator kept from earlier
    /// runs.
    pub(crate) rss_bytes: u64,
    /// Memory of the table's index and records.
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
    fn cells(&self) -> Vec<(&'static str, Cell)> {
        let latency = |of: fn(&LatencyUs) -> f64| Cell::measure(self.latency_us.as_ref().map(of));
        vec![
            ("workload", Cell::key(&self.workload)),
            ("spec", Cell::key(&self.spec)),
            ("index", Cell::key(&self.index)),
            ("key", Cell::key(self.key_bytes)),
            ("space", Cell::key(self.key_space)),
            ("layout", Cell::key(self.key_layout)),
            ("device", Cell::key(&self.device)),
            ("threads", Cell::key(self.threads)),
            ("await", Cell::key(self.tasks)),
            ("tps", Cell::measure(self.tps)),
            ("abort rate", Cell::measure(self.abort_rate)),
            ("p50 us", latency(|us| us.p50)),
            ("p99 us", latency(|us| us.p99)),
            ("max us", latency(|us| us.max)),
            ("flushes", Cell::count(self.flushes)),
            ("WAL MB", Cell::megabytes(self.wal_bytes)),
            ("CPU us/tx", Cell::measure(self.cpu_us_per_transaction)),
            ("RSS MB", Cell::megabytes(self.rss_bytes)),
        ]
    }
}
