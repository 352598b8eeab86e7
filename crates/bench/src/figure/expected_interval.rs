//! The interval in which another report on the same machine is expected to have a point's median.
//!
//! Three runs of a point say little about their spread: the median of three more lies between the
//! lowest and the highest of them in six of ten cases, even if nothing has changed. But the points
//! of a line vary alike, relative to their size. So their spread is estimated from all of them, and
//! the interval is Student's prediction interval for a median, by logarithms (of one more than the
//! value, on a line with zeros).
//!
//! That is the spread within one report. Between two reports a machine's speed changes, too: the
//! interval is wider by [`DRIFT`] at both ends. A shared disk may change by more from hour to hour;
//! [`agreement`](mod@super::agreement) shows it.

use super::medians::Spread;
use crate::result_writer::median;

/// The share of medians that the intervals are made for, in percent.
pub(crate) const PERCENT: u32 = 90;
/// The part of a median by which two reports differ beyond the spread of their runs. Of two reports
/// in a row on two virtual processors, 85 % of the points lay within intervals without it, and 95 %
/// within those with it.
const DRIFT: f64 = 0.05;
/// Student's t, exceeded in either direction in 10 % of cases, by degrees of freedom from 1 on.
const STUDENT: [f64; 10] = [
    6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812,
];
/// The same with more degrees of freedom: it falls to that of the normal distribution.
const STUDENT_LIMIT: f64 = 1.645;
/// The variance of the median of one to five normal runs, as a part of the variance of a run.
const OF_MEDIAN: [f64; 5] = [1.0, 0.5, 0.449, 0.298, 0.287];
/// The same of many runs, times their number: half of π.
const OF_MEDIAN_LIMIT: f64 = std::f64::consts::FRAC_PI_2;

/// How much the runs of a line's points vary, by logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LineSpread {
    /// Added to each value before its logarithm is taken: one, if there are zeros.
    shift: f64,
    /// The standard deviation of a run.
    deviation: f64,
    degrees: usize,
}

impl LineSpread {
    /// `None` if no point has two runs.
    pub(crate) fn of<'a>(points: impl Iterator<Item = &'a [f64]> + Clone) -> Option<Self> {
        let has_zeros = points.clone().flatten().any(|value| *value <= 0.0);
        let shift = if has_zeros { 1.0 } else { 0.0 };
        let scaled = |value: &f64| (value.max(0.0) + shift).ln();
        let (mut squares, mut degrees) = (0.0, 0);
        for runs in points.filter(|runs| runs.len() > 1) {
            let values: Vec<f64> = runs.iter().map(scaled).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            squares += values.iter().map(|it| (it - mean).powi(2)).sum::<f64>();
            degrees += values.len() - 1;
        }
        (degrees > 0).then(|| Self {
            shift,
            deviation: (squares / degrees as f64).sqrt(),
            degrees,
        })
    }

    /// The interval around the median of these runs, which lie within it. `None` for a single run.
    pub(crate) fn interval(&self, runs: &[f64]) -> Option<(f64, f64)> {
        let seen = Spread::of(runs.to_vec()).filter(|seen| seen.runs > 1)?;
        let middle = median(runs.to_vec())?;
        // Both medians vary, the one here and the expected one.
        let distance =
            student(self.degrees) * self.deviation * (2.0 * of_median(runs.len())).sqrt();
        let shifted = middle + self.shift;
        let low = (shifted * (-distance).exp() - self.shift).max(0.0);
        let high = shifted * distance.exp() - self.shift;
        let drift = 1.0 + DRIFT;
        Some((low.min(seen.low) / drift, high.max(seen.high) * drift))
    }
}

/// How much wider an interval for the medians of `runs` has to be for medians of `again` runs: these
/// vary more if they are fewer. Never narrower.
pub(crate) fn widening(runs: u32, again: u32) -> f64 {
    let [seen, expected] = [runs, again].map(|runs| of_median(runs as usize));
    ((seen + expected) / (2.0 * seen)).sqrt().max(1.0)
}

