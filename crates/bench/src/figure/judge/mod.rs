//! Judges whether a claim holds on this machine: by the medians, and by the support of the runs for
//! them.

mod comparison_margin;
mod linear_fit;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub(crate) use self::comparison_margin::Doubt;
use self::linear_fit::FitSpread;
pub(crate) use self::linear_fit::LinearFit;
use super::claim::{At, Claim, Statement};
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
    #[serde(rename = "not testable here")]
    NotTestable,
    #[serde(rename = "not judged")]
    NotJudged,
}

impl Verdict {
    /// The verdict for readers.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::DoesNotHold => "does not hold here",
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
    /// Present if runs of decisive points overlap: more runs might change the verdict.
    pub(crate) doubt: Option<Doubt>,
}

impl Judged {
    /// Whether the decisive difference is within the variation of the runs.
    pub(crate) fn within_spread(&self) -> bool {
        self.doubt.is_some()
    }
}

/// Judges a claim.
pub(crate) fn judge(claim: &Claim, points: &Points) -> Judged {
    let untestable = |found| Judged {
        verdict: Verdict::NotTestable,
        found,
        doubt: None,
    };
    if points.cores() < claim.cores_min {
        let measured = claim
            .statements
            .iter()
            .filter_map(|statement| match *statement {
                Statement::About { line, at, .. }
                | Statement::Below { line, at, .. }
                | Statement::Over { line, at, .. } => {
                    let at = points.threads_at(at)?;
                    Some(format!(
                        "; here: {}",
                        along(line, &[(at, points.get(line, at)?)])
                    ))
                }
                _ => None,
            });
        let measured: String = measured.collect();
        return untestable(format!("needs >= {} cores{measured}", claim.cores_min));
    }
    let mut evidence = Evidence::default();
    for &statement in claim.statements {
        if let Err(missing) = evidence.look_at(statement, points) {
            return untestable(missing.0);
        }
    }
    if evidence.comparisons.is_empty() {
        return untestable("there is nothing to compare".to_owned());
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

fn threads_at(at: At, points: &Points) -> Result<u16, Missing> {
    let needed = match at {
        At::Threads(threads) => threads,
        At::Fewest => 1,
        At::Cores | At::Most => points.cores(),
    };
    let missing = || Missing(format!("needs --{} {needed}", points.flag()));
    points.threads_at(at).ok_or_else(missing)
}

fn point(line: &str, threads: u16, points: &Points) -> Result<Spread, Missing> {
    let missing = || match points.flag() {
        // A line is measured at all seconds, or at none.
        "seconds" => Missing(format!("needs {line}")),
        flag => Missing(format!("needs {line} at --{flag} {threads}")),
    };
    points.get(line, threads).ok_or_else(missing)
}

/// The points of a line between two numbers of threads: at least two.
fn stretch(
    line: &str,
    (from, to): (u16, u16),
    points: &Points,
) -> Result<Vec<(u16, Spread)>, Missing> {
    let between = points.threads().into_iter();
    let between = between.filter(|threads| (from..=to).contains(threads));
    let found: Vec<(u16, Spread)> = between
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

fn along(line: &str, stretch: &[(u16, Spread)]) -> String {
    let values = stretch
        .iter()
        .map(|(threads, at)| format!("{} at {threads}", short(at.median)));
    format!("{line}: {}", values.collect::<Vec<_>>().join(", "))
}

impl Evidence {
    fn look_at(&mut self, statement: Statement, points: &Points) -> Result<(), Missing> {
        match statement {
            Statement::Highest { lines, at } => {
                self.against_the_rest(lines, threads_at(at, points)?, points, |one, rest| {
                    (one, rest)
                })
            }
            Statement::Lowest { lines, at } => {
                self.against_the_rest(lines, threads_at(at, points)?, points, |one, rest| {
                    (rest, one)
                })
            }
            Statement::Order { highest_first, at } => {
                self.order(highest_first, threads_at(at, points)?, points)
            }
            Statement::OrderEverywhere { highest_first } => {
                threads_at(At::Fewest, points)?;
                let mut threads = points.threads().into_iter();
                threads.try_for_each(|threads| self.order(highest_first, threads, points))
            }
            Statement::Rises { line, up_to } => {
                let to = threads_at(up_to, points)?;
                let stretch = stretch(line, (0, to), points)?;
                for step in stretch.windows(2) {
                    self.above(step[1].1, step[0].1);
                }
                self.texts.push(along(line, &stretch));
                Ok(())
            }
            Statement::Falls { line, from } => {
                let span = (threads_at(from, points)?, threads_at(At::Most, points)?);
                let stretch = stretch(line, span, points)?;
                for step in stretch.windows(2) {
                    self.at_most(step[1].1, step[0].1.times(FLAT));
                }
                self.above(stretch[0].1, stretch[stretch.len() - 1].1);
                self.texts.push(along(line, &stretch));
                Ok(())
            }
            Statement::Climbs { line, from } => {
                let span = (threads_at(from, points)?, threads_at(At::Most, points)?);
                let stretch = stretch(line, span, points)?;
                for step in stretch.windows(2) {
                    self.at_most(step[0].1.times(1.0 / FLAT), step[1].1);
                }
                self.above(stretch[stretch.len() - 1].1, stretch[0].1);
                self.texts.push(along(line, &stretch));
                Ok(())
            }
            Statement::Linear {
                line,
                r_squared_min,
            } => {
                let (_, fit) = rate_line(line, points)?;
                self.at_most(Spread::exactly(r_squared_min), fit.r_squared);
                self.texts.push(format!(
                    "{line}: R² is {:.4} over {} points, where at least {r_squared_min} is claimed",
                    fit.r_squared.median, fit.points
                ));
                Ok(())
            }
            Statement::SmallIntercept { line } => {
                let (rates, fit) = rate_line(line, points)?;
                let values = rates.medians.iter().map(|(_, _, value)| *value);
                let most = values.fold(0.0, f64::max);
                let limit = Spread::exactly(most * NOTHING);
                self.at_most(fit.intercept, limit);
                self.at_most(limit.times(-1.0), fit.intercept);
                self.texts.push(format!(
                    "{line}: the fit crosses the axis at {}, and the highest value is {}",
                    short(fit.intercept.median),
                    short(most)
                ));
                Ok(())
            }
            Statement::NoDearer { line } => {
                let (rates, _) = rate_line(line, points)?;
                let mut by_rate = rates.medians.clone();
                by_rate.sort_by(|one, other| one.1.total_cmp(&other.1));
                let price = |(place, rate, _): (u16, f64, f64)| {
                    point(line, place, points).map(|value| (rate, value.times(1.0 / rate)))
                };
                let few = price(by_rate[0])?;
                let many = price(by_rate[by_rate.len() - 1])?;
                self.at_most(many.1, few.1.times(FLAT));
                self.texts.push(format!(
                    "{line}: {} for each of the reads of ordered execution at {} times as many, {} at {} times",
                    short(few.1.median),
                    short(few.0),
                    short(many.1.median),
                    short(many.0)
                ));
                Ok(())
            }
            Statement::About { line, at, value } => {
                let at = threads_at(at, points)?;
                let found = point(line, at, points)?;
                self.at_most(Spread::exactly(value / NEAR), found);
                self.at_most(found, Spread::exactly(value * NEAR));
                self.texts.push(along(line, &[(at, found)]));
                Ok(())
            }
            Statement::Below { line, at, value } => {
                let at = threads_at(at, points)?;
                let found = point(line, at, points)?;
                self.above(Spread::exactly(value), found);
                self.texts.push(along(line, &[(at, found)]));
                Ok(())
            }
            Statement::Over { line, at, value } => {
                let at = threads_at(at, points)?;
                let found = point(line, at, points)?;
                self.above(found, Spread::exactly(value));
                self.texts.push(along(line, &[(at, found)]));
                Ok(())
            }
            Statement::Grows { line, from, to } => self.changes(line, (to, from), points).map(drop),
            Statement::GrowsLittle { line, from, to } => {
                let (upper, lower) = self.changes(line, (to, from), points)?;
                self.at_most(upper, lower.times(LITTLE));
                Ok(())
            }
            Statement::StopsRising { line, from } => self.levels(line, from, points).map(drop),
            Statement::Flat { line, from } => {
                let stretch = self.levels(line, from, points)?;
                let least = stretch[0].1.times(1.0 / FLAT);
                for (_, later) in &stretch[1..] {
                    self.at_most(least, *later);
                }
                Ok(())
            }
            Statement::DropsAfter { line, threads } => {
                for &threads in threads {
                    let stretch = stretch(line, (threads, points.cores()), points)?;
                    self.above(stretch[0].1, stretch[1].1.times(FLAT));
                    self.texts.push(along(line, &stretch[..2]));
                }
                Ok(())
            }
            Statement::Ratio {
                upper,
                lower,
                at,
                times,
            } => {
                let threads = threads_at(at, points)?;
                let high = point(upper, threads, points)?;
                let low = point(lower, threads, points)?;
                self.multiple((upper, high), (lower, low), times);
                Ok(())
            }
            Statement::RatioOfPeaks {
                upper,
                lower,
                times,
            } => {
                let peak = |line| {
                    let stretch = stretch(line, (0, u16::MAX), points)?;
                    let peaks = stretch.into_iter().map(|(_, spread)| spread);
                    peaks
                        .max_by(|one, other| one.median.total_cmp(&other.median))
                        .ok_or_else(|| Missing(format!("needs {line}")))
                };
                self.multiple((upper, peak(upper)?), (lower, peak(lower)?), times);
                Ok(())
            }
            Statement::Crosses { line, at } => {
                let (first, last) = (threads_at(At::Fewest, points)?, threads_at(at, points)?);
                let here = point(line, first, points)?;
                let mut highest: Option<(&str, Spread)> = None;
                for &other in points.lines() {
                    let there = point(other, first, points)?;
                    if other != line && highest.is_none_or(|(_, most)| there.median > most.median) {
                        highest = Some((other, there));
                    }
                }
                if let Some((other, there)) = highest {
                    self.above(there, here);
                    self.texts.push(format!(
                        "at {first}: {other} {}, {line} {}",
                        short(there.median),
                        short(here.median)
                    ));
                }
                self.against_the_rest(&[line], last, points, |one, rest| (one, rest))
            }
            Statement::RatiosShrink { pairs, at } => {
                let threads = threads_at(at, points)?;
                let mut ratios = Vec::with_capacity(pairs.len());
                for &(upper, lower) in pairs {
                    let above = point(upper, threads, points)?;
                    let ratio = ratio(above, point(lower, threads, points)?);
                    let times = short(ratio.median);
                    self.texts.push(format!("{upper} is {times} times {lower}"));
                    ratios.push(ratio);
                }
                for step in ratios.windows(2) {
                    self.above(step[0], step[1]);
                }
                Ok(())
            }
            Statement::RatioShrinks {
                upper,
                lower,
                from,
                to,
            } => {
                let (from, to) = (threads_at(from, points)?, threads_at(to, points)?);
                if from == to {
                    return Err(Missing(format!("needs more --{}", points.flag())));
                }
                let mut ratios = Vec::with_capacity(2);
                for at in [from, to] {
                    let found = ratio(point(upper, at, points)?, point(lower, at, points)?);
                    let times = short(found.median);
                    self.texts
                        .push(format!("{upper} is {times} times {lower} at {at}"));
                    ratios.push(found);
                }
                self.above(ratios[0], ratios[1]);
                Ok(())
            }
            Statement::GainsOrder {
                most_first,
                from,
                to,
            } => {
                let (from, to) = (threads_at(from, points)?, threads_at(to, points)?);
                if from == to {
                    return Err(Missing(format!("needs more --{}", points.flag())));
                }
                let mut gains = Vec::with_capacity(most_first.len());
                for &line in most_first {
                    let (first, last) = (point(line, from, points)?, point(line, to, points)?);
                    gains.push(gain(first, last));
                    self.texts.push(along(line, &[(from, first), (to, last)]));
                }
                for step in gains.windows(2) {
                    self.above(step[0], step[1]);
                }
                Ok(())
            }
        }
    }

    /// Compares each of these lines with every other; `upper_first` orders the two as they should
    /// be.
    fn against_the_rest(
        &mut self,
        lines: &[&str],
        threads: u16,
        points: &Points,
        upper_first: impl Fn(Spread, Spread) -> (Spread, Spread),
    ) -> Result<(), Missing> {
        let mut values = Vec::new();
        for &line in points.lines() {
            values.push((line, point(line, threads, points)?));
        }
        for (_, one) in values.iter().filter(|(line, _)| lines.contains(line)) {
            for (_, rest) in values.iter().filter(|(line, _)| !lines.contains(line)) {
                let (upper, lower) = upper_first(*one, *rest);
                self.above(upper, lower);
            }
        }
        self.side_by_side(threads, values);
        Ok(())
    }

    fn order(
        &mut self,
        highest_first: &[&'static str],
        threads: u16,
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
    ) -> Result<Vec<(u16, Spread)>, Missing> {
        let stretch = stretch(line, (from, points.cores()), points)?;
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

    fn side_by_side(&mut self, threads: u16, mut values: Vec<(&str, Spread)>) {
        values.sort_by(|one, other| other.1.median.total_cmp(&one.1.median));
        let values = values
            .iter()
            .map(|(line, value)| format!("{line} {}", short(value.median)));
        self.texts.push(format!(
            "at {threads}: {}",
            values.collect::<Vec<_>>().join(", ")
        ));
    }

    fn judged(self) -> Judged {
        if self.comparisons.iter().any(|made| made.runs < RUNS_MIN) {
            return Judged {
                verdict: Verdict::NotJudged,
                found: self.texts.join("; "),
                doubt: None,
            };
        }
        let holds = self.comparisons.iter().all(|made| made.as_claimed);
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
        Judged {
            verdict: if holds {
                Verdict::Holds
            } else {
                Verdict::DoesNotHold
            },
            found: self.texts.join("; "),
            doubt,
        }
    }
}
