//! Queries of the catalogue, as psql and pgbench write them.
//!
//! - A SELECT from a table that never has rows has none itself: its expressions need not be understood.
//! - `pg_get_indexdef(i.indexrelid, …)` and `pg_get_constraintdef(c.oid, …)` are columns of their tables here.
//! - A subquery for one value of the catalogue is an aggregate: DataFusion asks for that where it is correlated.
//! - `CROSS JOIN LATERAL (SELECT expression) AS o(n)`: the expression stands in place of `o.n`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::JoinOperator;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, Query, Select, SelectItem, SetExpr, Statement, TableFactor,
    TableWithJoins, Value, Visit, VisitMut, Visitor, VisitorMut,
};

use super::names::{identifier, table_name};
use super::output_columns::{hidden_name, name_of};
use super::system_tables::{find, is_always_empty};

/// Rewrites a statement that reads tables of the catalogue; others stay as they are.
pub(super) fn rewrite_catalogue(statement: &mut Statement) {
    // Whatever breaks off: there is nothing to be reported.
    let _: ControlFlow<()> = statement.visit(&mut Rewriter);
}

struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let all_empty = empty_parts(&mut query.body);
        if all_empty {
            // It may name what the emptied SELECT does not have.
            query.order_by = None;
            query.limit_clause = None;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        inline_laterals(select);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) => {
                if let Some(other) = definition_column(function).or_else(|| schemas(function)) {
                    *expr = other;
                }
            }
            Expr::Subquery(query) => {
                if empty_parts(&mut query.body) {
                    // One value of no row.
                    *expr = text_null();
                } else {
                    aggregate_one_value(query);
                    if let Some(condition) = outer_condition(query) {
                        let value = std::mem::replace(expr, null());
                        *expr = case_when(condition, value);
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The tables of a factor that is one: schema and name.
fn table_of(factor: &TableFactor) -> Option<(Option<String>, String)> {
    match factor {
        TableFactor::Table {
            name, args: None, ..
        } => table_name(name).ok(),
        _ => None,
    }
}

fn is_empty_table(factor: &TableFactor) -> bool {
    table_of(factor).is_some_and(|(schema, name)| is_always_empty(schema.as_deref(), &name))
}

/// Whether rows of the tables need a row of an empty one.
fn has_no_rows(from: &TableWithJoins) -> bool {
    let needed = |operator: &JoinOperator| {
        matches!(
            operator,
            JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_)
        )
    };
    is_empty_table(&from.relation)
        || from
            .joins
            .iter()
            .any(|join| needed(&join.join_operator) && is_empty_table(&join.relation))
}

/// Empties the parts of a set expression that have no rows; whether all have none.
fn empty_parts(body: &mut SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => {
            let is_empty = select.from.iter().any(has_no_rows)
                && select
                    .projection
                    .iter()
                    .all(|item| item_of(item).is_some_and(|expr| !has_aggregate(expr)));
            if is_empty {
                make_empty(select);
            }
            is_empty
        }
        SetExpr::SetOperation { left, right, .. } => {
            let (left, right) = (empty_parts(left), empty_parts(right));
            left && right
        }
        SetExpr::Query(query) => empty_parts(&mut query.body),
        _ => false,
    }
}

fn item_of(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// Whether an expression has an aggregate of its own query, not of a subquery.
fn has_aggregate(expr: &Expr) -> bool {
    expr.visit(&mut AggregateFinder { depth: 0 }).is_break()
}

struct AggregateFinder {
    /// How many subqueries are open.
    depth: usize,
}

impl Visitor for AggregateFinder {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        const NAMES: [&str; 9] = [
            "count",
            "sum",
            "min",
            "max",
            "avg",
            "array_agg",
            "string_agg",
            "bool_or",
            "bool_and",
        ];
        match expr {
            Expr::Function(function)
                if self.depth == 0 && NAMES.contains(&function_name(function).as_str()) =>
            {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

fn function_name(function: &Function) -> String {
    let last = function.name.0.last().and_then(|part| part.as_ident());
    last.map(|ident| ident.value.to_lowercase())
        .unwrap_or_default()
}

fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

/// The same columns, all null, and a condition that is never true.
fn make_empty(select: &mut Select) {
    let mut names = std::collections::HashSet::new();
    for (at, item) in select.projection.iter_mut().enumerate() {
        let alias = match item {
            SelectItem::ExprWithAlias { alias, .. } => alias.clone(),
            SelectItem::UnnamedExpr(expr) => {
                let name = name_of(expr).filter(|name| name != "?column?");
                let name = name.unwrap_or_else(|| format!("?column?{at}"));
                if names.insert(name.clone()) {
                    Ident::with_quote('"', name)
                } else {
                    hidden_name(at, &name)
                }
            }
            _ => continue,
        };
        *item = SelectItem::ExprWithAlias {
            expr: text_null(),
            alias,
        };
    }
    select.from.clear();
    select.selection = Some(Expr::Value(Value::Boolean(false).into()));
    select.having = None;
}

/// NULL::text
fn text_null() -> Expr {
    use datafusion::sql::sqlparser::ast::{CastKind, DataType};
    Expr::Cast {
        kind: CastKind::DoubleColon,
        expr: Box::new(null()),
        data_type: DataType::Text,
        array: false,
        format: None,
    }
}

/// `ARRAY['pg_catalog', 'public']` for `current_schemas(…)`.
fn schemas(function: &Function) -> Option<Expr> {
    if function_name(function) != "current_schemas" {
        return None;
    }
    let text = |name: &str| Expr::Value(Value::SingleQuotedString(name.to_owned()).into());
    Some(Expr::Array(Array {
        elem: vec![text("pg_catalog"), text("public")],
        named: true,
    }))
}

/// `i.indexdef` for `pg_get_indexdef(i.indexrelid, …)`, `c.condef` for `pg_get_constraintdef(c.oid, …)`.
fn definition_column(function: &Function) -> Option<Expr> {
    let (argument, column) = match function_name(function).as_str() {
        "pg_get_indexdef" => ("indexrelid", "indexdef"),
        "pg_get_constraintdef" => ("oid", "condef"),
        _ => return None,
    };
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    match list.args.first()? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::CompoundIdentifier(parts))) => {
            let (last, qualifier) = parts.split_last()?;
            if identifier(last) != argument {
                return None;
            }
            let mut parts = qualifier.to_vec();
            parts.push(Ident::new(column));
            Some(Expr::CompoundIdentifier(parts))
        }
        _ => None,
    }
}

/// `(SELECT x FROM pg_attrdef d WHERE …)` as `(SELECT max(x) …)`, if all its tables are the catalogue's.
fn aggregate_one_value(query: &mut Query) {
    if query.limit_clause.is_some() || query.with.is_some() {
        return;
    }
    let SetExpr::Select(select) = &mut *query.body else {
        return;
    };
    if !is_of_catalogue(select) || select.from.iter().any(|from| !from.joins.is_empty()) {
        return;
    }
    if let [SelectItem::UnnamedExpr(expr)] = select.projection.as_mut_slice()
        && !has_aggregate(expr)
    {
        let argument = std::mem::replace(expr, null());
        *expr = call("max", argument);
    }
}

/// Whether a SELECT reads tables, and all of them are the catalogue's.
fn is_of_catalogue(select: &Select) -> bool {
    let is_system = |factor: &TableFactor| {
        table_of(factor).is_some_and(|(schema, name)| find(schema.as_deref(), &name).is_some())
    };
    let mut factors = select.from.iter().flat_map(|from| {
        let joined = from.joins.iter().map(|join| &join.relation);
        std::iter::once(&from.relation).chain(joined)
    });
    !select.from.is_empty() && factors.all(is_system)
}

/// Takes a condition on an outer column alone, such as `a.atthasdef`, out of a subquery over tables of the catalogue.
fn outer_condition(query: &mut Query) -> Option<Expr> {
    let SetExpr::Select(select) = &mut *query.body else {
        return None;
    };
    if !is_of_catalogue(select) {
        return None;
    }
    let inner: Vec<String> = select
        .from
        .iter()
        .flat_map(|from| {
            let joined = from.joins.iter().map(|join| &join.relation);
            std::iter::once(&from.relation).chain(joined)
        })
        .filter_map(|factor| match factor {
            TableFactor::Table {
                alias: Some(alias), ..
            } => Some(identifier(&alias.name)),
            other => table_of(other).map(|(_, name)| name),
        })
        .collect();
    let is_outer = |expr: &Expr| match expr {
        Expr::CompoundIdentifier(parts) => {
            matches!(parts.as_slice(), [qualifier, _] if !inner.contains(&identifier(qualifier)))
        }
        _ => false,
    };
    match select.selection.take() {
        Some(Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        }) if is_outer(&right) => {
            select.selection = Some(*left);
            Some(*right)
        }
        other => {
            select.selection = other;
            None
        }
    }
}

/// `CASE WHEN condition THEN value END`
fn case_when(condition: Expr, value: Expr) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen {
            condition,
            result: value,
        }],
        else_result: None,
    }
}

