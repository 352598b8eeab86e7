//! Makes figures: runs an experiment, in turns over its points, and writes each run, the charts and
//! the verdicts.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use namiki_platform::machine::Machine;
use serde::Serialize;

use super::definition::{Experiment, Figure};
use super::experiment_runner::{Point, Prepared, RunArgs};
use super::outcome::{Circumstances, Outcome};
use super::progress::Progress;
use super::report_plan::Job;
use super::run_row::{ClusterRunRow, IndexRunRow, QueryRunRow, RunRow, RunsFile, WriteRunRow};
use crate::args::Format;
use crate::device_choice::Device;
use crate::error::BenchError;
use crate::repetitions::in_turns;
use crate::result_writer::Report;
use crate::run_folder::Place;

/// The machine, and the folders for runs and for results.
pub(crate) struct Making<'a> {
    out: &'a Path,
    place: Place,
    pub(crate) machine: Machine,
}

impl<'a> Making<'a> {
    /// Creates the folder for results, and chooses the one for runs.
    pub(crate) fn new(args: &RunArgs, out: &'a Path) -> Result<Self, BenchError> {
        std::fs::create_dir_all(out).map_err(BenchError::file("create", out))?;
        let place = Place::fresh_in(args.dir.as_deref())?;
        let machine = Machine::describe(place.path());
        Ok(Self {
            out,
            place,
            machine,
        })
    }

    /// Runs an experiment, and makes its figures. A run is planned to take `each` seconds.
    pub(crate) fn make(
        &self,
        job: &Job,
        args: &RunArgs,
        each: f64,
        progress: &mut Progress,
    ) -> Result<Vec<Outcome>, BenchError> {
        let (experiment, figures) = (job.experiment, &job.figures);
        let device = args.device(experiment)?;
        if device.is_slow() {
            self.place.note_memory(&self.machine);
        }
        let in_memory = args.dir.is_none() && device.is_memory();
        let in_memory = in_memory.then(|| Place::for_device(None, &device));
        let in_memory = in_memory.transpose()?;
        let place = in_memory.as_ref().unwrap_or(&self.place);
        let prepared = args.prepare(experiment, place)?;
        let points = args.points(experiment, figures, self.machine.cores, &prepared)?;
        if points.is_empty() {
            let slugs: Vec<String> = figures.iter().map(|figure| figure.slug()).collect();
            let why = format!("{} has no line for these numbers", slugs.join(", "));
            return Err(BenchError::Usage(why));
        }
        let mut records = self.records(figures, args.output.format)?;
        let all = run_count(&points, args.repeat());
        let mut begun = 0;
        let outcome = in_turns(args.repeat(), &points, |point, round| {
            if point.is_rare && round > 1 {
                return Ok(());
            }
            begun += 1;
            let (name, rest) = (experiment.name, progress.rest());
            eprintln!("{name}, run {begun} of {all}: {}{rest}", point.describe());
            for row in point.run(place, &self.machine, round)? {
                records.add(point, row)?;
            }
            progress.ran(each);
            Ok(())
        });
        let rows = records.finish()?;
        outcome?;
        let outcomes = figures.iter().map(|figure| {
            let mut circumstances =
                self.circumstances((experiment, figure), args, &device, &prepared);
            if let Some(folder) = in_memory.as_ref().and_then(|place| place.path().parent()) {
                circumstances.device = format!("{device} in {}", folder.display());
            }
            let outcome = Outcome::of(figure, circumstances, &rows);
            self.write(&outcome, args.output.format)?;
            Ok(outcome)
        });
        outcomes.collect()
    }

