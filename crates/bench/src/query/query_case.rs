//! A measured query: its plan, its expected answer, and the limits that its reads are compared
//! with.

use std::path::PathBuf;

use namiki_exec::Degree;
use namiki_exec::plan::{Plan, stored};
use namiki_platform::machine::Machine;

use super::answer::Answer;
use super::device_limit::{DeviceLimit, Limit, Shape};
use super::logical_plan::{logical_plan, sequential_plan};
use super::page_costs::PageCosts;
use super::query_session::{Execution, QueryRun, QuerySession};
use super::result_row::{QueryRow, plan_text};
use super::selectivity::Selectivity;
use super::tasks::Tasks;
use crate::args::TimedArgs;
use crate::device_choice::Device;
use crate::error::BenchError;
use crate::run_stages::quotient;

/// Approximate number of page frames that an executor has in addition to its cache.
const FRAMES_IN_FLIGHT: usize = 2048;

/// A measured query.
pub(crate) struct QueryCase {
    name: String,
    selectivity: Option<Selectivity>,
    plan: Plan,
    /// The same query with scans and hash joins.
    sequential: Plan,
    /// The same query with the choices left to the planner.
    logical: Plan,
    expected: Answer,
    page_costs: PageCosts,
    files: Vec<PathBuf>,
}

/// The join method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum JoinKind {
    /// As in the plan: nested loops through indexes.
    NestedLoop,
    /// Hash joins over complete scans.
    Hash,
    /// As the planner chooses.
    Planner,
}

impl JoinKind {
    fn name(self) -> &'static str {
        match self {
            Self::NestedLoop => "nested-loop",
            Self::Hash => "hash",
            Self::Planner => "planner",
        }
    }
}

/// The additional measurements with a query.
pub(crate) struct Beside<'a> {
    pub(crate) timed: &'a TimedArgs,
    pub(crate) device: &'a Device,
    /// Completions per turn of the bare loop; by default as many as in the query's own turns.
    pub(crate) batch: Option<u16>,
    /// Whether the device is measured.
    pub(crate) limit: bool,
}

impl QueryCase {
    /// Reads the plan, and computes its expected answer.
    pub(crate) fn new(
        name: &str,
        selectivity: Option<Selectivity>,
        session: &mut QuerySession,
        seed: u64,
    ) -> Result<Self, BenchError> {
        let mut plan = plan_of(name)?;
        if let Some(selectivity) = selectivity {
            plan = selectivity.applied(plan).ok_or_else(|| {
                BenchError::Usage(format!(
                    "--selectivity moves a bound on an index of customer, and {name} has none"
                ))
            })?;
        }
        let tables = &session.directory.tables;
        let sequential = sequential_plan(&plan, tables).unwrap_or_else(|| plan.clone());
        let logical = logical_plan(&plan, tables).unwrap_or_else(|| plan.clone());
        let expected = session.expected(&plan)?;
        eprintln!("{name}: {expected}");
        Ok(Self {
            name: name.to_owned(),
            selectivity,
            sequential,
            logical,
            expected,
            page_costs: PageCosts::measure(&session.directory, &plan, seed)?,
            files: session.directory.files_of(&plan),
            plan,
        })
    }