fn student(degrees: usize) -> f64 {
    let known = STUDENT.get(degrees.saturating_sub(1));
    // From 1.81 at ten degrees of freedom, about as their inverse.
    let beyond = STUDENT_LIMIT + 1.67 / degrees as f64;
    known.copied().unwrap_or(beyond)
}

fn of_median(runs: usize) -> f64 {
    let known = OF_MEDIAN.get(runs.saturating_sub(1));
    known.copied().unwrap_or(OF_MEDIAN_LIMIT / runs as f64)
}

#[cfg(test)]
mod tests {
    use namiki_platform::seeded_random::Random;

    use super::*;

    fn spread(points: &[Vec<f64>]) -> Option<LineSpread> {
        LineSpread::of(points.iter().map(Vec::as_slice))
    }

    #[test]
    fn fewer_runs_widen_an_interval() {
        assert_eq!(widening(3, 3), 1.0);
        assert_eq!(widening(2, 3), 1.0);
        assert!(widening(3, 2) > 1.0 && widening(3, 1) > widening(3, 2));
    }

    /// Roughly normal: the sum of twelve even numbers has a variance of one.
    fn normal(random: &mut Random) -> f64 {
        (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
    }

    #[test]
    fn single_runs_expect_nothing() {
        assert_eq!(spread(&[vec![1.0], vec![2.0]]), None);
        let two = spread(&[vec![1.0], vec![2.0, 2.2]]).unwrap();
        assert_eq!(two.interval(&[1.0]), None);
        assert!(two.interval(&[2.0, 2.2]).is_some());
    }

    /// Reports of lines with the same spread agree in nine of ten points, whatever their size, where the
    /// machine of the other is a little faster.
    #[test]
    fn nine_of_ten_medians_of_another_report_lie_within() {
        let mut random = Random::seeded(7);
        let (mut within, mut all) = (0_u32, 0_u32);
        for _ in 0..2000 {
            let sizes = [1e2, 3e3, 5e4, 1e6];
            let mut report = |speed: f64| {
                let mut run = |size: f64| speed * size * (0.2 * normal(&mut random)).exp();
                sizes.map(|size| [(); 3].map(|()| run(size)))
            };
            let (one, other) = (report(1.0), report(1.0 + DRIFT));
            let of_line = LineSpread::of(one.iter().map(<[f64; 3]>::as_slice)).unwrap();
            for (runs, again) in one.iter().zip(&other) {
                let (low, high) = of_line.interval(runs).unwrap();
                let found = median(again.to_vec()).unwrap();
                within += u32::from((low..=high).contains(&found));
                all += 1;
            }
        }
        let percent = 100 * within / all;
        // The drift that is expected the other way, too, adds a few.
        assert!((PERCENT - 1..PERCENT + 6).contains(&percent), "{percent} %");
    }

    /// Neither does a zero make the whole line vary by thousands, nor is less than nothing expected.
    #[test]
    fn a_zero_has_an_interval_of_its_size() {
        let points = [
            vec![0.0, 0.0, 0.0],
            vec![4000.0, 4100.0, 3900.0],
            vec![900.0, 1000.0, 1100.0],
        ];
        let of_line = spread(&points).unwrap();
        let (low, high) = of_line.interval(&points[0]).unwrap();
        assert!(low.abs() < 1e-9 && high < 1.0, "{low} to {high}");
        let (low, high) = of_line.interval(&points[1]).unwrap();
        assert!(low < 3900.0 && low > 2000.0 && high > 4100.0 && high < 8000.0);
    }

    #[test]
    fn what_was_seen_is_always_expected() {
        let steady: Vec<Vec<f64>> = (0..20).map(|_| vec![5.0, 5.0, 5.0]).collect();
        let points = [steady, vec![vec![5.0, 5.0, 50.0]]].concat();
        let (_, high) = spread(&points)
            .unwrap()
            .interval(&[5.0, 5.0, 50.0])
            .unwrap();
        assert!(high >= 50.0);
    }

    #[test]
    fn tables_go_on_where_they_end() {
        assert!(student(11) < student(10) && student(11) > student(12));
        assert!((student(1000) - STUDENT_LIMIT).abs() < 0.01);
        assert!(of_median(6) < of_median(5) && of_median(7) < of_median(6));
    }
}
