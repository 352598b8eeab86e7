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
    /// The statistics after the load and the warm-up, before the timed operations.
    #[serde(skip)]
    pub(crate) stats_before: Option<Statistics>,
}

impl Row for IndexRow<'_> {
    fn cells(&self) -> Vec<(&'static str, Cell)> {
        let results = self.measured.as_deref();
        let result = |of: fn(&Results) -> Option<f64>| Cell::measure(results.and_then(of));
        let curve = results.and_then(|results| results.latency_ns.as_ref());
        let latency = |percent| Cell::measure(curve.and_then(|ns| ns.at(percent)));
        let then = self.miss_ns.map(|now| now / MISS_NS_THEN);
        let mops = results.and_then(|results| results.mops);
        vec![
            ("tree", Cell::key(&self.tree)),
            ("mix", Cell::key(&self.mix)),
            ("key", Cell::key(self.key_bytes)),
            ("space", Cell::key(self.key_space)),
            ("layout", Cell::key(self.key_layout)),
            ("skew", Cell::key(self.skew)),
            ("batch", Cell::key(self.batch)),
            ("threads", Cell::key(self.threads)),
            ("Mops/s", Cell::measure(mops)),
            (
                "at 151 ns",
                Cell::measure(mops.zip(then).map(|(mops, then)| mops * then)),
            ),
            ("load Mops/s", result(|results| results.load_mops)),
            ("p50 ns", latency(50.0)),
            ("p99 ns", latency(99.0)),
            ("p99.9 ns", latency(99.9)),
            ("bytes/key", result(|results| results.bytes_per_key)),
        ]
    }
}
