//! A result of `index` or `compare index`.

use namiki_index::Statistics;
use namiki_platform::machine::Machine;
use serde::Serialize;

use crate::latency::PercentilesNs;
use crate::result_writer::{Cell, Row};

/// Nanoseconds of a cache miss at the time of the reference speeds.
const MISS_NS_THEN: f64 = 151.0;

/// The keys are a stable contract: new ones may be added, none is renamed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct IndexRow<'a> {
    pub(crate) tree: String,
    pub(crate) mix: String,
    pub(crate) key_bytes: usize,
    pub(crate) key_space: &'static str,
    pub(crate) key_layout: &'static str,
    pub(crate) initial: u64,
    pub(crate) keys: u64,
    pub(crate) skew: f64,
    pub(crate) threads: u16,
    pub(crate) batch: u32,
    pub(crate) scan_length: u64,
    pub(crate) load_order: &'static str,
    /// The reason why nothing was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) left_out: Option<&'static str>,
    #[serde(flatten)]
    pub(crate) measured: Option<Box<Results>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) miss_ns: Option<f64>,
    pub(crate) seed: u64,
    pub(crate) round: u32,
    pub(crate) machine: &'a Machine,
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// It was measured.
    Measured(Box<Results>),
    /// The reason why the index does not support the workload.
    LeftOut(&'static str),
}

/// The measured results.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Results {
    pub(crate) ops: u64,
    pub(crate) seconds: f64,
    /// Million operations a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mops: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) load_mops: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latency_ns: Option<PercentilesNs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_per_key: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stats: Option<Statistics>,
}

impl Row for IndexRow<'_> {
    const HEADINGS: &'static [&'static str] = &[
        "tree",
        "mix",
        "key",
        "space",
        "layout",
        "skew",
        "batch",
        "threads",
        "Mops/s",
        "at 151 ns",
        "load Mops/s",
        "p50 ns",
        "p99 ns",
        "p99.9 ns",
        "bytes/key",
    ];

    fn cells(&self) -> Vec<Cell> {
        let results = self.measured.as_deref();
        let result = |of: fn(&Results) -> Option<f64>| Cell::measure(results.and_then(of));
        let curve = results.and_then(|results| results.latency_ns.as_ref());
        let latency = |percent| Cell::measure(curve.and_then(|ns| ns.at(percent)));
        let then = self.miss_ns.map(|now| now / MISS_NS_THEN);
        let mops = results.and_then(|results| results.mops);
        vec![
            Cell::key(&self.tree),
            Cell::key(&self.mix),
            Cell::key(self.key_bytes),
            Cell::key(self.key_space),
            Cell::key(self.key_layout),
            Cell::key(self.skew),
            Cell::key(self.batch),
            Cell::key(self.threads),
            Cell::measure(mops),
            Cell::measure(mops.zip(then).map(|(mops, then)| mops * then)),
            result(|results| results.load_mops),
            latency(50.0),
            latency(99.0),
            latency(99.9),
            result(|results| results.bytes_per_key),
        ]
    }
}
