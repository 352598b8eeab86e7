//! The results of a figure: its points, its chart and its claims, for standard output and for
//! files.

use std::collections::BTreeMap;
use std::fmt::Write;

use namiki_platform::machine::Machine;
use serde::Serialize;

use super::claim::{At, Claim};
use super::counted_explanation::{Counted, Reason};
use super::definition::{Across, Figure};
use super::judge::{Doubt, Judged, LinearFit, Verdict, judge};
use super::medians::{Points, RateLine, Spread, short};
use super::run_row::{Count, RunRow};
use super::svg_chart::{Chart, Places, Series};
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

/// A measured figure.
pub(crate) struct Outcome {
    pub(crate) figure: &'static Figure,
    pub(crate) circumstances: Circumstances,
    pub(crate) judged: Vec<(&'static Claim, Judged)>,
    points: Points,
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
    threads: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    tasks: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    second: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    percentile: Option<u16>,
    /// Present if a figure's axis is reads per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    relative_iops: Option<f64>,
    measure: &'static str,
    median: f64,
    low: f64,
    high: f64,
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
    within_spread: bool,
    cores_min: u16,
    /// Always present for a claim that does not hold.
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
    notes: &'static [&'static str],
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
        let runs: Vec<RunRow> = of_lines.cloned().collect();
        let mut values: BTreeMap<(u16, &'static str), Vec<f64>> = BTreeMap::new();
        for run in &runs {
            if let Some((place, value)) = figure.across.place(run).zip(figure.value.of(run)) {
                values.entry((place, run.line)).or_default().push(value);
            }
        }
        let spreads = values.into_iter().filter_map(|((threads, line), values)| {
            Spread::of(values).map(|spread| (line, threads, spread))
        });
        let rates = lines.iter().map(|line| rate_line(figure, line, &runs));
        let rates = rates.collect();
        let points = Points::new(circumstances.machine.cores, lines, spreads.collect())
            .along(figure.across.flag(), rates);
        let claims = figure.claims.iter().map(|claim| {
            let judged = match &circumstances.unlike_paper {
                Some(why) => Judged::not_testable(why.clone()),
                None => judge(claim, &points),
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

    /// The figure's points, line by line.
    pub(crate) fn point_rows(&self) -> Vec<PointRow<'_>> {
        let mut rows = Vec::new();
        for &line in self.points.lines() {
            for place in self.points.threads() {
                let Some(spread) = self.points.get(line, place) else {
                    continue;
                };
                let run = self.runs_at(line, place).next();
                rows.push(PointRow {
                    kind: "point",
                    paper: self.figure.paper,
                    figure: self.figure.number,
                    line,
                    threads: run.map_or(place, |run| run.threads),
                    tasks: run.and_then(|run| run.tasks),
                    second: run.and_then(|run| run.second),
                    percentile: run.and_then(|run| run.percentile),
                    relative_iops: self.rate(line, place),
                    measure: self.figure.value.key(),
                    median: spread.median,
                    low: spread.low,
                    high: spread.high,
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
            within_spread: judged.within_spread(),
            cores_min: claim.cores_min,
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
            notes: self.figure.notes,
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
            let _ = writeln!(text, "\n  §{section} 「{sentence}」");
            let _ = writeln!(text, "    {english}");
            let _ = writeln!(text, "    {}", verdict_text(judged));
            if judged.verdict != Verdict::DoesNotHold {
                continue;
            }
            for (line, counts) in self.beside(claim, judged) {
                let _ = writeln!(text, "      {line}: {}", counts_text(&counts));
            }
            if let Some(why_not) = self.why_not(claim, judged) {
                let _ = writeln!(text, "    why: {why_not}");
            }
        }
        for note in figure.notes {
            let _ = writeln!(text, "  note: {note}");
        }
        text
    }

    /// A paragraph on a claim that does not hold: the distance of its runs from a decision, if they
    /// are inconclusive, and the reason, if the counts show it. If neither is known, the paragraph
    /// reports that.
    pub(crate) fn why_not(&self, claim: &Claim, judged: &Judged) -> Option<String> {
        if judged.verdict != Verdict::DoesNotHold {
            return None;
        }
        let undecided = judged.doubt.map(Doubt::why_not);
        let known = claim.why_not.as_ref().filter(|it| self.shows(claim, it));
        let known = known.map(|reason| reason.text.to_owned());
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

    /// The number of threads of the claim's first statement.
    fn decided_at(&self, claim: &Claim) -> Option<u16> {
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

    fn counts(&self, line: &str, threads: u16, which: &[Count]) -> Counts {
        let counts = which.iter().filter_map(|count| {
            let counted = self.count(line, threads, *count)?;
            Some((count.name(), counted))
        });
        counts.collect()
    }

    /// The median of a point's runs.
    fn count(&self, line: &str, place: u16, count: Count) -> Option<f64> {
        let runs = self.runs_at(line, place);
        median(runs.filter_map(|run| count.of(run)).collect())
    }

    fn runs_at(&self, line: &str, place: u16) -> impl Iterator<Item = &RunRow> {
        let across = self.figure.across;
        let runs = self.runs.iter();
        runs.filter(move |run| run.line == line && across.place(run) == Some(place))
    }

    /// The position of a point on an axis of reads per second.
    fn rate(&self, line: &str, place: u16) -> Option<f64> {
        let Across::RelativeIops { .. } = self.figure.across else {
            return None;
        };
        let medians = &self.points.rates(line)?.medians;
        let found = medians.iter().find(|(at, _, _)| *at == place);
        found.map(|(_, rate, _)| *rate)
    }

    /// The figure's chart.
    pub(crate) fn chart(&self) -> Chart {
        let figure = self.figure;
        let Circumstances {
            machine,
            device,
            length,
            repeat,
            ..
        } = &self.circumstances;
        let spread = match repeat {
            1 => "one run of each".to_owned(),
            repeat => format!("medians of {repeat} runs; whiskers from the lowest to the highest"),
        };
        let (places, mut series, x_label) = match figure.across {
            Across::Threads => self.curves("threads"),
            Across::Tasks => self.curves("tasks in each thread"),
            Across::Workers => self.curves("workers of each node"),
            Across::Seconds => self.curves("seconds since the first transaction"),
            Across::Percentiles => self.curves("percentile of the latencies"),
            Across::RelativeIops { .. } => self.over_rates(),
            Across::Kinds {
                threads,
                kinds,
                bars,
            } => self.bars(threads, kinds, bars),
        };
        if matches!(figure.across, Across::Seconds) {
            // Drops lines for numbers of workers that were not requested.
            series.retain(|one| one.points.iter().any(Option::is_some));
        }
        Chart {
            title: format!(
                "{} figure {}: {}",
                figure.paper, figure.number, figure.title
            ),
            subtitles: vec![
                format!("{device}, {length}, {spread}"),
                format!("{} cores, {}", machine.cores, machine.cpu),
            ],
            x_label,
            y_label: figure.value.label().to_owned(),
            places,
            series,
        }
    }

    /// Each point at its own reads per second, and the fitted lines.
    fn over_rates(&self) -> (Places, Vec<Series>, String) {
        let lines = self.points.lines().iter();
        let lines = lines
            .filter_map(|line| self.points.rates(line))
            .collect::<Vec<_>>();
        let rates_of = |line: &&RateLine| {
            line.medians
                .iter()
                .map(|(_, rate, _)| *rate)
                .collect::<Vec<_>>()
        };
        let mut rates: Vec<f64> = lines.iter().flat_map(rates_of).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        let mut series = Vec::new();
        for rate_line in lines {
            let place = |rate: &f64| {
                let found = rate_line.medians.iter().find(|(_, own, _)| own == rate);
                found.and_then(|(place, _, _)| self.points.get(rate_line.line, *place))
            };
            series.push(Series {
                name: rate_line.line.to_owned(),
                points: rates.iter().map(place).collect(),
            });
            let medians = rate_line
                .medians
                .iter()
                .map(|(_, rate, value)| (*rate, *value));
            let medians: Vec<(f64, f64)> = medians.collect();
            if let Some(fit) = LinearFit::of(&medians) {
                let ends = [rates.first(), rates.last()];
                let point = |rate: &f64| {
                    let value = fit.intercept + fit.slope * rate;
                    // A fitted line has no runs that could vary.
                    let spread = Spread {
                        runs: 1,
                        ..Spread::exactly(value)
                    };
                    (ends.contains(&Some(rate)) && value >= 0.0).then_some(spread)
                };
                series.push(Series {
                    name: format!("fit of {}, R² {:.3}", rate_line.line, fit.r_squared),
                    points: rates.iter().map(point).collect(),
                });
            }
        }
        let label = "reads per second, ordered execution = 1";
        (Places::Numbers(rates), series, label.to_owned())
    }

    fn curves(&self, label: &str) -> (Places, Vec<Series>, String) {
        let threads = self.points.threads();
        let series = self.points.lines().iter().map(|&line| Series {
            name: line.to_owned(),
            points: threads
                .iter()
                .map(|threads| self.points.get(line, *threads))
                .collect(),
        });
        let numbers = threads.iter().map(|threads| f64::from(*threads)).collect();
        (Places::Numbers(numbers), series.collect(), label.to_owned())
    }

    fn bars(
        &self,
        threads: u16,
        kinds: &[&str],
        bars: &[(&'static str, &[&str])],
    ) -> (Places, Vec<Series>, String) {
        // Other numbers are better than none, and the axis names them.
        let asked = self.points.threads_at(At::Threads(threads));
        let measured = asked.or(self.points.threads_at(At::Most));
        let threads = measured.unwrap_or(threads);
        let series = bars.iter().map(|(name, lines)| Series {
            name: (*name).to_owned(),
            points: lines
                .iter()
                .map(|line| self.points.get(line, threads))
                .collect(),
        });
        let names = kinds.iter().map(ToString::to_string).collect();
        (
            Places::Names(names),
            series.collect(),
            format!("transactions, {threads} threads"),
        )
    }
}

/// The runs of a line, over their reads per second.
fn rate_line(figure: &Figure, line: &'static str, runs: &[RunRow]) -> RateLine {
    let mut places: BTreeMap<u16, Vec<(f64, f64)>> = BTreeMap::new();
    let mut rounds: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.line == line) {
        let pair = run.relative_iops.zip(figure.value.of(run));
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
    let spread = if judged.within_spread() {
        " (by less than the runs differ)"
    } else {
        ""
    };
    format!("{text}{spread}: {}", judged.found)
}

/// Counts in words.
pub(crate) fn counts_text(counts: &Counts) -> String {
    let texts = counts
        .iter()
        .map(|(name, count)| format!("{name} {}", short(*count)));
    texts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::figures;
    use super::super::html_page::page;
    use super::super::svg_chart::escaped;
    use super::*;

    const THREADS: [u16; 9] = [1, 2, 4, 8, 10, 16, 24, 64, 256];

    /// Two runs of each point of a figure, which differ by a fraction.
    fn measured(
        figure: &'static Figure,
        value: fn(usize, u16) -> f64,
        part: f64,
        met_locks: u64,
    ) -> Outcome {
        let mut runs = Vec::new();
        for (at, line) in figure.line_names().into_iter().enumerate() {
            for threads in THREADS {
                for round in [1, 2] {
                    let value = value(at, threads) * (1.0 + part * f64::from(round));
                    runs.push(RunRow {
                        line,
                        threads,
                        tasks: Some(threads),
                        second: Some(threads),
                        percentile: Some(threads),
                        operations_per_second: Some(value),
                        latency_ns: Some(value),
                        mean_rtt_ms: Some(value / 1e3),
                        leader_cpu_percent: Some(value.sqrt()),
                        groups_on_their_way: Some(2.0),
                        round,
                        committed: Some(100_000),
                        relative_seconds: Some(value),
                        relative_iops: Some(value),
                        cpu_percent: Some(value.sqrt()),
                        tps: Some(value),
                        paper_abort_rate: Some(value / 1e6),
                        cas_misses: Some(value as u64),
                        met_locks: Some(met_locks),
                        failed_locks: Some(0),
                        flushes: Some(7),
                        ..RunRow::default()
                    });
                }
            }
        }
        let circumstances = Circumstances {
            machine: Machine {
                cores: 256,
                cpu: "one".to_owned(),
                disk: "one".to_owned(),
                kernel: "one".to_owned(),
            },
            device: "file".to_owned(),
            length: "100000 transactions".to_owned(),
            repeat: 2,
            command: "namiki-bench figure".to_owned(),
            unlike_paper: None,
        };
        Outcome::of(figure, circumstances, &runs)
    }

    /// Orders that the papers do not claim, and runs that differ by more than their medians.
    #[test]
    fn only_claims_that_fail_have_a_paragraph() {
        let orders: [fn(usize, u16) -> f64; 4] = [
            |line, threads| 1000.0 * (line + 1) as f64 * f64::from(threads),
            |line, threads| 1e6 / (line + 1) as f64 / f64::from(threads),
            |line, _| 1000.0 + line as f64,
            |_, _| 1000.0,
        ];
        let (mut known, mut undecided, mut unknown) = (0, 0, 0);
        for figure in figures() {
            for order in orders {
                for part in [0.001, 0.3] {
                    let outcome = measured(figure, order, part, 0);
                    let text = outcome.text();
                    for (claim, judged) in &outcome.judged {
                        let why = outcome.why_not(claim, judged);
                        let expected = judged.verdict == Verdict::DoesNotHold;
                        assert_eq!(why.is_some(), expected, "{judged:?}");
                        let Some(why) = why else { continue };
                        assert!(text.contains(&format!("    why: {why}\n")), "{text}");
                        assert!(!outcome.beside(claim, judged).is_empty());
                        let reason = claim.why_not.as_ref();
                        known += usize::from(reason.is_some_and(|it| why.contains(it.text)));
                        undecided += usize::from(judged.within_spread());
                        unknown += usize::from(why == NO_REASON);
                    }
                    let rows = outcome.claim_rows();
                    let whys = rows.iter().filter_map(|row| row.why_not.clone());
                    let whys: Vec<String> = whys.collect();
                    let page = page(&[outcome], 0, "");
                    assert!(whys.iter().all(|why| page.contains(&escaped(why))));
                }
            }
        }
        assert!(known > 0 && undecided > 0 && unknown > 0);
    }

    /// If one in ten commits meets a lock, the text must not say that few do.
    #[test]
    fn a_reason_is_not_given_where_counts_speak_against_it() {
        let slowest: fn(usize, u16) -> f64 =
            |line, threads| 1000.0 * (line + 1) as f64 * f64::from(threads);
        let mut all = figures();
        let seven = all.find(|figure| figure.slug() == "tictoc-pwal-7").unwrap();
        for (met_locks, said) in [(10, true), (10_000, false)] {
            let outcome = measured(seven, slowest, 0.001, met_locks);
            let text = outcome.text();
            assert!(text.contains("    does not hold here: "), "{text}");
            assert_eq!(text.contains("at most one in a hundred"), said, "{text}");
            assert_eq!(text.contains(NO_REASON), !said, "{text}");
        }
    }

    #[test]
    fn one_run_of_each_point_is_not_judged() {
        let mut all = figures();
        let seven = all.find(|figure| figure.slug() == "tictoc-pwal-7").unwrap();
        let twice = measured(seven, |line, _| 1000.0 + line as f64, 0.001, 0);
        let runs = twice.runs.iter().filter(|run| run.round == 1);
        let once: Vec<RunRow> = runs.cloned().collect();
        let once = Outcome::of(seven, twice.circumstances.clone(), &once);
        let text = once.text();
        assert!(
            text.contains("    not judged (a point has one run"),
            "{text}"
        );
        assert!(!text.contains("    holds"), "{text}");
        assert!(!text.contains("    does not hold"), "{text}");
        let rows = once.claim_rows();
        assert!(rows.iter().all(|row| row.verdict == Verdict::NotJudged));
        let page = page(&[once], 0, "");
        assert!(page.contains("<span class=\"verdict\">not judged</span>"));
    }
}
