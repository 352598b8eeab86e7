//! Whether a claim holds on the machine at hand: by the medians, and how far the runs bear them out.

use serde::Serialize;

use super::claim::{At, Claim, Statement};
use super::points::{Points, Spread, short};

/// Up to this many times its first value, a line is flat.
const FLAT: f64 = 1.1;

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Verdict {
    #[serde(rename = "holds")]
    Holds,
    #[serde(rename = "does not hold here")]
    DoesNotHold,
    #[serde(rename = "not testable here")]
    NotTestable,
}

impl Verdict {
    /// As the reader sees it.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::DoesNotHold => "does not hold here",
            Self::NotTestable => "not testable here",
        }
    }
}

/// A claim that was looked into.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Judged {
    pub(crate) verdict: Verdict,
    /// The numbers that decided, or what they would need.
    pub(crate) found: String,
    /// Runs of points that decided overlap: more of them might decide otherwise.
    pub(crate) within_spread: bool,
}

/// Judges a claim.
pub(crate) fn judge(claim: &Claim, points: &Points) -> Judged {
    let untestable = |found| Judged {
        verdict: Verdict::NotTestable,
        found,
        within_spread: false,
    };
    if points.cores() < claim.cores_min {
        return untestable(format!("needs >= {} cores", claim.cores_min));
    }
    let mut evidence = Evidence::default();
    for &statement in claim.statements {
        if let Err(missing) = evidence.look_at(statement, points) {
            return untestable(missing.0);
        }
    }
    evidence.judged()
}

/// A point that a statement needs and nobody measured.
struct Missing(String);

/// Comparisons that were made, and the numbers in words.
#[derive(Default)]
struct Evidence {
    comparisons: Vec<Comparison>,
    texts: Vec<String>,
}

struct Comparison {
    as_claimed: bool,
    /// Whether runs of the two sides overlap.
    overlap: bool,
}

/// The number of threads that is meant, if it was measured.
fn threads_at(at: At, points: &Points) -> Result<u16, Missing> {
    let measured = points.threads();
    let (found, needed) = match at {
        At::Threads(threads) => {
            let found = measured.contains(&threads).then_some(threads);
            (found, threads.to_string())
        }
        At::Fewest => (measured.first().copied(), "1".to_owned()),
        At::Cores => {
            let mut up_to_cores = measured.iter().rev();
            let found = up_to_cores.find(|threads| **threads <= points.cores());
            (found.copied(), points.cores().to_string())
        }
        At::Most => (measured.last().copied(), points.cores().to_string()),
    };
    found.ok_or_else(|| Missing(format!("needs --threads {needed}")))
}

fn point(line: &str, threads: u16, points: &Points) -> Result<Spread, Missing> {
    let missing = || Missing(format!("needs {line} at --threads {threads}"));
    points.get(line, threads).ok_or_else(missing)
}

/// One line from some threads on up to others: at least two points.
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
        let why = format!("needs {line} at more than one of {from} to {to} --threads");
        return Err(Missing(why));
    }
    Ok(found)
}

