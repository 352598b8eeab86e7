//! Statements as sqlparser reads them, with limits.

use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::errors::parser_error;
use crate::error::{SqlError, SqlResult};
use crate::sqlstate;
use crate::syntax::{TokenKind, tokens};

/// How deep brackets may be nested.
const DEPTH_MAX: usize = 100;
/// Most operators of a statement: planning takes more than linear time, and cannot be cancelled.
const OPERATORS_MAX: usize = 1_000;
/// Most tokens of a statement other than INSERT.
const TOKENS_MAX: usize = 50_000;

/// The one statement of a text; `None` if there is none.
///
/// # Errors
/// 42601 if it is no statement; 54001 if it is too long or nested too deeply.
pub(super) fn parse(text: &str) -> SqlResult<Option<Statement>> {
    check_size(text)?;
    let mut statements = Parser::new(&PostgreSqlDialect {})
        .with_recursion_limit(DEPTH_MAX)
        .try_with_sql(text)
        .and_then(|mut parser| parser.parse_statements())
        .map_err(|error| parser_error(&error))?;
    if statements.len() > 1 {
        return Err(SqlError::syntax(
            "cannot insert multiple commands into a prepared statement",
        ));
    }
    Ok(statements.pop())
}

fn check_size(text: &str) -> SqlResult<()> {
    let found = tokens(text)?;
    let is_insert = found
        .first()
        .is_some_and(|it| it.text(text).eq_ignore_ascii_case("insert"));
    let is_operator = |word: &str| {
        [
            "and",
            "or",
            "union",
            "intersect",
            "except",
            "join",
            "case",
            "||",
        ]
        .iter()
        .any(|operator| operator.eq_ignore_ascii_case(word))
    };
    let operators = found.iter().filter(|token| match token.kind {
        TokenKind::Word => is_operator(token.text(text)),
        TokenKind::Symbol => !is_insert && "+-*/%<>=|&^~".contains(&token.text(text)[..1]),
        _ => false,
    });
    if operators.count() > OPERATORS_MAX {
        return Err(SqlError::new(
            sqlstate::STATEMENT_TOO_COMPLEX,
            format!("the statement has more than {OPERATORS_MAX} operators"),
        ));
    }
    if !is_insert && found.len() > TOKENS_MAX {
        return Err(SqlError::new(
            sqlstate::STATEMENT_TOO_COMPLEX,
            format!("the statement has more than {TOKENS_MAX} tokens"),
        )
        .with_hint("Compare with the rows of a table instead of a list, or send parameters."));
    }
    Ok(())
}
