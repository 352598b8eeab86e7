//! One value of a column: [`Value`] borrows its text, [`Datum`] owns it.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::calendar;
use super::column_type::{ColumnType, SCALE_MAX};
use super::float::Float;

/// A value that borrows its text.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// No value. Compares below every other one.
    Null,
    /// True or false.
    Bool(bool),
    /// A signed integer.
    I64(i64),
    /// An unsigned integer.
    U64(u64),
    /// `unscaled` divided by ten to the power of `scale`.
    Decimal {
        /// The digits.
        unscaled: i128,
        /// Digits behind the point.
        scale: u8,
    },
    /// A floating-point number.
    F64(f64),
    /// Days since 1970-01-01.
    Date(i32),
    /// The bytes of text: UTF-8, unless the row was written as something else. They are checked
    /// when text becomes a [`Datum`], not in each comparison.
    Text(&'a [u8]),
    /// Bytes.
    Bytes(&'a [u8]),
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Datum {
    /// No value. Compares below every other one.
    Null,
    /// True or false.
    Bool(bool),
    /// A signed integer.
    I64(i64),
    /// An unsigned integer.
    U64(u64),
    /// `unscaled` divided by ten to the power of `scale`.
    Decimal {
        /// The digits.
        unscaled: i128,
        /// Digits behind the point.
        scale: u8,
    },
    /// A floating-point number.
    F64(Float),
    /// Days since 1970-01-01.
    Date(i32),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// Ten to the power of `exponent`, if it fits.
#[inline]
pub(super) fn power_of_ten(exponent: u8) -> Option<i128> {
    10_i128.checked_pow(u32::from(exponent))
}

impl<'a> Value<'a> {
    /// The same value, which owns its text.
    #[inline]
    #[must_use]
    pub fn to_datum(self) -> Datum {
        match self {
            Self::Null => Datum::Null,
            Self::Bool(value) => Datum::Bool(value),
            Self::I64(value) => Datum::I64(value),
            Self::U64(value) => Datum::U64(value),
            Self::Decimal { unscaled, scale } => Datum::Decimal { unscaled, scale },
            Self::F64(number) => Datum::F64(Float(number)),
            Self::Date(days) => Datum::Date(days),
            Self::Text(text) => Datum::Text(String::from_utf8_lossy(text).into_owned()),
            Self::Bytes(bytes) => Datum::Bytes(bytes.to_vec()),
        }
    }

    /// Whether there is no value.
    #[inline]
    #[must_use]
    pub const fn is_null(self) -> bool {
        matches!(self, Self::Null)
    }

    /// A number as digits and scale; `None` of a floating-point number.
    #[inline]
    #[must_use]
    pub fn as_decimal(self) -> Option<(i128, u8)> {
        match self {
            Self::I64(value) => Some((i128::from(value), 0)),
            Self::U64(value) => Some((i128::from(value), 0)),
            Self::Decimal { unscaled, scale } => Some((unscaled, scale)),
            _ => None,
        }
    }

    /// The bytes of text or bytes.
    #[inline]
    #[must_use]
    pub fn as_bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Text(bytes) | Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The same value, unless it borrows: text and bytes do.
    #[inline]
    #[must_use]
    pub fn without_bytes<'b>(self) -> Option<Value<'b>> {
        Some(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::I64(value) => Value::I64(value),
            Self::U64(value) => Value::U64(value),
            Self::Decimal { unscaled, scale } => Value::Decimal { unscaled, scale },
            Self::F64(number) => Value::F64(number),
            Self::Date(days) => Value::Date(days),
            Self::Text(_) | Self::Bytes(_) => return None,
        })
    }

    /// One order over all values: no value first, exact numbers of all types by their amount, others
    /// by type.
    #[inline]
    #[must_use]
    pub fn total_cmp(self, other: Value<'_>) -> Ordering {
        match (self, other) {
            (Self::Bool(a), Value::Bool(b)) => a.cmp(&b),
            (Self::I64(a), Value::I64(b)) => a.cmp(&b),
            (Self::U64(a), Value::U64(b)) => a.cmp(&b),
            (Self::F64(a), Value::F64(b)) => Float(a).cmp(&Float(b)),
            (Self::Date(a), Value::Date(b)) => a.cmp(&b),
            (Self::Text(a), Value::Text(b)) => a.cmp(b),
            (Self::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            _ => match (self.as_decimal(), other.as_decimal()) {
                (Some(a), Some(b)) => compare_decimals(a, b),
                _ => self.rank().cmp(&other.rank()),
            },
        }
    }

    #[inline]
    const fn rank(self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Bool(_) => 1,
            Self::I64(_) | Self::U64(_) | Self::Decimal { .. } => 2,
            Self::F64(_) => 3,
            Self::Date(_) => 4,
            Self::Text(_) => 5,
            Self::Bytes(_) => 6,
        }
    }
}

#[inline]
fn compare_decimals((a, a_scale): (i128, u8), (b, b_scale): (i128, u8)) -> Ordering {
    if a_scale == b_scale {
        return a.cmp(&b);
    }
    // A number that overflows at the other's scale is further from zero than the other. Zero never
    // overflows.
    if a_scale < b_scale {
        if a == 0 {
            return 0.cmp(&b);
        }
        match power_of_ten(b_scale - a_scale).and_then(|power| a.checked_mul(power)) {
            Some(a) => a.cmp(&b),
            None => a.cmp(&0),
        }
    } else {
        compare_decimals((b, b_scale), (a, a_scale)).reverse()
    }
}

impl Datum {
    /// The value, borrowed.
    #[inline]
    #[must_use]
    pub fn value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::I64(value) => Value::I64(*value),
            Self::U64(value) => Value::U64(*value),
            Self::Decimal { unscaled, scale } => Value::Decimal {
                unscaled: *unscaled,
                scale: *scale,
            },
            Self::F64(number) => Value::F64(number.0),
            Self::Date(days) => Value::Date(*days),
            Self::Text(text) => Value::Text(text.as_bytes()),
            Self::Bytes(bytes) => Value::Bytes(bytes),
        }
    }

    /// Its type; `None` for [`Datum::Null`]. That of a decimal says nothing of how it is stored.
    #[inline]
    #[must_use]
    pub const fn column_type(&self) -> Option<ColumnType> {
        Some(match self {
            Self::Null => return None,
            Self::Bool(_) => ColumnType::Bool,
            Self::I64(_) => ColumnType::I64,
            Self::U64(_) => ColumnType::U64,
            Self::Decimal { scale, .. } => ColumnType::Decimal { scale: *scale },
            Self::F64(_) => ColumnType::F64,
            Self::Date(_) => ColumnType::Date,
            Self::Text(_) => ColumnType::Text,
            Self::Bytes(_) => ColumnType::Bytes,
        })
    }

    /// The same value in another type: `9980` as the decimal 9980.00, the text `1995-03-15` as a
    /// date. `None` if that would change the value.
    #[must_use]
    pub fn cast(&self, to: ColumnType) -> Option<Self> {
        if self.column_type().is_none_or(|own| own == to) {
            return Some(self.clone());
        }
        match (self, to) {
            (Self::Text(text), ColumnType::Date) => calendar::parse(text).map(Self::Date),
            (Self::Text(text), ColumnType::Bytes) => Some(Self::Bytes(text.clone().into_bytes())),
            (Self::Text(text), ColumnType::F64) => text.parse().ok().map(|it| Self::F64(Float(it))),
            (Self::Text(text), to) if to.is_number() => Self::parse_decimal(text)?.cast(to),
            (_, to) => {
                let (unscaled, scale) = self.value().as_decimal()?;
                let to_scale = match to {
                    ColumnType::Decimal { scale } | ColumnType::LongDecimal { scale } => scale,
                    ColumnType::I64 | ColumnType::U64 => 0,
                    _ => return None,
                };
                let unscaled = rescale(unscaled, scale, to_scale)?;
                match to {
                    ColumnType::I64 => i64::try_from(unscaled).ok().map(Self::I64),
                    ColumnType::U64 => u64::try_from(unscaled).ok().map(Self::U64),
                    _ => Some(Self::Decimal {
                        unscaled,
                        scale: to_scale,
                    }),
                }
            }
        }
    }

    /// Reads `-12.50` as a decimal. Its scale is the number of digits behind the point.
    #[must_use]
    pub fn parse_decimal(text: &str) -> Option<Self> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() || digits.ends_with('.') || fraction.len() > usize::from(SCALE_MAX) {
            return None;
        }
        let mut unscaled: i128 = 0;
        for byte in whole.bytes().chain(fraction.bytes()) {
            if !byte.is_ascii_digit() {
                return None;
            }
            let digit = i128::from(byte - b'0');
            unscaled = unscaled.checked_mul(10)?.checked_add(digit)?;
        }
        Some(Self::Decimal {
            unscaled: if negative { -unscaled } else { unscaled },
            scale: fraction.len() as u8,
        })
    }

    /// Reads a date written as `1995-03-15`.
    #[must_use]
    pub fn parse_date(text: &str) -> Option<Self> {
        calendar::parse(text).map(Self::Date)
    }

    /// A date by its parts. `None` if there is no such day.
    #[must_use]
    pub fn date(year: i32, month: u32, day: u32) -> Option<Self> {
        calendar::days_of(year, month, day).map(Self::Date)
    }
}

