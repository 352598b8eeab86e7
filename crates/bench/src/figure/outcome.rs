//! The results of a figure: its points, its chart and its claims, for standard output and for
//! files.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use namiki_platform::machine::Machine;
use serde::Serialize;

use super::claim::Claim;
use super::counted_explanation::{Counted, Reason};
use super::definition::{Across, Figure};
use super::expected_interval::LineSpread;
use super::judge::{Judged, Verdict, judge};
use super::measure::Measure;
use super::medians::{Points, RateLine, Spread, short};
use super::notes_of_runs::notes;
use super::paper_numbers::{PaperNumber, paper_numbers};
use super::run_row::{Count, RunRow};
use crate::result_writer::median;

/// The parameters of the runs, so that they can be repeated.
#[derive(Clone, Debug)]
pub(crate) struct Circumstances {
    pub(crate) machine: Machine,
    pub(crate) device: String,
    /// The length, as in "1000 transactions".
    pub(crate) length: String,
    pub(crate) repeat: u32,
    pub(crate) command: String,
    /// The reason why these runs decide none of the paper's sentences, if there is one.
    pub(crate) unlike_paper: Option<String>,
}

#[cfg(test)]
impl Circumstances {
    /// Those of synthetic runs, two of each point, on this number of processors.
    pub(crate) fn synthetic(cores: usize) -> Self {
        let machine = Machine {
            cores,
            cpu: "one".to_owned(),
            disk: "one".to_owned(),
            kernel: "one".to_owned(),
        };
        Self {
            machine,
            device: "file".to_owned(),
            length: "1 s a run".to_owned(),
            repeat: 2,
            command: "namiki-bench figure".to_owned(),
            unlike_paper: None,
        }
    }
}

#[cfg(test)]
impl Outcome {
    /// Asserts that every sentence holds.
    pub(crate) fn assert_all_hold(&self) {
        for (claim, judged) in &self.judged {
            let what = format!("{}: {judged:?}", claim.english);
            assert_eq!(judged.verdict, Verdict::Holds, "{what}");
        }
    }

    /// Asserts that every sentence holds, and by more than the runs of a point differ.
    pub(crate) fn assert_all_hold_beyond_spread(&self) {
        self.assert_all_hold();
        for (claim, judged) in &self.judged {
            assert!(!judged.within_spread(), "{}: {judged:?}", claim.english);
        }
    }
}

/// A measured figure.
pub(crate) struct Outcome {
    pub(crate) figure: &'static Figure,
    pub(crate) circumstances: Circumstances,
    pub(crate) judged: Vec<(&'static Claim, Judged)>,
    pub(super) points: Points,
    runs: Vec<RunRow>,
}

/// Medians of counts, by name.
type Counts = BTreeMap<&'static str, f64>;

/// A point in machine-readable form.
#[derive(Debug, Serialize)]
pub(crate) struct PointRow<'a> {
    kind: &'static str,
    paper: &'static str,
    figure: u16,
    line: &'static str,
    threads: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    tasks: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    second: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    percentile: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_bytes: Option<u32>,
    /// Present if a figure's axis is reads per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    relative_iops: Option<f64>,
    measure: &'static str,
    median: f64,
    low: f64,
    high: f64,
    /// Where another report on this machine is expected to have its median.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_low: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_high: Option<f64>,
    runs: usize,
    counts: Counts,
    machine: &'a Machine,
}

/// A claim in machine-readable form.
#[derive(Debug, Serialize)]
pub(crate) struct ClaimRow<'a> {
    kind: &'static str,
    paper: &'static str,
    figure: u16,
    section: &'static str,
    sentence: &'static str,
    english: &'static str,
    verdict: Verdict,
    /// The decisive numbers, or the missing requirements.
    found: &'a str,
    /// Whether the medians are as claimed, decided or not.
    as_claimed: bool,
    within_spread: bool,
    cores_min: u16,
    /// The numbers of the sentence, and those found.
    paper_numbers: Vec<PaperNumber>,
    /// Always present for a claim that does not hold, or is undecided.
    why_not: Option<String>,
    /// For each line, the counts that may explain the verdict.
    beside: BTreeMap<&'static str, Counts>,
    machine: &'a Machine,
}

