//! The command `agreement`: how many points of a report lie where an earlier report on the same
//! machine expected them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Write as _};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};

use super::catalogue;
use super::definition::Figure;
use super::expected_interval::{PERCENT, widening};
use super::making::print_json;
use super::medians::short;
use crate::args::Format;
use crate::error::BenchError;

const NOTES: &str = "\
Each point of a report has an interval in which 9 of 10 medians of another report on this machine are expected, in
its .json by the names expected_low and expected_high, and in the tables of index.html. This command says how many of
the second report's points lie in the first one's intervals, figure by figure, and which do not. A point that the
second report lacks does not lie there; one with a single run has no interval. Figures that show the same values of
the same runs count once. Both reports need the same machine and device. Where the second report had time for fewer
runs of a point, the interval is widened as its median varies more. The exit status is 1 if fewer than 90 % agree.

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

/// The fields of a figure's document that are compared.
#[derive(Debug, Deserialize)]
struct Document {
    machine: serde_json::Value,
    device: String,
    repeat: u32,
    points: Vec<Point>,
}

#[derive(Debug, Deserialize)]
struct Point {
    line: String,
    #[serde(flatten)]
    place: Place,
    measure: String,
    median: f64,
    expected_low: Option<f64>,
    expected_high: Option<f64>,
}

/// A point's position on its line.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    threads: u32,
    tasks: Option<u32>,
    second: Option<u32>,
    percentile: Option<u32>,
    write_bytes: Option<u32>,
}

/// The points of one figure, in machine-readable form.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Agreement {
    kind: &'static str,
    paper: &'static str,
    figure: u16,
    /// Points for which the first report has an interval, and that no earlier figure has.
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
    let (mut agreements, mut counted) = (Vec::new(), Counted::new());
    for figure in catalogue::figures() {
        let name = format!("{}.json", figure.slug());
        let (first, second) = (first.join(&name), second.join(&name));
        if !first.exists() || !second.exists() {
            continue;
        }
        let (first, second) = (document(&first)?, document(&second)?);
        first.check_like(&second, &figure.slug())?;
        let mut agreement = Agreement {
            kind: "agreement",
            paper: figure.paper,
            figure: figure.number,
            ..Agreement::default()
        };
        agreement.add(figure, first, second, &mut counted);
        agreements.push(agreement);
    }
    Ok(agreements)
}

fn document(path: &Path) -> Result<Document, BenchError> {
    let text = std::fs::read(path).map_err(BenchError::file("read", path))?;
    let document = serde_json::from_slice(&text).map_err(io::Error::from);
    document.map_err(BenchError::file("read", path))
}

impl Document {
    /// Fails if the intervals of one do not say anything about the other.
    fn check_like(&self, other: &Self, slug: &str) -> Result<(), BenchError> {
        let differs = |what: &str, one: &dyn Display, other: &dyn Display| {
            let why = format!("{slug} has another {what} in these reports: {one}, {other}");
            Err(BenchError::Usage(why))
        };
        if self.machine != other.machine {
            return differs("machine", &self.machine, &other.machine);
        }
        if self.device != other.device {
            return differs("device", &self.device, &other.device);
        }
        Ok(())
    }
}

