//! Expressions of row programs: evaluated row by row.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use namiki_data::columns::{Datum, Float};

use super::{ArithmeticOperator, Guard};
use crate::error::{SqlError, SqlResult};
use crate::sqlstate;
use crate::storage::RowFormat;
use crate::types::{SqlType, TimeZone, rescale_rounded};

/// What an expression may use besides its row.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    /// The values of `$1`, `$2`, …
    pub(crate) parameters: Arc<[Datum]>,
    /// When the transaction began, in microseconds since 1970.
    pub(crate) now: i64,
    /// The time zone of the session.
    pub(crate) zone: TimeZone,
    pub(crate) guard: Guard,
    /// The number of the session.
    pub(crate) session: i64,
}

/// An expression of one row.
#[derive(Clone, Debug)]
pub(crate) enum Scalar {
    /// A column of the row.
    Column(usize),
    /// A parameter, counted from 0.
    Parameter(usize),
    /// A value.
    Constant(Datum),
    /// When the transaction began.
    Now,
    /// A number of two numbers.
    Arithmetic {
        operator: ArithmeticOperator,
        of: SqlType,
        operands: Box<(Scalar, Scalar)>,
    },
    /// A comparison; null if an operand is.
    Compare {
        operator: CompareOperator,
        operands: Box<(Scalar, Scalar)>,
    },
    /// All are true.
    And(Vec<Scalar>),
    /// One is true.
    Or(Vec<Scalar>),
    /// The opposite.
    Not(Box<Scalar>),
    /// Whether it is null, or with false, whether it is not.
    IsNull(Box<Scalar>, bool),
    /// A number in another type.
    Cast { to: SqlType, input: Box<Scalar> },
    /// An expression that another evaluator knows.
    Foreign(Arc<dyn Evaluate>),
}

/// An evaluator of expressions that are not evaluated here.
pub(crate) trait Evaluate: fmt::Debug + Send + Sync {
    /// The expression's value for a row.
    ///
    /// # Errors
    /// Those of the expression.
    fn evaluate(&self, row: &RowValues<'_>, environment: &Environment) -> SqlResult<Datum>;

    /// Whether its value may be another one each time, for the same row.
    fn is_volatile(&self) -> bool;
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompareOperator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The columns of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RowValues<'a> {
    /// As they are stored.
    Stored {
        format: &'a RowFormat,
        key: &'a [u8],
        row: &'a [u8],
    },
    /// Decoded.
    Decoded(&'a [Datum]),
}

impl RowValues<'_> {
    /// A column.
    ///
    /// # Errors
    /// XX001 if the stored bytes are no row, or there is no such column.
    pub(crate) fn column(&self, number: usize) -> SqlResult<Datum> {
        match self {
            Self::Stored { format, key, row } => {
                let mut scratch = Vec::new();
                Ok(format.value(number, key, row, &mut scratch)?.to_datum())
            }
            Self::Decoded(values) => values.get(number).cloned().ok_or_else(|| {
                SqlError::corrupted(format!(
                    "a row of {} values has no column {number}",
                    values.len()
                ))
            }),
        }
    }
}

impl CompareOperator {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order == Ordering::Equal,
            Self::NotEqual => order != Ordering::Equal,
            Self::Less => order == Ordering::Less,
            Self::LessOrEqual => order != Ordering::Greater,
            Self::Greater => order == Ordering::Greater,
            Self::GreaterOrEqual => order != Ordering::Less,
        }
    }

    /// The same comparison with the operands exchanged.
    pub(crate) fn exchanged(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            same => same,
        }
    }
}

impl Scalar {
    /// The value for a row.
    ///
    /// # Errors
    /// Those of arithmetic and casts.
    pub(crate) fn evaluate(
        &self,
        row: &RowValues<'_>,
        environment: &Environment,
    ) -> SqlResult<Datum> {
        match self {
            Self::Column(number) => row.column(*number),
            Self::Parameter(number) => environment.parameter(*number).cloned(),
            Self::Constant(value) => Ok(value.clone()),
            Self::Now => Ok(Datum::I64(environment.now)),
            Self::Arithmetic {
                operator,
                of,
                operands,
            } => {
                let left = operands.0.evaluate(row, environment)?;
                operator.apply(*of, &left, &operands.1.evaluate(row, environment)?)
            }
            Self::Compare { operator, operands } => {
                let left = operands.0.evaluate(row, environment)?;
                let right = operands.1.evaluate(row, environment)?;
                if left == Datum::Null || right == Datum::Null {
                    return Ok(Datum::Null);
                }
                Ok(Datum::Bool(
                    operator.holds(left.value().total_cmp(right.value())),
                ))
            }
            Self::And(parts) => all(parts, false, row, environment),
            Self::Or(parts) => all(parts, true, row, environment),
            Self::Not(input) => Ok(match input.evaluate(row, environment)? {
                Datum::Bool(value) => Datum::Bool(!value),
                other => other,
            }),
            Self::IsNull(input, wanted) => {
                let is_null = input.evaluate(row, environment)? == Datum::Null;
                Ok(Datum::Bool(is_null == *wanted))
            }
            Self::Cast { to, input } => cast(input.evaluate(row, environment)?, *to),
            Self::Foreign(evaluator) => evaluator.evaluate(row, environment),
        }
    }

    /// Whether a condition holds: it is true, not null.
    ///
    /// # Errors
    /// As [`evaluate`](Self::evaluate).
    pub(crate) fn holds(&self, row: &RowValues<'_>, environment: &Environment) -> SqlResult<bool> {
        Ok(self.evaluate(row, environment)? == Datum::Bool(true))
    }

