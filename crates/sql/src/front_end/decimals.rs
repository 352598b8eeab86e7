//! Decimals as PostgreSQL has them: a quotient has at least sixteen digits behind the point, and is rounded; a number that is
//! rounded to a constant number of digits has so many.
//!
//! An analyzer rule puts a function in the place of the division, after the coercion of types.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, i256};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result as PlanResult};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{BinaryExpr, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;

use super::errors::external;
use super::expression_parts::like_arguments;
use super::plan_expressions::rewrite_expressions;
use crate::error::{SqlError, SqlResult};
use crate::sqlstate;
use crate::types::{POWERS_OF_TEN, SqlType};

/// Digits behind the point of a quotient, at least and at most.
const SCALE_MIN: u8 = 16;
const SCALE_MAX: u8 = 30;
/// All digits.
const DIGITS_MAX: u8 = 38;

/// Replaces divisions, and the digits that numbers are rounded to.
#[derive(Debug)]
pub(super) struct DecimalRules;

impl AnalyzerRule for DecimalRules {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> PlanResult<LogicalPlan> {
        rewrite_expressions(plan, |expr, schema| {
            expr.transform_up(|part| apply(part, schema))
        })
    }

    fn name(&self) -> &str {
        "decimal_rules"
    }
}

/// The same for an expression without a plan.
pub(super) fn apply_decimal_rules(expr: Expr, schema: &DFSchema) -> PlanResult<Expr> {
    let rewritten = expr.transform_up(|part| apply(part, schema))?;
    Ok(rewritten.data)
}

/// The quotient of two decimals. Before the coercion of types, so that it is compared with what has its type.
pub(super) fn quotient(left: Expr, right: Expr) -> Expr {
    let call = ScalarFunction::new_udf(Arc::clone(&DIVIDE), vec![left, right]);
    Expr::ScalarFunction(call)
}

fn apply(expr: Expr, schema: &DFSchema) -> PlanResult<Transformed<Expr>> {
    let is_decimal = |operand: &Expr| {
        let of = operand.get_type(schema);
        of.is_ok_and(|of| matches!(of, DataType::Decimal128(..)))
    };
    match expr {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Divide,
            right,
        }) if is_decimal(&left) && is_decimal(&right) => {
            Ok(Transformed::yes(quotient(*left, *right)))
        }
        Expr::ScalarFunction(mut call) if ["round", "trunc"].contains(&call.func.name()) => {
            // The type of the result depends on it, and is decided on before casts are folded.
            let places = call.args.get(1).and_then(constant_places);
            match places {
                Some(places) => {
                    call.args[1] = Expr::Literal(ScalarValue::Int32(Some(places)), None);
                    Ok(Transformed::yes(Expr::ScalarFunction(call)))
                }
                None => Ok(Transformed::no(Expr::ScalarFunction(call))),
            }
        }
        other => Ok(Transformed::no(other)),
    }
}

