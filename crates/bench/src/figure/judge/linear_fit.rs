//! The straight line that is closest to some points, and the quality of this fit.

use super::super::medians::Spread;

/// With fewer points, a line fits well whatever they are.
const POINTS_MIN: usize = 4;

/// A least-squares fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LinearFit {
    pub(crate) slope: f64,
    pub(crate) intercept: f64,
    /// The coefficient of determination: 1 if all points lie on the line.
    pub(crate) r_squared: f64,
}

impl LinearFit {
    /// Fits points with different first coordinates; `None` if there are too few.
    pub(crate) fn of(points: &[(f64, f64)]) -> Option<Self> {
        if points.len() < POINTS_MIN {
            return None;
        }
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
        let sum = |of: &dyn Fn(f64, f64) -> f64| {
            let parts = points.iter().map(|(x, y)| of(x - mean_x, y - mean_y));
            parts.sum::<f64>()
        };
        let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
        if xx == 0.0 || yy == 0.0 {
            return None;
        }
        let slope = xy / xx;
        Some(Self {
            slope,
            intercept: mean_y - slope * mean_x,
            r_squared: xy * xy / (xx * yy),
        })
    }
}

/// The fit of the medians, and the variation over single rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct FitSpread {
    pub(super) points: usize,
    pub(super) r_squared: Spread,
    pub(super) intercept: Spread,
}

impl FitSpread {
    pub(super) fn of(medians: &[(f64, f64)], rounds: &[Vec<(f64, f64)>]) -> Option<Self> {
        let fit = LinearFit::of(medians)?;
        let rounds: Vec<LinearFit> = rounds.iter().filter_map(|it| LinearFit::of(it)).collect();
        let spread = |of: fn(&LinearFit) -> f64| {
            let numbers = rounds.iter().chain([&fit]).map(of);
            Spread {
                low: numbers.clone().fold(f64::INFINITY, f64::min),
                median: of(&fit),
                high: numbers.fold(f64::NEG_INFINITY, f64::max),
                runs: rounds.len(),
            }
        };
        Some(Self {
            points: medians.len(),
            r_squared: spread(|fit| fit.r_squared),
            intercept: spread(|fit| fit.intercept),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_a_line_are_fitted_exactly() {
        let points = [(1.0, 5.0), (2.0, 7.0), (3.0, 9.0), (10.0, 23.0)];
        let fit = LinearFit::of(&points).unwrap();
        assert!((fit.slope - 2.0).abs() < 1e-12 && (fit.intercept - 3.0).abs() < 1e-12);
        assert!((fit.r_squared - 1.0).abs() < 1e-12);
        assert_eq!(
            LinearFit::of(&points[..3]),
            None,
            "three points say nothing"
        );
        assert_eq!(LinearFit::of(&[(1.0, 2.0); 9]), None);
    }

    #[test]
    fn points_on_a_curve_are_not() {
        let curve: Vec<(f64, f64)> = (0..9)
            .map(|x| (f64::from(x), f64::from(x * x * x)))
            .collect();
        let fit = LinearFit::of(&curve).unwrap();
        assert!((0.7..0.9).contains(&fit.r_squared), "{fit:?}");
        assert!(fit.intercept < -50.0, "{fit:?}");
    }

    #[test]
    fn rounds_spread_around_the_fit_of_medians() {
        let line = |by: f64| (0..5).map(|x| (f64::from(x), by + f64::from(x))).collect();
        let medians: Vec<(f64, f64)> = line(1.0);
        let fit = FitSpread::of(&medians, &[line(0.5), line(1.0), line(1.5)]).unwrap();
        let intercept = fit.intercept;
        assert!((intercept.low - 0.5).abs() < 1e-9 && (intercept.high - 1.5).abs() < 1e-9);
        assert!((intercept.median - 1.0).abs() < 1e-9);
        assert_eq!((intercept.runs, fit.points), (3, 5));
    }
}
