//! Forms of queries that DataFusion reads in another way than PostgreSQL, or not at all.
//!
//! | form | becomes |
//! |---|---|
//! | `FETCH FIRST n ROWS ONLY` | `LIMIT n` |
//! | `1e15` | `1000000000000000`; a floating-point number where that has more than 38 digits |
//! | `~a` | `(a # -1)` |
//! | `to_timestamp(a)` | a `timestamptz` |
//! | `mod(a, b)`, `every`, `variance`, `sign` | `a % b`, `bool_and`, `var_samp`, `signum` |
//! | `SELECT a + 1, sum(b)` in a subquery | columns with names of their own |
//! | `1` as a result | an `integer`, as in arithmetic |
//! | `extract(year FROM d)`, `date_part` | a `numeric`, a floating-point number |
//! | `generate_series` outside of FROM, INTERSECT ALL, EXCEPT ALL, FULL JOIN … USING | refused: the answers would be wrong |
//! | a join without a condition | a syntax error |

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, DateTimeField, ExactNumberInfo, Expr, Function,
    FunctionArg, FunctionArgExpr, FunctionArguments, Ident, JoinConstraint, JoinOperator,
    LimitClause, ObjectName, Query, Select, SelectItem, SetExpr, SetOperator, SetQuantifier,
    Statement, TimezoneInfo, UnaryOperator, Value, VisitMut, VisitorMut,
};

use super::names::identifier;
use super::output_columns::{keep_name, tell_apart_parts};
use super::typed_numbers::type_number;
use crate::error::{SqlError, SqlResult};
use crate::sqlstate;
use crate::types::parse_numeric;

