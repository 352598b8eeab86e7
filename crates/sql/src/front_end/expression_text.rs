//! The texts of CHECK constraints: which columns they name, and other names for these.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Ident, visit_expressions, visit_expressions_mut};
use datafusion::sql::sqlparser::keywords::ALL_KEYWORDS;

use super::names::identifier;
use super::rules::parse_expression;
use crate::error::SqlResult;
use crate::syntax::quoted;

/// A condition on the columns of one table.
pub(crate) struct Condition {
    /// Its text. Columns have no qualifiers: the table may be renamed.
    pub(crate) text: String,
    /// The names in it, each once.
    pub(crate) columns: Vec<String>,
}

/// Reads the text of a condition.
///
/// # Errors
/// 42601 if it is none.
pub(crate) fn condition(text: &str) -> SqlResult<Condition> {
    let mut expr = parse_expression(text)?;
    without_qualifiers(&mut expr);
    let mut columns = Vec::new();
    let _: ControlFlow<()> = visit_expressions(&expr, |part| {
        if let Expr::Identifier(name) = part {
            let name = identifier(name);
            if !columns.contains(&name) {
                columns.push(name);
            }
        }
        ControlFlow::Continue(())
    });
    Ok(Condition {
        text: expr.to_string(),
        columns,
    })
}

/// The text with another name for a column.
///
/// # Errors
/// As [`condition`].
pub(crate) fn with_renamed_column(text: &str, from: &str, to: &str) -> SqlResult<String> {
    let mut expr = parse_expression(text)?;
    let _: ControlFlow<()> = visit_expressions_mut(&mut expr, |part| {
        if let Expr::Identifier(name) = part
            && identifier(name) == from
        {
            *name = ident(to);
        }
        ControlFlow::Continue(())
    });
    Ok(expr.to_string())
}

fn without_qualifiers(expr: &mut Expr) {
    let _: ControlFlow<()> = visit_expressions_mut(expr, |part| {
        if let Expr::CompoundIdentifier(names) = part
            && let Some(last) = names.pop()
        {
            *part = Expr::Identifier(last);
        }
        ControlFlow::Continue(())
    });
}

/// A name as a statement has it: in quotes if it needs them.
fn ident(name: &str) -> Ident {
    let is_keyword = ALL_KEYWORDS
        .binary_search(&name.to_uppercase().as_str())
        .is_ok();
    if is_keyword || quoted(name).starts_with('"') {
        Ident::with_quote('"', name)
    } else {
        Ident::new(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_and_renamed() {
        let found = condition("t.a > 0 AND (b IS NULL OR a < lower(\"C\"))").unwrap();
        assert_eq!(found.columns, ["a", "b", "C"]);
        assert_eq!(found.text, "a > 0 AND (b IS NULL OR a < lower(\"C\"))");
        assert_eq!(
            with_renamed_column(&found.text, "a", "two words").unwrap(),
            "\"two words\" > 0 AND (b IS NULL OR \"two words\" < lower(\"C\"))"
        );
        assert_eq!(
            with_renamed_column("a > 0", "a", "order").unwrap(),
            "\"order\" > 0"
        );
        assert!(condition("a >").is_err());
    }
}
