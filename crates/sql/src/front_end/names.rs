//! Names and parameters in the tree of a statement.

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Query, SetExpr, Value, ValueWithSpan,
};

use crate::error::{SqlError, SqlResult};
use crate::sqlstate;

/// The schema, if it is said, and the name.
///
/// # Errors
/// 42601 for a name of more than three parts.
pub(super) fn table_name(name: &ObjectName) -> SqlResult<(Option<String>, String)> {
    let parts: Vec<String> = name
        .0
        .iter()
        .filter_map(|part| part.as_ident())
        .map(identifier)
        .collect();
    match parts.as_slice() {
        [table] => Ok((None, table.clone())),
        [schema, table] | [_, schema, table] => Ok((Some(schema.clone()), table.clone())),
        _ => Err(SqlError::syntax(format!("improper qualified name: {name}"))),
    }
}

/// A name as it is meant: in lower case unless it is quoted.
pub(super) fn identifier(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// A column that does not exist.
pub(super) fn no_column(name: &str, table: &str) -> SqlError {
    SqlError::new(
        sqlstate::UNDEFINED_COLUMN,
        format!("column \"{name}\" of relation \"{table}\" does not exist"),
    )
}

/// Whether a value is the word DEFAULT.
pub(super) fn is_default(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// The number of a parameter, counted from 0, if the expression is nothing else.
pub(super) fn parameter_number(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(ValueWithSpan {
            value: Value::Placeholder(name),
            ..
        }) => name
            .strip_prefix('$')?
            .parse::<usize>()
            .ok()?
            .checked_sub(1)
            .filter(|it| *it < 65_535),
        Expr::Nested(inner) => parameter_number(inner),
        _ => None,
    }
}

/// Whether a query selects into a table.
pub(super) fn has_into(query: &Query) -> bool {
    matches!(&*query.body, SetExpr::Select(select) if select.into.is_some())
}
