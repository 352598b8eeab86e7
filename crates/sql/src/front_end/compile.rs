//! Plans as row programs, where one table is read by key or index.

use std::sync::Arc;

use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, FetchType, LogicalPlan, SkipType, TableScan};

use super::expression_parts::needs_rows;
use super::expressions::Columns;
use super::paths::choose_path;
use super::tables::SqlTable;
use crate::error::SqlResult;
use crate::program::{Access, CompareOperator, Path, Scalar, SelectProgram};

/// The parts of a plan that reads one table.
struct Parts<'p> {
    /// `None`: the columns of the scan.
    output: Option<&'p [Expr]>,
    filters: Vec<&'p Expr>,
    scan: Option<&'p TableScan>,
    skip: usize,
    limit: Option<usize>,
}

/// The program of a SELECT; `None` if there is none.
///
/// # Errors
/// Those of expressions that DataFusion cannot evaluate.
pub(super) fn select_program(plan: &LogicalPlan) -> SqlResult<Option<SelectProgram>> {
    let Some(parts) = parts_of(plan) else {
        return Ok(None);
    };
    let Some(found) = compile(&parts)? else {
        return Ok(None);
    };
    let is_bounded = match &found.access {
        None => true,
        Some(access) => match &access.path {
            Path::Key(_) => true,
            Path::Range { equal, .. } => {
                !equal.is_empty() || parts.limit.is_some_and(|it| it <= 1000)
            }
            // A view reads whole tables.
            Path::Full => false,
        },
    };
    if !is_bounded {
        return Ok(None);
    }
    Ok(Some(SelectProgram {
        access: found.access,
        output: found.output,
        skip: parts.skip,
        limit: parts.limit,
    }))
}

/// What a plan reads and returns, as a program.
pub(super) struct Compiled {
    pub(super) access: Option<Access>,
    pub(super) output: Vec<Scalar>,
}

/// The program of the rows that an UPDATE or a DELETE changes; `None` if there is none.
///
/// # Errors
/// As [`select_program`].
pub(super) fn change_program(plan: &LogicalPlan) -> SqlResult<Option<Compiled>> {
    match parts_of(plan) {
        Some(parts) if parts.skip == 0 && parts.limit.is_none() && parts.scan.is_some() => {
            compile(&parts)
        }
        _ => Ok(None),
    }
}

fn parts_of(plan: &LogicalPlan) -> Option<Parts<'_>> {
    let mut parts = Parts {
        output: None,
        filters: Vec::new(),
        scan: None,
        skip: 0,
        limit: None,
    };
    let mut rest = plan;
    if let LogicalPlan::Limit(limit) = rest {
        parts.skip = match limit.get_skip_type().ok()? {
            SkipType::Literal(skip) => skip,
            SkipType::UnsupportedExpr => return None,
        };
        parts.limit = match limit.get_fetch_type().ok()? {
            FetchType::Literal(fetch) => fetch,
            FetchType::UnsupportedExpr => return None,
        };
        rest = &limit.input;
    }
    loop {
        match rest {
            LogicalPlan::Projection(projection)
                if parts.output.is_none() && parts.filters.is_empty() =>
            {
                parts.output = Some(&projection.expr);
                rest = &projection.input;
            }
            LogicalPlan::Filter(filter) => {
                parts.filters.extend(split_conjunction(&filter.predicate));
                rest = &filter.input;
            }
            LogicalPlan::SubqueryAlias(alias) => rest = &alias.input,
            LogicalPlan::TableScan(scan) => {
                parts.scan = Some(scan);
                return Some(parts);
            }
            LogicalPlan::EmptyRelation(empty)
                if empty.produce_one_row && parts.filters.is_empty() =>
            {
                return parts.output.is_some().then_some(parts);
            }
            _ => return None,
        }
    }
}

fn compile(parts: &Parts<'_>) -> SqlResult<Option<Compiled>> {
    let expressions = parts.output.unwrap_or_default();
    if expressions
        .iter()
        .chain(parts.filters.iter().copied())
        .any(needs_rows)
    {
        return Ok(None);
    }
    let Some(scan) = parts.scan else {
        let scope = Columns::of_schema(&datafusion::arrow::datatypes::Schema::empty())?;
        let output = expressions.iter().map(|expr| scope.scalar(expr));
        return Ok(Some(Compiled {
            access: None,
            output: output.collect::<SqlResult<Vec<_>>>()?,
        }));
    };
    let Ok(provider) = source_as_provider(&scan.source) else {
        return Ok(None);
    };
    let Some(table) = provider.downcast_ref::<SqlTable>() else {
        return Ok(None);
    };
    let scope = Columns::of_schema(&datafusion::catalog::TableProvider::schema(table))?;
    let output = match parts.output {
        Some(expressions) => {
            let output = expressions.iter().map(|expr| scope.scalar(expr));
            output.collect::<SqlResult<Vec<_>>>()?
        }
        None => match &scan.projection {
            Some(columns) => columns.iter().map(|at| Scalar::Column(*at)).collect(),
            None => (0..scan.source.schema().fields().len())
                .map(Scalar::Column)
                .collect(),
        },
    };
    // Each condition with the filter that it is made of.
    let (mut conditions, mut origins) = (Vec::new(), Vec::new());
    for (at, filter) in parts.filters.iter().enumerate() {
        for condition in scope.conditions(filter).unwrap_or_default() {
            conditions.push(condition);
            origins.push(at);
        }
    }
    let chosen = choose_path(&table.relation, &conditions);
    let is_met = |filter: usize| {
        let of_filter = |condition: &usize| origins[*condition] == filter;
        let mut own = (0..conditions.len()).filter(of_filter);
        let (first, second) = (own.next(), own.next());
        match (first, second) {
            (Some(only), None) => {
                chosen.used.contains(&only) && conditions[only].operator == CompareOperator::Equal
            }
            _ => false,
        }
    };
    let filter = parts
        .filters
        .iter()
        .enumerate()
        .filter(|(at, _)| !is_met(*at));
    let filter = filter
        .map(|(_, expr)| scope.scalar(expr))
        .collect::<SqlResult<Vec<_>>>()?;
    Ok(Some(Compiled {
        access: Some(Access {
            relation: Arc::clone(&table.relation),
            path: chosen.path,
            filter,
        }),
        output,
    }))
}
