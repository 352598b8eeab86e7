//! `namiki query`: runs a plan over the tables of a directory, and prints the rows as they are
//! produced.
//!
//! Ctrl-C cancels the query: its threads complete the reads in flight, and nothing is left behind.

mod output;
mod progress_line;
mod tables_in_memory;

use std::io::{BufWriter, LineWriter, Read, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use namiki::Database;
use namiki::query::{
    Degree, ExecError, Explanation, Mode, Options, Plan, QueryError, Rows, stored,
};
use namiki_terminal::{CommandFailure, interrupt, standard_output};

use self::output::{Format, Printer};
use self::progress_line::ProgressLine;
use crate::failure::Failure;
use crate::input::Input;
use crate::opening;

const HELP: &str = "\
PLAN is `paper`, the paper's query over the tables of `namiki load tpch`; `q3-sliver`, `q5-sliver` or
`q10-sliver`, TPC-H's joins for a small part of the customers; or a file with a plan as JSON (- is standard input). A plan is a tree of operators:
scan, index_scan, nested_loop_join, hash_join, filter, project, aggregate, sort, limit; or find and
join, which the planner turns into scans and joins.

Tables in memory have columns by their types: key and value, or key_1, key_2 and so on for a tuple, as
namiki tables shows them. Columns with the same name are printed with their tables, as customer.id and
orders.id.

Rows go to standard output as they are produced, unordered unless the plan sorts them. Standard error
shows progress while the query runs, and a summary at its end.

Examples:
  namiki query /data/tpch paper
  namiki query /data/tpch paper --mode ordered
  namiki query /data/tpch paper --explain
  namiki query /data/shop stock.json --format json
  namiki query /data/tpch totals.json --tasks 128 --format json | jq .total";

/// Time between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Arguments of `namiki query`.
#[derive(Args)]
#[command(after_help = HELP)]
pub(crate) struct QueryArguments {
    /// The database's directory
    dir: PathBuf,
    /// `paper`, `q3-sliver`, `q5-sliver`, `q10-sliver`, or a file with a plan
    plan: String,
    /// Threads; by default one for each processor
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::from(1..=192))]
    threads: Option<usize>,
    /// Tasks of each thread that may wait for pages: a number, or `adaptive`
    #[arg(long, value_parser = degree)]
    tasks: Option<Degree>,
    /// Elevator window: tasks of each thread that may wait, so that pages are read in order and
    /// neighbours in one request; for plans that look up a large part of a table
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = RangedU64ValueParser::<usize>::from(0..=1_000_000))]
    window: usize,
    /// The order of execution
    #[arg(long, value_enum, default_value_t = Order::OutOfOrder)]
    mode: Order,
    /// Memory for cached pages, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = RangedU64ValueParser::<usize>::from(2..=1 << 20))]
    cache_mb: usize,
    /// Memory for hash tables, sorts and groups, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = RangedU64ValueParser::<usize>::from(1..=1 << 20))]
    memory_mb: usize,
    /// Print how the plan would run and its estimated cost, without running it
    #[arg(long, conflicts_with = "analyze")]
    explain: bool,
    /// Print, instead of rows, how the plan ran: rows of each operator, tasks, reads, time
    #[arg(long)]
    analyze: bool,
    /// The output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, ValueEnum)]
enum Order {
    /// One task after the other, as in a conventional engine
    Ordered,
    /// Any task that can run next
    OutOfOrder,
}

fn degree(text: &str) -> Result<Degree, String> {
    if text == "adaptive" {
        return Ok(Degree::Adaptive);
    }
    match text.parse() {
        Ok(tasks @ 1..=1_000_000) => Ok(Degree::Fixed(tasks)),
        _ => Err("neither `adaptive` nor a number from 1 to 1000000".to_owned()),
    }
}