fn ratio(upper: Spread, lower: Spread) -> f64 {
    upper.median / lower.median
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
            Statement::Falls { line, from } => self.changes(line, (from, At::Most), points),
            Statement::Grows { line, from, to } => self.changes(line, (to, from), points),
            Statement::Plateau { line, from } => {
                let stretch = stretch(line, (from, points.cores()), points)?;
                let first = stretch[0].1;
                for (_, later) in &stretch[1..] {
                    self.compare(
                        later.median <= first.median * FLAT,
                        later.low <= first.high * FLAT && later.high >= first.low * FLAT,
                    );
                }
                self.texts.push(along(line, &stretch));
                Ok(())
            }
            Statement::DropsAfter { line, threads } => {
                for &threads in threads {
                    let stretch = stretch(line, (threads, points.cores()), points)?;
                    self.above(stretch[0].1, stretch[1].1);
                    self.texts.push(along(line, &stretch[..2]));
                }
                Ok(())
            }
            Statement::Ratio {
                upper,
                lower,
                at,
                at_least,
            } => {
                let threads = threads_at(at, points)?;
                let high = point(upper, threads, points)?;
                let low = point(lower, threads, points)?;
                self.multiple((upper, high), (lower, low), at_least);
                Ok(())
            }
            Statement::RatioOfPeaks {
                upper,
                lower,
                at_least,
            } => {
                let peak = |line| {
                    let stretch = stretch(line, (0, u16::MAX), points)?;
                    let peaks = stretch.into_iter().map(|(_, spread)| spread);
                    peaks
                        .max_by(|one, other| one.median.total_cmp(&other.median))
                        .ok_or_else(|| Missing(format!("needs {line}")))
                };
                self.multiple((upper, peak(upper)?), (lower, peak(lower)?), at_least);
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
                    let high = point(upper, threads, points)?;
                    let ratio = ratio(high, point(lower, threads, points)?);
                    self.texts
                        .push(format!("{upper} is {} times {lower}", short(ratio)));
                    ratios.push(ratio);
                }
                for step in ratios.windows(2) {
                    self.compare(step[1] < step[0], false);
                }
                Ok(())
            }
            Statement::GainsOrder {
                most_first,
                from,
                to,
            } => {
                let (from, to) = (threads_at(from, points)?, threads_at(to, points)?);
                if from == to {
                    return Err(Missing("needs more --threads".to_owned()));
                }
                let mut gains = Vec::with_capacity(most_first.len());
                for &line in most_first {
                    let ends = stretch(line, (from, to), points)?;
                    let (first, last) = (ends[0].1, ends[ends.len() - 1].1);
                    gains.push(last.median - first.median);
                    self.texts
                        .push(along(line, &[ends[0], ends[ends.len() - 1]]));
                }
                for step in gains.windows(2) {
                    self.compare(step[0] > step[1], false);
                }
                Ok(())
            }
        }
    }

    /// Each of these lines against every other, the two put in the order in which they should be.
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

    /// A line that should be higher at the one number of threads than at the other.
    fn changes(
        &mut self,
        line: &str,
        (upper_at, lower_at): (At, At),
        points: &Points,
    ) -> Result<(), Missing> {
        let (above, below) = (threads_at(upper_at, points)?, threads_at(lower_at, points)?);
        if above == below {
            return Err(Missing(format!("needs more --threads than {above}")));
        }
        let (upper, lower) = (point(line, above, points)?, point(line, below, points)?);
        self.above(upper, lower);
        let mut ends = [(above, upper), (below, lower)];
        ends.sort_by_key(|(threads, _)| *threads);
        self.texts.push(along(line, &ends));
        Ok(())
    }

    fn multiple(&mut self, upper: (&str, Spread), lower: (&str, Spread), at_least: f64) {
        let found = ratio(upper.1, lower.1);
        let widest = upper.1.high / lower.1.low;
        let narrowest = upper.1.low / lower.1.high;
        self.compare(found >= at_least, (narrowest..=widest).contains(&at_least));
        self.texts.push(format!(
            "{} {} is {} times {} {}, where {at_least} is claimed",
            upper.0,
            short(upper.1.median),
            short(found),
            lower.0,
            short(lower.1.median)
        ));
    }

    fn above(&mut self, upper: Spread, lower: Spread) {
        self.compare(upper.median > lower.median, upper.overlaps(&lower));
    }

    fn compare(&mut self, as_claimed: bool, overlap: bool) {
        self.comparisons.push(Comparison {
            as_claimed,
            overlap,
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
        let holds = self.comparisons.iter().all(|made| made.as_claimed);
        let mut deciding = self
            .comparisons
            .iter()
            .filter(|made| holds || !made.as_claimed);
        // It holds by all of them, and fails by any one.
        let within_spread = match holds {
            true => deciding.any(|made| made.overlap),
            false => deciding.all(|made| made.overlap),
        };
        Judged {
            verdict: match holds {
                true => Verdict::Holds,
                false => Verdict::DoesNotHold,
            },
            found: self.texts.join("; "),
            within_spread,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: &str = "up";
    const FLAT_LINE: &str = "flat";
    const DOWN: &str = "down";

    /// Two runs of each point, a hundredth apart.
    fn near(number: f64) -> Spread {
        Spread::of(vec![number * 0.995, number * 1.005]).unwrap()
    }

    /// On 4 cores: one line rises, one is flat, one falls; 8 threads are more than there are cores.
    fn points() -> Points {
        let mut points = Vec::new();
        for (threads, up, flat, down) in [
            (1, 10.0, 20.0, 40.0),
            (2, 20.0, 21.0, 30.0),
            (4, 45.0, 20.5, 15.0),
            (8, 30.0, 19.0, 12.0),
        ] {
            points.push((UP, threads, near(up)));
            points.push((FLAT_LINE, threads, near(flat)));
            points.push((DOWN, threads, near(down)));
        }
        Points::new(4, vec![UP, FLAT_LINE, DOWN], points)
    }

    fn claim(cores_min: u16, statements: &'static [Statement]) -> Claim {
        Claim {
            section: "1",
            sentence: "…",
            english: "…",
            cores_min,
            statements,
            beside: &[],
        }
    }

    /// Both hold and fail where they should, by more than the runs differ.
    #[track_caller]
    fn decided(holds: &'static [Statement], fails: &'static [Statement]) {
        let points = points();
        for (statements, expected) in [(holds, Verdict::Holds), (fails, Verdict::DoesNotHold)] {
            for at in 0..statements.len() {
                let judged = judge(&claim(4, &statements[at..=at]), &points);
                assert_eq!(judged.verdict, expected, "{:?}: {judged:?}", statements[at]);
                assert!(!judged.found.is_empty());
                let judged = judge(&claim(5, &statements[at..=at]), &points);
                assert_eq!(judged.verdict, Verdict::NotTestable);
                assert_eq!(judged.found, "needs >= 5 cores");
            }
        }
        // One that fails is enough.
        let both: &'static [Statement] = Box::leak(Box::new([holds[0], fails[0]]));
        assert_eq!(
            judge(&claim(1, both), &points).verdict,
            Verdict::DoesNotHold
        );
    }

    #[test]
    fn the_highest_is_above_every_other() {
        decided(
            &[
                Statement::Highest {
                    lines: &[UP],
                    at: At::Cores,
                },
                Statement::Highest {
                    lines: &[UP, FLAT_LINE],
                    at: At::Most,
                },
                Statement::Highest {
                    lines: &[DOWN],
                    at: At::Fewest,
                },
            ],
            &[
                Statement::Highest {
                    lines: &[UP],
                    at: At::Fewest,
                },
                Statement::Highest {
                    lines: &[UP, DOWN],
                    at: At::Cores,
                },
            ],
        );
    }

    #[test]
    fn the_lowest_is_below_every_other() {
        decided(
            &[
                Statement::Lowest {
                    lines: &[DOWN],
                    at: At::Cores,
                },
                Statement::Lowest {
                    lines: &[UP, FLAT_LINE],
                    at: At::Fewest,
                },
            ],
            &[
                Statement::Lowest {
                    lines: &[FLAT_LINE],
                    at: At::Cores,
                },
                Statement::Lowest {
                    lines: &[UP, FLAT_LINE],
                    at: At::Threads(4),
                },
            ],
        );
    }

    #[test]
    fn an_order_is_one_above_the_next() {
        decided(
            &[
                Statement::Order {
                    highest_first: &[UP, FLAT_LINE, DOWN],
                    at: At::Cores,
                },
                Statement::Order {
                    highest_first: &[DOWN, UP],
                    at: At::Threads(1),
                },
                Statement::OrderEverywhere {
                    highest_first: &[FLAT_LINE],
                },
            ],
            &[
                Statement::Order {
                    highest_first: &[UP, DOWN, FLAT_LINE],
                    at: At::Cores,
                },
                Statement::OrderEverywhere {
                    highest_first: &[UP, DOWN],
                },
            ],
        );
    }

    #[test]
    fn rising_is_at_every_step_and_growing_from_end_to_end() {
        decided(
            &[
                Statement::Rises {
                    line: UP,
                    up_to: At::Cores,
                },
                Statement::Grows {
                    line: UP,
                    from: At::Fewest,
                    to: At::Most,
                },
                Statement::Grows {
                    line: FLAT_LINE,
                    from: At::Threads(1),
                    to: At::Threads(2),
                },
            ],
            &[
                Statement::Rises {
                    line: UP,
                    up_to: At::Most,
                },
                Statement::Rises {
                    line: DOWN,
                    up_to: At::Threads(2),
                },
                Statement::Grows {
                    line: UP,
                    from: At::Cores,
                    to: At::Most,
                },
            ],
        );
    }

    #[test]
    fn falling_is_to_the_end_and_a_drop_is_at_the_next_step() {
        decided(
            &[
                Statement::Falls {
                    line: DOWN,
                    from: At::Threads(2),
                },
                Statement::Falls {
                    line: UP,
                    from: At::Cores,
                },
                Statement::DropsAfter {
                    line: DOWN,
                    threads: &[1, 2],
                },
                Statement::DropsAfter {
                    line: FLAT_LINE,
                    threads: &[2],
                },
            ],
            &[
                Statement::Falls {
                    line: UP,
                    from: At::Threads(2),
                },
                Statement::DropsAfter {
                    line: FLAT_LINE,
                    threads: &[1, 2],
                },
            ],
        );
    }

    #[test]
    fn a_plateau_rises_by_a_tenth_at_most() {
        decided(
            &[
                Statement::Plateau {
                    line: FLAT_LINE,
                    from: 1,
                },
                Statement::Plateau {
                    line: DOWN,
                    from: 1,
                },
            ],
            &[Statement::Plateau { line: UP, from: 2 }],
        );
    }

    #[test]
    fn ratios_are_at_least_as_claimed() {
        decided(
            &[
                Statement::Ratio {
                    upper: UP,
                    lower: DOWN,
                    at: At::Threads(8),
                    at_least: 2.4,
                },
                Statement::RatioOfPeaks {
                    upper: UP,
                    lower: FLAT_LINE,
                    at_least: 2.1,
                },
                Statement::RatiosShrink {
                    pairs: &[(UP, DOWN), (UP, FLAT_LINE), (UP, UP)],
                    at: At::Cores,
                },
            ],
            &[
                Statement::Ratio {
                    upper: UP,
                    lower: DOWN,
                    at: At::Threads(8),
                    at_least: 2.6,
                },
                Statement::RatioOfPeaks {
                    upper: UP,
                    lower: DOWN,
                    at_least: 1.2,
                },
                Statement::RatiosShrink {
                    pairs: &[(UP, FLAT_LINE), (UP, DOWN)],
                    at: At::Cores,
                },
            ],
        );
    }

    #[test]
    fn who_crosses_was_not_the_highest_before() {
        decided(
            &[Statement::Crosses {
                line: UP,
                at: At::Cores,
            }],
            &[
                Statement::Crosses {
                    line: DOWN,
                    at: At::Threads(2),
                },
                Statement::Crosses {
                    line: UP,
                    at: At::Threads(2),
                },
            ],
        );
    }

    #[test]
    fn gains_are_from_one_number_of_threads_to_the_other() {
        decided(
            &[Statement::GainsOrder {
                most_first: &[UP, FLAT_LINE, DOWN],
                from: At::Fewest,
                to: At::Most,
            }],
            &[Statement::GainsOrder {
                most_first: &[DOWN, UP],
                from: At::Threads(2),
                to: At::Cores,
            }],
        );
    }

    #[test]
    fn what_was_not_measured_decides_nothing() {
        let all = points();
        for (statement, needs) in [
            (
                Statement::Highest {
                    lines: &[UP],
                    at: At::Threads(24),
                },
                "needs --threads 24",
            ),
            (
                Statement::Plateau { line: UP, from: 5 },
                "at more than one of 5 to 4",
            ),
            (
                Statement::Ratio {
                    upper: UP,
                    lower: "other",
                    at: At::Most,
                    at_least: 1.0,
                },
                "needs other at --threads 8",
            ),
        ] {
            let statements: &'static [Statement] = Box::leak(Box::new([statement]));
            let judged = judge(&claim(1, statements), &all);
            assert_eq!(judged.verdict, Verdict::NotTestable);
            assert!(judged.found.contains(needs), "{judged:?}");
        }
        let alone = Points::new(4, vec![UP], vec![(UP, 8, near(1.0))]);
        let rises = claim(
            1,
            &[Statement::Rises {
                line: UP,
                up_to: At::Cores,
            }],
        );
        assert_eq!(judge(&rises, &alone).found, "needs --threads 4");
        let grows = claim(
            1,
            &[Statement::Grows {
                line: UP,
                from: At::Most,
                to: At::Most,
            }],
        );
        assert_eq!(judge(&grows, &alone).verdict, Verdict::NotTestable);
    }

    /// A claim that holds is in doubt if any of its comparisons is; one that fails, only if nothing
    /// clear speaks against it.
    #[test]
    fn runs_that_overlap_are_named() {
        let wide = |low, high| Spread::of(vec![low, high]).unwrap();
        let one = vec![(UP, 1, wide(9.0, 13.0)), (FLAT_LINE, 1, wide(8.0, 12.0))];
        let points = Points::new(1, vec![UP, FLAT_LINE], one);
        let order = |highest_first| Statement::Order {
            highest_first,
            at: At::Fewest,
        };
        for (highest_first, verdict) in [
            (&[UP, FLAT_LINE], Verdict::Holds),
            (&[FLAT_LINE, UP], Verdict::DoesNotHold),
        ] {
            let statements: &'static [Statement] = Box::leak(Box::new([order(highest_first)]));
            let judged = judge(&claim(1, statements), &points);
            assert_eq!((judged.verdict, judged.within_spread), (verdict, true));
        }
        let clear = claim(
            1,
            &[Statement::Highest {
                lines: &[UP],
                at: At::Cores,
            }],
        );
        assert!(!judge(&clear, &super::tests::points()).within_spread);
        let mixed = vec![
            (UP, 1, wide(9.0, 13.0)),
            (FLAT_LINE, 1, wide(9.5, 14.0)),
            (DOWN, 1, wide(90.0, 91.0)),
        ];
        let mixed = Points::new(1, vec![UP, FLAT_LINE, DOWN], mixed);
        let judged = judge(&clear, &mixed);
        assert_eq!(judged.verdict, Verdict::DoesNotHold);
        assert!(!judged.within_spread, "it is clearly below one of them");
    }
}
