//! Arithmetic that fails on overflow, as PostgreSQL's does.

use namiki_data::columns::{Datum, Float};

use crate::error::{SqlError, SqlResult};
use crate::sqlstate;
use crate::types::{POWERS_OF_TEN, SqlType, rescale_rounded};

/// An operator on two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ArithmeticOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

/// Most decimal digits of a result.
const DIGITS_MAX: usize = 38;

impl ArithmeticOperator {
    /// The result of type `of`; null if an operand is.
    ///
    /// # Errors
    /// 22003 if it is beyond the type's range; 22012 for a division by zero.
    pub(crate) fn apply(self, of: SqlType, left: &Datum, right: &Datum) -> SqlResult<Datum> {
        match (left, right) {
            (Datum::Null, _) | (_, Datum::Null) => Ok(Datum::Null),
            (Datum::I64(left), Datum::I64(right)) => self.integers(of, *left, *right),
            (Datum::F64(left), Datum::F64(right)) => {
                Ok(Datum::F64(Float(self.floats(of, left.0, right.0)?)))
            }
            (
                Datum::Decimal { unscaled, scale },
                Datum::Decimal {
                    unscaled: right,
                    scale: right_scale,
                },
            ) => self.decimals(of, (*unscaled, *scale), (*right, *right_scale)),
            _ => Err(SqlError::new(
                sqlstate::INTERNAL_ERROR,
                "arithmetic on values of different types",
            )),
        }
    }

    fn integers(self, of: SqlType, left: i64, right: i64) -> SqlResult<Datum> {
        if right == 0 && matches!(self, Self::Divide | Self::Modulo) {
            return Err(SqlError::new(
                sqlstate::DIVISION_BY_ZERO,
                "division by zero",
            ));
        }
        let result = match self {
            Self::Add => left.checked_add(right),
            Self::Subtract => left.checked_sub(right),
            Self::Multiply => left.checked_mul(right),
            Self::Divide => left.checked_div(right),
            // The least number modulo minus one is zero.
            Self::Modulo => Some(left.wrapping_rem(right)),
        };
        let (least, greatest) = of.integer_range();
        result
            .filter(|it| (least..=greatest).contains(it))
            .map(Datum::I64)
            .ok_or_else(|| of.out_of_range())
    }

    fn floats(self, of: SqlType, left: f64, right: f64) -> SqlResult<f64> {
        if right == 0.0 && !left.is_nan() && matches!(self, Self::Divide | Self::Modulo) {
            return Err(SqlError::new(
                sqlstate::DIVISION_BY_ZERO,
                "division by zero",
            ));
        }
        let exact = match self {
            Self::Add => left + right,
            Self::Subtract => left - right,
            Self::Multiply => left * right,
            Self::Divide => left / right,
            Self::Modulo => left % right,
        };
        let result = match of {
            // Without a sign: it is the greatest number.
            _ if exact.is_nan() => f64::NAN,
            SqlType::Float4 => f64::from(exact as f32),
            _ => exact,
        };
        let is_overflow = result.is_infinite() && left.is_finite() && right.is_finite();
        let is_product = matches!(self, Self::Multiply | Self::Divide);
        let is_underflow = is_product && result == 0.0 && left != 0.0 && right.is_finite();
        if is_overflow || is_underflow && (self == Self::Divide || right != 0.0) {
            return Err(SqlError::new(
                sqlstate::NUMERIC_VALUE_OUT_OF_RANGE,
                if is_overflow {
                    "value out of range: overflow"
                } else {
                    "value out of range: underflow"
                },
            ));
        }
        Ok(result)
    }

    fn decimals(
        self,
        of: SqlType,
        (left, left_scale): (i128, u8),
        (right, right_scale): (i128, u8),
    ) -> SqlResult<Datum> {
        let SqlType::Numeric { scale, .. } = of else {
            return Err(of.out_of_range());
        };
        let both = |scale| {
            Some((
                rescale_rounded(left, left_scale, scale)?,
                rescale_rounded(right, right_scale, scale)?,
            ))
        };
        let wide = left_scale.max(right_scale);
        let result = match self {
            Self::Add => both(wide)
                .and_then(|(left, right)| left.checked_add(right))
                .and_then(|sum| rescale_rounded(sum, wide, scale)),
            Self::Subtract => both(wide)
                .and_then(|(left, right)| left.checked_sub(right))
                .and_then(|difference| rescale_rounded(difference, wide, scale)),
            Self::Multiply => left
                .checked_mul(right)
                .and_then(|product| rescale_rounded(product, left_scale + right_scale, scale)),
            // Left to the planner's arithmetic, which knows the precision of quotients.
            Self::Divide | Self::Modulo => None,
        };
        result
            .filter(|it| it.unsigned_abs() < POWERS_OF_TEN[DIGITS_MAX].unsigned_abs())
            .map(|unscaled| Datum::Decimal { unscaled, scale })
            .ok_or_else(|| of.out_of_range())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ArithmeticOperator::{Add, Divide, Modulo, Multiply};

    #[test]
    fn integers_overflow_at_their_own_width() {
        let apply = |op: ArithmeticOperator, of, left, right| {
            op.apply(of, &Datum::I64(left), &Datum::I64(right))
        };
        assert_eq!(apply(Add, SqlType::Int4, 1, 2).unwrap(), Datum::I64(3));
        let error = apply(Add, SqlType::Int4, i32::MAX.into(), 1).unwrap_err();
        assert_eq!(error.message(), "integer out of range");
        assert!(apply(Multiply, SqlType::Int8, i64::MAX, 2).is_err());
        assert!(apply(Divide, SqlType::Int8, i64::MIN, -1).is_err());
        assert_eq!(
            apply(Modulo, SqlType::Int8, i64::MIN, -1).unwrap(),
            Datum::I64(0)
        );
        let error = apply(Divide, SqlType::Int2, 1, 0).unwrap_err();
        assert_eq!(error.sqlstate(), sqlstate::DIVISION_BY_ZERO);
    }

    #[test]
    fn decimals_keep_the_scale_of_the_result() {
        let decimal = |unscaled, scale| Datum::Decimal { unscaled, scale };
        let of = SqlType::Numeric {
            precision: 20,
            scale: 3,
        };
        let sum = Add.apply(of, &decimal(15, 1), &decimal(125, 2)).unwrap();
        assert_eq!(sum, decimal(2750, 3));
        let product = Multiply
            .apply(of, &decimal(15, 1), &decimal(125, 2))
            .unwrap();
        assert_eq!(product, decimal(1875, 3));
        assert_eq!(
            Add.apply(of, &Datum::Null, &decimal(1, 0)).unwrap(),
            Datum::Null
        );
    }
}
