//! Sums, differences and products, exact or an error.
//!
//! Integers give integers: two unsigned ones an unsigned one, others a signed one. A decimal gives
//! a decimal: sums and differences have the larger scale, products the sum of the scales. A missing
//! value gives a missing value.

use serde::{Deserialize, Serialize};

use super::column_type::SCALE_MAX;
use super::datum::rescale;
use super::{ColumnType, Value};

/// An operation on two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Arithmetic {
    /// `+`
    #[serde(rename = "+")]
    Add,
    /// `-`
    #[serde(rename = "-")]
    Subtract,
    /// `*`
    #[serde(rename = "*")]
    Multiply,
}

impl Arithmetic {
    /// `+`, `-` or `*`.
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
        }
    }

    /// The type of the result. `None` if the two are not numbers, or if the scale would be above
    /// [`SCALE_MAX`].
    #[must_use]
    pub fn result_type(self, left: ColumnType, right: ColumnType) -> Option<ColumnType> {
        use ColumnType::{Decimal, I64, U64};
        Some(match (left.of_values(), right.of_values()) {
            (U64, U64) => U64,
            (I64 | U64, I64 | U64) => I64,
            (Decimal { .. } | I64 | U64, Decimal { .. } | I64 | U64) => {
                let scale = |of: ColumnType| of.scale().unwrap_or_default();
                let (left, right) = (scale(left), scale(right));
                let scale = match self {
                    Self::Add | Self::Subtract => left.max(right),
                    Self::Multiply => left.checked_add(right)?,
                };
                if scale > SCALE_MAX {
                    return None;
                }
                Decimal { scale }
            }
            _ => return None,
        })
    }

    /// The result. `None` if it does not fit its type.
    #[inline]
    #[must_use]
    pub fn apply<'a>(self, left: Value<'_>, right: Value<'_>) -> Option<Value<'a>> {
        if left.is_null() || right.is_null() {
            return Some(Value::Null);
        }
        let ((a, a_scale), (b, b_scale)) = (left.as_decimal()?, right.as_decimal()?);
        let (unscaled, scale) = match self {
            Self::Multiply => (a.checked_mul(b)?, a_scale.checked_add(b_scale)?),
            Self::Add | Self::Subtract => {
                let scale = a_scale.max(b_scale);
                let (a, b) = (rescale(a, a_scale, scale)?, rescale(b, b_scale, scale)?);
                let sum = if self == Self::Add {
                    a.checked_add(b)?
                } else {
                    a.checked_sub(b)?
                };
                (sum, scale)
            }
        };
        Some(match (left, right) {
            (Value::U64(_), Value::U64(_)) => Value::U64(u64::try_from(unscaled).ok()?),
            (Value::Decimal { .. }, _) | (_, Value::Decimal { .. }) => {
                Value::Decimal { unscaled, scale }
            }
            _ => Value::I64(i64::try_from(unscaled).ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Datum;
    use super::*;

    fn calculated(op: Arithmetic, left: &str, right: &str) -> String {
        let read = |text: &str| Datum::parse_decimal(text).unwrap();
        let (left, right) = (read(left), read(right));
        let result = op.apply(left.value(), right.value()).unwrap();
        let own_type = |datum: &Datum| datum.column_type().unwrap();
        let expected = op.result_type(own_type(&left), own_type(&right));
        assert_eq!(result.to_datum().column_type(), expected);
        result.to_string()
    }

    #[test]
    fn decimals_are_exact() {
        use Arithmetic::{Add, Multiply, Subtract};
        assert_eq!(calculated(Multiply, "17954.55", "0.94"), "16877.2770");
        assert_eq!(calculated(Subtract, "1", "0.06"), "0.94");
        assert_eq!(calculated(Add, "-0.5", "0.25"), "-0.25");
    }

    #[test]
    fn what_does_not_fit_is_nothing() {
        let huge = Value::I64(i64::MAX);
        assert!(Arithmetic::Add.apply(huge, Value::I64(1)).is_none());
        assert!(
            Arithmetic::Subtract
                .apply(Value::U64(0), Value::U64(1))
                .is_none()
        );
        let difference = Arithmetic::Subtract.apply(Value::U64(0), Value::I64(1));
        assert_eq!(difference.unwrap().to_datum(), Datum::I64(-1));
        let missing = Arithmetic::Add.apply(huge, Value::Null);
        assert!(missing.is_some_and(Value::is_null));
        let text = Arithmetic::Add.result_type(ColumnType::Text, ColumnType::I64);
        assert_eq!(text, None);
    }
}
