//! Judges whether a claim holds on this machine: by the medians, and by the support of the runs for
//! them.

mod comparison_margin;
mod linear_fit;
mod statements;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub(crate) use self::comparison_margin::Doubt;
use self::linear_fit::FitSpread;
pub(crate) use self::linear_fit::LinearFit;
use super::claim::{At, Claim, Statement};
use super::measure::Measure;
use super::medians::{Points, RateLine, Spread, short};

/// A line is flat if it rises by at most this factor, and falls by at most the same.
const FLAT: f64 = 1.1;
/// A line grows little if it grows by at most this factor.
const LITTLE: f64 = 1.25;
/// A claimed ratio is confirmed if the measured one is within this factor.
const NEAR: f64 = 1.25;
/// Values up to this fraction of a line's highest value count as zero.
const NOTHING: f64 = 0.1;
/// With fewer runs of a point, the variation of runs is unknown.
const RUNS_MIN: usize = 2;

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Verdict {
    #[serde(rename = "holds")]
    Holds,
    #[serde(rename = "does not hold here")]
    DoesNotHold,
    /// The runs differ by more than what decides: more of them might turn the order round.
    #[serde(rename = "undecided")]
    Undecided,
    #[serde(rename = "not testable here")]
    NotTestable,
    #[serde(rename = "not judged")]
    NotJudged,
}

impl Verdict {
    /// All of them, in the order of tables.
    pub(crate) const ALL: [Self; 5] = [
        Self::Holds,
        Self::DoesNotHold,
        Self::Undecided,
        Self::NotTestable,
        Self::NotJudged,
    ];

    /// The verdict for readers.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::DoesNotHold => "does not hold here",
            Self::Undecided => "undecided",
            Self::NotTestable => "not testable here",
            Self::NotJudged => "not judged",
        }
    }
}

/// A judged claim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Judged {
    pub(crate) verdict: Verdict,
    /// The decisive numbers, or the missing requirements.
    pub(crate) found: String,
    /// Whether the medians are as claimed, whatever the runs say about them.
    pub(crate) as_claimed: bool,
    /// Present if runs of decisive points overlap.
    pub(crate) doubt: Option<Doubt>,
}

impl Judged {
    /// Whether the decisive difference is within the variation of the runs.
    pub(crate) fn within_spread(&self) -> bool {
        self.verdict == Verdict::Undecided
    }

    /// The same, with the name of the quantity before the numbers.
    pub(super) fn named(self, value: Measure) -> Self {
        if self.verdict == Verdict::NotTestable {
            return self;
        }
        Self {
            found: format!("{}, {}", value.label(), self.found),
            ..self
        }
    }

    /// The verdict on a claim without the required cores, threads or keys.
    pub(crate) fn not_testable(found: String) -> Self {
        Self {
            verdict: Verdict::NotTestable,
            found,
            as_claimed: false,
            doubt: None,
        }
    }
}

/// Judges a claim.
pub(crate) fn judge(claim: &Claim, points: &Points) -> Judged {
    if points.cores() < claim.cores_min {
        let measured = claim
            .statements
            .iter()
            .filter_map(|statement| match *statement {
                Statement::About(line, at, ..)
                | Statement::Below(line, at, ..)
                | Statement::Over(line, at, ..) => {
                    let at = points.threads_at(at)?;
                    Some(format!(
                        "; here: {}",
                        along(line, &[(at, points.get(line, at)?)])
                    ))
                }
                _ => None,
            });
        let measured: String = measured.collect();
        let needed = format!("needs >= {} cores{measured}", claim.cores_min);
        return Judged::not_testable(needed);
    }
    let mut evidence = Evidence::default();
    for &statement in claim.statements {
        if let Err(missing) = evidence.look_at(statement, points) {
            return Judged::not_testable(missing.0);
        }
    }
    if evidence.comparisons.is_empty() {
        return Judged::not_testable("there is nothing to compare".to_owned());
    }
    evidence.judged()
}

/// A point that a statement needs but that was not measured.
struct Missing(String);

/// The comparisons made, and their numbers in words.
#[derive(Default)]
struct Evidence {
    comparisons: Vec<Comparison>,
    texts: Vec<String>,
}

struct Comparison {
    as_claimed: bool,
    /// The number of runs of the side that has fewer.
    runs: usize,
    /// Present if runs of the two sides overlap.
    doubt: Option<Doubt>,
}

