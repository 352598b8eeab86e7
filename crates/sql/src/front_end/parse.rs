//! Statements as sqlparser reads them, with limits.

use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::errors::parser_error;
use crate::error::{SqlError, SqlResult};
use crate::sqlstate;
use crate::syntax::{Token, TokenKind, tokens};

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
    let is_word = |token: &Token, word: &str| {
        token.kind == TokenKind::Word && token.text(text).eq_ignore_ascii_case(word)
    };
    let is_insert = found.first().is_some_and(|it| is_word(it, "insert"));
    // Each value of a list of rows is an expression of its own.
    let is_of_values = is_insert && !found.iter().any(|it| is_word(it, "select"));
    if operators(&found, text, is_of_values) > OPERATORS_MAX {
        return Err(SqlError::new(
            sqlstate::STATEMENT_TOO_COMPLEX,
            format!("the statement has more than {OPERATORS_MAX} operators"),
        ));
    }
    if !is_of_values && found.len() > TOKENS_MAX {
        return Err(SqlError::new(
            sqlstate::STATEMENT_TOO_COMPLEX,
            format!("the statement has more than {TOKENS_MAX} tokens"),
        )
        .with_hint("Compare with the rows of a table instead of a list, or send parameters."));
    }
    Ok(())
}

/// The number of operators: of all, or of the value that has most. Chains of them become trees that are as deep.
fn operators(found: &[Token], text: &str, for_each_value: bool) -> usize {
    const WORDS: [&str; 14] = [
        "and",
        "or",
        "union",
        "intersect",
        "except",
        "join",
        "case",
        "is",
        "isnull",
        "notnull",
        "collate",
        "at",
        "like",
        "ilike",
    ];
    let (mut most, mut all) = (0, 0);
    // The operators of the values that are open, one in another.
    let mut open = vec![0_usize];
    for token in found {
        let word = token.text(text);
        let is_operator = match token.kind {
            TokenKind::Word => WORDS.iter().any(|it| it.eq_ignore_ascii_case(word)),
            TokenKind::Symbol => "+-*/%<>=|&^~:[!#@".contains(&word[..1]),
            _ => false,
        };
        if is_operator {
            all += 1;
            if let Some(count) = open.last_mut() {
                *count += 1;
                most = most.max(*count);
            }
        } else if word == "(" {
            open.push(0);
        } else if word == ")" && open.len() > 1 {
            open.pop();
        } else if word == "," {
            *open.last_mut().unwrap_or(&mut 0) = 0;
        }
    }
    if for_each_value { most } else { all }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_chains_of_operators_are_refused() {
        let refused = |text: &str| parse(text).is_err_and(|error| error.sqlstate() == "54001");
        let sum = |length: usize| format!("1{}", "+1".repeat(length));
        assert!(refused(&format!("SELECT {}", sum(2000))));
        assert!(refused(&format!("INSERT INTO t VALUES ({})", sum(2000))));
        assert!(refused(&format!(
            "INSERT INTO t VALUES (f(2, 3){})",
            "+f(2, 3)".repeat(2000)
        )));
        assert!(refused(&format!("SELECT 1{}", "::int".repeat(2000))));
        assert!(refused(&format!(
            "SELECT a{} FROM t",
            " IS NULL".repeat(2000)
        )));
        let rows = vec!["(-1, '2026-01-01'::date, 1 + 1)"; 3000].join(", ");
        assert!(parse(&format!("INSERT INTO t VALUES {rows}")).is_ok());
    }
}
