//! The results of a figure's runs: for each line and number of threads the median and the spread of
//! the runs. They are the basis of verdicts and charts.

use super::claim::At;
use crate::result_writer::{median, number_text};

/// The runs of one point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
    pub(crate) runs: usize,
}

impl Spread {
    /// `None` without runs.
    pub(crate) fn of(numbers: Vec<f64>) -> Option<Self> {
        let runs = numbers.len();
        let low = numbers.iter().copied().min_by(f64::total_cmp)?;
        let high = numbers.iter().copied().max_by(f64::total_cmp)?;
        let median = median(numbers)?;
        Some(Self {
            low,
            median,
            high,
            runs,
        })
    }

    /// A value without variation, however many runs there are.
    pub(crate) fn exactly(number: f64) -> Self {
        Self {
            low: number,
            median: number,
            high: number,
            runs: usize::MAX,
        }
    }

    /// The spread of the runs scaled by `factor`.
    pub(crate) fn times(self, factor: f64) -> Self {
        Self {
            low: self.low * factor,
            median: self.median * factor,
            high: self.high * factor,
            ..self
        }
    }

    /// Whether some run of one lies within the runs of the other, so that more runs might reverse
    /// the order of the medians.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// All points of a figure.
#[derive(Clone, Debug)]
pub(crate) struct Points {
    cores: u16,
    /// The flag for the quantity that varies along a line.
    flag: &'static str,
    lines: Vec<&'static str>,
    points: Vec<(&'static str, u32, Spread)>,
    rates: Vec<RateLine>,
}

/// A line over reads per second: each of its points has a rate and a value.
#[derive(Clone, Debug, Default)]
pub(crate) struct RateLine {
    pub(crate) line: &'static str,
    /// The medians by position.
    pub(crate) medians: Vec<(u32, f64, f64)>,
    /// The points of each complete round.
    pub(crate) rounds: Vec<Vec<(f64, f64)>>,
}

impl Points {
    /// The points of these lines on a machine with `cores` cores.
    pub(crate) fn new(
        cores: usize,
        lines: Vec<&'static str>,
        points: Vec<(&'static str, u32, Spread)>,
    ) -> Self {
        Self {
            cores: u16::try_from(cores).unwrap_or(u16::MAX),
            flag: "threads",
            lines,
            points,
            rates: Vec::new(),
        }
    }

    /// The same points, with another flag along lines, and with lines over reads per second.
    pub(crate) fn along(self, flag: &'static str, rates: Vec<RateLine>) -> Self {
        Self {
            flag,
            rates,
            ..self
        }
    }

    /// The flag for the quantity that varies along a line.
    pub(crate) fn flag(&self) -> &'static str {
        self.flag
    }

    /// A line over reads per second.
    pub(crate) fn rates(&self, line: &str) -> Option<&RateLine> {
        self.rates.iter().find(|rates| rates.line == line)
    }

    /// Number of processors of this machine.
    pub(crate) fn cores(&self) -> u16 {
        self.cores
    }

    /// All lines, measured or not.
    pub(crate) fn lines(&self) -> &[&'static str] {
        &self.lines
    }

    /// The measured numbers of threads, or of the other quantity that varies along a line,
    /// ascending.
    pub(crate) fn threads(&self) -> Vec<u32> {
        let mut threads: Vec<u32> = self.points.iter().map(|(_, threads, _)| *threads).collect();
        threads.sort_unstable();
        threads.dedup();
        threads
    }

    /// The number of threads that `at` stands for, if it was measured.
    pub(crate) fn threads_at(&self, at: At) -> Option<u32> {
        let measured = self.threads();
        match at {
            At::Threads(threads) => {
                let threads = u32::from(threads);
                measured.contains(&threads).then_some(threads)
            }
            At::Fewest => measured.first().copied(),
            At::Cores => {
                let mut most_first = measured.into_iter().rev();
                most_first.find(|threads| *threads <= u32::from(self.cores))
            }
            At::Most => measured.last().copied(),
        }
    }

    /// The runs of a line with this number of threads.
    pub(crate) fn get(&self, line: &str, threads: u32) -> Option<Spread> {
        let mut points = self.points.iter();
        let found = points.find(|(of, at, _)| *of == line && *at == threads);
        found.map(|(_, _, spread)| *spread)
    }
}

/// A number for readers, of any magnitude.
pub(crate) fn short(number: f64) -> String {
    if number != 0.0 && number.abs() < 0.001 {
        return format!("{number:.1e}");
    }
    number_text(number)
}

/// The same, without decimals for a whole number.
pub(crate) fn plain(number: f64) -> String {
    let text = short(number);
    match text.split_once('.') {
        Some((whole, _)) if number.fract() == 0.0 => whole.to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_the_median_between_two_runs() {
        assert_eq!(Spread::of(vec![]), None);
        let spread = Spread::of(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!((spread.low, spread.median, spread.high), (1.0, 2.0, 3.0));
        assert_eq!(spread.runs, 3);
        let far = Spread::of(vec![3.5, 4.0]).unwrap();
        assert!(!spread.overlaps(&far) && !far.overlaps(&spread));
        let near = Spread::of(vec![2.5, 9.0]).unwrap();
        assert!(spread.overlaps(&near) && near.overlaps(&spread));
    }

    #[test]
    fn threads_are_those_that_were_measured() {
        let point = |threads| ("line", threads, Spread::of(vec![1.0]).unwrap());
        let points = Points::new(6, vec!["line"], vec![point(8), point(4), point(1)]);
        assert_eq!(points.threads(), [1, 4, 8]);
        for (at, threads) in [
            (At::Threads(8), Some(8)),
            (At::Threads(6), None),
            (At::Fewest, Some(1)),
            (At::Cores, Some(4)),
            (At::Most, Some(8)),
        ] {
            assert_eq!(points.threads_at(at), threads, "{at:?}");
        }
        let beyond = Points::new(6, vec!["line"], vec![point(8)]);
        assert_eq!(beyond.threads_at(At::Cores), None);
    }

    #[test]
    fn small_numbers_are_not_zero() {
        assert_eq!(short(0.0), "0");
        assert_eq!(short(0.000_012), "1.2e-5");
        assert_eq!(short(1234.5), "1,234");
        let numbers = [16.0, 5_000.0, 0.0, 6.3, 1e-5].map(plain);
        assert_eq!(numbers, ["16", "5,000", "0", "6.30", "1.0e-5"]);
    }
}