const NO_REASON: &str = "No reason is known. What was counted is all that there is to go by.";

/// A figure in machine-readable form.
#[derive(Debug, Serialize)]
pub(crate) struct FigureDocument<'a> {
    paper: &'static str,
    figure: u16,
    section: &'static str,
    title: &'static str,
    command: &'a str,
    device: &'a str,
    length: &'a str,
    repeat: u32,
    machine: &'a Machine,
    notes: Vec<String>,
    points: Vec<PointRow<'a>>,
    claims: Vec<ClaimRow<'a>>,
}

impl Outcome {
    /// Judges a figure by the runs of its experiment.
    pub(crate) fn of(
        figure: &'static Figure,
        circumstances: Circumstances,
        runs: &[RunRow],
    ) -> Self {
        let lines = figure.line_names();
        let of_lines = runs.iter().filter(|run| lines.contains(&run.line));
        let runs = at_every_place(figure.across, of_lines.cloned().collect());
        let cores = circumstances.machine.cores;
        let points = points_of(figure, figure.value, cores, &runs);
        let claims = figure.claims.iter().map(|claim| {
            let judged = match (&circumstances.unlike_paper, claim.value) {
                (Some(why), _) => Judged::not_testable(why.clone()),
                (None, None) => judge(claim, &points),
                (None, Some(value)) => {
                    judge(claim, &points_of(figure, value, cores, &runs)).named(value)
                }
            };
            (claim, judged)
        });
        Self {
            judged: claims.collect(),
            figure,
            circumstances,
            points,
            runs,
        }
    }

    /// The same runs by another value, without claims.
    pub(super) fn by(&self, value: Measure) -> Self {
        let cores = self.circumstances.machine.cores;
        Self {
            figure: self.figure,
            circumstances: self.circumstances.clone(),
            judged: Vec::new(),
            points: points_of(self.figure, value, cores, &self.runs),
            runs: Vec::new(),
        }
    }

