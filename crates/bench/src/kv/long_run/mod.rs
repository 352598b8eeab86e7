//! `compare kv --minutes`: a long run of each store, through checkpoints, flushes and compactions,
//! which a run of seconds does not reach.
//!
//! Reports the rate and the latencies of each interval, pauses of all threads, and write and space
//! amplification. The records are compared with the committed transactions, as in a short run.

mod amplification;
mod commit_times;
mod rows;
mod watch;

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use namiki_platform::machine::Machine;

use self::amplification::{Device, UserData};
use self::rows::{IntervalRow, LongResult, LongRow, RunName};
use self::watch::Interval;
pub(crate) use self::watch::Watch;
use super::{Combination, CompareKvArgs};
use crate::args;
use crate::error::BenchError;
use crate::repetitions::in_turns;
use crate::result_writer::Report;
use crate::run_folder::Place;

/// Arguments of long runs.
#[derive(Args, Debug)]
pub(crate) struct LongRunArgs {
    /// Length of a long run, with a row for each interval, stalls, and write and space
    /// amplification
    #[arg(long, value_name = "N", value_parser = minutes, conflicts_with_all = ["seconds", "ops"])]
    pub(crate) minutes: Option<Duration>,
    /// Interval between the rows of a long run
    #[arg(long, value_name = "S", default_value = "10", value_parser = args::some_seconds)]
    every_seconds: Duration,
    /// File for the rows of all intervals, as CSV; an existing file is overwritten
    #[arg(long, value_name = "FILE", requires = "minutes")]
    csv: Option<PathBuf>,
}

/// A duration in minutes; fractions are allowed.
fn minutes(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "not a number of minutes")?;
    args::some_seconds(&(number * 60.0).to_string())
}

/// The rows of a run's intervals, as they are printed and kept.
struct Output<'a> {
    run: RunName,
    report: Report,
    csv: Option<&'a mut CsvFile>,
    intervals: Vec<Interval>,
}

impl Output<'_> {
    fn interval(&mut self, interval: &Interval) -> Result<(), BenchError> {
        let row = IntervalRow::new(&self.run, interval);
        self.intervals.push(interval.clone());
        if let Some(csv) = &mut self.csv {
            csv.row(&row)?;
        }
        self.report.row(&row)
    }
}

/// The file with the intervals of all runs.
struct CsvFile {
    path: PathBuf,
    writer: csv::Writer<File>,
}

impl CsvFile {
    fn create(path: &PathBuf) -> Result<Self, BenchError> {
        let file = File::create(path).map_err(BenchError::file("create", path))?;
        Ok(Self {
            path: path.clone(),
            writer: csv::Writer::from_writer(file),
        })
    }

    /// Writes a row, so that an interrupted run leaves those before.
    fn row(&mut self, row: &IntervalRow) -> Result<(), BenchError> {
        let written = self.writer.serialize(row).map_err(std::io::Error::from);
        written
            .and_then(|()| self.writer.flush())
            .map_err(BenchError::file("write", &self.path))
    }
}

/// Runs all combinations, and prints their intervals and then one row for each.
pub(super) fn run(
    args: &CompareKvArgs,
    place: &Place,
    machine: &Machine,
    combinations: &[Combination],
) -> Result<(), BenchError> {
    let format = args.timed.output.format;
    let csv = args.long.csv.as_ref().map(CsvFile::create);
    let mut csv = csv.transpose()?;
    let device = Device::of(place.path())?;
    let mut results = Vec::new();
    let outcome = in_turns(args.timed.repeat, combinations, |combination, round| {
        let output = Mutex::new(Output {
            run: combination.name(round),
            report: Report::new(format),
            csv: csv.as_mut(),
            intervals: Vec::new(),
        });
        let publish = |interval: &Interval| {
            let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
            output.interval(interval)
        };
        let watch = Watch::new(
            combination.threads.get(),
            args.long.every_seconds,
            device.clone(),
            &publish,
        );
        let row = args.run_one(*combination, place, machine, round, Some(&watch))?;
        let whole = watch.whole().ok_or(BenchError::Interrupted)?;
        let output = output.into_inner().unwrap_or_else(PoisonError::into_inner);
        output.report.finish()?;
        let updates = row.committed * combination.workload.writes_each();
        let data = UserData::new(updates, row.records, row.value_bytes);
        let long = LongResult::new(&output.intervals, &whole, data);
        results.push(LongRow::new(row, long));
        Ok(())
    });
    // After an interruption, too: each run took minutes.
    let mut report = Report::new(format);
    results.iter().try_for_each(|row| report.row(row))?;
    report.finish()?;
    outcome
}

impl Combination {
    fn name(&self, round: u32) -> RunName {
        let namiki = self.store.namiki();
        RunName {
            store: self.store.store().name(),
            spec: namiki.map(|it| it.spec.to_string()),
            index: namiki.map(|it| it.index.to_string()),
            streams: namiki.and_then(|it| it.streams).map(|it| it.get()),
            workload: self.workload.name(),
            durable: self.durable_name(),
            threads: self.threads.get(),
            skew: self.skew,
            round,
        }
    }
}