/// A constant number of digits that is no literal of its type yet.
fn constant_places(expr: &Expr) -> Option<i32> {
    match expr {
        Expr::Cast(cast) if *cast.field.data_type() == DataType::Int32 => match &*cast.expr {
            Expr::Literal(ScalarValue::Int64(places), _) => i32::try_from((*places)?).ok(),
            Expr::Negative(input) => match &**input {
                Expr::Literal(ScalarValue::Int64(places), _) => {
                    i32::try_from((*places)?.checked_neg()?).ok()
                }
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// The function in the place of the operator.
static DIVIDE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    Arc::new(ScalarUDF::from(Division {
        signature: Signature::any(2, Volatility::Immutable),
    }))
});

#[derive(Debug, PartialEq, Eq, Hash)]
struct Division {
    signature: Signature,
}

/// Precision and scale of a decimal.
fn decimal(of: &DataType) -> Option<(u8, u8)> {
    match of {
        DataType::Decimal128(precision, scale) => {
            Some((*precision, u8::try_from(*scale).unwrap_or(0)))
        }
        _ => None,
    }
}

/// Precision and scale of a quotient.
fn quotient_type((precision, scale): (u8, u8), (_, divisor_scale): (u8, u8)) -> (u8, u8) {
    let shown = scale.max(divisor_scale).clamp(SCALE_MIN, SCALE_MAX);
    let whole = precision.saturating_sub(scale) + divisor_scale;
    ((whole + shown).min(DIGITS_MAX), shown)
}

impl ScalarUDFImpl for Division {
    fn name(&self) -> &str {
        "divide_numeric"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> PlanResult<DataType> {
        match types
            .iter()
            .map(decimal)
            .collect::<Option<Vec<_>>>()
            .as_deref()
        {
            Some([left, right]) => {
                let (precision, scale) = quotient_type(*left, *right);
                Ok(DataType::Decimal128(precision, scale as i8))
            }
            _ => datafusion::common::plan_err!("{} takes two decimals", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [left, right] = arrays.as_slice() else {
            return datafusion::common::internal_err!("{} takes two numbers", self.name());
        };
        let (Some(left_type), Some(right_type)) =
            (decimal(left.data_type()), decimal(right.data_type()))
        else {
            return datafusion::common::internal_err!("{} takes two decimals", self.name());
        };
        let (precision, scale) = quotient_type(left_type, right_type);
        // Never negative: the quotient has at least the scale of the dividend.
        let shift = (scale + right_type.1).saturating_sub(left_type.1);
        let (left, right): (&Decimal128Array, &Decimal128Array) = (
            left.as_primitive::<Decimal128Type>(),
            right.as_primitive::<Decimal128Type>(),
        );
        let quotients = (0..left.len()).map(|row| {
            if left.is_null(row) || right.is_null(row) {
                return Ok(None);
            }
            divide(left.value(row), right.value(row), shift, precision).map(Some)
        });
        let quotients: Decimal128Array = quotients.collect::<SqlResult<_>>().map_err(external)?;
        let quotients: ArrayRef =
            Arc::new(quotients.with_precision_and_scale(precision, scale as i8)?);
        like_arguments(&args.args, quotients)
    }
}

/// The quotient with so many more digits behind the point, rounded half away from zero.
fn divide(left: i128, right: i128, shift: u8, precision: u8) -> SqlResult<i128> {
    if right == 0 {
        return Err(SqlError::new(
            sqlstate::DIVISION_BY_ZERO,
            "division by zero",
        ));
    }
    let short = POWERS_OF_TEN
        .get(usize::from(shift))
        .and_then(|power| left.checked_mul(*power))
        .and_then(|dividend| {
            let (quotient, rest) = (dividend.checked_div(right)?, dividend.checked_rem(right)?);
            let up = rest.unsigned_abs() >= right.unsigned_abs().div_ceil(2);
            let step = if (dividend < 0) == (right < 0) { 1 } else { -1 };
            Some(if up { quotient + step } else { quotient })
        });
    let quotient = match short {
        Some(quotient) => Some(quotient),
        None => divide_wide(left, right, shift),
    };
    quotient
        .filter(|it| it.unsigned_abs() < POWERS_OF_TEN[usize::from(precision)].unsigned_abs())
        .ok_or_else(|| SqlType::NUMERIC.out_of_range())
}

/// The same for dividends of more than 38 digits; `None` for a quotient of so many.
fn divide_wide(left: i128, right: i128, shift: u8) -> Option<i128> {
    let power = i256::from_i128(10).checked_pow(shift.into())?;
    let dividend = i256::from_i128(left).checked_mul(power)?;
    let divisor = i256::from_i128(right);
    let (quotient, rest) = (
        dividend.checked_div(divisor)?,
        dividend.checked_rem(divisor)?,
    );
    let twice = rest.checked_abs()?.checked_mul(i256::from_i128(2))?;
    let step = if (left < 0) == (right < 0) { 1 } else { -1 };
    let rounded = if twice >= divisor.checked_abs()? {
        quotient.checked_add(i256::from_i128(step))?
    } else {
        quotient
    };
    rounded.to_i128()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_are_rounded_half_away_from_zero() {
        assert_eq!(divide(1, 3, 4, 38).unwrap(), 3333);
        assert_eq!(divide(2, 3, 4, 38).unwrap(), 6667);
        assert_eq!(divide(-2, 3, 4, 38).unwrap(), -6667);
        assert_eq!(divide(1, -2, 0, 38).unwrap(), -1);
        assert_eq!(divide(-1, -2, 0, 38).unwrap(), 1);
        assert_eq!(divide(4, 2, 3, 38).unwrap(), 2000);
        assert_eq!(
            divide(1, 0, 0, 38).unwrap_err().sqlstate(),
            sqlstate::DIVISION_BY_ZERO
        );
    }

    #[test]
    fn long_dividends_are_divided_as_short_ones() {
        let mut number: i128 = 1;
        for shift in 0..20 {
            for divisor in [1, 3, -7, 1 << 40, i128::from(u64::MAX)] {
                number = number.wrapping_mul(-73) % POWERS_OF_TEN[17];
                let short = divide(number, divisor, shift, 38).unwrap();
                assert_eq!(
                    divide_wide(number, divisor, shift),
                    Some(short),
                    "{number} / {divisor}, {shift}"
                );
            }
        }
        // 45 digits in between.
        let quotient = divide(POWERS_OF_TEN[29], POWERS_OF_TEN[20], 16, 38);
        assert_eq!(quotient.unwrap(), POWERS_OF_TEN[25]);
        let error = divide(POWERS_OF_TEN[30], 1, 16, 38).unwrap_err();
        assert_eq!(error.sqlstate(), sqlstate::NUMERIC_VALUE_OUT_OF_RANGE);
    }
}