    /// The figure's points, line by line.
    pub(crate) fn point_rows(&self) -> Vec<PointRow<'_>> {
        let mut rows = Vec::new();
        for &line in self.points.lines() {
            let intervals = self.expected_intervals(line);
            for place in self.points.threads() {
                let Some(spread) = self.points.get(line, place) else {
                    continue;
                };
                let expected = intervals.get(&place).copied();
                let run = self.runs_at(line, place).next();
                rows.push(PointRow {
                    kind: "point",
                    paper: self.figure.paper,
                    figure: self.figure.number,
                    line,
                    threads: run.map_or(place, |run| run.threads.into()),
                    tasks: run.and_then(|run| run.tasks),
                    second: run.and_then(|run| run.second),
                    percentile: run.and_then(|run| run.percentile),
                    write_bytes: run.and_then(|run| run.write_bytes),
                    relative_iops: self.rate(line, place),
                    measure: self.figure.value.key(),
                    median: spread.median,
                    low: spread.low,
                    high: spread.high,
                    expected_low: expected.map(|(low, _)| low),
                    expected_high: expected.map(|(_, high)| high),
                    runs: spread.runs,
                    counts: self.counts(line, place, &Count::all().collect::<Vec<_>>()),
                    machine: &self.circumstances.machine,
                });
            }
        }
        rows
    }

    /// The figure's claims, in the order of the paper.
    pub(crate) fn claim_rows(&self) -> Vec<ClaimRow<'_>> {
        let rows = self.judged.iter().map(|(claim, judged)| ClaimRow {
            kind: "claim",
            paper: self.figure.paper,
            figure: self.figure.number,
            section: claim.section,
            sentence: claim.sentence,
            english: claim.english,
            verdict: judged.verdict,
            found: &judged.found,
            as_claimed: judged.as_claimed,
            within_spread: judged.within_spread(),
            cores_min: claim.cores_min,
            paper_numbers: self.paper_numbers(claim),
            why_not: self.why_not(claim, judged),
            beside: self.beside(claim, judged).into_iter().collect(),
            machine: &self.circumstances.machine,
        });
        rows.collect()
    }

    /// The complete document.
    pub(crate) fn document(&self) -> FigureDocument<'_> {
        FigureDocument {
            paper: self.figure.paper,
            figure: self.figure.number,
            section: self.figure.section,
            title: self.figure.title,
            command: &self.circumstances.command,
            device: &self.circumstances.device,
            length: &self.circumstances.length,
            repeat: self.circumstances.repeat,
            machine: &self.circumstances.machine,
            notes: self.notes(),
            points: self.point_rows(),
            claims: self.claim_rows(),
        }
    }

    /// The figure's claims for readers.
    pub(crate) fn text(&self) -> String {
        let figure = self.figure;
        let mut text = format!(
            "\n{} figure {} (§{}): {}\n",
            figure.paper, figure.number, figure.section, figure.title
        );
        if figure.claims.is_empty() {
            text.push_str("  the paper states no result by this figure alone\n");
        }
        for (claim, judged) in &self.judged {
            let Claim {
                section,
                sentence,
                english,
                ..
            } = claim;
            // Writing to a string does not fail.
            if claim.is_ours() {
                let _ = writeln!(text, "\n  not of the paper");
            } else {
                let _ = writeln!(text, "\n  §{section} 「{sentence}」");
            }
            let _ = writeln!(text, "    {english}");
            let _ = writeln!(text, "    {}", verdict_text(judged));
            for number in self.paper_numbers(claim) {
                let _ = writeln!(text, "    {}", number.text());
            }
            let Some(why_not) = self.why_not(claim, judged) else {
                continue;
            };
            for (line, counts) in self.beside(claim, judged) {
                let _ = writeln!(text, "      {line}: {}", counts_text(&counts));
            }
            let _ = writeln!(text, "    why: {why_not}");
        }
        if !self.judged.is_empty() {
            let _ = writeln!(text, "\n  {}", self.counts_of_verdicts());
        }
        for note in self.notes() {
            let _ = writeln!(text, "  note: {note}");
        }
        text
    }

    /// How many of the paper's sentences have a verdict.
    pub(crate) fn number_of(&self, verdict: Verdict) -> usize {
        let judged = self.judged.iter();
        let of_paper = judged.filter(|(claim, _)| !claim.is_ours());
        of_paper.filter(|(_, one)| one.verdict == verdict).count()
    }

    /// The numbers of all verdicts that there are, in words.
    fn counts_of_verdicts(&self) -> String {
        let counts = Verdict::ALL.map(|verdict| (self.number_of(verdict), verdict.text()));
        let texts = counts.iter().filter(|(number, _)| *number > 0);
        let texts = texts.map(|(number, text)| format!("{number} {text}"));
        format!(
            "of the paper's sentences: {}",
            texts.collect::<Vec<_>>().join(", ")
        )
    }

    /// The differences between these runs and the paper's.
    pub(crate) fn notes(&self) -> Vec<String> {
        notes(self.figure.notes, &self.runs)
    }

    /// The numbers of a claim's sentence, and those found.
    pub(crate) fn paper_numbers(&self, claim: &Claim) -> Vec<PaperNumber> {
        match claim.value {
            None => paper_numbers(claim, self.figure.value, &self.points),
            Some(value) => paper_numbers(claim, value, &self.by(value).points),
        }
    }

    /// A paragraph on a claim that does not hold or is undecided: the distance of its runs from a
    /// decision, and the reason for a failure, if the counts show it or add up to it. If neither is known, the
    /// paragraph reports that.
    pub(crate) fn why_not(&self, claim: &Claim, judged: &Judged) -> Option<String> {
        if !matches!(judged.verdict, Verdict::DoesNotHold | Verdict::Undecided) {
            return None;
        }
        let undecided = judged.doubt.map(|doubt| doubt.text(judged.as_claimed));
        let known = claim.why_not.as_ref().filter(|_| !judged.as_claimed);
        let known = known.filter(|it| self.shows(claim, it));
        let known = known.map(|reason| reason.text.to_owned());
        let known = known.or_else(|| self.added_up(claim).filter(|_| !judged.as_claimed));
        let sentences: Vec<String> = [undecided, known].into_iter().flatten().collect();
        if sentences.is_empty() {
            return Some(NO_REASON.to_owned());
        }
        Some(sentences.join(" "))
    }

    /// Whether the counts at the decisive point support the reason.
    fn shows(&self, claim: &Claim, reason: &Reason) -> bool {
        self.decided_at(claim).is_some_and(|at| {
            reason.is_seen(&Counted {
                lines: self.points.lines(),
                threads: &self.points.threads(),
                at,
                count: &|line, threads, count| self.count(line, threads, count),
            })
        })
    }

    /// Whether counts add up to the values of a line, in words.
    fn added_up(&self, claim: &Claim) -> Option<String> {
        let model = claim.cost_model.as_ref()?;
        let places = self.points.threads().into_iter();
        let places = places.map(|place| self.runs_at(model.line, place).collect());
        let cores = self.circumstances.machine.cores;
        Some(model.text(&places.collect::<Vec<_>>(), cores))
    }

    /// The number of threads of the claim's first statement.
    fn decided_at(&self, claim: &Claim) -> Option<u32> {
        let first = claim.statements.first();
        first.and_then(|one| self.points.threads_at(one.at()))
    }

    /// The additional counts for a tested claim, line by line.
    pub(crate) fn beside(&self, claim: &Claim, judged: &Judged) -> Vec<(&'static str, Counts)> {
        if judged.verdict == Verdict::NotTestable {
            return Vec::new();
        }
        let threads = self.decided_at(claim);
        let lines = self.points.lines().iter();
        let counts = lines.map(|&line| {
            // Counts are meaningful only together with the amount of work.
            let which = [&[Count::Committed], claim.beside].concat();
            let counts = threads.map(|threads| self.counts(line, threads, &which));
            (line, counts.unwrap_or_default())
        });
        counts.filter(|(_, counts)| !counts.is_empty()).collect()
    }

    /// Where another report is expected to have the medians of a line, by place.
    pub(super) fn expected_intervals(&self, line: &str) -> BTreeMap<u32, (f64, f64)> {
        let mut values: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for run in self.runs.iter().filter(|run| run.line == line) {
            let (across, value) = (self.figure.across, self.figure.value);
            if let Some((place, value)) = across.place(run).zip(value.of(run)) {
                values.entry(place).or_default().push(value);
            }
        }
        let Some(spread) = LineSpread::of(values.values().map(Vec::as_slice)) else {
            return BTreeMap::new();
        };
        let intervals = values.iter();
        let intervals =
            intervals.filter_map(|(place, runs)| Some((*place, spread.interval(runs)?)));
        intervals.collect()
    }

    fn counts(&self, line: &str, threads: u32, which: &[Count]) -> Counts {
        let counts = which.iter().filter_map(|count| {
            let counted = self.count(line, threads, *count)?;
            Some((count.name(), counted))
        });
        counts.collect()
    }

    /// The median of a point's runs.
    fn count(&self, line: &str, place: u32, count: Count) -> Option<f64> {
        let runs = self.runs_at(line, place);
        median(runs.filter_map(|run| count.of(run)).collect())
    }

    fn runs_at(&self, line: &str, place: u32) -> impl Iterator<Item = &RunRow> {
        let across = self.figure.across;
        let runs = self.runs.iter();
        runs.filter(move |run| run.line == line && across.place(run) == Some(place))
    }

    /// The position of a point on an axis of reads per second.
    fn rate(&self, line: &str, place: u32) -> Option<f64> {
        let Across::RelativeIops { .. } = self.figure.across else {
            return None;
        };
        let medians = &self.points.rates(line)?.medians;
        let found = medians.iter().find(|(at, _, _)| *at == place);
        found.map(|(_, rate, _)| *rate)
    }
}

