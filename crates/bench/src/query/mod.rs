//! `query`: the executor on tables larger than memory, and the limit of their device.
//!
//! Every run starts with an empty cache, reads from the device itself, and has its answer checked.
//! It is followed by random reads over the same files with as many threads and as many reads in
//! flight. Because the two measurements follow each other so closely, they are comparable even on a
//! shared machine.
//!
//! Paper: oode §3

mod answer;
mod device_limit;
mod figure_queries;
mod logical_plan;
mod made_tables;
mod page_costs;
mod plain_lookups;
mod query_case;
mod query_session;
mod result_row;
mod selectivity;
mod tasks;
mod tpch_directory;

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use namiki_exec::Mode;
use namiki_exec::plan::stored;
use namiki_platform::machine::Machine;

pub(crate) use self::figure_queries::{FigureQueries, FigureSetup};
use self::made_tables::make_tables;
use self::query_case::{Beside, JoinKind, QueryCase};
pub(crate) use self::query_session::Execution;
use self::query_session::QuerySession;
use self::selectivity::Selectivity;
use self::tasks::Tasks;
use self::tpch_directory::TpchDirectory;
use crate::args::{self, Switch, TimedArgs};
use crate::device_choice::Device;
use crate::error::BenchError;
use crate::repetitions::in_turns;
use crate::result_writer::Report;
use crate::run_folder::Place;

const NOTES: &str = "\
Queries (--query): paper, the query of the paper's figure 1; q3-sliver, q5-sliver and q10-sliver, TPC-H's joins for a small
part of the customers; or a file with a plan. --selectivity moves the paper's bound on c_acctbal: 0.000368 is the paper's, 9980; x10 is ten times as much.

Each run begins with an empty cache, or with --resident a part of its pages, and reads the device directly. Its answer has to be that of the plain evaluator, or,
of larger tables, that of scans and hash joins: otherwise the exit status is 1.

After each run, random 4 KiB reads over the same files say what the device can do: as many in flight by as many
threads (iops_limit), and one at a time (iops_limit_depth1); and a bare io_uring loop says what a read costs
(cpu_us_per_io_bare), with as many completions for each system call as the query had, or --batch. Where the query scans,
it is measured against reads of 256 KiB, eight in flight for each thread (mb_per_second_limit). --seconds, or --ops, is the
length of each of these measurements [default: 0.5 s].

Mode `ordered` has one thread with one task, as the paper's. Its rows are not repeated for each --threads and --tasks.

Examples:
  namiki load tpch --scale 1 --dir /data/tpch
  namiki-bench query --dir /data/tpch --tasks 1,16,64,256 --threads 1,2 --repeat 5
  namiki-bench query --dir /data/tpch --selectivity x1,x10,x50,x150 --join nested-loop,hash,planner
  namiki-bench query --dir /data/tpch --device slow:192x5ms --threads 16,128 --tasks 16";

/// Arguments of `query`.
#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub(crate) struct QueryArgs {
    /// A directory that `namiki load tpch` created. It is not changed [default: a fresh one with
    /// the required tables, which is removed at the end]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Without --dir: the scale factor of the tables
    #[arg(long, value_name = "FACTOR", default_value = "0.1", value_parser = scale, conflicts_with = "dir")]
    scale: f64,
    /// paper, q3-sliver, q5-sliver, q10-sliver, or a file with a plan; several with commas
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = stored::PAPER)]
    query: Vec<String>,
    /// Numbers of threads
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1", value_parser = args::threads())]
    threads: Vec<NonZeroU16>,
    /// Tasks of each thread, or adaptive
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "64")]
    tasks: Vec<Tasks>,
    /// The order of execution
    #[arg(
        long,
        value_enum,
        value_name = "MODE,…",
        value_delimiter = ',',
        default_value = "ordered,out-of-order"
    )]
    mode: Vec<QueryMode>,
    /// The fraction of all customers that the paper's query selects, or xN for N times the paper's
    /// [default: the paper's]
    #[arg(long, value_name = "PART,…", value_delimiter = ',')]
    selectivity: Vec<Selectivity>,
    /// The join method: through indexes, as in the plans; by complete scans; or as the planner
    /// chooses
    #[arg(
        long,
        value_enum,
        value_name = "KIND,…",
        value_delimiter = ',',
        default_value = "nested-loop"
    )]
    join: Vec<JoinKind>,
    /// Percentage of the query's pages that are in memory at its start
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "0", value_parser = RangedU64ValueParser::<u8>::from(0..=100))]
    resident: Vec<u8>,
    /// Tasks of a thread that may wait so that their pages are read in order and adjacent ones in
    /// one request; 0: only tasks with reads in flight
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = RangedU64ValueParser::<usize>::from(0..=1_000_000))]
    window: usize,
    /// Memory for pages
    #[arg(long, value_name = "MB", default_value_t = 256, value_parser = RangedU64ValueParser::<u32>::from(2..=1 << 20))]
    cache_mb: u32,
    /// Completions that the bare loop waits for per turn [default: as many as in the query's turns]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u16>::from(1..=1024))]
    batch: Option<u16>,
    /// Whether to measure the device after each run
    #[arg(long, value_enum, default_value = "on")]
    limit: Switch,
    /// file, or slow:192x5ms: 192 emulated drives with 5 ms for each read
    #[arg(long, value_name = "DEVICE", default_value = "file")]
    device: Device,
    #[command(flatten)]
    timed: TimedArgs,
}