    /// Opens the files of an experiment's runs.
    fn records(&self, figures: &[&'static Figure], format: Format) -> Result<Records, BenchError> {
        let files = figures.iter().map(|figure| {
            let file = RunsFile::create(&self.path(figure, "csv"), &self.machine)?;
            Ok((figure.line_names(), file))
        });
        Ok(Records {
            files: files.collect::<Result<_, BenchError>>()?,
            table: (format == Format::Table).then(Report::without_empty_columns),
            rows: Vec::new(),
            reference: None,
        })
    }

    fn circumstances(
        &self,
        (experiment, figure): (&Experiment, &Figure),
        args: &RunArgs,
        device: &Device,
        prepared: &Prepared,
    ) -> Circumstances {
        Circumstances {
            machine: self.machine.clone(),
            device: experiment.device_text(device),
            length: args.length_text(experiment, prepared),
            repeat: args.repeat(),
            command: format!(
                "namiki-bench figure {} {} --out {}{}",
                figure.paper,
                figure.number,
                self.out.display(),
                args.flags()
            ),
            unlike_paper: args.unlike_paper(experiment),
        }
    }

    fn path(&self, figure: &Figure, ending: &str) -> PathBuf {
        self.out.join(format!("{}.{ending}", figure.slug()))
    }

    /// Writes a figure's files and prints its claims.
    fn write(&self, outcome: &Outcome, format: Format) -> Result<(), BenchError> {
        let chart = self.path(outcome.figure, "svg");
        std::fs::write(&chart, outcome.chart().svg()).map_err(BenchError::file("write", &chart))?;
        for (value, chart) in outcome.charts_beside() {
            let path = self.path(outcome.figure, &format!("{}.svg", value.key()));
            std::fs::write(&path, chart.svg()).map_err(BenchError::file("write", &path))?;
        }
        let path = self.path(outcome.figure, "json");
        let document = serde_json::to_string_pretty(&outcome.document());
        document
            .map_err(io::Error::from)
            .and_then(|text| std::fs::write(&path, text + "\n"))
            .map_err(BenchError::file("write", &path))?;
        match format {
            Format::Table => write!(io::stdout(), "{}", outcome.text()).map_err(BenchError::Output),
            Format::Json => {
                outcome.point_rows().iter().try_for_each(print_json)?;
                outcome.claim_rows().iter().try_for_each(print_json)
            }
        }
    }
}

/// The number of runs of points that are each run so often.
pub(crate) fn run_count(points: &[Point], repeat: u32) -> usize {
    let rare = points.iter().filter(|point| point.is_rare).count();
    (points.len() - rare) * repeat as usize + rare
}

/// The runs of an experiment: in files, in a table for readers, and for the figures.
struct Records {
    /// A file for each figure, with the lines that it shows.
    files: Vec<(Vec<&'static str>, RunsFile)>,
    table: Option<Report>,
    rows: Vec<RunRow>,
    /// The latest run that others are relative to.
    reference: Option<RunRow>,
}

impl Records {
    fn add(&mut self, point: &Point, mut row: RunRow) -> Result<(), BenchError> {
        if point.is_reference() {
            self.reference = Some(row.clone());
        }
        if let Some(reference) = &self.reference {
            row.relate_to(reference);
        }
        for (lines, file) in &mut self.files {
            if lines.contains(&row.line) {
                file.run(&row)?;
            }
        }
        if let Some(table) = &mut self.table {
            add_to_table(table, point, &row)?;
        }
        self.rows.push(row);
        Ok(())
    }

    /// Prints the table, and returns all runs.
    fn finish(self) -> Result<Vec<RunRow>, BenchError> {
        if let Some(table) = self.table {
            table.finish()?;
        }
        Ok(self.rows)
    }
}

fn add_to_table(table: &mut Report, point: &Point, row: &RunRow) -> Result<(), BenchError> {
    if point.is_cluster() {
        return table.row(&ClusterRunRow(row));
    }
    if point.is_query() {
        return table.row(&QueryRunRow(row));
    }
    if point.is_writes_alone() {
        return table.row(&WriteRunRow(row));
    }
    if !point.is_index() {
        return table.row(row);
    }
    let row = IndexRunRow(row);
    if row.is_in_table() {
        table.row(&row)?;
    }
    Ok(())
}

/// Prints a row as JSON.
pub(crate) fn print_json(row: &impl Serialize) -> Result<(), BenchError> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, row)
        .map_err(io::Error::from)
        .and_then(|()| writeln!(out))
        .map_err(BenchError::Output)
}
