//! The commands `figure` and `report`: run the experiments of one figure or of all, and write the
//! results.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::catalogue;
use super::definition::Figure;
use super::experiment_runner::RunArgs;
use super::html_page::{self, Head};
use super::making::{Making, print_json};
use super::outcome::Outcome;
use super::progress::Progress;
use super::report_plan::{Job, Plan, ReportLength, jobs};
use super::verdict_table;
use crate::args::Format;
use crate::error::BenchError;

const NOTES: &str = "\
Runs the experiment, in turns over its lines, and writes into the folder, by the name PAPER-NUMBER:
  .csv   every run, a row each, as soon as it is over
  .svg   the figure; those of tictoc-pwal 6 to 13 also have their failed locks, in .failed_locks_per_100000.svg
  .json  its points and the paper's claims
The claims are printed, too: each holds, does not hold here, is undecided, because the runs of a point differ by
more than what it compares, is not testable here, because it needs more cores or threads than were measured, or is
not judged, because a point that decides has one run: --repeat 2 is the least. A claim that does not hold is a
finding: the exit status is 0. Beside it stands what was counted, and why it does not hold, if the counts show it,
or that no reason is known. Where the paper's text gives a number, it stands beside the one found here.

Unless --seconds says otherwise, a run has as many transactions as the paper's.

The figures of oode run a query. Without --tpch, its tables are made, at scale 1; with --device slow:192x5ms, drives
are emulated, and the threads and tasks are the paper's.

The figures of raft-pwal start a cluster of five processes for each run, with --workers in each node, and need the program
namiki beside this one or on PATH.

The figures of bwtree measure indexes alone, in memory: 1000000 keys, or 8 in figure 19, unless --records says otherwise.
Those of latencies have the paper's numbers of threads, 1 and 112, whatever --threads says.

Examples:
  namiki-bench figure --list
  namiki-bench figure bwtree
  namiki-bench figure tictoc-pwal 7 --out figures
  namiki-bench figure oode 9 --out figures --tpch /data/tpch10 --repeat 5
  namiki-bench figure oode 9 --out figures --device slow:192x5ms
  namiki-bench figure bwtree 16 --out figures --key-bytes 32
  namiki-bench figure raft-pwal 2 --out figures --workers 1,2,4,8
  namiki-bench figure pwal 7 --out figures --threads 1,2,4,8,16,32 --seconds 3 --repeat 5 --dir /data";

const REPORT_NOTES: &str = "\
Runs the experiment of each figure that figure --list names, once for all figures that share it, and writes
index.html, one page over them, and verdicts.md, the same sentences and numbers as tables, beside the files that figure
writes. The page is there after the first experiment and
grows with each. Standard error says how long the rest takes.

A report has one of three lengths:
  --quick      about two minutes: one short run of each point, on small data. It shows that everything works, and judges
               no sentence.
  --standard   at most 20 minutes, without raft-pwal: three runs of each point, so that most sentences are judged (two if
               three do not fit), and one where this machine has too few cores for every sentence. A run of
               transactions or of an index is as long as the number of points allows; tables of pwal have 100,000
               records. The default.
  --full       the papers' sizes, about an hour on two cores: three runs of each point, each with as many transactions
               as the paper's.
--seconds and --repeat change what the length says. The clusters of raft-pwal add about half an hour (--quick: a minute);
they need the program namiki beside this one or on PATH, and --skip raft-pwal leaves them out.

Examples:
  namiki-bench report --out figures --skip raft-pwal
  namiki-bench report --out figures --quick
  namiki-bench report --out figures --full --repeat 5 --dir /data";

/// The figure to make, and its options.
#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub(crate) struct FigureArgs {
    /// The paper, as in tictoc-pwal
    #[arg(required_unless_present = "list")]
    paper: Option<String>,
    /// The figure's number in the paper; without it, the paper's figures are listed
    #[arg(requires = "out")]
    number: Option<u16>,
    /// List the available figures
    #[arg(long)]
    list: bool,
    /// Folder for the results; created if missing
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    run: RunArgs,
}

/// Options for making all figures of the list.
#[derive(Args, Debug)]
#[command(after_help = REPORT_NOTES)]
pub(crate) struct ReportArgs {
    /// Folder for the results; created if missing
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Three runs of each point, as long as 20 minutes allow (default)
    #[arg(long, conflicts_with_all = ["quick", "full"])]
    standard: bool,
    /// Runs of the papers' sizes
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// Leave out the figures of these papers
    #[arg(long, value_name = "PAPER,…", value_delimiter = ',')]
    skip: Vec<String>,
    #[command(flatten)]
    run: RunArgs,
}

/// An available figure, in machine-readable form.
#[derive(Serialize)]
struct Listed {
    paper: &'static str,
    figure: u16,
    section: &'static str,
    title: &'static str,
    claims: usize,
}