    /// Runs the query, checks its answer, and measures the device.
    pub(crate) fn run<'m>(
        &self,
        session: &mut QuerySession,
        how: Execution,
        join: JoinKind,
        beside: &Beside<'_>,
        machine: &'m Machine,
        round: u32,
    ) -> Result<QueryRow<'m>, BenchError> {
        let plan = match join {
            JoinKind::NestedLoop => &self.plan,
            JoinKind::Hash => &self.sequential,
            JoinKind::Planner => &self.logical,
        };
        let ran = session.run(plan, how)?;
        if ran.answer != self.expected {
            return Err(BenchError::Check(format!(
                "{} in {} order with {} threads and {} tasks gives {}, and has to give {}",
                self.name,
                mode_name(how),
                how.threads,
                Tasks(how.degree),
                ran.answer,
                self.expected
            )));
        }
        let plain_seconds = match self.selectivity {
            Some(selectivity) if how.resident_percent == 100 && join == JoinKind::NestedLoop => {
                session.plain_seconds(&self.plan, selectivity, how.threads, self.expected)?
            }
            _ => None,
        };
        if ran.statistics.threads != how.threads && how.mode == namiki_exec::Mode::OutOfOrder {
            return Err(BenchError::Usage(format!(
                "--threads {}: an executor gives a query no more than {}",
                how.threads, ran.statistics.threads
            )));
        }
        let limit = if beside.limit {
            self.limit(session, how, beside, &ran)?
        } else {
            Limit::default()
        };
        Ok(self.row(
            how,
            join,
            beside,
            machine,
            round,
            session.cache_bytes(),
            &ran,
            &limit,
            plain_seconds,
        ))
    }

    fn limit(
        &self,
        session: &QuerySession,
        how: Execution,
        beside: &Beside<'_>,
        ran: &QueryRun,
    ) -> Result<Limit, BenchError> {
        let statistics = &ran.statistics;
        let depth = match how.degree {
            Degree::Fixed(number) => number,
            Degree::Adaptive => statistics.degree,
        };
        // Limits the reads of each thread so that all of them together fit into a queue's depth.
        let depth = depth
            .clamp(1, usize::from(u16::MAX) / how.threads.max(1))
            .min(QUEUE_DEPTH);
        let own = quotient(statistics.counters.reads as f64, statistics.turns as f64);
        let own = own.unwrap_or(1.0).round().clamp(1.0, depth as f64) as u16;
        let frames = session.cache_bytes() / namiki_segment::PAGE_BYTES + FRAMES_IN_FLIGHT;
        let limit = DeviceLimit {
            directory: &session.directory,
            files: self.files.clone(),
            timed: beside.timed,
            is_emulated: !session.directory.is_direct() || matches!(beside.device, Device::Slow(_)),
        };
        if statistics.counters.pages > SCAN_PAGES_PER_READ * statistics.counters.reads {
            return Ok(Limit {
                bytes_per_second: limit.bytes_per_second(how.threads)?,
                ..Limit::default()
            });
        }
        limit.measure(Shape {
            threads: how.threads,
            depth,
            batch: beside.batch.unwrap_or(own),
            frames: frames / how.threads.max(1),
        })
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "a row is made of all that there is"
    )]
    fn row<'m>(
        &self,
        how: Execution,
        join: JoinKind,
        beside: &Beside<'_>,
        machine: &'m Machine,
        round: u32,
        cache_bytes: usize,
        ran: &QueryRun,
        limit: &Limit,
        plain_seconds: Option<f64>,
    ) -> QueryRow<'m> {
        let statistics = &ran.statistics;
        let counters = statistics.counters;
        let reads = counters.reads as f64;
        let cpu_us = ran.cpu_ns as f64 / 1e3;
        let page_bytes = counters.pages as f64 * namiki_segment::PAGE_BYTES as f64;
        QueryRow {
            query: self.name.clone(),
            mode: mode_name(how),
            join: join.name(),
            threads: how.threads,
            tasks: Tasks(how.degree),
            selectivity: self.selectivity,
            balance_above: self.selectivity.map(Selectivity::bound),
            device: beside.device.to_string(),
            cache_mb: cache_bytes as u64 >> 20,
            resident_percent: how.resident_percent,
            window: how.window_tasks,
            seconds: ran.seconds,
            plain_seconds,
            iops: quotient(reads, ran.seconds),
            iops_limit: limit.iops,
            iops_limit_depth1: limit.iops_depth1,
            mb_per_second: quotient(page_bytes / 1e6, ran.seconds),
            mb_per_second_limit: limit.bytes_per_second.map(|bytes| bytes / 1e6),
            cpu_us_per_io: quotient(cpu_us, reads),
            cpu_us_per_io_bare: limit.cpu_us_per_io_bare,
            page_costs: self.page_costs,
            cpu_percent: quotient(cpu_us / 1e4, ran.seconds * machine.cores as f64),
            reads: counters.reads,
            pages: counters.pages,
            distinct_pages: statistics.distinct_pages,
            merged_faults: counters.merged_faults,
            polls: statistics.turns,
            wake_ups: ran.wake_ups,
            reads_per_turn: quotient(reads, statistics.turns as f64),
            reads_per_turn_bare: limit.per_turn_bare,
            tasks_made: counters.tasks,
            tasks_in_flight_max: statistics.tasks_in_flight_max,
            tasks_handed_over: statistics.handed_over,
            degree: statistics.degree,
            rows: ran.answer.rows,
            groups: ran.answer.groups,
            checksum: ran.answer.checksum,
            plan: plan_text(&ran.explanation.root),
            queue: statistics.device.clone(),
            seed: beside.timed.seed,
            round,
            machine,
        }
    }
}

/// A query with more pages per read on average counts as a scan and is compared with reads in
/// extents.
const SCAN_PAGES_PER_READ: u64 = 8;
/// Reads in flight that one thread of the executor can have.
const QUEUE_DEPTH: usize = 1024;

fn mode_name(how: Execution) -> &'static str {
    match how.mode {
        namiki_exec::Mode::Ordered => "ordered",
        namiki_exec::Mode::OutOfOrder => "out-of-order",
    }
}

/// Reads a stored plan, or one from a file.
pub(super) fn plan_of(name: &str) -> Result<Plan, BenchError> {
    if let Some(plan) = stored::named(name) {
        return Ok(plan);
    }
    let names: Vec<&str> = stored::names().collect();
    let text = std::fs::read_to_string(name).map_err(|error| {
        let names = names.join(", ");
        BenchError::Usage(format!(
            "--query {name} is none of {names}, and no plan file: {error}"
        ))
    })?;
    text.parse()
        .map_err(|error| BenchError::Usage(format!("--query {name}: {error}")))
}
