//! Plans as row programs, where one table is read by key or index.

use std::sync::Arc;

use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, FetchType, LogicalPlan, SkipType, SortExpr, TableScan};

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
    order: Option<Order<'p>>,
}

/// ORDER BY.
struct Order<'p> {
    by: &'p [SortExpr],
    /// Whether it names the columns of the output, not those of the scan.
    is_of_output: bool,
}

/// Most rows that a SELECT of no key and no range visits as a program: a view reads whole tables.
const ROWS_MAX: usize = 1000;

/// The program of a SELECT; `None` if there is none.
///
/// # Errors
/// Those of expressions that DataFusion cannot evaluate.
pub(super) fn select_program(plan: &LogicalPlan) -> SqlResult<Option<SelectProgram>> {
    let Some(parts) = parts_of(plan) else {
        return Ok(None);
    };
    let Some(mut found) = compile(&parts)? else {
        return Ok(None);
    };
    if let Some(access) = &mut found.access {
        if let Some(order) = &parts.order {
            let Some(is_descending) = key_order(access, order, parts.output) else {
                return Ok(None);
            };
            access.is_descending = is_descending;
        }
        let is_short = parts.limit.is_some_and(|it| it <= ROWS_MAX);
        let is_bounded = match &access.path {
            Path::Key(_) | Path::OneOf { .. } => true,
            Path::Range { equal, .. } => !equal.is_empty() || is_short,
            Path::Full => is_short && parts.skip <= ROWS_MAX && access.filter.is_empty(),
        };
        if !is_bounded {
            return Ok(None);
        }
    }
    Ok(Some(SelectProgram {
        access: found.access,
        output: found.output,
        skip: parts.skip,
        limit: parts.limit,
    }))
}

/// Whether rows come in the order of ORDER BY as they are visited: with false, in ascending order of the key, with true, in
/// descending order. `None`: neither.
fn key_order(access: &Access, order: &Order<'_>, output: Option<&[Expr]>) -> Option<bool> {
    let relation = &access.relation;
    let is_descending = !order.by.first()?.asc;
    let mut columns = Vec::with_capacity(order.by.len());
    for sort in order.by {
        if sort.asc == is_descending {
            return None;
        }
        let mut expr = &sort.expr;
        if let (Expr::Column(name), Some(output)) = (expr, output)
            && order.is_of_output
        {
            let is_named =
                |it: &&Expr| it.qualified_name() == (name.relation.clone(), name.name.clone());
            expr = output.iter().find(is_named)?;
        }
        while let Expr::Alias(alias) = expr {
            expr = &alias.expr;
        }
        let Expr::Column(column) = expr else {
            return None;
        };
        columns.push(relation.row.column(&column.name)?);
    }
    // Columns that have one value in all rows.
    let fixed: &[usize] = match &access.path {
        Path::Key(_) => return Some(false),
        Path::Full => &[],
        Path::Range {
            index: None, equal, ..
        } => &relation.layout.key()[..equal.len()],
        Path::OneOf {
            index: None,
            values,
        } => {
            let single = values.iter().take_while(|it| it.len() == 1).count();
            &relation.layout.key()[..single]
        }
        // Entries with equal values are in the order of the key.
        Path::Range {
            index: Some(index),
            equal,
            ..
        } if relation.row.indexes[*index].columns.len() == equal.len() => {
            &relation.row.indexes[*index].columns
        }
        Path::Range { .. } | Path::OneOf { .. } => return None,
    };
    let is_open = |column: &&usize| !fixed.contains(*column);
    let mut key = relation.layout.key().iter().filter(is_open);
    for column in columns.iter().filter(is_open) {
        match key.next() {
            // No two rows have one key.
            None => break,
            Some(next) if next == column => {}
            Some(_) => return None,
        }
    }
    Some(is_descending)
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
        Some(parts)
            if parts.skip == 0
                && parts.limit.is_none()
                && parts.order.is_none()
                && parts.scan.is_some() =>
        {
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
        order: None,
    };
    let mut rest = plan;
    let mut is_limited = false;
    loop {
        match rest {
            LogicalPlan::Limit(limit)
                if !is_limited && parts.order.is_none() && parts.filters.is_empty() =>
            {
                is_limited = true;
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
            LogicalPlan::Sort(sort) if parts.order.is_none() && parts.filters.is_empty() => {
                parts.order = Some(Order {
                    by: &sort.expr,
                    is_of_output: parts.output.is_none(),
                });
                if let Some(fetch) = sort.fetch {
                    let rows = fetch.saturating_sub(parts.skip);
                    parts.limit = Some(parts.limit.map_or(rows, |limit| limit.min(rows)));
                }
                rest = &sort.input;
            }
            LogicalPlan::Projection(projection)
                if parts.output.is_none() && parts.filters.is_empty() =>
            {
                parts.output = Some(&projection.expr);
                rest = &projection.input;
            }
            // Such as the one that leaves out a column of ORDER BY.
            LogicalPlan::Projection(projection)
                if parts.filters.is_empty()
                    && projection
                        .expr
                        .iter()
                        .all(|it| matches!(it, Expr::Column(_))) =>
            {
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
            is_descending: false,
            filter,
        }),
        output,
    }))
}
