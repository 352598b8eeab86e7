//! Arithmetic and casts as PostgreSQL has them: DataFusion's whole numbers wrap, and its casts truncate.
//!
//! An analyzer rule puts functions of ours in the place of operators on numbers, and rounds before a cast to one. It
//! runs after the coercion of types, so both operands have one type.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, new_empty_array};
use datafusion::arrow::compute::kernels::numeric;
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRewriter};
use datafusion::common::{DFSchema, Result as PlanResult};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{BinaryExpr, InList, ScalarFunction};
use datafusion::logical_expr::{
    Between, Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;

use super::arrow_values::{arrow_type, datum_at, field_type, scalar_value, sql_type_of};
use super::decimals::apply_decimal_rules;
use super::errors::{external, sql_error};
use super::expression_parts::like_arguments;
use super::plan_expressions::rewrite_expressions;
use super::sql_casts;
use crate::error::SqlResult;
use crate::program::ArithmeticOperator;
use crate::types::SqlType;

/// Replaces operators and casts.
#[derive(Debug)]
pub(super) struct CheckedArithmetic;

impl AnalyzerRule for CheckedArithmetic {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> PlanResult<LogicalPlan> {
        rewrite_expressions(plan, |expr, schema| expr.rewrite(&mut Rewriter { schema }))
    }

    fn name(&self) -> &str {
        "checked_arithmetic"
    }
}

/// The same for an expression without a plan.
pub(super) fn check_expression(expr: Expr, schema: &DFSchema) -> PlanResult<Expr> {
    apply_decimal_rules(expr.rewrite(&mut Rewriter { schema })?.data, schema)
}

struct Rewriter<'s> {
    schema: &'s DFSchema,
}

impl Rewriter<'_> {
    /// The type of an expression; `None` for a column of an outer query.
    fn type_of(&self, expr: &Expr) -> Option<SqlType> {
        let (_, field) = expr.to_field(self.schema).ok()?;
        Some(field_type(&field))
    }

    fn binary(&self, binary: BinaryExpr) -> PlanResult<Transformed<Expr>> {
        let BinaryExpr { left, op, right } = binary;
        let function = match op {
            Operator::Plus => Some(&CHECKED[0]),
            Operator::Minus => Some(&CHECKED[1]),
            Operator::Multiply => Some(&CHECKED[2]),
            Operator::Divide => Some(&CHECKED[3]),
            _ => None,
        };
        let Some(function) = function else {
            let (left, right) = if op.supports_propagation() {
                let (of_left, of_right) = (self.type_of(&left), self.type_of(&right));
                (self.like(of_right, *left)?, self.like(of_left, *right)?)
            } else {
                (*left, *right)
            };
            return Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr {
                left: Box::new(left),
                op,
                right: Box::new(right),
            })));
        };
        // A column of an outer query has no type here, and stays as it is.
        let types = (
            left.get_type(self.schema).ok(),
            right.get_type(self.schema).ok(),
        );
        Ok(match types {
            (Some(of), Some(other))
                if of == other
                    && (of.is_floating() || of.is_signed_integer() && op != Operator::Divide) =>
            {
                let args = vec![*left, *right];
                let call = ScalarFunction::new_udf(Arc::clone(function), args);
                Transformed::yes(Expr::ScalarFunction(call))
            }
            _ => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
        })
    }

    /// A text that is compared with a uuid or a `character` is one, too.
    fn like(&self, of: Option<SqlType>, part: Expr) -> PlanResult<Expr> {
        let Some(of @ (SqlType::Uuid | SqlType::Char { .. })) = of else {
            return Ok(part);
        };
        let Some(from) = self.type_of(&part) else {
            return Ok(part);
        };
        let is_like = match (of, from) {
            (SqlType::Uuid, SqlType::Text) => true,
            // A value of type `text` keeps the spaces at its end, and a `varchar` becomes a `character`.
            (_, SqlType::Text) => matches!(part, Expr::Literal(..)),
            (_, SqlType::Varchar { .. }) => of != SqlType::Uuid,
            _ => false,
        };
        if !is_like || part.get_type(self.schema).ok() != Some(DataType::Utf8) {
            return Ok(part);
        }
        let to = match of {
            SqlType::Uuid => of,
            // Not cut.
            _ => SqlType::BPCHAR,
        };
        sql_casts::check_literal(&part, to).map_err(external)?;
        Ok(sql_casts::call(part, from, to))
    }

    fn is_uuid<'e>(&self, mut branches: impl Iterator<Item = &'e Expr>) -> bool {
        branches.any(|branch| self.type_of(branch) == Some(SqlType::Uuid))
    }

    fn cast(&self, cast: Cast) -> PlanResult<Transformed<Expr>> {
        let Ok((_, from)) = cast.expr.to_field(self.schema) else {
            return Ok(Transformed::no(Expr::Cast(cast)));
        };
        let (of, to) = (field_type(&from), field_type(&cast.field));
        let is_known =
            arrow_type(of) == *from.data_type() && arrow_type(to) == *cast.field.data_type();
        if is_known && let Some(call) = sql_casts::sql_cast(&cast.expr, of, to).map_err(external)? {
            return Ok(Transformed::yes(call));
        }
        let rounds = cast.field.data_type().is_signed_integer()
            && matches!(
                from.data_type(),
                DataType::Float32 | DataType::Float64 | DataType::Decimal128(..)
            );
        // Rounded once: the rule may run again on its own result.
        let is_rounded = matches!(&*cast.expr, Expr::ScalarFunction(call) if call.func == *ROUND);
        if !rounds || is_rounded {
            return Ok(Transformed::no(Expr::Cast(cast)));
        }
        let call = ScalarFunction::new_udf(Arc::clone(&ROUND), vec![*cast.expr]);
        let input = Box::new(Expr::ScalarFunction(call));
        Ok(Transformed::yes(Expr::Cast(Cast::new_from_field(
            input, cast.field,
        ))))
    }
}

