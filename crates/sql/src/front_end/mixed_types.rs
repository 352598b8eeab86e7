//! Operands of different types, before DataFusion finds one type for both: where PostgreSQL decides otherwise.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, Result as PlanResult};
use datafusion::logical_expr::expr::{BinaryExpr, InList};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Between, Cast, Expr, ExprSchemable, Operator};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::BinaryOperator;

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
            let parts = [&*between.expr, &*between.low, &*between.high];
            let to = float_of(&parts, schema).map(|_| DataType::Float64);
            let like = |part: Box<Expr>| Box::new(like_float(*part, to.as_ref(), schema));
            Expr::Between(Between {
                expr: like(between.expr),
                low: like(between.low),
                high: like(between.high),
                ..between
            })
        }
        Expr::InList(list) => {
            let parts: Vec<&Expr> = std::iter::once(&*list.expr).chain(&list.list).collect();
            // Of several values, the list has one type; one is compared as by `=`.
            let to = match float_of(&parts, schema) {
                Some(of) if list.list.len() > 1 => Some(of),
                found => found.map(|_| DataType::Float64),
            };
            let like = |part: Expr| like_float(part, to.as_ref(), schema);
            Expr::InList(InList {
                expr: Box::new(like(*list.expr)),
                list: list.list.into_iter().map(like).collect(),
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

/// Reads a text literal beside a value of another type as one of that type, before DataFusion refuses both.
#[derive(Debug)]
pub(super) struct TextOperands;

impl ExprPlanner for TextOperands {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> PlanResult<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = expr;
        let is_arithmetic = matches!(
            op,
            BinaryOperator::Plus
                | BinaryOperator::Minus
                | BinaryOperator::Multiply
                | BinaryOperator::Divide
                | BinaryOperator::Modulo
        );
        let is_comparison = matches!(
            op,
            BinaryOperator::Eq
                | BinaryOperator::NotEq
                | BinaryOperator::Lt
                | BinaryOperator::LtEq
                | BinaryOperator::Gt
                | BinaryOperator::GtEq
        );
        // Columns of an outer query have no type here.
        let like = |part: Expr, other: &Expr| {
            let (Ok(from), Ok(to)) = (part.get_type(schema), other.get_type(schema)) else {
                return part;
            };
            let is_read = match to {
                DataType::Boolean | DataType::Timestamp(..) => is_comparison,
                DataType::Int16 | DataType::Int32 | DataType::Int64 => is_arithmetic,
                DataType::Float32 | DataType::Float64 => is_arithmetic,
                _ => false,
            };
            if is_read && from == DataType::Utf8 && is_text(&part) {
                cast(part, &from, to)
            } else {
                part
            }
        };
        let (new_left, new_right) = (like(left.clone(), &right), like(right, &left));
        Ok(PlannerResult::Original(RawBinaryExpr {
            op,
            left: new_left,
            right: new_right,
        }))
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

/// The longest type of the floating-point numbers among expressions.
fn float_of(parts: &[&Expr], schema: &DFSchema) -> Option<DataType> {
    let types = parts.iter().filter_map(|part| part.get_type(schema).ok());
    let floats: Vec<DataType> = types.filter(DataType::is_floating).collect();
    if floats.contains(&DataType::Float64) {
        return Some(DataType::Float64);
    }
    floats.into_iter().next()
}

/// A decimal that is compared with a floating-point number of this type.
fn like_float(part: Expr, to: Option<&DataType>, schema: &DFSchema) -> Expr {
    match (part.get_type(schema), to) {
        (Ok(of @ DataType::Decimal128(..)), Some(to)) => cast(part, &of, to.clone()),
        _ => part,
    }
}