/// The digits of the same number at another scale, if no digit is lost.
#[inline]
pub(super) fn rescale(unscaled: i128, from: u8, to: u8) -> Option<i128> {
    if to >= from {
        unscaled.checked_mul(power_of_ten(to - from)?)
    } else {
        let power = power_of_ten(from - to)?;
        (unscaled % power == 0).then_some(unscaled / power)
    }
}

impl PartialOrd for Datum {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Datum {
    /// [`Value::total_cmp`]; equal numbers of different types compare by type.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let by_type = || {
            let form = |datum: &Self| match datum {
                Self::I64(_) => (0, 0),
                Self::U64(_) => (1, 0),
                Self::Decimal { scale, .. } => (2, *scale),
                _ => (3, 0),
            };
            form(self).cmp(&form(other))
        };
        self.value().total_cmp(other.value()).then_with(by_type)
    }
}

macro_rules! datum_from {
    ($($type:ty => $variant:ident),*) => {$(
        impl From<$type> for Datum {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}
datum_from!(
    bool => Bool, i32 => I64, i64 => I64, u64 => U64, f64 => F64, &str => Text, String => Text
);

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::I64(value) => write!(f, "{value}"),
            Self::U64(value) => write!(f, "{value}"),
            Self::Decimal { unscaled, scale: 0 } => write!(f, "{unscaled}"),
            Self::Decimal { unscaled, scale } => {
                let digits = unscaled.unsigned_abs().to_string();
                let width = usize::from(scale) + 1;
                let digits = format!("{digits:0>width$}");
                let (whole, fraction) = digits.split_at(digits.len() - usize::from(scale));
                let sign = if unscaled < 0 { "-" } else { "" };
                write!(f, "{sign}{whole}.{fraction}")
            }
            Self::F64(number) => number.fmt(f),
            Self::Date(days) => {
                let (year, month, day) = calendar::date_of(days);
                write!(f, "{year:04}-{month:02}-{day:02}")
            }
            Self::Text(text) => f.write_str(&String::from_utf8_lossy(text)),
            Self::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

impl fmt::Display for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_and_written_exactly() {
        for text in ["0.00", "-0.05", "825979168.72", "12", "-1.5", "0.000001"] {
            assert_eq!(Datum::parse_decimal(text).unwrap().to_string(), text);
        }
        for text in ["", "-", ".5", "5.", "1.2.3", "1e3", "+1", "ä"] {
            assert_eq!(Datum::parse_decimal(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_of_all_types_compare_by_what_they_are() {
        let decimal = |text: &str| Datum::parse_decimal(text).unwrap();
        let sorted = [
            Datum::Null,
            decimal("-1.5"),
            Datum::I64(-1),
            Datum::U64(0),
            decimal("0.50"),
            Datum::U64(u64::MAX),
        ];
        for (at, a) in sorted.iter().enumerate() {
            for (other, b) in sorted.iter().enumerate() {
                assert_eq!(a.cmp(b), at.cmp(&other), "{a} {b}");
            }
        }
        // Their scales may differ by any number of digits.
        let zero = Datum::U64(0);
        let near_zero = |unscaled| Datum::Decimal {
            unscaled,
            scale: 42,
        };
        assert_eq!(zero.cmp(&near_zero(1)), Ordering::Less);
        assert_eq!(near_zero(-1).cmp(&zero), Ordering::Less);
        assert_eq!(
            zero.value().total_cmp(near_zero(0).value()),
            Ordering::Equal
        );
        let equal = Datum::I64(5).value().total_cmp(decimal("5.00").value());
        assert_eq!(equal, Ordering::Equal);
        let huge = Value::Decimal {
            unscaled: i128::MAX,
            scale: 0,
        };
        assert_eq!(huge.total_cmp(decimal("1.5").value()), Ordering::Greater);
    }

    #[test]
    fn a_cast_keeps_the_value_or_gives_nothing() {
        let two = ColumnType::Decimal { scale: 2 };
        assert_eq!(Datum::I64(9980).cast(two).unwrap().to_string(), "9980.00");
        let short = Datum::parse_decimal("1.5").unwrap();
        assert_eq!(short.cast(two).unwrap().to_string(), "1.50");
        assert_eq!(short.cast(ColumnType::I64), None);
        assert_eq!(Datum::I64(-1).cast(ColumnType::U64), None);
        let date = Datum::Text("1995-03-15".to_owned()).cast(ColumnType::Date);
        assert_eq!(date.unwrap().to_string(), "1995-03-15");
        assert_eq!(Datum::Bool(true).cast(ColumnType::I64), None);
        let long = ColumnType::LongDecimal { scale: 2 };
        assert_eq!(short.cast(long), short.cast(two));
        let float = |text: &str| Datum::from(text).cast(ColumnType::F64);
        assert_eq!(float("-1.5"), Some(Datum::from(-1.5)));
        assert_eq!(float("NaN").unwrap().to_string(), "NaN");
        assert_eq!((float("x"), short.cast(ColumnType::F64)), (None, None));
        assert_eq!(Datum::Null.cast(ColumnType::I64), Some(Datum::Null));
    }
}
