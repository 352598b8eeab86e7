//! Explains processor time as a sum of costs: one for each read, one for each other event. A
//! least-squares fit of the medians tells whether they add up to the measured use.
//!
//! The fit has no constant: any cost could hide in it. Its coefficient of determination is the
//! adjusted one, since each further cost fits better.

use super::run_row::{Count, RunRow};
use crate::result_writer::{median, number_text};

/// With fewer points than costs and these, a fit is good whatever the points are.
const POINTS_BESIDE_COSTS: usize = 3;
/// The smallest coefficient of determination of an explanation.
const EXPLAINS: f64 = 0.9;
/// A row is a sum of others if less than this part of it is left without them.
const DEPENDENT: f64 = 1e-9;

/// A line whose processor time may be that of some of its counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CostModel {
    pub(crate) line: &'static str,
    /// The sets of counts that are tried, in this order.
    pub(crate) sets: &'static [&'static [CostOf]],
}

/// A count that may cost processor time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CostOf {
    pub(crate) count: Count,
    /// The words for one and for many.
    pub(crate) one: &'static str,
    pub(crate) many: &'static str,
}

/// The counts per second of a place, and its microseconds of processor time per second.
type CostPoint = (Vec<f64>, f64);

/// Processor time as a sum of costs.
#[derive(Clone, Debug, PartialEq)]
struct CostFit {
    /// The cost of one of each count.
    costs: Vec<f64>,
    /// The adjusted coefficient of determination.
    r_squared: f64,
    points: usize,
}

/// Why there is no fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoFit {
    /// There are too few points, something was not counted, or the counts depend on one another.
    Untested,
    /// A cost would be negative.
    Negative,
}

impl CostFit {
    /// Fits points.
    fn of(points: &[CostPoint]) -> Result<Self, NoFit> {
        let number = points.first().map_or(0, |(rates, _)| rates.len());
        if points.len() < number + POINTS_BESIDE_COSTS {
            return Err(NoFit::Untested);
        }
        let sum = |of: &dyn Fn(&CostPoint) -> f64| points.iter().map(of).sum::<f64>();
        let row = |at: usize| {
            let mut row: Vec<f64> = (0..number)
                .map(|other| sum(&|(rates, _)| rates[at] * rates[other]))
                .collect();
            row.push(sum(&|(rates, value)| rates[at] * value));
            row
        };
        let costs = solved((0..number).map(row).collect()).ok_or(NoFit::Untested)?;
        let mean = sum(&|(_, value)| *value) / points.len() as f64;
        let all = sum(&|(_, value)| (value - mean).powi(2));
        let left = sum(&|(rates, value)| {
            let added = rates.iter().zip(&costs).map(|(rate, cost)| rate * cost);
            (value - added.sum::<f64>()).powi(2)
        });
        if costs.iter().any(|cost| *cost < 0.0) {
            return Err(NoFit::Negative);
        }
        let free = (points.len() - number) as f64;
        let varies = all / (points.len() - 1) as f64;
        Ok(Self {
            r_squared: if all > 0.0 {
                1.0 - left / free / varies
            } else {
                0.0
            },
            costs,
            points: points.len(),
        })
    }
}

/// The solution of linear equations, each with its right side last. (The normal equations of a fit
/// are positive definite, so rows need not be exchanged.)
fn solved(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let number = rows.len();
    for at in 0..number {
        let before = rows[at][at];
        for above in 0..at {
            let part = rows[at][above];
            let other = rows[above].clone();
            let subtract = rows[at].iter_mut().zip(&other);
            subtract.for_each(|(one, other)| *one -= part * other);
        }
        let pivot = rows[at][at];
        if pivot <= DEPENDENT * before {
            return None;
        }
        rows[at].iter_mut().for_each(|one| *one /= pivot);
    }
    let mut solution = vec![0.0; number];
    for at in (0..number).rev() {
        let known: f64 = (at + 1..number).map(|it| rows[at][it] * solution[it]).sum();
        solution[at] = rows[at][number] - known;
    }
    Some(solution)
}

impl CostModel {
    /// Whether the counts explain the processor time, in words. Each place of the line has its
    /// runs; `cores` is the number of processors.
    pub(crate) fn text(&self, places: &[Vec<&RunRow>], cores: usize) -> String {
        let mut tried = Vec::new();
        let mut is_tested = false;
        for set in self.sets {
            let points = places.iter().filter_map(|runs| point(runs, set, cores));
            let names: Vec<&str> = set.iter().map(|cost| cost.many).collect();
            let names = names.join(" and ");
            let fit = CostFit::of(&points.collect::<Vec<_>>());
            is_tested |= fit != Err(NoFit::Untested);
            match fit {
                Ok(fit) if fit.r_squared >= EXPLAINS => {
                    let costs = fit.costs.iter().zip(*set);
                    let costs: Vec<String> = costs
                        .map(|(cost, of)| format!("{} µs for each {}", number_text(*cost), of.one))
                        .collect();
                    return format!(
                        "Counted {names} add up to the processor time: with {}, adjusted R² of a least-squares fit of {} \
                         points is {}.",
                        costs.join(", "),
                        fit.points,
                        number_text(fit.r_squared)
                    );
                }
                Ok(fit) => tried.push(format!("{} for {names}", number_text(fit.r_squared))),
                Err(NoFit::Negative) => tried.push(format!("a negative cost for {names}")),
                Err(NoFit::Untested) => tried.push(format!("no fit for {names}")),
            }
        }
        let tried = tried.join("; ");
        if !is_tested {
            return format!(
                "It could not be tested whether counts explain it, for lack of points or of counts that differ: {tried}."
            );
        }
        format!(
            "No count of these runs explains it. Adjusted R² of a least-squares fit would have to be {EXPLAINS} at \
             least: {tried}."
        )
    }
}

