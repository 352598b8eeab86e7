//! What PostgreSQL accepts and DataFusion does not, rewritten in the statement's tree.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, DataType, Expr, Ident, LockClause, Query, Statement, TableAlias,
    TableAliasColumnDef, TableFactor, VisitMut, VisitorMut,
};

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::names::identifier;
use super::typed_numbers::type_number;
use crate::error::{SqlError, SqlResult};

/// Rewrites a statement.
///
/// # Errors
/// 0A000 for what would be ignored silently: FOR UPDATE and its like.
pub(super) fn rewrite(statement: &mut Statement) -> SqlResult<()> {
    super::regclass::rewrite_regclass(statement);
    super::rewrite_catalogue::rewrite_catalogue(statement);
    super::rewrite_shape::rewrite_shape(statement)?;
    match statement.visit(&mut Rewriter) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        if let Some(LockClause { lock_type, .. }) = query.locks.first() {
            let what = format!("FOR {lock_type}");
            return ControlFlow::Break(SqlError::unsupported(what).with_hint(
                "Transactions are serializable: a row that was read and has changed ends one with 40001, so no lock is \
                 needed.",
            ));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        // `generate_series(…) AS bid` names the function's one column, too.
        let (is_function, alias) = match factor {
            TableFactor::Table {
                args: Some(_),
                alias,
                ..
            }
            | TableFactor::Function { alias, .. } => (true, alias),
            TableFactor::Table { alias, .. } => (false, alias),
            _ => return ControlFlow::Continue(()),
        };
        if let Some(TableAlias { name, columns, .. }) = alias
            && is_function
            && columns.is_empty()
        {
            columns.push(TableAliasColumnDef {
                name: name.clone(),
                data_type: None,
            });
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match expr {
            Expr::Collate { expr: inner, .. } => {
                // There is one collation: the order of bytes.
                let inner = std::mem::replace(&mut **inner, empty());
                *expr = inner;
            }
            Expr::AnyOp {
                left,
                compare_op: BinaryOperator::Eq,
                right,
                ..
            } => {
                if let Expr::Array(Array { elem, .. }) = &mut **right {
                    let (left, list) = (
                        std::mem::replace(&mut **left, empty()),
                        std::mem::take(elem),
                    );
                    *expr = in_list(left, list, false);
                }
            }
            Expr::AllOp {
                left,
                compare_op: BinaryOperator::NotEq,
                right,
            } => {
                if let Expr::Array(Array { elem, .. }) = &mut **right {
                    let (left, list) = (
                        std::mem::replace(&mut **left, empty()),
                        std::mem::take(elem),
                    );
                    *expr = in_list(left, list, true);
                }
            }
            Expr::Cast { data_type, .. } => {
                if let Some(plain) = plain_type(data_type) {
                    *data_type = plain;
                }
            }
            Expr::BinaryOp { op, left, right } => {
                if is_arithmetic(op) {
                    type_number(left);
                    type_number(right);
                }
                if let BinaryOperator::PGCustomBinaryOperator(parts) = op
                    && let Some(plain) = plain_operator(parts)
                {
                    *op = plain;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn is_arithmetic(operator: &BinaryOperator) -> bool {
    matches!(
        operator,
        BinaryOperator::Plus
            | BinaryOperator::Minus
            | BinaryOperator::Multiply
            | BinaryOperator::Divide
            | BinaryOperator::Modulo
    )
}

/// A place holder in the tree while a part of it is moved.
fn empty() -> Expr {
    Expr::Identifier(Ident::new(""))
}

fn in_list(left: Expr, list: Vec<Expr>, negated: bool) -> Expr {
    Expr::InList {
        expr: Box::new(left),
        list,
        negated,
    }
}

/// `pg_catalog.text` and its like. Names of objects are texts to those who read them.
fn plain_type(data_type: &DataType) -> Option<DataType> {
    let DataType::Custom(name, modifiers) = data_type else {
        return None;
    };
    let parts: Vec<String> = name
        .0
        .iter()
        .filter_map(|part| part.as_ident())
        .map(identifier)
        .collect();
    let (schema, last) = match parts.as_slice() {
        [last] => (None, last.as_str()),
        [schema, last] => (Some(schema.as_str()), last.as_str()),
        _ => return None,
    };
    match (schema, last) {
        (_, "regtype" | "regproc" | "regnamespace" | "name") => Some(DataType::Text),
        (Some("pg_catalog"), last) => {
            let text = if modifiers.is_empty() {
                last.to_owned()
            } else {
                format!("{last}({})", modifiers.join(","))
            };
            let mut parser = Parser::new(&PostgreSqlDialect {})
                .try_with_sql(&text)
                .ok()?;
            parser.parse_data_type().ok()
        }
        _ => None,
    }
}

/// `OPERATOR(pg_catalog.~)` and its like.
fn plain_operator(parts: &[String]) -> Option<BinaryOperator> {
    Some(match parts.last()?.as_str() {
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "~~" => BinaryOperator::PGLikeMatch,
        "=" => BinaryOperator::Eq,
        "<>" => BinaryOperator::NotEq,
        _ => return None,
    })
}