/// Runs `figure`.
pub(crate) fn run(args: &FigureArgs) -> Result<(), BenchError> {
    let (false, Some(paper), Some(number), Some(out)) =
        (args.list, &args.paper, args.number, &args.out)
    else {
        return list(args.paper.as_deref(), args.run.output.format);
    };
    let mut all = catalogue::figures();
    let figure = all.find(|figure| figure.paper == paper && figure.number == number);
    let Some(figure) = figure else {
        let slugs: Vec<String> = catalogue::figures().map(Figure::slug).collect();
        let why = format!("no figure {paper}-{number}; there are {}", slugs.join(", "));
        return Err(BenchError::Usage(why));
    };
    if let Some(device) = args
        .run
        .device
        .as_ref()
        .filter(|it| !figure.experiment.takes(it))
    {
        let why = format!("{} does not run on --device {device}", figure.slug());
        return Err(BenchError::Usage(why));
    }
    let making = Making::new(&args.run, out)?;
    let job = Job {
        experiment: figure.experiment,
        figures: vec![figure],
    };
    let cores = making.machine.cores;
    let runs = args
        .run
        .run_count(job.experiment, &job.figures, cores, args.run.repeat())?;
    let mut progress = Progress::new(runs as f64);
    making.make(&job, &args.run, 1.0, &mut progress).map(drop)
}

impl ReportArgs {
    fn length(&self) -> ReportLength {
        match (self.run.quick, self.full) {
            (true, _) => ReportLength::Quick,
            (false, true) => ReportLength::Full,
            (false, false) => ReportLength::Standard,
        }
    }

    /// The command with all parameters.
    fn command(&self) -> String {
        let skip = if self.skip.is_empty() {
            String::new()
        } else {
            format!(" --skip {}", self.skip.join(","))
        };
        let length = match self.length() {
            // Among the other flags.
            ReportLength::Quick => "",
            ReportLength::Standard => " --standard",
            ReportLength::Full => " --full",
        };
        let (out, flags) = (self.out.display(), self.run.flags());
        format!("namiki-bench report --out {out}{skip}{length}{flags}")
    }
}

const QUICK: &str = "A quick report: one short run of each point, on small data and with few threads. It shows that \
    everything works. Nothing is judged, and no number here is a result.";

/// Runs `report`.
pub(crate) fn report(args: &ReportArgs) -> Result<(), BenchError> {
    for skipped in &args.skip {
        check_paper(skipped)?;
    }
    let is_kept = |figure: &&Figure| !args.skip.iter().any(|paper| paper == figure.paper);
    let making = Making::new(&args.run, &args.out)?;
    let (path, verdicts) = (args.out.join("index.html"), args.out.join("verdicts.md"));
    let command = args.command();
    let jobs = jobs(catalogue::figures().filter(is_kept));
    let total: usize = jobs.iter().map(|job| job.figures.len()).sum();
    let length = args.length();
    let mut plan = Plan::new(&args.run, length, &jobs, making.machine.cores)?;
    let mut progress = Progress::new(plan.left());
    let mut outcomes: Vec<Outcome> = Vec::new();
    while let Some((job, run, each)) = plan.next() {
        plan.begins();
        outcomes.extend(making.make(job, &run, each, &mut progress)?);
        plan.ends(&run);
        progress.replan(plan.left());
        let head = Head {
            command: &command,
            caution: (length == ReportLength::Quick).then_some(QUICK),
            remaining: total - outcomes.len(),
        };
        // Written after each experiment, so that a page exists even if later ones fail.
        let page = html_page::page(&outcomes, &head);
        std::fs::write(&path, page).map_err(BenchError::file("write", &path))?;
        let table = verdict_table::page(&outcomes, &command);
        std::fs::write(&verdicts, table).map_err(BenchError::file("write", &verdicts))?;
    }
    Ok(())
}

/// Fails if no figure is of this paper.
fn check_paper(paper: &str) -> Result<(), BenchError> {
    if catalogue::figures().any(|figure| figure.paper == paper) {
        return Ok(());
    }
    let why = format!("no figure is of {paper}; see namiki-bench figure --list");
    Err(BenchError::Usage(why))
}

/// Lists the figures of one paper, or of all.
fn list(paper: Option<&str>, format: Format) -> Result<(), BenchError> {
    if let Some(paper) = paper {
        check_paper(paper)?;
    }
    let is_asked = |figure: &&Figure| paper.is_none_or(|paper| paper == figure.paper);
    for figure in catalogue::figures().filter(is_asked) {
        match format {
            Format::Json => print_json(&Listed {
                paper: figure.paper,
                figure: figure.number,
                section: figure.section,
                title: figure.title,
                claims: figure.claims.len(),
            })?,
            Format::Table => print(format_args!(
                "{:<12} {:>3}  {:<6} {}\n",
                figure.paper,
                figure.number,
                format!("§{}", figure.section),
                figure.title
            ))?,
        }
    }
    Ok(())
}

fn print(text: impl Display) -> Result<(), BenchError> {
    write!(io::stdout(), "{text}").map_err(BenchError::Output)
}