fn point(runs: &[&RunRow], set: &[CostOf], cores: usize) -> Option<CostPoint> {
    let middle = |of: &dyn Fn(&RunRow) -> Option<f64>| {
        median(runs.iter().filter_map(|run| of(run)).collect())
    };
    let rates = set.iter().map(|cost| {
        middle(&|run| {
            let counted = cost.count.of(run)?;
            (run.seconds > 0.0).then(|| counted / run.seconds)
        })
    });
    let busy_us = middle(&|run| Some(run.cpu_percent? / 100.0 * cores as f64 * 1e6))?;
    Some((rates.collect::<Option<Vec<f64>>>()?, busy_us))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn cost(count: Count, one: &'static str, many: &'static str) -> CostOf {
        CostOf { count, one, many }
    }

    const READS: CostOf = cost(Count::Reads, "read", "reads");
    const POLLS: CostOf = cost(Count::Polls, "poll", "polls");
    const WAKE_UPS: CostOf = cost(Count::WakeUps, "wake-up", "wake-ups");
    const MODEL: CostModel = CostModel {
        line: "a",
        sets: &[&[READS, WAKE_UPS], &[READS, POLLS, WAKE_UPS]],
    };

    /// The reads, polls and wake-ups per second of some places, from one task in flight, where each
    /// read is a wake-up, to many.
    const RATES: [[f64; 3]; 6] = [
        [5e3, 5e3, 5e3],
        [2e4, 2e4, 1e4],
        [3e4, 1e4, 8e3],
        [4e4, 9e3, 2e3],
        [6e4, 3e3, 2e3],
        [7e4, 4e3, 1e2],
    ];

    /// Runs of two seconds on two processors.
    fn runs(busy_us: fn([f64; 3]) -> f64) -> Vec<RunRow> {
        let run = |rates: [f64; 3]| RunRow {
            seconds: 2.0,
            reads: Some((2.0 * rates[0]) as u64),
            polls: Some((2.0 * rates[1]) as u64),
            wake_ups: Some((2.0 * rates[2]) as u64),
            cpu_percent: Some(busy_us(rates) / 2e6 * 100.0),
            ..RunRow::default()
        };
        RATES.into_iter().map(run).collect()
    }

    fn text(runs: &[RunRow]) -> String {
        let places: Vec<Vec<&RunRow>> = runs.iter().map(|run| vec![run]).collect();
        MODEL.text(&places, 2)
    }

    const OF_WAKE_UPS: fn([f64; 3]) -> f64 = |[reads, _, wake_ups]| 3.0 * reads + 25.0 * wake_ups;

    #[test]
    fn counts_that_add_up_are_named_with_their_costs() {
        assert_eq!(
            text(&runs(OF_WAKE_UPS)),
            "Counted reads and wake-ups add up to the processor time: with 3.00 µs for each read, 25.0 µs for each \
             wake-up, adjusted R² of a least-squares fit of 6 points is 1.00."
        );
        let three = text(&runs(|[reads, polls, wake_ups]| {
            3.0 * reads + 30.0 * polls + 12.0 * wake_ups
        }));
        let costs = "3.00 µs for each read, 30.0 µs for each poll, 12.0 µs for each wake-up";
        assert!(three.contains(costs), "{three}");
    }

    #[test]
    fn counts_that_do_not_add_up_are_no_reason() {
        // A use that no count follows, one that falls where all counts rise, and a level one.
        let others: [fn([f64; 3]) -> f64; 3] = [
            |[reads, ..]| if reads == 4e4 { 9e5 } else { 2e5 },
            |[reads, _, wake_ups]| 1e6 - 3.0 * reads - 25.0 * wake_ups,
            |_| 3e5,
        ];
        for busy_us in others {
            let told = text(&runs(busy_us));
            assert!(
                told.starts_with("No count of these runs explains it."),
                "{told}"
            );
            assert!(
                told.contains(" for reads and polls and wake-ups."),
                "{told}"
            );
        }
    }

    #[test]
    fn few_points_and_missing_or_equal_counts_test_nothing() {
        let few = text(&runs(OF_WAKE_UPS)[..3]);
        assert!(few.starts_with("It could not be tested"), "{few}");
        let changes: [fn(&mut RunRow); 2] =
            [|run| run.wake_ups = None, |run| run.wake_ups = run.reads];
        for change in changes {
            let mut changed = runs(OF_WAKE_UPS);
            changed.iter_mut().for_each(change);
            let told = text(&changed);
            assert!(told.contains("no fit for reads and wake-ups;"), "{told}");
        }
    }

    #[test]
    fn a_place_is_the_median_of_its_runs() {
        let (usual, strays) = (runs(OF_WAKE_UPS), runs(|[reads, ..]| 15.0 * reads));
        let places = usual.iter().zip(&strays);
        let places: Vec<Vec<&RunRow>> = places.map(|(run, stray)| vec![run, stray, run]).collect();
        let told = MODEL.text(&places, 2);
        assert!(told.contains("25.0 µs for each wake-up"), "{told}");
    }
}
