//! Parts of expressions.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::common::Result as PlanResult;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{ColumnarValue, Expr};
use datafusion::scalar::ScalarValue;

use super::errors::sql_error;
use crate::error::SqlResult;

/// The name of the parameter that is the time at which the transaction began.
pub(super) const NOW: &str = "$now";

/// The name of the parameter that is the number of the session.
pub(super) const SESSION: &str = "$session";

/// Whether an expression needs more than its own row.
pub(super) fn needs_rows(expr: &Expr) -> bool {
    expr.exists(|part| {
        Ok(matches!(
            part,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
                | Expr::Unnest(_)
                | Expr::GroupingSet(_)
        ))
    })
    .unwrap_or(true)
}

/// The numbers of the parameters of an expression, counted from 1.
pub(super) fn parameters_of(expr: &Expr) -> SqlResult<Vec<Placeholder>> {
    let mut found: Vec<Placeholder> = Vec::new();
    expr.apply(|part| {
        if let Expr::Placeholder(placeholder) = part
            && !found.iter().any(|it| it.id == placeholder.id)
        {
            found.push(placeholder.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(sql_error)?;
    Ok(found)
}

/// A single value if all arguments were single values.
pub(super) fn like_arguments(
    args: &[ColumnarValue],
    result: ArrayRef,
) -> PlanResult<ColumnarValue> {
    if args
        .iter()
        .all(|arg| matches!(arg, ColumnarValue::Scalar(_)))
        && result.len() == 1
    {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
            &result, 0,
        )?));
    }
    Ok(ColumnarValue::Array(result))
}
