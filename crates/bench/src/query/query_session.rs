//! Runs of queries over one directory: executors, which are emptied before each run, and the
//! expected answers.
//!
//! A run is cold if no table page is in the executor's cache and reads bypass the system's cache.
//! Threads, their read queues and the memory for pages exist already, because an unmeasured run
//! created them; a server has them, too. If a part of the pages must be resident, the same query
//! runs first, and the other pages are evicted.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use namiki_exec::plan::Plan;
use namiki_exec::{
    Degree, ExecError, Executor, Explanation, Mode, Options, Rows, Statistics, naive,
};
use namiki_platform::clock::{process_cpu_ns, process_waits};

use super::answer::{Answer, AnswerSum};
use super::logical_plan::sequential_plan;
use super::plain_lookups;
use super::selectivity::Selectivity;
use super::tpch_directory::TpchDirectory;
use crate::args::Switch;
use crate::error::BenchError;
use crate::interrupt;
use crate::worker_threads::on_processors;

/// The naive evaluator materialises whole tables as values; it is used up to this number of rows.
const NAIVE_ROWS_MAX: u64 = 400_000;
/// The degree of unmeasured runs.
const DEGREE_UNMEASURED: usize = 128;
/// Polling interval for Ctrl-C.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Interval between progress messages of a long run.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// Runs of queries over one directory.
pub(crate) struct QuerySession {
    pub(crate) directory: TpchDirectory,
    cache_bytes: usize,
    pin: Switch,
    /// By their number of threads. Each thread stays on the processor on which it was started.
    executors: BTreeMap<usize, Executor>,
}

/// The execution parameters of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Execution {
    pub(crate) mode: Mode,
    pub(crate) threads: usize,
    pub(crate) degree: Degree,
    /// Percentage of the query's pages that are in the cache at its start.
    pub(crate) resident_percent: u8,
    /// Tasks of a thread that may wait so that their reads are in page order; 0 disables this.
    pub(crate) window_tasks: usize,
}

/// A completed query.
pub(crate) struct QueryRun {
    pub(crate) answer: Answer,
    pub(crate) statistics: Statistics,
    /// From the request for the first row to the arrival of the last one.
    ///
    /// Paper: oode §3 (処理時間)
    pub(crate) seconds: f64,
    /// Processor time of the whole process.
    pub(crate) cpu_ns: u64,
    /// How often threads of the process were woken after a wait.
    pub(crate) wake_ups: u64,
    /// The executed plan, with every choice made.
    pub(crate) explanation: Explanation,
}

impl Execution {
    /// The execution of a conventional engine.
    pub(crate) const ORDERED: Self = Self {
        mode: Mode::Ordered,
        threads: 1,
        degree: Degree::Fixed(1),
        resident_percent: 0,
        window_tasks: 0,
    };

    /// A short unmeasured run, from an empty cache.
    fn unmeasured(threads: usize) -> Self {
        Self {
            mode: Mode::OutOfOrder,
            threads,
            degree: Degree::Fixed(DEGREE_UNMEASURED),
            resident_percent: 0,
            window_tasks: 0,
        }
    }

    fn options(self) -> Options {
        Options {
            threads: NonZeroUsize::new(self.threads).unwrap_or(NonZeroUsize::MIN),
            degree: self.degree,
            mode: self.mode,
            window_tasks: self.window_tasks,
            memory_bytes_max: usize::MAX,
            ..Options::default()
        }
    }
}

impl QuerySession {
    /// Creates a session over this directory. Each executor has `cache_bytes` for pages.
    pub(crate) fn new(directory: TpchDirectory, cache_bytes: usize, pin: Switch) -> Self {
        Self {
            directory,
            cache_bytes,
            pin,
            executors: BTreeMap::new(),
        }
    }

    /// Memory for pages.
    pub(crate) fn cache_bytes(&self) -> usize {
        self.cache_bytes
    }

    /// The expected answer: computed by the naive evaluator or, for large tables, by scans and hash
    /// joins without an index.
    pub(crate) fn expected(&mut self, plan: &Plan) -> Result<Answer, BenchError> {
        let tables = &self.directory.tables;
        let sequential = sequential_plan(plan, tables).unwrap_or_else(|| plan.clone());
        if self.directory.rows_of(plan) <= NAIVE_ROWS_MAX {
            let plain = naive::run(plan, tables)?;
            let mut sum = AnswerSum::new(plan, plain.columns.iter().map(String::as_str));
            plain.rows.iter().for_each(|row| sum.add(row));
            return Ok(sum.finish());
        }
        eprintln!("reading whole tables, to know the answer");
        // Scans by one thread, in another order of rows than look-ups have.
        let scanned = self.run(&sequential, Execution::unmeasured(1))?;
        Ok(scanned.answer)
    }

