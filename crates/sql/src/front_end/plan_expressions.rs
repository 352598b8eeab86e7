//! Rewriting the expressions of a plan, for the analyzer rules that do so.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result as PlanResult};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Rewrites each expression of a plan and of its subqueries. `rewrite` is given the columns that the expression may name;
/// the names of the results stay.
///
/// # Errors
/// Those of `rewrite`.
pub(super) fn rewrite_expressions(
    plan: LogicalPlan,
    mut rewrite: impl FnMut(Expr, &DFSchema) -> PlanResult<Transformed<Expr>>,
) -> PlanResult<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|plan| {
        let mut schema = merge_schema(&plan.inputs());
        if let LogicalPlan::TableScan(scan) = &plan {
            let name = scan.table_name.clone();
            let source = DFSchema::try_from_qualified_schema(name, &scan.source.schema())?;
            schema.merge(&source);
        }
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let rewritten = rewrite(expr, &schema)?;
            Ok(rewritten.update_data(|expr| name.restore(expr)))
        })?
        .map_data(LogicalPlan::recompute_schema)
    })?;
    Ok(rewritten.data)
}
