//! The commands `figure` and `report`: run the experiments of one figure or of all, and write the
//! results.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use namiki_platform::machine::Machine;
use serde::Serialize;

use super::catalogue;
use super::definition::{Experiment, Figure};
use super::experiment_runner::RunArgs;
use super::html_page;
use super::outcome::{Circumstances, Outcome};
use super::run_row::{ClusterRunRow, IndexRunRow, QueryRunRow, RunRow, RunsFile};
use crate::args::Format;
use crate::error::BenchError;
use crate::repetitions::in_turns;
use crate::result_writer::Report;
use crate::run_folder::Place;

const NOTES: &str = "\
Runs the experiment, in turns over its lines, and writes into the folder, by the name PAPER-NUMBER:
  .csv   every run, a row each, as soon as it is over
  .svg   the figure
  .json  its points and the paper's claims
The claims are printed, too: each holds, does not hold here, is not testable here, because it needs more cores
or threads than were measured, or is not judged, because a point that decides has one run: --repeat 2 is the
least. A claim that does not hold is a finding: the exit status is 0. Beside it stands what was counted, and why
it does not hold, if the counts show it, or by how much the runs differ that do not decide it, or that no reason
is known.

Unless --seconds says otherwise, a run has as many transactions as the paper's.

The figures of oode run a query. Without --tpch, its tables are made, at scale 1; with --device slow:192x5ms, drives
are emulated, and the threads and tasks are the paper's.

The figures of raft-pwal start a cluster of five processes for each run, with --workers in each node, and need the program
namiki beside this one or on PATH.

The figures of bwtree measure indexes alone, in memory: 1000000 keys, unless --records says otherwise. Those of
latencies have the paper's numbers of threads, 1 and 112, whatever --threads says.

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
index.html, one page over them, beside the files that figure writes. The page is there after the first experiment and grows with each.
Those of raft-pwal need the program namiki beside this one or on PATH; --skip raft-pwal leaves them out.

Examples:
  namiki-bench report --out figures
  namiki-bench report --out figures --seconds 1 --repeat 5 --dir /data";

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
    Making::new(&args.run, out)?
        .make(figure.experiment, &[figure])
        .map(drop)
}

