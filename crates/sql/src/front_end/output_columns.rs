//! The names and types of a statement's columns.

use datafusion::common::DFSchema;
use datafusion::sql::sqlparser::ast::{Expr, Ident, Query, Select, SelectItem, SetExpr};

use super::arrow_values::{field_type, origin};
use super::names::identifier;
use crate::types::SqlType;

/// A column of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutputColumn {
    pub(crate) name: String,
    pub(crate) sql_type: SqlType,
    /// The table's number and the column's, counted from 1; zeros for an expression.
    pub(crate) table: u32,
    pub(crate) column: i16,
}

impl OutputColumn {
    /// A column that is no table's.
    pub(crate) fn new(name: impl Into<String>, sql_type: SqlType) -> Self {
        Self {
            name: name.into(),
            sql_type,
            table: 0,
            column: 0,
        }
    }
}

/// The columns of a plan, under the names that PostgreSQL gives to expressions.
pub(super) fn output_columns(schema: &DFSchema, query: Option<&Query>) -> Vec<OutputColumn> {
    let names = query
        .and_then(select_of)
        .map(|select| names_of(select, schema.fields().len()));
    let mut names = names.unwrap_or_default().into_iter();
    let column = |(_, field): (_, &std::sync::Arc<datafusion::arrow::datatypes::Field>)| {
        let (table, column) = origin(field).unwrap_or_default();
        OutputColumn {
            name: names
                .next()
                .flatten()
                .unwrap_or_else(|| field.name().clone()),
            sql_type: field_type(field),
            table,
            column,
        }
    };
    schema.iter().map(column).collect()
}

/// The SELECT that names the columns: of a UNION, the first one.
fn select_of(query: &Query) -> Option<&Select> {
    let mut body = &*query.body;
    loop {
        match body {
            SetExpr::Select(select) => return Some(select),
            SetExpr::Query(inner) => body = &inner.body,
            SetExpr::SetOperation { left, .. } => body = left,
            _ => return None,
        }
    }
}

/// Gives columns that DataFusion would take for one, such as `5, 5` or `id, *`, names of their own; clients see those that
/// PostgreSQL gives.
pub(super) fn tell_apart(query: &mut Query) {
    let SetExpr::Select(select) = &mut *query.body else {
        return;
    };
    let has_wildcard = select.projection.iter().any(is_wildcard);
    let is_distinct = select.distinct.is_some();
    let mut seen = std::collections::HashSet::new();
    let mut has_computed = false;
    for (at, item) in select.projection.iter_mut().enumerate() {
        let SelectItem::UnnamedExpr(expr) = item else {
            continue;
        };
        // A cast has the name of what is cast, brackets have none, and all subqueries have the same.
        let is_computed = !is_column(without_casts(expr));
        let may_equal = is_computed && has_computed;
        has_computed |= is_computed;
        let is_new = seen.insert(without_casts(expr).to_string());
        if is_new && !has_wildcard && (is_distinct || !may_equal) {
            continue;
        }
        *item = SelectItem::ExprWithAlias {
            expr: expr.clone(),
            alias: Ident::with_quote('"', format!("{HIDDEN}{at}")),
        };
    }
}

