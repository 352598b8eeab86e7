//! An equi-depth histogram: bounds with equally many values between each two.
//!
//! ```text
//!   bounds:  1        4 5 6        20              90
//!            |────────|─|─|────────|───────────────|      between two neighbours lie equally many values
//! ```
//!
//! A value that is more frequent than a bucket is several bounds in a row, so that its share is
//! known, too.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use namiki_data::columns::Datum;

/// Buckets of a histogram, at most.
pub(super) const BUCKETS_MAX: usize = 64;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// The bounds in order, one more than there are buckets. Empty without values.
    #[serde(with = "one_text")]
    bounds: Vec<Datum>,
}

impl Histogram {
    /// The histogram of sorted values, with a limit of buckets.
    #[must_use]
    pub(super) fn of_sorted(values: &[Datum], buckets_max: usize) -> Self {
        let Some(last) = values.len().checked_sub(1) else {
            return Self::default();
        };
        let buckets = last.clamp(1, buckets_max.max(1));
        let bound = |at: usize| values[last * at / buckets].clone();
        Self {
            bounds: (0..=buckets).map(bound).collect(),
        }
    }

    /// Whether the number of its bounds is within the limit, and their order right.
    pub(super) fn is_sound(&self) -> bool {
        self.bounds.len() <= BUCKETS_MAX + 1 && self.bounds.is_sorted()
    }

    /// The least value, of the sample.
    #[must_use]
    pub fn least(&self) -> Option<&Datum> {
        self.bounds.first()
    }

    /// The greatest value, of the sample.
    #[must_use]
    pub fn greatest(&self) -> Option<&Datum> {
        self.bounds.last()
    }

    /// The share of the values, from 0 to 1, that are below this one; with `or_equal`, those equal
    /// to it, too. `None` if nothing is known.
    #[must_use]
    pub fn share_below(&self, value: &Datum, or_equal: bool) -> Option<f64> {
        let buckets = self
            .bounds
            .len()
            .checked_sub(1)
            .filter(|buckets| *buckets > 0)?;
        let below =
            self.bounds
                .partition_point(|bound| match bound.value().total_cmp(value.value()) {
                    Ordering::Less => true,
                    Ordering::Equal => or_equal,
                    Ordering::Greater => false,
                });
        if below == 0 {
            return Some(0.0);
        }
        if below > buckets {
            return Some(1.0);
        }
        let within = position(&self.bounds[below - 1], &self.bounds[below], value);
        Some(((below - 1) as f64 + within) / buckets as f64)
    }

    /// The share of a value that fills buckets of its own; `None` if it is not as frequent.
    #[must_use]
    pub fn share_of_frequent(&self, value: &Datum) -> Option<f64> {
        let buckets = self.bounds.len().checked_sub(1)?;
        let equal = |bound: &&Datum| bound.value().total_cmp(value.value()).is_eq();
        let count = self.bounds.iter().filter(equal).count();
        (count >= 2).then(|| (count - 1) as f64 / buckets.max(1) as f64)
    }
}

/// The relative position of a value between two bounds, from 0 to 1.
fn position(lower: &Datum, upper: &Datum, value: &Datum) -> f64 {
    let (Some(lower), Some(upper), Some(value)) = (number(lower), number(upper), number(value))
    else {
        return 0.5;
    };
    if upper <= lower {
        return 0.5;
    }
    ((value - lower) / (upper - lower)).clamp(0.0, 1.0)
}

/// Approximate position of a value on a line.
fn number(value: &Datum) -> Option<f64> {
    Some(match value {
        Datum::Null => return None,
        Datum::Bool(value) => f64::from(*value),
        Datum::F64(number) => Some(number.0).filter(|it| it.is_finite())?,
        Datum::Date(days) => f64::from(*days),
        Datum::Text(text) => first_bytes(text.as_bytes()),
        Datum::Bytes(bytes) => first_bytes(bytes),
        number => {
            let (unscaled, scale) = number.value().as_decimal()?;
            unscaled as f64 / 10_f64.powi(i32::from(scale))
        }
    })
}

fn first_bytes(bytes: &[u8]) -> f64 {
    let at = |at: usize| f64::from(bytes.get(at).copied().unwrap_or_default());
    (0..6).fold(0.0, |number, byte| number * 256.0 + at(byte))
}

/// All bounds as one JSON text within the JSON: a list of a line for each would be ten times as
/// long.
mod one_text {
    use serde::de::Error as _;
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use namiki_data::columns::Datum;

    pub(super) fn serialize<S: Serializer>(bounds: &[Datum], into: S) -> Result<S::Ok, S::Error> {
        let text = serde_json::to_string(bounds).map_err(S::Error::custom)?;
        text.serialize(into)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Datum>, D::Error> {
        let text = String::deserialize(from)?;
        serde_json::from_str(&text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = i64>, buckets: usize) -> Histogram {
        let mut values: Vec<Datum> = values.into_iter().map(Datum::I64).collect();
        values.sort();
        Histogram::of_sorted(&values, buckets)
    }

    #[test]
    fn shares_of_spread_values_are_about_right() {
        let histogram = of((0..10_000).map(|it| it * it), 100);
        for value in [0, 100, 5_000, 9_999] {
            let share = histogram
                .share_below(&Datum::I64(value * value), false)
                .unwrap();
            assert!(
                (share - value as f64 / 10_000.0).abs() < 0.01,
                "{value}: {share}"
            );
        }
        assert_eq!(histogram.share_below(&Datum::I64(-1), true), Some(0.0));
        assert_eq!(
            histogram.share_below(&Datum::I64(i64::MAX), false),
            Some(1.0)
        );
    }

    #[test]
    fn a_frequent_value_has_its_share() {
        let histogram = of(
            (0..1000).map(|it| if it % 5 == 0 { 7 } else { it + 1000 }),
            50,
        );
        let share = histogram.share_of_frequent(&Datum::I64(7)).unwrap();
        assert!((share - 0.2).abs() < 0.03, "{share}");
        let below = |or_equal| histogram.share_below(&Datum::I64(7), or_equal).unwrap();
        assert!(below(false) < 0.01 && (below(true) - 0.2).abs() < 0.03);
        assert_eq!(histogram.share_of_frequent(&Datum::I64(1001)), None);
    }

    #[test]
    fn bounds_come_back_from_json() {
        let values = [
            Datum::Bool(true),
            Datum::I64(i64::MIN),
            Datum::U64(u64::MAX),
            Datum::Decimal {
                unscaled: i128::MAX,
                scale: 38,
            },
            Datum::Date(-3),
            Datum::Text("\"並木\"\n".to_owned()),
            Datum::Bytes(vec![0, 255]),
        ];
        for value in values {
            let histogram = Histogram::of_sorted(&[value.clone(), value], 4);
            let text = serde_json::to_string(&histogram).unwrap();
            assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), histogram);
        }
    }

    #[test]
    fn few_values_and_none_are_fine() {
        assert_eq!(Histogram::default().share_below(&Datum::I64(1), true), None);
        let one = of([5], 10);
        assert_eq!(one.share_below(&Datum::I64(4), true), Some(0.0));
        assert_eq!(one.share_below(&Datum::I64(6), true), Some(1.0));
    }
}
