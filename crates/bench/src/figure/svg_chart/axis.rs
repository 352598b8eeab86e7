//! The axes of a chart: where a number lies, and the labels of round numbers, which all differ.

/// The vertical axis, or a horizontal one with equal distances.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    scale: Scale,
    /// Round numbers with their labels, ascending.
    pub(super) ticks: Vec<(f64, String)>,
}

#[derive(Clone, Copy, Debug)]
enum Scale {
    /// From zero to `most`.
    Linear { most: f64 },
    /// From `low` to `high`, by the logarithm. Zero, if there is any, lies at the foot, below
    /// `low`.
    Logarithmic { low: f64, high: f64, foot: f64 },
}

/// Numbers that span more than this have a logarithmic axis.
const DECADES_APART: f64 = 100.0;
/// The part of a logarithmic axis below the smallest number, if there are zeros.
const FOOT: f64 = 0.09;
/// Minimal number of ticks; there may be a few more.
const TICKS: f64 = 5.0;
/// Up to this many decades, 2 and 5 times a power of ten have labels, too.
const DECADES_IN_PARTS: f64 = 3.2;
/// At most this many labels of powers of ten.
const POWERS_MAX: i32 = 8;

impl Axis {
    /// An axis from zero, with equal distances.
    pub(super) fn linear(numbers: impl Iterator<Item = f64>) -> Self {
        let finite = numbers.filter(|number| number.is_finite());
        let highest = finite.fold(0.0, f64::max);
        let step = step(highest);
        let steps = (highest / step - 1e-9).ceil().max(1.0);
        let values: Vec<f64> = (0..=steps as u32).map(|at| f64::from(at) * step).collect();
        let ticks = labels(&values);
        Self {
            scale: Scale::Linear { most: steps * step },
            ticks: values.into_iter().zip(ticks).collect(),
        }
    }

    /// A logarithmic axis if `medians` span more than two decades, or else one from zero. `all`
    /// numbers lie on it.
    pub(super) fn fitting(medians: &[f64], all: &[f64]) -> Self {
        let positive = |numbers: &[f64]| {
            let numbers = numbers.iter().copied();
            let numbers = numbers.filter(|number| number.is_finite() && *number > 0.0);
            let low = numbers.clone().fold(f64::INFINITY, f64::min);
            (low, numbers.fold(0.0, f64::max))
        };
        let (least, most) = positive(medians);
        if most <= least * DECADES_APART || most <= 0.0 {
            return Self::linear(all.iter().copied());
        }
        let (least, most) = positive(all);
        let (low, high) = (round_below(least), round_above(most));
        let decades = (high / low).log10();
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let every = (last - first) / POWERS_MAX + 1;
        let leads: &[f64] = if decades <= DECADES_IN_PARTS {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let powers = (first..=last).step_by(every as usize).map(power);
        let values = powers.flat_map(|power| leads.iter().map(move |lead| lead * power));
        let within = |value: &f64| *value >= low * 0.999 && *value <= high * 1.001;
        let mut ticks: Vec<(f64, String)> = values
            .filter(within)
            .map(|value| (value, label(value)))
            .collect();
        let has_zero = medians.iter().any(|number| *number <= 0.0);
        let foot = if has_zero { FOOT } else { 0.0 };
        if has_zero {
            ticks.insert(0, (0.0, "0".to_owned()));
        }
        Self {
            scale: Scale::Logarithmic { low, high, foot },
            ticks,
        }
    }

    /// Whether equal distances are equal factors.
    pub(super) fn is_logarithmic(&self) -> bool {
        matches!(self.scale, Scale::Logarithmic { .. })
    }

    /// Where a number lies, from 0, the beginning of the axis, to 1, its end.
    pub(super) fn share(&self, number: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear { most } => number / most,
            Scale::Logarithmic { .. } if number <= 0.0 => 0.0,
            Scale::Logarithmic { low, high, foot } => {
                let above = (number / low).ln() / (high / low).ln();
                foot + above.max(0.0) * (1.0 - foot)
            }
        };
        share.clamp(0.0, 1.0)
    }

    /// Whether a number lies between the ends of the axis.
    pub(super) fn has(&self, number: f64) -> bool {
        let (low, high) = match self.scale {
            Scale::Linear { most } => (0.0, most),
            Scale::Logarithmic { low, high, .. } => (low, high),
        };
        (low..=high).contains(&number)
    }
}

fn power(exponent: i32) -> f64 {
    10_f64.powi(exponent)
}

/// 1, 2 or 5 times a power of ten: the largest up to this number.
fn round_below(number: f64) -> f64 {
    let power = power(number.log10().floor() as i32);
    let lead = match number / power * 1.000_001 {
        lead if lead >= 5.0 => 5.0,
        lead if lead >= 2.0 => 2.0,
        _ => 1.0,
    };
    lead * power
}

/// 1, 2 or 5 times a power of ten: the smallest from this number on.
fn round_above(number: f64) -> f64 {
    let power = power(number.log10().floor() as i32);
    let lead = match number / power * 0.999_999 {
        lead if lead <= 1.0 => 1.0,
        lead if lead <= 2.0 => 2.0,
        lead if lead <= 5.0 => 5.0,
        _ => 10.0,
    };
    lead * power
}

/// The distance between ticks: 1, 2 or 5 times a power of ten.
fn step(highest: f64) -> f64 {
    if highest < f64::MIN_POSITIVE * 1e3 {
        return 1.0;
    }
    round_above(highest / TICKS)
}

