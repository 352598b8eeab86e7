//! The names and types of a statement's columns.

use datafusion::common::DFSchema;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Ident, Query, Select, SelectItem, SetExpr, TrimWhereField,
};

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
    let order = query.order_by.as_ref().map(ToString::to_string);
    let order = order.unwrap_or_default();
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
        // `SELECT a::text … ORDER BY t.a` sorts by the column that was cast.
        let is_cast = !is_computed && !is_column(expr);
        let hides = is_cast && name_of(expr).is_some_and(|it| order.contains(&format!(".{it}")));
        if is_new && !has_wildcard && (is_distinct || !may_equal) && !hides {
            continue;
        }
        *item = SelectItem::ExprWithAlias {
            expr: expr.clone(),
            alias: Ident::with_quote('"', format!("{HIDDEN}{at}")),
        };
    }
}

/// Keeps the name of a function that the rewriting replaces.
pub(super) fn keep_name(item: &mut SelectItem, at: usize, name: &str) {
    if let SelectItem::UnnamedExpr(expr) = item {
        *item = SelectItem::ExprWithAlias {
            expr: expr.clone(),
            alias: hidden_name(at, name),
        };
    }
}

/// An alias that no other column has, and that is shown as this name.
pub(super) fn hidden_name(at: usize, name: &str) -> Ident {
    Ident::with_quote('"', format!("{HIDDEN}{at}{HIDDEN}{name}"))
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
    let mut seen = std::collections::HashSet::new();
    for (at, item) in select.projection.iter_mut().enumerate() {
        let SelectItem::UnnamedExpr(expr) = item else {
            continue;
        };
        // The second time, a column has no name by which it could be found.
        let is_new = seen.insert(without_casts(expr).to_string());
        if is_column(without_casts(expr)) && is_new {
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
                let said = alias
                    .value
                    .get(1..)
                    .and_then(|rest| rest.split_once(HIDDEN));
                names.push(match said {
                    Some((_, name)) => Some(name.to_owned()),
                    None => name_of(expr),
                });
            }
            SelectItem::ExprWithAlias { alias, .. } => names.push(Some(identifier(alias))),
            SelectItem::ExprWithAliases { .. } => names.push(None),
        }
    }
    names
}

/// The name of an expression without alias; `None` for a column: the plan has its name.
pub(super) fn name_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::CompoundIdentifier(parts) => parts.last().map(identifier),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => name_of(inner),
        _ => Some(figure(expr).1),
    }
}

/// How well a name suits an expression, from 0 (none) to 2, and the name.
fn figure(expr: &Expr) -> (u8, String) {
    let good = |name: &str| (2, name.to_owned());
    match expr {
        Expr::Identifier(ident) => (2, identifier(ident)),
        Expr::CompoundIdentifier(parts) => parts
            .last()
            .map_or_else(|| (0, UNNAMED.to_owned()), |last| (2, identifier(last))),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => figure(inner),
        Expr::Function(function) => {
            let last = function.name.0.last().and_then(|part| part.as_ident());
            (2, last.map(identifier).unwrap_or_default())
        }
        // A number that the rewriting has given its type.
        Expr::Cast {
            kind: CastKind::Cast,
            data_type: DataType::Int4(None),
            ..
        } => (0, UNNAMED.to_owned()),
        Expr::Cast {
            expr, data_type, ..
        } => match figure(expr) {
            (2, name) => (2, name),
            _ => (1, type_name(data_type)),
        },
        Expr::TypedString(typed) => (1, type_name(&typed.data_type)),
        Expr::Case { else_result, .. } => match else_result.as_deref().map(figure) {
            Some((2, name)) => (2, name),
            _ => (1, "case".to_owned()),
        },
        Expr::Subquery(query) => {
            match select_of(query).map(|select| select.projection.as_slice()) {
                Some([SelectItem::ExprWithAlias { alias, .. }])
                    if !alias.value.starts_with(HIDDEN) =>
                {
                    (2, identifier(alias))
                }
                Some([SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }]) => {
                    figure(expr)
                }
                _ => (0, UNNAMED.to_owned()),
            }
        }
        Expr::Trim { trim_where, .. } => good(match trim_where {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        }),
        Expr::Exists { .. } => good("exists"),
        Expr::Extract { .. } => good("extract"),
        Expr::Substring {
            shorthand: true, ..
        } => good("substr"),
        Expr::Substring { .. } => good("substring"),
        Expr::Position { .. } => good("position"),
        Expr::Ceil { .. } => good("ceil"),
        Expr::Floor { .. } => good("floor"),
        Expr::Array(_) => good("array"),
        Expr::Tuple(_) => good("row"),
        _ => (0, UNNAMED.to_owned()),
    }
}

/// What PostgreSQL calls an expression without a name.
const UNNAMED: &str = "?column?";

fn type_name(data_type: &DataType) -> String {
    match super::ddl_types::sql_type_of_ast(data_type) {
        Ok(of) => short_name(of).to_owned(),
        Err(_) => data_type.to_string().to_lowercase(),
    }
}

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