fn call(name: &str, argument: Expr) -> Expr {
    use datafusion::sql::sqlparser::ast::{FunctionArgumentList, ObjectName};
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Takes lateral subqueries of single expressions out of FROM, and puts the expressions where their columns were named.
fn inline_laterals(select: &mut Select) {
    let is_wildcard = |item: &SelectItem| {
        matches!(
            item,
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)
        )
    };
    if select.projection.iter().any(is_wildcard) {
        return;
    }
    let mut found: Vec<(String, String, Expr)> = Vec::new();
    for from in &mut select.from {
        from.joins
            .retain(|join| match lateral_expressions(&join.relation) {
                Some(expressions) if matches!(join.join_operator, JoinOperator::CrossJoin(_)) => {
                    found.extend(expressions);
                    false
                }
                _ => true,
            });
    }
    if found.is_empty() {
        return;
    }
    let _: ControlFlow<()> = select.visit(&mut Inliner(&found));
}

/// The expressions of `LATERAL (SELECT a, b) AS o(x, y)`: qualifier, name and expression of each.
fn lateral_expressions(factor: &TableFactor) -> Option<Vec<(String, String, Expr)>> {
    let TableFactor::Derived {
        lateral: true,
        subquery,
        alias: Some(alias),
        ..
    } = factor
    else {
        return None;
    };
    let SetExpr::Select(select) = &*subquery.body else {
        return None;
    };
    let is_plain = select.from.is_empty()
        && select.selection.is_none()
        && select.having.is_none()
        && select.distinct.is_none()
        && subquery.with.is_none()
        && subquery.limit_clause.is_none()
        && alias.columns.len() == select.projection.len();
    if !is_plain {
        return None;
    }
    let qualifier = identifier(&alias.name);
    let pairs = select.projection.iter().zip(&alias.columns);
    pairs
        .map(|(item, column)| {
            let expr = item_of(item).filter(|expr| !has_aggregate(expr))?;
            Some((qualifier.clone(), identifier(&column.name), expr.clone()))
        })
        .collect()
}

struct Inliner<'e>(&'e [(String, String, Expr)]);

impl VisitorMut for Inliner<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [qualifier, name] = parts.as_slice()
        {
            let (qualifier, name) = (identifier(qualifier), identifier(name));
            if let Some((_, _, inlined)) = self
                .0
                .iter()
                .find(|(of, column, _)| *of == qualifier && *column == name)
            {
                *expr = Expr::Nested(Box::new(inlined.clone()));
            }
        }
        ControlFlow::Continue(())
    }
}
