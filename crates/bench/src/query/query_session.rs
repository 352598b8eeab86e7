//! Runs of queries over one directory: executors, emptied before each run, and the answers that are expected.
//!
//! Cold means here: no page of a table is in the executor's cache, and reads bypass the system's. Threads, their queues of
//! reads and the memory for pages are there already, made by a run that is not measured: a server has them, too. Where a
//! part of the pages is to be resident, the same query runs before, and the rest is evicted.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use namiki_exec::plan::Plan;
use namiki_exec::{Degree, ExecError, Executor, Mode, Options, Rows, Statistics, naive};
use namiki_platform::clock::process_cpu_ns;

use super::answer::{Answer, AnswerSum};
use super::logical_plan::sequential_plan;
use super::tpch_directory::TpchDirectory;
use crate::args::Switch;
use crate::error::BenchError;
use crate::interrupt;
use crate::worker_threads::on_processors;

/// The plain evaluator keeps whole tables as values; up to so many rows it is used.
const NAIVE_ROWS_MAX: u64 = 400_000;
/// The degree of runs that are not measured.
const DEGREE_UNMEASURED: usize = 128;
/// How often Ctrl-C is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Time between two signs of life of a long run.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// See the module.
pub(crate) struct QuerySession {
    pub(crate) directory: TpchDirectory,
    cache_bytes: usize,
    pin: Switch,
    /// By the number of their threads: these stay on the processors that they were started on.
    executors: BTreeMap<usize, Executor>,
}

/// How a plan is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Execution {
    pub(crate) mode: Mode,
    pub(crate) threads: usize,
    pub(crate) degree: Degree,
    /// Of the pages that the query reads, how many are in the cache when it begins, in percent.
    pub(crate) resident_percent: u8,
}

/// A query that has run.
pub(crate) struct QueryRun {
    pub(crate) answer: Answer,
    pub(crate) statistics: Statistics,
    /// From the request for the first row until the last one was there.
    ///
    /// Paper: oode §3 (処理時間)
    pub(crate) seconds: f64,
    /// Processor time of the whole process.
    pub(crate) cpu_ns: u64,
}

impl Execution {
    /// As a conventional engine does it.
    pub(crate) const ORDERED: Self = Self {
        mode: Mode::Ordered,
        threads: 1,
        degree: Degree::Fixed(1),
        resident_percent: 0,
    };

    /// Where nothing is measured: soon over, from an empty cache.
    fn unmeasured(threads: usize) -> Self {
        Self {
            mode: Mode::OutOfOrder,
            threads,
            degree: Degree::Fixed(DEGREE_UNMEASURED),
            resident_percent: 0,
        }
    }

    fn options(self) -> Options {
        Options {
            threads: NonZeroUsize::new(self.threads).unwrap_or(NonZeroUsize::MIN),
            degree: self.degree,
            mode: self.mode,
            memory_bytes_max: usize::MAX,
            ..Options::default()
        }
    }
}

impl QuerySession {
    /// Runs over this directory, each with `cache_bytes` for pages.
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

    /// What the answer has to be: by the plain evaluator, or, of large tables, by scans and hash joins, which use no
    /// index.
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
        // Scans of one thread after another order of rows than look-ups have.
        let scanned = self.run(&sequential, Execution::unmeasured(1))?;
        Ok(scanned.answer)
    }

    /// Runs a plan once, with as much in the cache as it says.
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
            let before_ns = cpu_ns()?;
            let began = Instant::now();
            let mut rows = executor.run(plan, &self.directory.tables, &how.options())?;
            let answer = take_all(plan, &mut rows)?;
            let seconds = began.elapsed().as_secs_f64();
            let cpu_ns = cpu_ns()? - before_ns;
            let statistics = rows.statistics();
            Ok(QueryRun {
                answer,
                statistics,
                seconds,
                cpu_ns,
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

/// Leaves this part of the pages in the cache that are in it. The others leave as they do when others need the room.
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

/// Takes all rows, until Ctrl-C.
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
            // Nothing but Ctrl-C cancels a query here.
            ExecError::Cancelled => Self::Interrupted,
            ExecError::Plan(why) => Self::Usage(why.to_string()),
            error => Self::Query(error),
        }
    }
}