    /// The paper's query without an executor, over the pages that the last run left in memory: the
    /// seconds taken. `None` if it cannot run.
    pub(crate) fn plain_seconds(
        &self,
        plan: &Plan,
        selectivity: Selectivity,
        threads: usize,
        expected: Answer,
    ) -> Result<Option<f64>, BenchError> {
        let Some(executor) = self.executors.get(&threads) else {
            return Ok(None);
        };
        let run = || {
            let tables = &self.directory.tables;
            let cache = executor.cache();
            Ok(plain_lookups::papers_query(
                selectivity.datum(),
                tables,
                cache,
            ))
        };
        let Some((rows, seconds)) = on_processors(1, self.pin, run)? else {
            return Ok(None);
        };
        let mut sum = AnswerSum::new(plan, ["c_nationkey", "total", "orders"]);
        rows.iter().for_each(|row| sum.add(row));
        let answer = sum.finish();
        if answer != expected {
            return Err(BenchError::Check(format!(
                "plain look-ups give {answer}, and have to give {expected}"
            )));
        }
        Ok(Some(seconds))
    }

    /// Runs a plan once, with the requested part of its pages in the cache.
    pub(crate) fn run(&mut self, plan: &Plan, how: Execution) -> Result<QueryRun, BenchError> {
        let how = match how.mode {
            Mode::Ordered => Execution {
                resident_percent: how.resident_percent,
                ..Execution::ORDERED
            },
            Mode::OutOfOrder => how,
        };
        if !self.executors.contains_key(&how.threads) {
            let executor = Executor::new(&self.directory.disk, self.cache_bytes)?;
            empty(&executor)?;
            self.run_on(&executor, plan, Execution::unmeasured(how.threads))?;
            self.executors.insert(how.threads, executor);
        }
        let executor = &self.executors[&how.threads];
        empty(executor)?;
        if how.resident_percent > 0 {
            self.run_on(executor, plan, Execution::unmeasured(how.threads))?;
            evict_but(how.resident_percent, executor)?;
        }
        self.run_on(executor, plan, how)
    }

    fn run_on(
        &self,
        executor: &Executor,
        plan: &Plan,
        how: Execution,
    ) -> Result<QueryRun, BenchError> {
        interrupt::check()?;
        let run = || {
            let cpu_ns = || process_cpu_ns().map_err(BenchError::system("ask for processor time"));
            let waits = || process_waits().map_err(BenchError::system("ask for waits of threads"));
            let (before_ns, waits_before) = (cpu_ns()?, waits()?);
            let began = Instant::now();
            let mut rows = executor.run(plan, &self.directory.tables, &how.options())?;
            let answer = take_all(plan, &mut rows)?;
            let seconds = began.elapsed().as_secs_f64();
            let (cpu_ns, wake_ups) = (cpu_ns()? - before_ns, waits()? - waits_before);
            let statistics = rows.statistics();
            Ok(QueryRun {
                answer,
                statistics,
                seconds,
                cpu_ns,
                wake_ups,
                explanation: rows.explain(),
            })
        };
        let ran = on_processors(how.threads, self.pin, run)?;
        let (tasks, frames) = (
            ran.statistics.counters.tasks_live,
            executor.frames_in_flight(),
        );
        if tasks > 0 || frames > 0 {
            let why = format!("the query left {tasks} tasks and {frames} page frames behind");
            return Err(BenchError::Check(why));
        }
        Ok(ran)
    }
}

/// Empties the cache.
fn empty(executor: &Executor) -> Result<(), BenchError> {
    executor.cache().evict(usize::MAX);
    match executor.cache().counters().resident_pages {
        0 => Ok(()),
        left => Err(BenchError::Check(format!(
            "{left} pages cannot leave the cache"
        ))),
    }
}

/// Keeps this percentage of the cached pages. The others are evicted as if others needed the space.
fn evict_but(percent: u8, executor: &Executor) -> Result<(), BenchError> {
    let counters = executor.cache().counters();
    if counters.resident_pages == counters.capacity_pages {
        let why =
            "--resident: not all pages of the query fit the cache; --cache-mb makes it larger";
        return Err(BenchError::Usage(why.to_owned()));
    }
    let leave = counters.resident_pages * (100 - usize::from(percent.min(100))) / 100;
    executor.cache().evict(leave);
    Ok(())
}

/// Fetches all rows, until Ctrl-C.
fn take_all(plan: &Plan, rows: &mut Rows) -> Result<Answer, BenchError> {
    let canceller = rows.canceller();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let (began, mut said) = (Instant::now(), Instant::now());
            // Relaxed: the flag carries no other data.
            while !is_over.load(Ordering::Relaxed) {
                if interrupt::asked() {
                    canceller.cancel();
                    return;
                }
                if said.elapsed() >= PROGRESS_EVERY {
                    eprintln!("the query runs for {:.0} s", began.elapsed().as_secs_f64());
                    said = Instant::now();
                }
                std::thread::park_timeout(LOOK_EVERY);
            }
        });
        let taken = sum_up(plan, rows);
        is_over.store(true, Ordering::Relaxed);
        watch.thread().unpark();
        taken
    })
}

fn sum_up(plan: &Plan, rows: &mut Rows) -> Result<Answer, BenchError> {
    let mut sum = AnswerSum::new(plan, rows.columns());
    while let Some(row) = rows.next_row()? {
        sum.add(&row.to_datums());
    }
    Ok(sum.finish())
}

impl From<ExecError> for BenchError {
    fn from(error: ExecError) -> Self {
        match error {
            // Only Ctrl-C cancels a query here.
            ExecError::Cancelled => Self::Interrupted,
            ExecError::Plan(why) => Self::Usage(why.to_string()),
            error => Self::Query(error),
        }
    }
}