/// The points that were compared: the experiment, the line, the place and the quantity.
type Counted = BTreeSet<(&'static str, String, Place, String)>;

impl Agreement {
    fn add(&mut self, figure: &Figure, first: Document, second: Document, counted: &mut Counted) {
        let widening = widening(first.repeat, second.repeat);
        let again = second.points.into_iter();
        let again: BTreeMap<(String, Place), f64> = again
            .map(|point| ((point.line, point.place), point.median))
            .collect();
        for point in first.points {
            let Some((low, high)) = point.expected_low.zip(point.expected_high) else {
                continue;
            };
            let low = (point.median - (point.median - low) * widening).max(0.0);
            let high = point.median + (high - point.median) * widening;
            let key = (point.line, point.place);
            let (line, place) = key.clone();
            let experiment = figure.experiment.name;
            if !counted.insert((experiment, line, place, point.measure)) {
                continue;
            }
            self.points += 1;
            let median = again.get(&key).copied();
            if median.is_some_and(|median| (low..=high).contains(&median)) {
                self.within += 1;
                continue;
            }
            let [low, high] = [low, high].map(short);
            let found = median.map_or("missing".to_owned(), short);
            let (slug, line, place) = (figure.slug(), key.0, key.1.text());
            self.outside.push(format!(
                "{slug}, {line} at {place}: {found}, expected {low} to {high}"
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
    let mut add = |name: String, points: usize, within: usize| {
        let percent = 100.0 * within as f64 / points.max(1) as f64;
        let _ = writeln!(
            text,
            "{name:<16} {within:>5} of {points:>5} points within, {percent:.1} %"
        );
    };
    for one in agreements.iter().filter(|one| one.points > 0) {
        add(
            format!("{} {}", one.paper, one.figure),
            one.points,
            one.within,
        );
    }
    let (points, within) = sums(agreements);
    add("all".to_owned(), points, within);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(medians: &[(u32, f64)]) -> Document {
        let points = medians.iter().map(|(threads, median)| {
            serde_json::json!({
                "line": "one", "threads": threads, "measure": "tps", "median": median,
                "expected_low": median * 0.9, "expected_high": median * 1.1,
            })
        });
        let points: Vec<_> = points.collect();
        serde_json::from_value(serde_json::json!({
            "machine": { "cores": 2 }, "device": "file", "repeat": 3, "points": points,
        }))
        .unwrap()
    }

    fn figure(slug: &str) -> &'static Figure {
        catalogue::figures().find(|it| it.slug() == slug).unwrap()
    }

    fn compared(first: Document, second: Document) -> Agreement {
        let mut agreement = Agreement::default();
        agreement.add(figure("pwal-7"), first, second, &mut Counted::new());
        agreement
    }

    #[test]
    fn points_outside_and_missing_ones_are_named() {
        let first = document(&[(1, 100.0), (2, 200.0), (4, 300.0)]);
        let second = document(&[(1, 109.0), (2, 230.0), (8, 300.0)]);
        let agreement = compared(first, second);
        assert_eq!((agreement.points, agreement.within), (3, 1));
        let text = text(&[agreement]);
        let outside = "pwal-7, one at 2: 230, expected 180 to 220\npwal-7, one at 4: missing, expected 270 to 330\n";
        assert!(text.starts_with(outside), "{text}");
        assert!(
            text.ends_with("1 of     3 points within, 33.3 %\n"),
            "{text}"
        );
    }

    #[test]
    fn fewer_runs_are_expected_to_vary_more() {
        let compared_with = |repeat: u32| {
            let mut second = document(&[(1, 112.0)]);
            second.repeat = repeat;
            compared(document(&[(1, 100.0)]), second).within
        };
        assert_eq!([3, 4, 1].map(compared_with), [0, 0, 1]);
    }

    #[test]
    fn points_without_an_interval_do_not_count() {
        let mut first = document(&[(1, 100.0), (2, 200.0)]);
        first.points[0].expected_low = None;
        let agreement = compared(first, document(&[(1, 100.0), (2, 200.0)]));
        assert_eq!((agreement.points, agreement.within), (1, 1));
    }

    /// Figures 6 and 7 of pwal share their runs; a value that both have is one.
    #[test]
    fn a_point_of_two_figures_counts_once() {
        let mut counted = Counted::new();
        let points = || document(&[(1, 100.0)]);
        for (slug, expected) in [("pwal-6", 1), ("pwal-7", 0)] {
            let mut agreement = Agreement::default();
            agreement.add(figure(slug), points(), points(), &mut counted);
            assert_eq!(agreement.points, expected, "{slug}");
        }
    }

    #[test]
    fn reports_of_other_runs_are_not_compared() {
        let changes: [(&str, fn(&mut Document)); 2] = [
            ("machine", |it| it.machine = 1.into()),
            ("device", |it| it.device = "null".to_owned()),
        ];
        let first = document(&[(1, 100.0)]);
        for (what, change) in changes {
            let mut second = document(&[(1, 100.0)]);
            assert!(first.check_like(&second, "pwal-7").is_ok());
            change(&mut second);
            let refused = first.check_like(&second, "pwal-7").unwrap_err();
            assert!(refused.to_string().contains(what), "{refused}");
        }
    }
}
