//! The command `agreement`: how many points of a report lie where an earlier report on the same
//! machine expected them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};

use super::catalogue;
use super::expected_interval::PERCENT;
use super::making::print_json;
use super::medians::short;
use crate::args::Format;
use crate::error::BenchError;

const NOTES: &str = "\
Each point of a report has an interval in which 9 of 10 medians of another report on this machine are expected, in
its .json by the names expected_low and expected_high, and in the tables of index.html. This command says how many of
the second report's points lie in the first one's intervals, paper by paper, and which do not. Points with one run
have no interval. The exit status is 1 if fewer than 90 % agree.

Examples:
  namiki-bench report --out first --skip raft-pwal
  namiki-bench report --out second --skip raft-pwal
  namiki-bench agreement first second";

/// The reports to compare.
#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub(crate) struct AgreementArgs {
    /// Folder of the report that expects
    first: PathBuf,
    /// Folder of the report that was made again
    second: PathBuf,
    /// The format of standard output
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// What is read of a figure's document.
#[derive(Debug, Deserialize)]
struct Document {
    points: Vec<Point>,
}

#[derive(Debug, Deserialize)]
struct Point {
    line: String,
    #[serde(flatten)]
    place: Place,
    median: f64,
    expected_low: Option<f64>,
    expected_high: Option<f64>,
}

/// What tells points of a line apart.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    threads: u32,
    tasks: Option<u32>,
    second: Option<u32>,
    percentile: Option<u32>,
    write_bytes: Option<u32>,
}

/// The points of one paper, in machine-readable form.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Agreement {
    kind: &'static str,
    paper: &'static str,
    /// Points of both reports for which the first has an interval.
    points: usize,
    within: usize,
    #[serde(skip)]
    outside: Vec<String>,
}

/// Runs `agreement`.
pub(crate) fn run(args: &AgreementArgs) -> Result<(), BenchError> {
    let agreements = read(&args.first, &args.second)?;
    let (points, within) = sums(&agreements);
    if points == 0 {
        let why = "these reports have no point in common that was run more than once";
        return Err(BenchError::Usage(why.to_owned()));
    }
    match args.format {
        Format::Json => agreements.iter().try_for_each(print_json)?,
        Format::Table => {
            write!(io::stdout(), "{}", text(&agreements)).map_err(BenchError::Output)?;
        }
    }
    if within * 100 < points * PERCENT as usize {
        let why =
            format!("{within} of {points} points lie within the intervals, fewer than {PERCENT} %");
        return Err(BenchError::Check(why));
    }
    Ok(())
}

fn sums(agreements: &[Agreement]) -> (usize, usize) {
    let points = agreements.iter().map(|one| one.points).sum();
    (points, agreements.iter().map(|one| one.within).sum())
}

/// Compares the figures that both reports have.
fn read(first: &Path, second: &Path) -> Result<Vec<Agreement>, BenchError> {
    let mut agreements: Vec<Agreement> = Vec::new();
    for figure in catalogue::figures() {
        let name = format!("{}.json", figure.slug());
        let (first, second) = (first.join(&name), second.join(&name));
        if !first.exists() || !second.exists() {
            continue;
        }
        if agreements
            .last()
            .is_none_or(|last| last.paper != figure.paper)
        {
            agreements.push(Agreement {
                kind: "agreement",
                paper: figure.paper,
                ..Agreement::default()
            });
        }
        if let Some(last) = agreements.last_mut() {
            last.add(&figure.slug(), document(&first)?, document(&second)?);
        }
    }
    Ok(agreements)
}

fn document(path: &Path) -> Result<Document, BenchError> {
    let text = std::fs::read(path).map_err(BenchError::file("read", path))?;
    let document = serde_json::from_slice(&text).map_err(io::Error::from);
    document.map_err(BenchError::file("read", path))
}

impl Agreement {
    fn add(&mut self, slug: &str, first: Document, second: Document) {
        let again = second.points.into_iter();
        let again: BTreeMap<(String, Place), f64> = again
            .map(|point| ((point.line, point.place), point.median))
            .collect();
        for point in first.points {
            let interval = point.expected_low.zip(point.expected_high);
            let key = (point.line, point.place);
            let Some((median, (low, high))) = again.get(&key).copied().zip(interval) else {
                continue;
            };
            self.points += 1;
            if (low..=high).contains(&median) {
                self.within += 1;
                continue;
            }
            let [low, high, median] = [low, high, median].map(short);
            let (line, place) = (key.0, key.1.text());
            self.outside.push(format!(
                "{slug}, {line} at {place}: {median}, expected {low} to {high}"
            ));
        }
    }
}

impl Place {
    fn text(&self) -> String {
        let Self {
            threads,
            tasks,
            second,
            percentile,
            write_bytes,
        } = self;
        let mut text = format!("{threads}");
        for (name, number) in [
            ("tasks", tasks),
            ("second", second),
            ("percentile", percentile),
            ("bytes", write_bytes),
        ] {
            if let Some(number) = number {
                // Writing to a string does not fail.
                let _ = write!(text, ", {name} {number}");
            }
        }
        text
    }
}

fn text(agreements: &[Agreement]) -> String {
    let mut text = String::new();
    for line in agreements.iter().flat_map(|one| &one.outside) {
        text.push_str(line);
        text.push('\n');
    }
    let (points, within) = sums(agreements);
    let papers = agreements
        .iter()
        .map(|one| (one.paper, one.points, one.within));
    for (name, points, within) in papers.chain([("all", points, within)]) {
        let percent = 100.0 * within as f64 / points.max(1) as f64;
        let _ = writeln!(
            text,
            "{name:<12} {within:>5} of {points:>5} points within, {percent:.1} %"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(medians: &[(u32, f64)]) -> Document {
        let points = medians.iter().map(|(threads, median)| {
            serde_json::json!({
                "line": "one", "threads": threads, "median": median,
                "expected_low": median * 0.9, "expected_high": median * 1.1,
            })
        });
        let points: Vec<_> = points.collect();
        serde_json::from_value(serde_json::json!({ "points": points })).unwrap()
    }

    #[test]
    fn points_outside_are_named() {
        let mut agreement = Agreement::default();
        let first = document(&[(1, 100.0), (2, 200.0), (4, 300.0)]);
        agreement.add(
            "pwal-7",
            first,
            document(&[(1, 109.0), (2, 230.0), (8, 300.0)]),
        );
        assert_eq!((agreement.points, agreement.within), (2, 1));
        let text = text(&[agreement]);
        assert!(
            text.starts_with("pwal-7, one at 2: 230, expected 180 to 220\n"),
            "{text}"
        );
        assert!(
            text.ends_with("1 of     2 points within, 50.0 %\n"),
            "{text}"
        );
    }

    #[test]
    fn points_without_an_interval_do_not_count() {
        let mut first = document(&[(1, 100.0), (2, 200.0)]);
        first.points[0].expected_low = None;
        let mut agreement = Agreement::default();
        agreement.add("pwal-7", first, document(&[(1, 100.0), (2, 200.0)]));
        assert_eq!((agreement.points, agreement.within), (1, 1));
    }
}
