//! `'name'::regclass` and `to_regclass('name')`: the number of a table, an index or a sequence.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Statement, Value,
    VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::names::identifier;
use crate::syntax::TokenReader;

/// Replaces names of relations by subqueries of the catalogue. One that there is not is null.
pub(super) fn rewrite_regclass(statement: &mut Statement) {
    // Whatever breaks off: there is nothing to be reported.
    let _: ControlFlow<()> = statement.visit(&mut Rewriter);
}

struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr {
            keep_sequence_name(function);
        }
        // As a text, it is its name.
        if let Expr::Cast {
            expr: inner,
            data_type: DataType::Text | DataType::Varchar(None),
            ..
        } = &*expr
            && let Some(name) = relation_name(inner)
        {
            *expr = Expr::Value(Value::SingleQuotedString(name).into());
        } else if let Some(name) = relation_name(expr)
            && let Some(number) = number_of(&name)
        {
            *expr = number;
        }
        ControlFlow::Continue(())
    }
}

/// `nextval('name'::regclass)` is read with the name.
fn keep_sequence_name(function: &mut Function) {
    let last = function.name.0.last().and_then(|part| part.as_ident());
    let name = last.map(identifier).unwrap_or_default();
    let FunctionArguments::List(list) = &mut function.args else {
        return;
    };
    if let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))) = list.args.first_mut()
        && ["nextval", "setval", "currval"].contains(&name.as_str())
        && let Some(name) = relation_name(argument)
    {
        *argument = Expr::Value(Value::SingleQuotedString(name).into());
    }
}

/// The name in `'name'::regclass` or `to_regclass('name')`.
fn relation_name(expr: &Expr) -> Option<String> {
    let text = |expr: &Expr| match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    };
    let name = match expr {
        Expr::Cast {
            expr, data_type, ..
        } => {
            let is_regclass = match data_type {
                DataType::Regclass => true,
                DataType::Custom(name, _) => {
                    let last = name.0.last().and_then(|part| part.as_ident());
                    last.is_some_and(|last| identifier(last) == "regclass")
                }
                _ => false,
            };
            text(expr).filter(|_| is_regclass)?
        }
        Expr::Function(function) => {
            let last = function.name.0.last().and_then(|part| part.as_ident())?;
            let FunctionArguments::List(list) = &function.args else {
                return None;
            };
            match list.args.as_slice() {
                [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))]
                    if identifier(last) == "to_regclass" =>
                {
                    text(argument)?
                }
                _ => return None,
            }
        }
        _ => return None,
    };
    // A number stands for itself.
    let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    (!is_number).then_some(name)
}

fn number_of(name: &str) -> Option<Expr> {
    let mut reader = TokenReader::new(name).ok()?;
    let (_, table) = reader.qualified_name().ok()?;
    reader.end().ok()?;
    let text = format!(
        "(SELECT max(oid) FROM pg_catalog.pg_class WHERE relname = '{}')",
        table.replace('\'', "''")
    );
    Parser::new(&PostgreSqlDialect {})
        .try_with_sql(&text)
        .and_then(|mut parser| parser.parse_expr())
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front_end::parse::parse;

    #[test]
    fn names_become_numbers_or_stay_names() {
        let rewritten = |text: &str| {
            let mut statement = parse(text).unwrap().unwrap();
            rewrite_regclass(&mut statement);
            statement.to_string()
        };
        let number = "(SELECT max(oid) FROM pg_catalog.pg_class WHERE relname = 'Shop')";
        let text = rewritten("SELECT 'public.\"Shop\"'::regclass, to_regclass('\"Shop\"')");
        assert_eq!(text, format!("SELECT {number}, {number}"));
        let text = rewritten("SELECT 'shop'::regclass::text, '12'::regclass");
        assert_eq!(text, "SELECT 'shop', '12'::REGCLASS");
        let text = rewritten("SELECT nextval('q'::regclass)");
        assert_eq!(text, "SELECT nextval('q')");
    }
}