fn threads_at(at: At, points: &Points) -> Result<u32, Missing> {
    let needed = match at {
        At::Threads(threads) => threads,
        At::Fewest => 1,
        At::Cores | At::Most => points.cores(),
    };
    let missing = || Missing(format!("needs --{} {needed}", points.flag()));
    points.threads_at(at).ok_or_else(missing)
}

fn point(line: &str, threads: u32, points: &Points) -> Result<Spread, Missing> {
    let missing = || match points.flag() {
        // A line is measured at all seconds and all percentiles, or at none.
        "seconds" | "percentile" => Missing(format!("needs {line}")),
        flag => Missing(format!("needs {line} at --{flag} {threads}")),
    };
    points.get(line, threads).ok_or_else(missing)
}

/// The points of a line between two numbers of threads: at least two.
fn stretch(
    line: &str,
    (from, to): (u32, u32),
    points: &Points,
) -> Result<Vec<(u32, Spread)>, Missing> {
    let between = points.threads().into_iter();
    let between = between.filter(|threads| (from..=to).contains(threads));
    let found: Vec<(u32, Spread)> = between
        .filter_map(|threads| Some((threads, points.get(line, threads)?)))
        .collect();
    if found.len() < 2 {
        let flag = points.flag();
        let why = format!("needs {line} at more than one of {from} to {to} --{flag}");
        return Err(Missing(why));
    }
    Ok(found)
}

/// A line over reads per second, with its linear fit.
fn rate_line<'p>(line: &str, points: &'p Points) -> Result<(&'p RateLine, FitSpread), Missing> {
    let missing = || Missing(format!("needs {line} at more --{}", points.flag()));
    let rates = points.rates(line).ok_or_else(missing)?;
    let medians = rates.medians.iter().map(|(_, rate, value)| (*rate, *value));
    let fit = FitSpread::of(&medians.collect::<Vec<_>>(), &rates.rounds);
    Ok((rates, fit.ok_or_else(missing)?))
}

/// The ratio of two values, with the range that their runs allow.
fn ratio(upper: Spread, lower: Spread) -> Spread {
    Spread {
        low: upper.low / lower.high,
        median: upper.median / lower.median,
        high: upper.high / lower.low,
        runs: upper.runs.min(lower.runs),
    }
}

/// The rise of a line, with the range that its runs allow.
fn gain(first: Spread, last: Spread) -> Spread {
    Spread {
        low: last.low - first.high,
        median: last.median - first.median,
        high: last.high - first.low,
        runs: first.runs.min(last.runs),
    }
}

fn along(line: &str, stretch: &[(u32, Spread)]) -> String {
    let values = stretch
        .iter()
        .map(|(threads, at)| format!("{} at {threads}", short(at.median)));
    format!("{line}: {}", values.collect::<Vec<_>>().join(", "))
}