/// The same for the parts of a query within a statement: a function's column has its name, where one column has it.
pub(super) fn tell_apart_parts(body: &mut SetExpr) {
    let select = match body {
        SetExpr::Select(select) => select,
        SetExpr::SetOperation { left, right, .. } => {
            tell_apart_parts(left);
            tell_apart_parts(right);
            return;
        }
        _ => return,
    };
    if select.distinct.is_some() || select.projection.iter().any(is_wildcard) {
        return;
    }
    let names: Vec<Option<String>> = select
        .projection
        .iter()
        .map(|item| match item {
            SelectItem::UnnamedExpr(expr) => name_of(expr),
            SelectItem::ExprWithAlias { alias, .. } => Some(identifier(alias)),
            _ => None,
        })
        .collect();
    for (at, item) in select.projection.iter_mut().enumerate() {
        let SelectItem::UnnamedExpr(expr) = item else {
            continue;
        };
        if is_column(without_casts(expr)) {
            continue;
        }
        let own = names.get(at).cloned().flatten().filter(|name| {
            let is_function = matches!(expr, Expr::Function(_));
            is_function
                && names
                    .iter()
                    .flatten()
                    .filter(|other| *other == name)
                    .count()
                    == 1
        });
        *item = SelectItem::ExprWithAlias {
            expr: expr.clone(),
            alias: Ident::with_quote('"', own.unwrap_or_else(|| format!("{HIDDEN}{at}"))),
        };
    }
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

fn without_casts(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast { expr, .. } | Expr::Nested(expr) => without_casts(expr),
        other => other,
    }
}

/// What hidden names begin with.
const HIDDEN: char = '\u{0}';

fn is_wildcard(item: &SelectItem) -> bool {
    matches!(
        item,
        SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)
    )
}

/// One name for each column; `None` where the plan's name is right.
fn names_of(select: &Select, columns: usize) -> Vec<Option<String>> {
    let items = &select.projection;
    let wildcards = items.iter().filter(|item| is_wildcard(item)).count();
    let others = items.len() - wildcards;
    if wildcards > 1 || others > columns || wildcards == 0 && others != columns {
        return Vec::new();
    }
    let mut names = Vec::with_capacity(columns);
    for item in items {
        match item {
            SelectItem::UnnamedExpr(expr) => names.push(name_of(expr)),
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => {
                names.extend(std::iter::repeat_n(None, columns - others));
            }
            SelectItem::ExprWithAlias { expr, alias } if alias.value.starts_with(HIDDEN) => {
                names.push(name_of(expr));
            }
            SelectItem::ExprWithAlias { alias, .. } => names.push(Some(identifier(alias))),
            SelectItem::ExprWithAliases { .. } => names.push(None),
        }
    }
    names
}

/// The name of an expression without alias; `None` for a column: the plan has its name.
pub(super) fn name_of(expr: &Expr) -> Option<String> {
    Some(match expr {
        Expr::Identifier(ident) => identifier(ident),
        Expr::CompoundIdentifier(parts) => return parts.last().map(identifier),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => return name_of(inner),
        Expr::Function(function) => {
            let last = function.name.0.last().and_then(|part| part.as_ident())?;
            identifier(last)
        }
        Expr::Cast {
            expr, data_type, ..
        } => match name_of(expr) {
            Some(name) if name != UNNAMED => name,
            _ => match super::ddl_types::sql_type_of_ast(data_type) {
                Ok(of) => short_name(of).to_owned(),
                Err(_) => data_type.to_string().to_lowercase(),
            },
        },
        Expr::Case { .. } => "case".to_owned(),
        Expr::Exists { .. } => "exists".to_owned(),
        Expr::Extract { .. } => "extract".to_owned(),
        Expr::Substring { .. } => "substring".to_owned(),
        Expr::Position { .. } => "position".to_owned(),
        Expr::Array(_) => "array".to_owned(),
        Expr::TypedString(_) => return None,
        _ => UNNAMED.to_owned(),
    })
}

/// What PostgreSQL calls an expression without a name.
const UNNAMED: &str = "?column?";

/// The name in `pg_type`, after which a cast is called.
fn short_name(of: SqlType) -> &'static str {
    match of {
        SqlType::Bool => "bool",
        SqlType::Int2 => "int2",
        SqlType::Int4 => "int4",
        SqlType::Int8 => "int8",
        SqlType::Float4 => "float4",
        SqlType::Float8 => "float8",
        SqlType::Varchar { .. } => "varchar",
        SqlType::Char { .. } => "bpchar",
        SqlType::Timestamp => "timestamp",
        SqlType::Timestamptz => "timestamptz",
        other => other.name(),
    }
}