/// Runs `report`.
pub(crate) fn report(args: &ReportArgs) -> Result<(), BenchError> {
    let is_kept = |figure: &&Figure| !args.skip.iter().any(|paper| paper == figure.paper);
    for skipped in &args.skip {
        check_paper(skipped)?;
    }
    let making = Making::new(&args.run, &args.out)?;
    let path = args.out.join("index.html");
    let skip = if args.skip.is_empty() {
        String::new()
    } else {
        format!(" --skip {}", args.skip.join(","))
    };
    let command = format!(
        "namiki-bench report --out {}{skip}{}",
        args.out.display(),
        args.run.flags()
    );
    let mut outcomes: Vec<Outcome> = Vec::new();
    let total = catalogue::figures().filter(is_kept).count();
    for figure in catalogue::figures().filter(is_kept) {
        let same_runs = |other: &Figure| std::ptr::eq(other.experiment, figure.experiment);
        if outcomes.iter().any(|outcome| same_runs(outcome.figure)) {
            continue;
        }
        let figures: Vec<&Figure> = catalogue::figures()
            .filter(|other| same_runs(other))
            .collect();
        outcomes.extend(making.make(figure.experiment, &figures)?);
        // Written after each experiment, so that a page exists even if later ones fail.
        let head = html_page::Head {
            command: &command,
            caution: None,
            remaining: total - outcomes.len(),
        };
        let page = html_page::page(&outcomes, &head);
        std::fs::write(&path, page).map_err(BenchError::file("write", &path))?;
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

/// The parameters for making figures.
struct Making<'a> {
    args: &'a RunArgs,
    out: &'a Path,
    place: Place,
    machine: Machine,
}

impl<'a> Making<'a> {
    fn new(args: &'a RunArgs, out: &'a Path) -> Result<Self, BenchError> {
        std::fs::create_dir_all(out).map_err(BenchError::file("create", out))?;
        let place = Place::fresh_in(args.dir.as_deref())?;
        let machine = Machine::describe(place.path());
        Ok(Self {
            args,
            out,
            place,
            machine,
        })
    }

    /// Runs an experiment, and makes its figures.
    fn make(
        &self,
        experiment: &Experiment,
        figures: &[&'static Figure],
    ) -> Result<Vec<Outcome>, BenchError> {
        let device = self.args.device(experiment)?;
        if device.is_slow() {
            self.place.note_memory(&self.machine);
        }
        let prepared = self.args.prepare(experiment, &self.place)?;
        let points = self
            .args
            .points(experiment, figures, self.machine.cores, &prepared)?;
        let runs = figures.iter().map(|figure| {
            let file = RunsFile::create(&self.path(figure, "csv"), &self.machine)?;
            Ok((figure.line_names(), file))
        });
        if points.is_empty() {
            let slugs: Vec<String> = figures.iter().map(|figure| figure.slug()).collect();
            let why = format!("{} has no line for these numbers", slugs.join(", "));
            return Err(BenchError::Usage(why));
        }
        let mut files = runs.collect::<Result<Vec<_>, BenchError>>()?;
        let for_people = self.args.output.format == Format::Table;
        let mut table = for_people.then(|| Report::new(Format::Table));
        let mut rows: Vec<RunRow> = Vec::new();
        let repeat = self.args.repeat();
        let mut reference: Option<RunRow> = None;
        let mut done = 0;
        let outcome = in_turns(repeat, &points, |point, round| {
            if point.is_rare && round > 1 {
                return Ok(());
            }
            let tasks = point.tasks().map(|tasks| format!(" with {tasks} tasks"));
            done += 1;
            eprintln!(
                "{}, run {done} of {}: {}, {} {}{}",
                experiment.name,
                points.len() * repeat as usize,
                point.line,
                point.threads,
                if point.is_cluster() {
                    "workers"
                } else {
                    "threads"
                },
                tasks.unwrap_or_default()
            );
            for mut row in point.run(&self.place, &self.machine, round)? {
                if point.is_reference() {
                    reference = Some(row.clone());
                }
                if let Some(reference) = &reference {
                    row.relate_to(reference);
                }
                for (lines, file) in &mut files {
                    if lines.contains(&row.line) {
                        file.run(&row)?;
                    }
                }
                match &mut table {
                    Some(table) if point.is_cluster() => table.row(&ClusterRunRow(&row))?,
                    Some(table) if point.is_index() => {
                        let row = IndexRunRow(&row);
                        if row.is_in_table() {
                            table.row(&row)?;
                        }
                    }
                    Some(table) if point.is_query() => table.row(&QueryRunRow(&row))?,
                    Some(table) => table.row(&row)?,
                    None => {}
                }
                rows.push(row);
            }
            Ok(())
        });
        if let Some(table) = table {
            table.finish()?;
        }
        outcome?;
        let outcomes = figures.iter().map(|figure| {
            let circumstances = Circumstances {
                machine: self.machine.clone(),
                device: experiment.device_text(&device),
                length: self.args.length_text(experiment, &prepared),
                repeat,
                command: format!(
                    "namiki-bench figure {} {} --out {}{}",
                    figure.paper,
                    figure.number,
                    self.out.display(),
                    self.args.flags()
                ),
                unlike_paper: self.args.unlike_paper(experiment),
            };
            let outcome = Outcome::of(figure, circumstances, &rows);
            self.write(&outcome)?;
            Ok(outcome)
        });
        outcomes.collect()
    }

    fn path(&self, figure: &Figure, ending: &str) -> PathBuf {
        self.out.join(format!("{}.{ending}", figure.slug()))
    }

    /// Writes a figure's files and prints its claims.
    fn write(&self, outcome: &Outcome) -> Result<(), BenchError> {
        let chart = self.path(outcome.figure, "svg");
        std::fs::write(&chart, outcome.chart().svg()).map_err(BenchError::file("write", &chart))?;
        let path = self.path(outcome.figure, "json");
        let document = serde_json::to_string_pretty(&outcome.document());
        document
            .map_err(io::Error::from)
            .and_then(|text| std::fs::write(&path, text + "\n"))
            .map_err(BenchError::file("write", &path))?;
        match self.args.output.format {
            Format::Table => print(outcome.text()),
            Format::Json => {
                outcome.point_rows().iter().try_for_each(print_json)?;
                outcome.claim_rows().iter().try_for_each(print_json)
            }
        }
    }
}

fn print(text: impl Display) -> Result<(), BenchError> {
    write!(io::stdout(), "{text}").map_err(BenchError::Output)
}

fn print_json(row: &impl Serialize) -> Result<(), BenchError> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, row)
        .map_err(io::Error::from)
        .and_then(|()| writeln!(out))
        .map_err(BenchError::Output)
}