/// The order of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum QueryMode {
    /// One task in one thread.
    Ordered,
    /// Many tasks.
    OutOfOrder,
}

/// One combination of the requested parameters.
struct Combination {
    case: usize,
    how: Execution,
    join: JoinKind,
}

/// Parses a scale for which TPC-H's generator has a formula.
pub(crate) fn scale(text: &str) -> Result<f64, String> {
    let scale = text.parse().ok();
    let scale = scale.filter(|scale| *scale == 0.01 || (0.024..=1000.0).contains(scale));
    scale.ok_or_else(|| "neither 0.01 nor between 0.024 and 1000".to_owned())
}

/// Runs the command.
pub(crate) fn run(args: &QueryArgs) -> Result<(), BenchError> {
    let place = match &args.dir {
        Some(_) => None,
        None => Some(Place::new(None)?),
    };
    let dir = match (&args.dir, &place) {
        (None, Some(fresh)) => {
            make_tables(fresh.path(), &args.tables()?, args.scale)?;
            fresh.path()
        }
        (given, _) => given.as_deref().unwrap_or(Path::new(".")),
    };
    let machine = Machine::describe(dir);
    let directory = TpchDirectory::open(dir, &args.device)?;
    let cache_bytes = (args.cache_mb as usize) << 20;
    let mut session = QuerySession::new(directory, cache_bytes, args.timed.pin);
    let cases = args.cases(&mut session)?;
    let combinations = args.combinations(cases.len());
    let beside = Beside {
        timed: &args.timed,
        device: &args.device,
        batch: args.batch,
        limit: args.limit == Switch::On,
    };
    let mut report = Report::new(args.timed.output.format);
    let outcome = in_turns(args.timed.repeat, &combinations, |combination, round| {
        let Combination { case, how, join } = combination;
        let row = cases[*case].run(&mut session, *how, *join, &beside, &machine, round)?;
        report.row(&row)
    });
    report.finish()?;
    outcome
}

impl QueryArgs {
    /// The tables that the queries name.
    fn tables(&self) -> Result<BTreeSet<String>, BenchError> {
        let mut all = BTreeSet::new();
        for name in &self.query {
            let plan = query_case::plan_of(name)?;
            all.extend(plan.tables().into_iter().map(str::to_owned));
        }
        Ok(all)
    }

    /// Each query, at each requested selectivity if it supports that.
    fn cases(&self, session: &mut QuerySession) -> Result<Vec<QueryCase>, BenchError> {
        let mut cases = Vec::new();
        for name in &self.query {
            let asked = self.selectivity.iter().copied().map(Some);
            let mut selectivities: Vec<Option<Selectivity>> = asked.collect();
            if selectivities.is_empty() {
                selectivities.push((name == stored::PAPER).then_some(Selectivity::PAPER));
            }
            for selectivity in selectivities {
                cases.push(QueryCase::new(name, selectivity, session, self.timed.seed)?);
            }
        }
        Ok(cases)
    }

    /// Ordered execution once, and out-of-order execution with each number of threads and of tasks.
    fn executions(&self, resident_percent: u8) -> Vec<Execution> {
        let mut executions = Vec::new();
        for mode in &self.mode {
            if *mode == QueryMode::Ordered {
                executions.push(Execution {
                    resident_percent,
                    ..Execution::ORDERED
                });
                continue;
            }
            for threads in &self.threads {
                executions.extend(self.tasks.iter().map(|tasks| Execution {
                    mode: Mode::OutOfOrder,
                    threads: threads.get().into(),
                    degree: tasks.0,
                    resident_percent,
                    window_tasks: self.window,
                }));
            }
        }
        executions
    }

    fn combinations(&self, cases: usize) -> Vec<Combination> {
        let mut combinations = Vec::new();
        for case in 0..cases {
            for &join in &self.join {
                for &resident in &self.resident {
                    let executions = self.executions(resident).into_iter();
                    combinations.extend(executions.map(|how| Combination { case, how, join }));
                }
            }
        }
        combinations
    }
}