/// An expression that chooses among uuids is one: DataFusion takes it for a text.
fn named_uuid(expr: Expr, is_uuid: bool) -> Transformed<Expr> {
    if is_uuid {
        Transformed::yes(sql_casts::call(expr, SqlType::Text, SqlType::Uuid))
    } else {
        Transformed::no(expr)
    }
}

impl TreeNodeRewriter for Rewriter<'_> {
    type Node = Expr;

    fn f_up(&mut self, expr: Expr) -> PlanResult<Transformed<Expr>> {
        match expr {
            Expr::BinaryExpr(binary) => self.binary(binary),
            Expr::Cast(cast) => self.cast(cast),
            Expr::Negative(input) => match input.get_type(self.schema) {
                Ok(of) if of.is_signed_integer() => {
                    let zero = Expr::Literal(ScalarValue::new_zero(&of)?, None);
                    let args = vec![zero, *input];
                    let call = ScalarFunction::new_udf(Arc::clone(&CHECKED[1]), args);
                    Ok(Transformed::yes(Expr::ScalarFunction(call)))
                }
                // NaN has no sign, and stays the greatest number.
                Ok(of) if of.is_floating() => {
                    let minus = ScalarValue::Float64(Some(-1.0)).cast_to(&of)?;
                    let args = vec![*input, Expr::Literal(minus, None)];
                    let call = ScalarFunction::new_udf(Arc::clone(&CHECKED[2]), args);
                    Ok(Transformed::yes(Expr::ScalarFunction(call)))
                }
                _ => Ok(Transformed::no(Expr::Negative(input))),
            },
            Expr::Between(between) => {
                let of = self.type_of(&between.expr);
                Ok(Transformed::yes(Expr::Between(Between {
                    low: Box::new(self.like(of, *between.low)?),
                    high: Box::new(self.like(of, *between.high)?),
                    ..between
                })))
            }
            Expr::InList(list) => {
                let of = self.type_of(&list.expr);
                let items = list.list.into_iter().map(|item| self.like(of, item));
                Ok(Transformed::yes(Expr::InList(InList {
                    list: items.collect::<PlanResult<_>>()?,
                    ..list
                })))
            }
            Expr::Case(case) => {
                let branches = case.when_then_expr.iter().map(|(_, then)| &**then);
                let branches = branches.chain(case.else_expr.as_deref());
                let is_uuid = self.is_uuid(branches);
                Ok(named_uuid(Expr::Case(case), is_uuid))
            }
            // Half to even.
            Expr::ScalarFunction(call)
                if call.func.name() == "round"
                    && call.args.len() == 1
                    && matches!(
                        self.type_of(&call.args[0]),
                        Some(SqlType::Float4 | SqlType::Float8)
                    ) =>
            {
                let call = ScalarFunction::new_udf(Arc::clone(&ROUND), call.args);
                Ok(Transformed::yes(Expr::ScalarFunction(call)))
            }
            Expr::ScalarFunction(call)
                if ["coalesce", "nullif", "greatest", "least"].contains(&call.func.name()) =>
            {
                let is_uuid = self.is_uuid(call.args.iter());
                Ok(named_uuid(Expr::ScalarFunction(call), is_uuid))
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

/// In the order of [`CHECKED`].
const OPERATORS: [ArithmeticOperator; 4] = [
    ArithmeticOperator::Add,
    ArithmeticOperator::Subtract,
    ArithmeticOperator::Multiply,
    ArithmeticOperator::Divide,
];

static CHECKED: LazyLock<[Arc<ScalarUDF>; 4]> =
    LazyLock::new(|| OPERATORS.map(|operator| Arc::new(ScalarUDF::from(Checked::new(operator)))));
static ROUND: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(RoundToInteger::new())));

/// The operator that a function stands for.
pub(super) fn checked_operator(function: &ScalarUDF) -> Option<ArithmeticOperator> {
    let at = CHECKED.iter().position(|it| **it == *function)?;
    Some(OPERATORS[at])
}

/// Floating-point numbers of either width, which fail on overflow and on a division by zero.
fn floats(operator: ArithmeticOperator, left: &ArrayRef, right: &ArrayRef) -> SqlResult<ArrayRef> {
    let of = sql_type_of(left.data_type());
    let values = (0..left.len()).map(|row| {
        let (left, right) = (datum_at(left, row, of)?, datum_at(right, row, of)?);
        scalar_value(&operator.apply(of, &left, &right)?, of)
    });
    let values = values.collect::<SqlResult<Vec<_>>>()?;
    if values.is_empty() {
        return Ok(new_empty_array(left.data_type()));
    }
    ScalarValue::iter_to_array(values).map_err(sql_error)
}

/// An operator on numbers that fails on overflow.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operator: ArithmeticOperator,
    signature: Signature,
}

