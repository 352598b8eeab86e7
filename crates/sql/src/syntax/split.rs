//! The statements of one message of the simple protocol.

use super::lexer::{TokenKind, tokens};
use crate::error::SqlResult;

/// The statements between semicolons, without empty ones.
///
/// # Errors
/// 42601 for a literal or a comment without an end.
pub(crate) fn split(text: &str) -> SqlResult<Vec<&str>> {
    let mut statements = Vec::new();
    let mut first = None;
    let mut end = 0;
    for token in tokens(text)? {
        if token.kind == TokenKind::Symbol && token.text(text) == ";" {
            if let Some(start) = first.take() {
                statements.push(&text[start..end]);
            }
        } else {
            first.get_or_insert(token.start);
            end = token.end;
        }
    }
    if let Some(start) = first {
        statements.push(&text[start..end]);
    }
    Ok(statements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semicolons_separate_statements_outside_of_literals() {
        let found = split("BEGIN; ; SELECT ';' -- ;\n, 1;/* ; */ END").unwrap();
        assert_eq!(found, ["BEGIN", "SELECT ';' -- ;\n, 1", "END"]);
        assert!(split(" ; -- nothing").unwrap().is_empty());
    }
}
