//! A result of `compare kv`.

use namiki_platform::machine::Machine;
use serde::Serialize;

use crate::latency::LatencyUs;
use crate::result_writer::{Cell, Row};

/// The keys are a stable contract: new ones may be added, none is renamed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct KvRow<'a> {
    pub(crate) store: &'static str,
    /// Namiki only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) spec: Option<String>,
    /// Namiki only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) index: Option<String>,
    /// Namiki only, if different from its default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) streams: Option<u16>,
    pub(crate) workload: &'static str,
    pub(crate) durable: &'static str,
    pub(crate) threads: u16,
    pub(crate) records: u64,
    pub(crate) value_bytes: u16,
    pub(crate) skew: f64,
    pub(crate) seconds: f64,
    pub(crate) committed: u64,
    pub(crate) aborted: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) abort_rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latency_us: Option<LatencyUs>,
    /// Resident memory of the whole process; includes mapped files, and memory that the allocator
    /// kept from earlier runs.
    pub(crate) rss_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_us_per_transaction: Option<f64>,
    pub(crate) isolation: &'static str,
    pub(crate) durability: String,
    pub(crate) seed: u64,
    pub(crate) round: u32,
    pub(crate) machine: &'a Machine,
}

impl Row for KvRow<'_> {
    fn cells(&self) -> Vec<(&'static str, Cell)> {
        let latency = |of: fn(&LatencyUs) -> f64| Cell::measure(self.latency_us.as_ref().map(of));
        let or_none = |text: &Option<String>| Cell::key(text.as_deref().unwrap_or("-"));
        vec![
            ("store", Cell::key(self.store)),
            ("spec", or_none(&self.spec)),
            ("index", or_none(&self.index)),
            (
                "streams",
                or_none(&self.streams.map(|streams| streams.to_string())),
            ),
            ("workload", Cell::key(self.workload)),
            ("durable", Cell::key(self.durable)),
            ("threads", Cell::key(self.threads)),
            ("skew", Cell::key(self.skew)),
            ("tps", Cell::measure(self.tps)),
            ("abort rate", Cell::measure(self.abort_rate)),
            ("p50 us", latency(|us| us.p50)),
            ("p99 us", latency(|us| us.p99)),
            ("CPU us/tx", Cell::measure(self.cpu_us_per_transaction)),
            ("RSS MB", Cell::megabytes(self.rss_bytes)),
            ("isolation", Cell::key(self.isolation)),
            ("durability", Cell::key(&self.durability)),
        ]
    }
}