impl Checked {
    fn new(operator: ArithmeticOperator) -> Self {
        Self {
            operator,
            signature: Signature::any(2, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.operator {
            ArithmeticOperator::Add => "checked_add",
            ArithmeticOperator::Subtract => "checked_subtract",
            ArithmeticOperator::Divide => "checked_divide",
            _ => "checked_multiply",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> PlanResult<DataType> {
        Ok(arg_types.first().cloned().unwrap_or(DataType::Int64))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [left, right] = arrays.as_slice() else {
            return datafusion::common::internal_err!("{} takes two numbers", self.name());
        };
        let (left, right): (&ArrayRef, &ArrayRef) = (left, right);
        if left.data_type().is_floating() {
            let result = floats(self.operator, left, right).map_err(external)?;
            return like_arguments(&args.args, result);
        }
        let result = match self.operator {
            ArithmeticOperator::Add => numeric::add(left, right),
            ArithmeticOperator::Subtract => numeric::sub(left, right),
            _ => numeric::mul(left, right),
        };
        let result = result.map_err(|error| match error {
            ArrowError::ArithmeticOverflow(_) => {
                external(sql_type_of(left.data_type()).out_of_range())
            }
            other => other.into(),
        })?;
        like_arguments(&args.args, result)
    }
}

/// Rounds a number before it is cast to a whole one: floating-point numbers half to even, decimals half away from zero.
#[derive(Debug, PartialEq, Eq, Hash)]
struct RoundToInteger {
    signature: Signature,
}

impl RoundToInteger {
    fn new() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for RoundToInteger {
    fn name(&self) -> &str {
        "round_to_integer"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> PlanResult<DataType> {
        Ok(match arg_types.first() {
            Some(DataType::Decimal128(precision, scale)) => whole(*precision, *scale),
            Some(other) => other.clone(),
            None => DataType::Float64,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [array] = arrays.as_slice() else {
            return datafusion::common::internal_err!("round_to_integer takes one number");
        };
        let rounded: ArrayRef = match array.data_type() {
            DataType::Float32 => {
                let numbers = array.as_primitive::<Float32Type>();
                Arc::new(numbers.unary::<_, Float32Type>(f32::round_ties_even))
            }
            DataType::Float64 => {
                let numbers = array.as_primitive::<Float64Type>();
                Arc::new(numbers.unary::<_, Float64Type>(f64::round_ties_even))
            }
            // Arrow's cast to a smaller scale rounds half away from zero.
            DataType::Decimal128(precision, scale) => {
                datafusion::arrow::compute::cast(array, &whole(*precision, *scale))?
            }
            _ => Arc::clone(array),
        };
        like_arguments(&args.args, rounded)
    }
}

/// The decimal type of the rounded number, which may have a digit more.
fn whole(precision: u8, scale: i8) -> DataType {
    let digits = precision.saturating_sub(scale.max(0) as u8) + 1;
    DataType::Decimal128(digits.clamp(1, 38), 0)
}