/// Rewrites a statement.
///
/// # Errors
/// 0A000 and 42601 for what is refused; 42809 for `count()`.
pub(super) fn rewrite_shape(statement: &mut Statement) -> SqlResult<()> {
    let mut rewriter = Rewriter {
        // The outermost query of a SELECT has its columns named elsewhere.
        depth: usize::from(!matches!(
            statement,
            Statement::Query(_) | Statement::Explain { .. }
        )),
        is_insert: matches!(statement, Statement::Insert(_)),
    };
    match statement.visit(&mut rewriter) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Rewriter {
    depth: usize,
    is_insert: bool,
}

impl VisitorMut for Rewriter {
    type Break = SqlError;

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<SqlError> {
        let returning = match statement {
            Statement::Insert(insert) => &mut insert.returning,
            Statement::Update(update) => &mut update.returning,
            Statement::Delete(delete) => &mut delete.returning,
            _ => return ControlFlow::Continue(()),
        };
        returning.iter_mut().flatten().for_each(type_item);
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        // The rows of VALUES in an INSERT are read by the columns' types.
        let is_source = self.is_insert && self.depth == 1;
        if let Err(error) =
            fetch_as_limit(query).and_then(|()| check_set(&mut query.body, is_source))
        {
            return ControlFlow::Break(error);
        }
        if self.depth > 0 {
            tell_apart_parts(&mut query.body);
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<SqlError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        for (at, item) in select.projection.iter_mut().enumerate() {
            let SelectItem::UnnamedExpr(Expr::Function(function)) = &*item else {
                continue;
            };
            let last = function.name.0.last().and_then(|part| part.as_ident());
            let name = last.map(identifier).unwrap_or_default();
            if ["every", "mod", "sign", "variance"].contains(&name.as_str()) {
                keep_name(item, at, &name);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        select.projection.iter_mut().for_each(type_item);
        match check_joins(select) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match expr {
            Expr::Value(value) => {
                if let Value::Number(digits, _) = &value.value
                    && let Some(plain) = without_exponent(digits)
                {
                    *expr = plain;
                }
            }
            Expr::Case {
                conditions,
                else_result,
                ..
            } => {
                for condition in conditions {
                    type_number(&mut condition.result);
                }
                if let Some(result) = else_result {
                    type_number(result);
                }
            }
            Expr::Nested(inner) => type_number(inner),
            Expr::UnaryOp {
                op: UnaryOperator::BitwiseNot,
                expr: inner,
            } => {
                let input = std::mem::replace(&mut **inner, Expr::Value(Value::Null.into()));
                let ones = Expr::Value(Value::Number("-1".to_owned(), false).into());
                *expr = Expr::Nested(Box::new(Expr::BinaryOp {
                    left: Box::new(input),
                    op: BinaryOperator::PGBitwiseXor,
                    right: Box::new(ones),
                }));
            }
            Expr::Extract { field, .. } => {
                let has_fraction = matches!(
                    field,
                    DateTimeField::Epoch
                        | DateTimeField::Second
                        | DateTimeField::Seconds
                        | DateTimeField::Millisecond
                        | DateTimeField::Milliseconds
                );
                let scale = if has_fraction { 6 } else { 0 };
                let of = DataType::Numeric(ExactNumberInfo::PrecisionAndScale(20, scale));
                let number = std::mem::replace(expr, Expr::Value(Value::Null.into()));
                *expr = cast(number, of);
            }
            Expr::Function(function) => match rewrite_function(function) {
                Ok(Some(other)) => *expr = other,
                Ok(None) => {}
                Err(error) => return ControlFlow::Break(error),
            },
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn type_item(item: &mut SelectItem) {
    if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
        type_number(expr);
    }
}

fn fetch_as_limit(query: &mut Query) -> SqlResult<()> {
    let Some(fetch) = query.fetch.take() else {
        return Ok(());
    };
    if fetch.with_ties || fetch.percent {
        return Err(SqlError::unsupported("FETCH … WITH TIES"));
    }
    let one = || Expr::Value(Value::Number("1".to_owned(), false).into());
    let quantity = fetch.quantity.unwrap_or_else(one);
    let offset = match query.limit_clause.take() {
        None => None,
        Some(LimitClause::LimitOffset {
            limit: None,
            offset,
            ..
        }) => offset,
        Some(_) => return Err(SqlError::syntax("multiple LIMIT clauses not allowed")),
    };
    query.limit_clause = Some(LimitClause::LimitOffset {
        limit: Some(quantity),
        offset,
        limit_by: Vec::new(),
    });
    Ok(())
}

/// # Errors
/// 0A000 for INTERSECT ALL and EXCEPT ALL, which DataFusion answers without counting rows.
fn check_set(body: &mut SetExpr, is_source: bool) -> SqlResult<()> {
    match body {
        SetExpr::SetOperation {
            left,
            op,
            set_quantifier,
            right,
        } => {
            let counts = matches!(op, SetOperator::Intersect | SetOperator::Except)
                && *set_quantifier == SetQuantifier::All;
            if counts {
                return Err(SqlError::unsupported(format!("{op} ALL")));
            }
            check_set(left, is_source)?;
            check_set(right, is_source)
        }
        SetExpr::Values(values) if !is_source => {
            for row in &mut values.rows {
                row.content.iter_mut().for_each(type_number);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// # Errors
/// 42601 for a join without a condition; 0A000 for a full one by names, whose columns would be null.
fn check_joins(select: &Select) -> SqlResult<()> {
    for join in select.from.iter().flat_map(|table| &table.joins) {
        match &join.join_operator {
            JoinOperator::Join(JoinConstraint::None)
            | JoinOperator::Inner(JoinConstraint::None)
            | JoinOperator::Left(JoinConstraint::None)
            | JoinOperator::LeftOuter(JoinConstraint::None)
            | JoinOperator::Right(JoinConstraint::None)
            | JoinOperator::RightOuter(JoinConstraint::None)
            | JoinOperator::FullOuter(JoinConstraint::None) => {
                return Err(SqlError::syntax("a JOIN needs ON or USING"));
            }
            JoinOperator::FullOuter(JoinConstraint::Using(_) | JoinConstraint::Natural) => {
                return Err(SqlError::unsupported("FULL JOIN with USING")
                    .with_hint("Use ON, and coalesce."));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Most digits of a decimal.
const DIGITS_MAX: usize = 38;

/// A number with an exponent, written without it; `None` for another number.
fn without_exponent(digits: &str) -> Option<Expr> {
    if !digits.contains(['e', 'E']) {
        return None;
    }
    let number = |text: String| Expr::Value(Value::Number(text, false).into());
    if let Some(plain) = plain_digits(digits)
        && parse_numeric(&plain).is_some()
    {
        return Some(number(plain));
    }
    let text = Expr::Value(Value::SingleQuotedString(digits.to_owned()).into());
    Some(cast(text, DataType::DoublePrecision))
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast {
        kind: CastKind::DoubleColon,
        expr: Box::new(expr),
        data_type,
        array: false,
        format: None,
    }
}

fn plain_digits(digits: &str) -> Option<String> {
    let (mantissa, exponent) = digits.split_once(['e', 'E'])?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let point = i32::try_from(whole.len()).ok()?.checked_add(exponent)?;
    let length = i32::try_from(all.len()).ok()?;
    let most = i32::try_from(DIGITS_MAX).ok()?;
    if point > most || length - point > most {
        return None;
    }
    Some(if point <= 0 {
        format!("0.{}{all}", "0".repeat(point.unsigned_abs() as usize))
    } else if point >= length {
        format!("{all}{}", "0".repeat((point - length) as usize))
    } else {
        format!("{}.{}", &all[..point as usize], &all[point as usize..])
    })
}

/// What a function becomes, if it is no function any more.
///
/// # Errors
/// 42809 for `count()`.
fn rewrite_function(function: &mut Function) -> SqlResult<Option<Expr>> {
    let last = function.name.0.last().and_then(|part| part.as_ident());
    let name = last.map(identifier).unwrap_or_default();
    let is_window = function.over.is_some();
    let FunctionArguments::List(list) = &mut function.args else {
        return Ok(None);
    };
    if name == "count" && list.args.is_empty() {
        return Err(SqlError::new(
            sqlstate::WRONG_OBJECT_TYPE,
            "count(*) must be used to call a parameterless aggregate function",
        ));
    }
    let typed = [
        "coalesce", "nullif", "greatest", "least", "abs", "sum", "min", "max", "mod",
    ];
    if typed.contains(&name.as_str()) && !is_window {
        for argument in &mut list.args {
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument {
                type_number(expr);
            }
        }
    }
    let other = match name.as_str() {
        "every" => "bool_and",
        "variance" => "var_samp",
        "sign" => "signum",
        "generate_series" => {
            return Err(SqlError::unsupported("a set of rows outside of FROM"));
        }
        // DataFusion's patterns are others.
        "to_char" | "to_date" | "to_timestamp" | "to_number" if list.args.len() > 1 => {
            return Err(SqlError::unsupported(format!("{name} with a pattern")));
        }
        "to_timestamp" if list.args.len() == 1 => {
            let time = Expr::Function(function.clone());
            return Ok(Some(cast(
                time,
                DataType::Timestamp(None, TimezoneInfo::WithTimeZone),
            )));
        }
        "date_part" => {
            let number = Expr::Function(function.clone());
            return Ok(Some(cast(number, DataType::DoublePrecision)));
        }
        "mod" => {
            let [
                FunctionArg::Unnamed(FunctionArgExpr::Expr(left)),
                FunctionArg::Unnamed(FunctionArgExpr::Expr(right)),
            ] = list.args.as_slice()
            else {
                return Ok(None);
            };
            let nested = |expr: &Expr| Box::new(Expr::Nested(Box::new(expr.clone())));
            let remainder = Expr::BinaryOp {
                left: nested(left),
                op: BinaryOperator::Modulo,
                right: nested(right),
            };
            return Ok(Some(Expr::Nested(Box::new(remainder))));
        }
        _ => return Ok(None),
    };
    function.name = ObjectName::from(vec![Ident::new(other)]);
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front_end::parse::parse;

    fn rewritten(text: &str) -> SqlResult<String> {
        let mut statement = parse(text)?.unwrap();
        rewrite_shape(&mut statement)?;
        Ok(statement.to_string())
    }

    #[test]
    fn numbers_lose_their_exponents() {
        for (given, expected) in [
            ("1e3", "1000"),
            ("1.25e1", "12.5"),
            ("25e-3", "0.025"),
            ("1e+2", "100"),
        ] {
            assert_eq!(plain_digits(given).unwrap(), expected);
        }
        assert_eq!(plain_digits("1e300"), None);
        assert_eq!(plain_digits("1e-300"), None);
        let text = rewritten("SELECT a FROM t WHERE a > 1e300").unwrap();
        assert_eq!(text, "SELECT a FROM t WHERE a > '1e300'::DOUBLE PRECISION");
    }

    #[test]
    fn forms_with_other_answers_are_refused() {
        for text in [
            "SELECT 1 INTERSECT ALL SELECT 2",
            "SELECT * FROM a FULL JOIN b USING (c)",
            "SELECT * FROM a JOIN b",
            "SELECT count() FROM a",
        ] {
            assert!(rewritten(text).is_err(), "{text}");
        }
    }

    #[test]
    fn other_forms_mean_the_same() {
        let text = rewritten("SELECT a FROM t OFFSET 1 FETCH NEXT 2 ROWS ONLY").unwrap();
        assert_eq!(text, "SELECT a FROM t LIMIT 2 OFFSET 1");
        let text = rewritten("SELECT a FROM t WHERE mod(a, b) = 1 AND ~a = 2").unwrap();
        assert_eq!(
            text,
            "SELECT a FROM t WHERE ((a) % (b)) = 1 AND (a # -1) = 2"
        );
    }
}