    /// Whether its value may be another one each time, for the same row.
    pub(crate) fn is_volatile(&self) -> bool {
        match self {
            Self::Column(_) | Self::Parameter(_) | Self::Constant(_) | Self::Now => false,
            Self::Arithmetic { operands, .. } | Self::Compare { operands, .. } => {
                operands.0.is_volatile() || operands.1.is_volatile()
            }
            Self::And(parts) | Self::Or(parts) => parts.iter().any(Self::is_volatile),
            Self::Not(input) | Self::IsNull(input, _) | Self::Cast { input, .. } => {
                input.is_volatile()
            }
            Self::Foreign(evaluator) => evaluator.is_volatile(),
        }
    }

    /// The value of an expression without columns.
    ///
    /// # Errors
    /// As [`evaluate`](Self::evaluate).
    pub(crate) fn constant(&self, environment: &Environment) -> SqlResult<Datum> {
        self.evaluate(&RowValues::Decoded(&[]), environment)
    }
}

/// Three-valued AND (`stop` is false) or OR (`stop` is true).
fn all(
    parts: &[Scalar],
    stop: bool,
    row: &RowValues<'_>,
    environment: &Environment,
) -> SqlResult<Datum> {
    let mut result = Datum::Bool(!stop);
    for part in parts {
        match part.evaluate(row, environment)? {
            Datum::Bool(value) if value == stop => return Ok(Datum::Bool(stop)),
            Datum::Bool(_) => {}
            _ => result = Datum::Null,
        }
    }
    Ok(result)
}

/// A number in another type of numbers; other values stay as they are.
pub(crate) fn cast(value: Datum, to: SqlType) -> SqlResult<Datum> {
    let number = match (value, to) {
        (Datum::Null, _) => return Ok(Datum::Null),
        (Datum::I64(number), SqlType::Float4 | SqlType::Float8) => Datum::F64(Float(number as f64)),
        (Datum::Decimal { unscaled, scale }, SqlType::Float4 | SqlType::Float8) => {
            let value = Datum::Decimal { unscaled, scale };
            let read = value.to_string().parse().map_err(|_| to.out_of_range())?;
            Datum::F64(Float(read))
        }
        (Datum::Decimal { unscaled, scale }, to) if to.is_integer() => {
            let whole = rescale_rounded(unscaled, scale, 0).ok_or_else(|| to.out_of_range())?;
            Datum::I64(i64::try_from(whole).map_err(|_| to.out_of_range())?)
        }
        (Datum::F64(number), to) if to.is_integer() => {
            // Half to even, as PostgreSQL rounds floating-point numbers.
            let whole = number.0.round_ties_even();
            let within =
                (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&whole);
            if !within {
                return Err(to.out_of_range());
            }
            Datum::I64(whole as i64)
        }
        (other, _) => other,
    };
    to.assign(number)
}

impl Environment {
    /// A parameter, counted from 0.
    ///
    /// # Errors
    /// 42P02 if it was not bound.
    #[inline]
    pub(crate) fn parameter(&self, number: usize) -> SqlResult<&Datum> {
        self.parameters.get(number).ok_or_else(|| {
            SqlError::new(
                sqlstate::UNDEFINED_PARAMETER,
                format!("there is no parameter ${}", number + 1),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> Environment {
        Environment {
            parameters: Arc::new([Datum::I64(7), Datum::Null]),
            now: 5,
            zone: TimeZone::Utc,
            guard: Guard::none(),
            session: 1,
        }
    }

    fn constant(scalar: &Scalar) -> Datum {
        scalar.constant(&environment()).unwrap()
    }

    #[test]
    fn null_is_neither_true_nor_false() {
        let (yes, no, null) = (
            Scalar::Constant(Datum::Bool(true)),
            Scalar::Constant(Datum::Bool(false)),
            Scalar::Parameter(1),
        );
        let and = |a: &Scalar, b: &Scalar| constant(&Scalar::And(vec![a.clone(), b.clone()]));
        let or = |a: &Scalar, b: &Scalar| constant(&Scalar::Or(vec![a.clone(), b.clone()]));
        assert_eq!(
            (and(&yes, &null), and(&null, &no)),
            (Datum::Null, Datum::Bool(false))
        );
        assert_eq!(
            (or(&no, &null), or(&null, &yes)),
            (Datum::Null, Datum::Bool(true))
        );
        let compare = Scalar::Compare {
            operator: CompareOperator::Equal,
            operands: Box::new((Scalar::Parameter(0), null.clone())),
        };
        assert_eq!(constant(&compare), Datum::Null);
        assert_eq!(
            constant(&Scalar::IsNull(Box::new(null), true)),
            Datum::Bool(true)
        );
    }

    #[test]
    fn casts_round_and_check_ranges() {
        let decimal = Datum::Decimal {
            unscaled: 25,
            scale: 1,
        };
        assert_eq!(cast(decimal, SqlType::Int4).unwrap(), Datum::I64(3));
        let float = |number| Datum::F64(Float(number));
        assert_eq!(cast(float(2.5), SqlType::Int4).unwrap(), Datum::I64(2));
        assert!(cast(float(1e19), SqlType::Int8).is_err());
        assert!(cast(Datum::I64(70_000), SqlType::Int2).is_err());
        assert_eq!(cast(Datum::I64(2), SqlType::Float8).unwrap(), float(2.0));
    }
}