/// The points of a figure's lines, with this quantity as their value.
fn points_of(figure: &Figure, measure: Measure, cores: usize, runs: &[RunRow]) -> Points {
    let mut values: BTreeMap<(u32, &'static str), Vec<f64>> = BTreeMap::new();
    for run in runs {
        if let Some((place, value)) = figure.across.place(run).zip(measure.of(run)) {
            values.entry((place, run.line)).or_default().push(value);
        }
    }
    let spreads = values.into_iter().filter_map(|((threads, line), values)| {
        Spread::of(values).map(|spread| (line, threads, spread))
    });
    let lines = figure.line_names();
    let rates = lines
        .iter()
        .map(|line| rate_line(figure, measure, line, runs));
    let rates = rates.collect();
    Points::new(cores, lines, spreads.collect()).along(figure.across.flag(), rates)
}

/// The runs of a line, over their reads per second.
fn rate_line(figure: &Figure, measure: Measure, line: &'static str, runs: &[RunRow]) -> RateLine {
    let mut places: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    let mut rounds: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.line == line) {
        let pair = run.relative_iops.zip(measure.of(run));
        if let Some((place, pair)) = figure.across.place(run).zip(pair) {
            places.entry(place).or_default().push(pair);
            rounds.entry(run.round).or_default().push(pair);
        }
    }
    let middle =
        |pairs: &[(f64, f64)], of: fn(&(f64, f64)) -> f64| median(pairs.iter().map(of).collect());
    let medians = places.iter().filter_map(|(place, pairs)| {
        let rate = middle(pairs, |pair| pair.0)?;
        Some((*place, rate, middle(pairs, |pair| pair.1)?))
    });
    let complete = |round: &Vec<(f64, f64)>| round.len() == places.len();
    RateLine {
        line,
        medians: medians.collect(),
        rounds: rounds.into_values().filter(complete).collect(),
    }
}