/// Runs the query.
pub(crate) fn run(arguments: &QueryArguments) -> Result<(), Failure> {
    interrupt::listen();
    let plan = read_plan(&arguments.plan)?;
    let settings = Database::builder().page_cache_bytes(arguments.cache_mb << 20);
    let db = opening::to_read_with(settings, &arguments.dir)?;
    let query = db.query().options(options(arguments));
    let query = tables_in_memory::described(query, &db, &plan)?;
    if arguments.explain {
        let explanation = query.explain(&plan)?;
        print_explanation(&explanation, arguments.format)?;
        db.close()?;
        return Ok(());
    }
    let mut rows = query.run(&plan)?;
    let mut printer = Printer::new(
        BufWriter::new(standard_output()),
        arguments.format,
        rows.columns(),
    );
    if arguments.analyze {
        printer.count_only();
    }
    let printed = watched(&mut rows, &mut printer);
    // Flush the rows that were printed before an error.
    let flushed = printer.flush();
    if let Err(error) = printed {
        // Ends the query's threads before the database is closed.
        let _ = rows.cancel();
        return Err(error);
    }
    flushed?;
    if arguments.analyze {
        print_explanation(&rows.explain(), arguments.format)?;
    }
    eprintln!(
        "{}",
        progress_line::summary(printer.rows(), &rows.statistics())
    );
    db.close()?;
    Ok(())
}

fn print_explanation(explanation: &Explanation, format: Format) -> Result<(), Failure> {
    let text = match format {
        Format::Text => explanation.to_string(),
        Format::Json => serde_json::to_string_pretty(explanation)
            .map_err(|error| Failure::output(error.into()))?,
    };
    writeln!(LineWriter::new(standard_output()), "{text}").map_err(Failure::output)
}

fn options(arguments: &QueryArguments) -> Options {
    let default = match arguments.mode {
        Order::Ordered => Options::ordered(),
        Order::OutOfOrder => Options::default(),
    };
    Options {
        threads: arguments
            .threads
            .and_then(NonZeroUsize::new)
            .unwrap_or(default.threads),
        degree: arguments.tasks.unwrap_or(default.degree),
        mode: match arguments.mode {
            Order::Ordered => Mode::Ordered,
            Order::OutOfOrder => Mode::OutOfOrder,
        },
        window_tasks: arguments.window,
        memory_bytes_max: arguments.memory_mb << 20,
        ..default
    }
}

fn read_plan(name: &str) -> Result<Plan, Failure> {
    if let Some(plan) = stored::named(name) {
        return Ok(plan);
    }
    let path = PathBuf::from(name);
    let mut text = String::new();
    Input::open(&path)
        .and_then(|mut input| input.read_to_string(&mut text))
        .map_err(|source| Failure::input(&path, source))?;
    text.parse()
        .map_err(|source| Failure::PlanFile { path, source })
}

/// Prints all rows, while another thread shows the progress, and cancels the query after Ctrl-C.
fn watched(rows: &mut Rows, printer: &mut Printer<impl Write>) -> Result<(), Failure> {
    let canceller = rows.canceller();
    let (over, is_over) = channel::<()>();
    std::thread::scope(|threads| {
        let watcher = std::thread::Builder::new().name("progress".to_owned());
        let watching = watcher.spawn_scoped(threads, move || {
            let mut line = ProgressLine::new();
            while let Err(RecvTimeoutError::Timeout) = is_over.recv_timeout(PROGRESS_INTERVAL) {
                if interrupt::check().is_err() {
                    canceller.cancel();
                }
                line.say(&canceller.live());
            }
        });
        // Without that thread the query runs as well; Ctrl-C then takes effect at the next row.
        drop(watching);
        let printed = print_all(rows, printer);
        drop(over);
        printed
    })
}

fn print_all(rows: &mut Rows, printer: &mut Printer<impl Write>) -> Result<(), Failure> {
    loop {
        interrupt::check()?;
        match rows.next_row() {
            Ok(Some(row)) => printer.print(row)?,
            Ok(None) => return printer.end(),
            Err(ExecError::Cancelled) => return Err(CommandFailure::Interrupted.into()),
            Err(error) => return Err(Failure::Query(QueryError::Exec(error))),
        }
    }
}
