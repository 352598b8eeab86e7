//! A result of `query`.

use namiki_exec::ExplainedOperator;
use namiki_platform::machine::Machine;
use serde::{Serialize, Serializer};

use super::page_costs::PageCosts;
use super::selectivity::Selectivity;
use super::tasks::Tasks;
use crate::result_writer::{Cell, Row};

/// The keys are a stable contract: new ones may be added, none is renamed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct QueryRow<'a> {
    pub(crate) query: String,
    pub(crate) mode: &'static str,
    /// The join method: as in the plan, or with scans and hash joins in place of look-ups.
    pub(crate) join: &'static str,
    pub(crate) threads: usize,
    pub(crate) tasks: Tasks,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) selectivity: Option<Selectivity>,
    /// The bound on the balance at this selectivity; the paper's is 9980.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) balance_above: Option<f64>,
    pub(crate) device: String,
    pub(crate) cache_mb: u64,
    /// Percentage of the query's pages that were resident at its start.
    pub(crate) resident_percent: u8,
    /// Tasks that wait for reads in page order.
    pub(crate) window: usize,
    pub(crate) seconds: f64,
    /// Seconds of the same query as a program of plain look-ups, if all pages are in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plain_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) iops: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) iops_limit: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) iops_limit_depth1: Option<f64>,
    /// Pages read per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mb_per_second: Option<f64>,
    /// Scans only: the device's rate for reads in extents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mb_per_second_limit: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_us_per_io: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_us_per_io_bare: Option<f64>,
    #[serde(flatten)]
    pub(crate) page_costs: PageCosts,
    /// Utilisation of all processors by this process while the query ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_percent: Option<f64>,
    pub(crate) reads: u64,
    pub(crate) pages: u64,
    pub(crate) distinct_pages: u64,
    pub(crate) merged_faults: u64,
    /// Calls that submitted reads or asked for their completions.
    pub(crate) polls: u64,
    /// How often threads of the process were woken after a wait.
    pub(crate) wake_ups: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reads_per_turn: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reads_per_turn_bare: Option<f64>,
    pub(crate) tasks_made: u64,
    pub(crate) tasks_in_flight_max: u64,
    pub(crate) tasks_handed_over: u64,
    /// Tasks of a thread at the end.
    pub(crate) degree: usize,
    pub(crate) rows: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) groups: Option<u64>,
    #[serde(serialize_with = "as_hex")]
    pub(crate) checksum: u64,
    pub(crate) plan: String,
    /// The method by which reads were executed.
    pub(crate) queue: String,
    pub(crate) seed: u64,
    pub(crate) round: u32,
    pub(crate) machine: &'a Machine,
}

// serde requires a reference.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
fn as_hex<S: Serializer>(checksum: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{checksum:016x}"))
}

impl Row for QueryRow<'_> {
    fn cells(&self) -> Vec<(&'static str, Cell)> {
        let selectivity = self
            .selectivity
            .map_or("-".to_owned(), |part| part.to_string());
        vec![
            ("query", Cell::key(&self.query)),
            ("mode", Cell::key(self.mode)),
            ("join", Cell::key(self.join)),
            ("threads", Cell::key(self.threads)),
            ("tasks", Cell::key(self.tasks)),
            ("selectivity", Cell::Key(selectivity)),
            ("device", Cell::key(&self.device)),
            ("resident", Cell::key(self.resident_percent)),
            ("window", Cell::key(self.window)),
            ("seconds", Cell::measure(self.seconds)),
            ("reads/s", Cell::measure(self.iops)),
            ("limit/s", Cell::measure(self.iops_limit)),
            ("limit at 1", Cell::measure(self.iops_limit_depth1)),
            ("MB/s", Cell::measure(self.mb_per_second)),
            ("limit MB/s", Cell::measure(self.mb_per_second_limit)),
            ("CPU us/read", Cell::measure(self.cpu_us_per_io)),
            ("bare us/read", Cell::measure(self.cpu_us_per_io_bare)),
            ("CPU %", Cell::measure(self.cpu_percent)),
            ("reads", Cell::count(self.reads)),
            ("pages", Cell::count(self.distinct_pages)),
            ("merged", Cell::count(self.merged_faults)),
            ("rows", Cell::count(self.rows)),
            ("groups", Cell::count(self.groups)),
        ]
    }
}

/// A plan in one line, with the root operator first and the choices that were made.
pub(crate) fn plan_text(operator: &ExplainedOperator) -> String {
    let inputs: Vec<String> = operator.inputs.iter().map(plan_text).collect();
    if inputs.is_empty() {
        return operator.what.clone();
    }
    format!("{} [{}]", operator.what, inputs.join("; "))
}