/// The runs of a figure. A run without a number of tasks, whose executor chooses them, is at every
/// number.
fn at_every_place(across: Across, runs: Vec<RunRow>) -> Vec<RunRow> {
    if across.flag() != "tasks" {
        return runs;
    }
    let places: BTreeSet<u16> = runs.iter().filter_map(|run| run.tasks).collect();
    let mut all = Vec::with_capacity(runs.len());
    for run in runs {
        if run.tasks.is_some() {
            all.push(run);
            continue;
        }
        all.extend(places.iter().map(|tasks| RunRow {
            tasks: Some(*tasks),
            ..run.clone()
        }));
    }
    all
}

/// A verdict with the numbers behind it.
pub(crate) fn verdict_text(judged: &Judged) -> String {
    let text = judged.verdict.text();
    if judged.verdict == Verdict::NotTestable {
        return format!("{text} ({})", judged.found);
    }
    if judged.verdict == Verdict::NotJudged {
        return format!(
            "{text} (a point has one run; see --repeat): {}",
            judged.found
        );
    }
    format!("{text}{}: {}", leaning(judged), judged.found)
}

/// On which side the medians of an undecided claim are.
pub(crate) fn leaning(judged: &Judged) -> &'static str {
    match (judged.verdict, judged.as_claimed) {
        (Verdict::Undecided, true) => " (the medians are as claimed)",
        (Verdict::Undecided, false) => " (the medians are not as claimed)",
        _ => "",
    }
}

/// Counts in words.
pub(crate) fn counts_text(counts: &Counts) -> String {
    let texts = counts
        .iter()
        .map(|(name, count)| format!("{name} {}", short(*count)));
    texts.collect::<Vec<_>>().join(", ")
}