/// Thousands and more, by the size of a number.
fn unit(number: f64) -> (f64, &'static str) {
    match number {
        number if number >= 1e9 => (1e9, " G"),
        number if number >= 1e6 => (1e6, " M"),
        number if number >= 1e3 => (1e3, " k"),
        _ => (1.0, ""),
    }
}

/// Labels of equidistant numbers, in one unit and with as many decimals as tell them apart.
pub(super) fn labels(numbers: &[f64]) -> Vec<String> {
    let most = numbers.iter().copied().fold(0.0, f64::max);
    let gaps = numbers.windows(2).map(|pair| (pair[1] - pair[0]).abs());
    let near = gaps.fold(f64::INFINITY, f64::min) / 100.0;
    let (unit, name) = unit(most);
    let with = |decimals: usize| {
        let texts = numbers
            .iter()
            .map(|number| format!("{:.decimals$}", number / unit));
        texts.collect::<Vec<_>>()
    };
    let is_exact = |text: &String, number: f64| {
        let shown = text.parse::<f64>().unwrap_or(f64::NAN) * unit;
        (shown - number).abs() <= near
    };
    let plain = (0..=4).map(with).find(|texts| {
        let mut pairs = texts.iter().zip(numbers);
        pairs.all(|(text, number)| is_exact(text, *number))
    });
    let names = numbers.iter().enumerate();
    let names = names.map(|(at, number)| match &plain {
        _ if *number == 0.0 => "0".to_owned(),
        Some(texts) => format!("{}{name}", texts[at]),
        None => format!("{number:.1e}"),
    });
    names.collect()
}

/// The label of one round number.
fn label(number: f64) -> String {
    let (unit, name) = unit(number * 1.000_001);
    if number < 0.000_9 {
        return format!("{number:.0e}");
    }
    let decimals = (-(number / unit).log10() - 1e-9).ceil().max(0.0) as usize;
    format!("{:.decimals$}{name}", number / unit)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn names(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, name)| name.as_str()).collect()
    }

    /// Numbers of any size, which a fixed generator draws.
    fn drawn() -> impl Iterator<Item = f64> {
        let mut state = 7_u64;
        std::iter::from_fn(move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let exponent = (state >> 40) as f64 / f64::from(1 << 24) * 22.0 - 9.0;
            Some(10_f64.powf(exponent))
        })
    }

    #[test]
    fn labels_differ_on_every_axis() {
        let numbers: Vec<f64> = drawn().take(6000).collect();
        for pair in numbers.chunks(3) {
            for axis in [
                Axis::linear(pair.iter().copied()),
                Axis::fitting(pair, pair),
            ] {
                let names = names(&axis);
                let distinct: BTreeSet<&str> = names.iter().copied().collect();
                assert_eq!(distinct.len(), names.len(), "{pair:?}: {names:?}");
                assert!(names.len() >= 2 && names.len() <= 13, "{pair:?}: {names:?}");
                let shares: Vec<f64> = axis.ticks.iter().map(|(at, _)| axis.share(*at)).collect();
                assert!(
                    shares.windows(2).all(|step| step[0] < step[1]),
                    "{shares:?}"
                );
                for number in pair {
                    let share = axis.share(*number);
                    assert!(
                        (0.0..=1.0).contains(&share) && axis.has(*number),
                        "{pair:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn ticks_are_round() {
        let linear = |most| Axis::linear([most].into_iter());
        assert_eq!(
            names(&linear(9.3e5)),
            ["0", "0.2 M", "0.4 M", "0.6 M", "0.8 M", "1.0 M"]
        );
        assert_eq!(
            names(&linear(2.4e6)),
            ["0", "0.5 M", "1.0 M", "1.5 M", "2.0 M", "2.5 M"]
        );
        assert_eq!(names(&linear(4.0)), ["0", "1", "2", "3", "4"]);
        assert_eq!(
            names(&linear(2.1)),
            ["0", "0.5", "1.0", "1.5", "2.0", "2.5"]
        );
        assert_eq!(names(&linear(0.031)), ["0", "0.01", "0.02", "0.03", "0.04"]);
        assert_eq!(names(&linear(4e-6))[1], "1.0e-6");
        assert_eq!(names(&linear(0.0)), ["0", "1"]);
    }

    #[test]
    fn more_than_two_decades_are_logarithmic() {
        let numbers = [3e2, 5e3, 4e4];
        let axis = Axis::fitting(&numbers, &numbers);
        assert!(axis.is_logarithmic());
        assert_eq!(
            names(&axis),
            ["200", "500", "1 k", "2 k", "5 k", "10 k", "20 k", "50 k"]
        );
        assert!(axis.share(3e2) > 0.05 && axis.share(4e4) < 0.97);
        let numbers = [300.0, 400.0, 2e4];
        assert!(!Axis::fitting(&numbers, &numbers).is_logarithmic());
        // The runs of a point may be further apart than the medians.
        let axis = Axis::fitting(&[1.0, 1000.0], &[0.01, 1.0, 1000.0]);
        assert!(axis.has(0.01));
    }

    #[test]
    fn zero_lies_at_the_foot() {
        let numbers = [0.0, 1.0, 5e4];
        let axis = Axis::fitting(&numbers, &numbers);
        assert_eq!(names(&axis)[..2], ["0", "1"]);
        assert_eq!(axis.share(0.0), 0.0);
        assert!(axis.share(1.0) > 0.05);
    }
}
