//! Operands of different types, before DataFusion finds one type for both: where PostgreSQL decides otherwise.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::logical_expr::expr::{BinaryExpr, InList};
use datafusion::logical_expr::{Between, Cast, Expr, ExprSchemable, Operator};
use datafusion::scalar::ScalarValue;

use super::decimals::quotient;
use super::float_extremes::ordered_extreme;

/// The expression with casts around operands that need them:
/// - A decimal beside a floating-point number becomes one, too: DataFusion has it the other way.
/// - A date and an interval are a timestamp.
/// - A text literal in arithmetic is a number.
/// - The quotient of decimals is ours (`decimals.rs`).
/// - `min` and `max` of floating-point numbers are ours.
/// - `ceil`, `floor` and `trunc` of a decimal have no digits behind the point.
pub(super) fn cast_operands(expr: Expr, schema: &DFSchema) -> Expr {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (left, right) = binary(*left, op, *right, schema);
            if op == Operator::Divide
                && let Some((left, right)) = decimals_of(&left, &right, schema)
            {
                return quotient(left, right);
            }
            Expr::BinaryExpr(BinaryExpr {
                left: Box::new(left),
                op,
                right: Box::new(right),
            })
        }
        Expr::Between(between) => {
            let of = between.expr.get_type(schema);
            let like = |part: Box<Expr>| Box::new(like_float(*part, of.as_ref().ok(), schema));
            Expr::Between(Between {
                low: like(between.low),
                high: like(between.high),
                ..between
            })
        }
        Expr::InList(list) => {
            let of = list.expr.get_type(schema);
            let like = |part: Expr| like_float(part, of.as_ref().ok(), schema);
            let items = list.list.into_iter().map(like).collect();
            Expr::InList(InList {
                list: items,
                ..list
            })
        }
        // Its type depends on a constant, which a cast would hide.
        Expr::ScalarFunction(mut call) if call.func.name() == "round" => {
            if let Some(digits @ Expr::Literal(ScalarValue::Int64(Some(_)), _)) =
                call.args.get_mut(1)
                && let Expr::Literal(ScalarValue::Int64(Some(number)), _) = &*digits
                && let Ok(number) = i32::try_from(*number)
            {
                *digits = Expr::Literal(ScalarValue::Int32(Some(number)), None);
            }
            Expr::ScalarFunction(call)
        }
        Expr::ScalarFunction(call)
            if ["ceil", "floor", "trunc"].contains(&call.func.name()) && call.args.len() == 1 =>
        {
            let of = call.args[0].get_type(schema);
            let call = Expr::ScalarFunction(call);
            match of {
                // A whole number, which may have a digit more.
                Ok(of @ DataType::Decimal128(precision, scale)) if scale > 0 => {
                    let digits = precision.saturating_sub(scale.unsigned_abs()) + 1;
                    cast(call, &of, DataType::Decimal128(digits.clamp(1, 38), 0))
                }
                _ => call,
            }
        }
        Expr::AggregateFunction(call) => Expr::AggregateFunction(ordered_extreme(call, schema)),
        other => other,
    }
}

fn binary(left: Expr, op: Operator, right: Expr, schema: &DFSchema) -> (Expr, Expr) {
    // Columns of an outer query have no type here.
    let (Ok(of_left), Ok(of_right)) = (left.get_type(schema), right.get_type(schema)) else {
        return (left, right);
    };
    let is_arithmetic = matches!(
        op,
        Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo
    );
    if !is_arithmetic && !op.supports_propagation() {
        return (left, right);
    }
    match (&of_left, &of_right) {
        (DataType::Float32 | DataType::Float64, DataType::Decimal128(..))
        | (DataType::Decimal128(..), DataType::Float32 | DataType::Float64) => (
            cast(left, &of_left, DataType::Float64),
            cast(right, &of_right, DataType::Float64),
        ),
        (DataType::Date32, DataType::Interval(_)) => (cast(left, &of_left, timestamp()), right),
        (DataType::Interval(_), DataType::Date32) if op == Operator::Plus => {
            (left, cast(right, &of_right, timestamp()))
        }
        (number, DataType::Utf8) if is_arithmetic && number.is_numeric() && is_text(&right) => {
            let number = number.clone();
            (left, cast(right, &of_right, number))
        }
        (DataType::Utf8, number) if is_arithmetic && number.is_numeric() && is_text(&left) => {
            let number = number.clone();
            (cast(left, &of_left, number), right)
        }
        _ => (left, right),
    }
}

/// Both as decimals, if one is a decimal and the other one a number that can be one.
fn decimals_of(left: &Expr, right: &Expr, schema: &DFSchema) -> Option<(Expr, Expr)> {
    let (of_left, of_right) = (left.get_type(schema).ok()?, right.get_type(schema).ok()?);
    let is_decimal = |of: &DataType| matches!(of, DataType::Decimal128(..));
    if !is_decimal(&of_left) && !is_decimal(&of_right) {
        return None;
    }
    let as_decimal = |expr: &Expr, of: &DataType| {
        let digits = match of {
            DataType::Decimal128(..) => return Some(expr.clone()),
            DataType::Int16 => 5,
            DataType::Int32 => 10,
            DataType::Int64 => 19,
            _ => return None,
        };
        Some(cast(expr.clone(), of, DataType::Decimal128(digits, 0)))
    };
    Some((as_decimal(left, &of_left)?, as_decimal(right, &of_right)?))
}

fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if !value.is_null())
}

fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

fn cast(expr: Expr, from: &DataType, to: DataType) -> Expr {
    if *from == to {
        return expr;
    }
    Expr::Cast(Cast::new(Box::new(expr), to))
}

/// A decimal that is compared with a floating-point number.
fn like_float(part: Expr, other: Option<&DataType>, schema: &DFSchema) -> Expr {
    let is_float = matches!(other, Some(DataType::Float32 | DataType::Float64));
    match part.get_type(schema) {
        Ok(of @ DataType::Decimal128(..)) if is_float => cast(part, &of, DataType::Float64),
        _ => part,
    }
}