impl Evidence {
    /// Compares each of these lines with every other; `upper_first` orders the two as they should
    /// be.
    fn against_the_rest(
        &mut self,
        lines: &[&'static str],
        threads: u32,
        points: &Points,
        upper_first: impl Fn(Spread, Spread) -> (Spread, Spread),
    ) -> Result<(), Missing> {
        let all = points.lines().iter().copied();
        let rest: Vec<&str> = all.filter(|line| !lines.contains(line)).collect();
        self.against(lines, &rest, threads, points, upper_first)
    }

    /// Compares each of these lines with each of the others.
    fn against(
        &mut self,
        lines: &[&'static str],
        others: &[&'static str],
        threads: u32,
        points: &Points,
        upper_first: impl Fn(Spread, Spread) -> (Spread, Spread),
    ) -> Result<(), Missing> {
        let value = |line: &&'static str| Ok((*line, point(line, threads, points)?));
        let mut values = lines.iter().map(value).collect::<Result<Vec<_>, _>>()?;
        let others = others.iter().map(value).collect::<Result<Vec<_>, _>>()?;
        for (_, one) in &values {
            for (_, other) in &others {
                let (upper, lower) = upper_first(*one, *other);
                self.above(upper, lower);
            }
        }
        values.extend(others);
        self.side_by_side(threads, values);
        Ok(())
    }

    fn order(
        &mut self,
        highest_first: &[&'static str],
        threads: u32,
        points: &Points,
    ) -> Result<(), Missing> {
        let mut values = Vec::new();
        for &line in highest_first {
            values.push((line, point(line, threads, points)?));
        }
        for step in values.windows(2) {
            self.above(step[0].1, step[1].1);
        }
        self.side_by_side(threads, values);
        Ok(())
    }

    /// A line that should rise by little from a number of threads on.
    fn levels(
        &mut self,
        line: &str,
        from: u16,
        points: &Points,
    ) -> Result<Vec<(u32, Spread)>, Missing> {
        let stretch = stretch(line, (from.into(), points.cores().into()), points)?;
        let most = stretch[0].1.times(FLAT);
        for (_, later) in &stretch[1..] {
            self.at_most(*later, most);
        }
        self.texts.push(along(line, &stretch));
        Ok(stretch)
    }

    /// A line that should be higher at one number of threads than at another. Returns both values.
    fn changes(
        &mut self,
        line: &str,
        (upper_at, lower_at): (At, At),
        points: &Points,
    ) -> Result<(Spread, Spread), Missing> {
        let (above, below) = (threads_at(upper_at, points)?, threads_at(lower_at, points)?);
        if above == below {
            return Err(Missing(format!(
                "needs more --{} than {above}",
                points.flag()
            )));
        }
        let (upper, lower) = (point(line, above, points)?, point(line, below, points)?);
        self.above(upper, lower);
        let mut ends = [(above, upper), (below, lower)];
        ends.sort_by_key(|(threads, _)| *threads);
        self.texts.push(along(line, &ends));
        Ok((upper, lower))
    }

    fn multiple(&mut self, upper: (&str, Spread), lower: (&str, Spread), times: f64) {
        let found = ratio(upper.1, lower.1);
        self.at_most(Spread::exactly(times / NEAR), found);
        self.at_most(found, Spread::exactly(times * NEAR));
        self.texts.push(format!(
            "{} {} is {} times {} {}, where {times} within a quarter is claimed",
            upper.0,
            short(upper.1.median),
            short(found.median),
            lower.0,
            short(lower.1.median)
        ));
    }

    fn above(&mut self, upper: Spread, lower: Spread) {
        self.compare(upper.median > lower.median, upper, lower);
    }

    fn at_most(&mut self, lower: Spread, upper: Spread) {
        self.compare(lower.median <= upper.median, upper, lower);
    }

    fn compare(&mut self, as_claimed: bool, one: Spread, other: Spread) {
        self.comparisons.push(Comparison {
            as_claimed,
            runs: one.runs.min(other.runs),
            doubt: one.overlaps(&other).then(|| Doubt::between(one, other)),
        });
    }

    fn side_by_side(&mut self, threads: u32, mut values: Vec<(&str, Spread)>) {
        values.sort_by(|one, other| other.1.median.total_cmp(&one.1.median));
        let values = values
            .iter()
            .map(|(line, value)| format!("{line} {}", short(value.median)));
        self.texts.push(format!(
            "at {threads}: {}",
            values.collect::<Vec<_>>().join(", ")
        ));
    }

    /// The numbers, each once: several statements of a claim may look at the same points.
    fn found(&self) -> String {
        let mut texts: Vec<&str> = Vec::new();
        for text in &self.texts {
            if !texts.contains(&text.as_str()) {
                texts.push(text);
            }
        }
        texts.join("; ")
    }

    fn judged(self) -> Judged {
        let holds = self.comparisons.iter().all(|made| made.as_claimed);
        if self.comparisons.iter().any(|made| made.runs < RUNS_MIN) {
            return Judged {
                verdict: Verdict::NotJudged,
                found: self.found(),
                as_claimed: holds,
                doubt: None,
            };
        }
        let deciding = self
            .comparisons
            .iter()
            .filter(|made| holds || !made.as_claimed);
        let doubts: Vec<Option<Doubt>> = deciding.map(|made| made.doubt).collect();
        // The claim holds if all statements do, and fails if any one does.
        let in_doubt = if holds {
            doubts.iter().any(Option::is_some)
        } else {
            doubts.iter().all(Option::is_some)
        };
        let doubts = doubts.into_iter().flatten();
        let doubt = doubts.reduce(Doubt::or_more).filter(|_| in_doubt);
        let verdict = match (doubt, holds) {
            (Some(doubt), _) if doubt.varies() => Verdict::Undecided,
            (_, true) => Verdict::Holds,
            (_, false) => Verdict::DoesNotHold,
        };
        Judged {
            verdict,
            found: self.found(),
            as_claimed: holds,
            doubt,
        }
    }
}
