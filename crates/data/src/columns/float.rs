//! Floating-point numbers with a total order.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A floating-point number of eight bytes, ordered as PostgreSQL orders them: -0 equals 0, and NaN
/// equals itself and is above all others.
///
/// It is written as text, `1.5` or `NaN` or `-inf`, which reads back as the same number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Float(pub f64);

const SIGN: u64 = 1 << 63;

impl Float {
    /// Bits that are in the order of the numbers, as unsigned integers: equal for equal numbers.
    #[inline]
    #[must_use]
    pub fn to_ordered_bits(self) -> u64 {
        let bits = if self.0.is_nan() {
            // The positive one, whichever it was.
            f64::NAN.to_bits() & !SIGN
        } else if self.0 == 0.0 {
            0
        } else {
            self.0.to_bits()
        };
        if bits & SIGN == 0 { bits | SIGN } else { !bits }
    }

    /// The number with these ordered bits. (Zero is positive, and there is one NaN.)
    #[inline]
    #[must_use]
    pub fn from_ordered_bits(bits: u64) -> Self {
        let bits = if bits & SIGN == 0 {
            !bits
        } else {
            bits & !SIGN
        };
        Self(f64::from_bits(bits))
    }
}

impl PartialEq for Float {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.to_ordered_bits() == other.to_ordered_bits()
    }
}

impl Eq for Float {}

impl PartialOrd for Float {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Float {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.to_ordered_bits().cmp(&other.to_ordered_bits())
    }
}

impl Hash for Float {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to_ordered_bits().hash(state);
    }
}

impl From<f64> for Float {
    fn from(number: f64) -> Self {
        Self(number)
    }
}

impl fmt::Display for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Float {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Float {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASCENDING: [f64; 12] = [
        f64::NEG_INFINITY,
        f64::MIN,
        -1.5,
        -1.0,
        -f64::MIN_POSITIVE,
        -5e-324,
        0.0,
        5e-324,
        1.0,
        f64::MAX,
        f64::INFINITY,
        f64::NAN,
    ];

    #[test]
    fn the_order_is_total() {
        for (at, a) in ASCENDING.into_iter().enumerate() {
            for (other, b) in ASCENDING.into_iter().enumerate() {
                assert_eq!(Float(a).cmp(&Float(b)), at.cmp(&other), "{a} {b}");
            }
            let back = Float::from_ordered_bits(Float(a).to_ordered_bits());
            assert_eq!(back, Float(a));
        }
    }

    #[test]
    fn zeros_and_nans_are_equal() {
        assert_eq!(Float(-0.0), Float(0.0));
        let other_nan = f64::from_bits(f64::NAN.to_bits() ^ SIGN ^ 7);
        assert!(other_nan.is_nan());
        assert_eq!(Float(other_nan), Float(f64::NAN));
        assert!(Float(other_nan) > Float(f64::INFINITY));
    }

    #[test]
    fn numbers_come_back_from_text() {
        for number in ASCENDING.into_iter().chain([0.1, -1e300, 1.0 / 3.0]) {
            let text = serde_json::to_string(&Float(number)).unwrap();
            assert_eq!(serde_json::from_str::<Float>(&text).unwrap(), Float(number));
        }
        assert!(serde_json::from_str::<Float>("\"x\"").is_err());
    }
}
