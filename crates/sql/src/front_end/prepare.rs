//! Between binding and optimizing: the time and the session become parameters and values, and parameters get types.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result as PlanResult};
use datafusion::logical_expr::expr::{Placeholder, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan};
use datafusion::scalar::ScalarValue;

use super::arrow_values::{arrow_type, field, field_type};
use super::context::Binder;
use super::errors::{external, sql_error};
use super::expression_parts::{NOW, SESSION};
use super::functions;
use super::mixed_types::cast_operands;
use crate::catalogue::{Named, PUBLIC};
use crate::error::{SqlError, SqlResult};
use crate::sqlstate;
use crate::types::SqlType;

/// The session that plans a statement, for functions that tell it.
#[derive(Clone, Debug)]
pub(crate) struct SessionInfo {
    pub(crate) user: String,
    pub(crate) database: String,
}

/// The types of a statement's parameters, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct Parameters {
    /// By number, counted from 0.
    pub(super) types: Vec<Option<SqlType>>,
    /// Whether the statement names the session's user or database.
    pub(super) depends_on_session: bool,
}

impl Parameters {
    fn note(&mut self, number: usize, of: SqlType) -> SqlType {
        if self.types.len() <= number {
            self.types.resize(number + 1, None);
        }
        *self.types[number].get_or_insert(of)
    }

    /// The types of all parameters: text, where nothing decides.
    pub(super) fn resolved(&self) -> Vec<SqlType> {
        self.types
            .iter()
            .map(|of| of.unwrap_or(SqlType::Text))
            .collect()
    }
}

/// Prepares all expressions of a plan.
///
/// # Errors
/// 42P01 for a sequence that there is not.
pub(super) fn prepare_plan(
    plan: LogicalPlan,
    binder: &Binder<'_, '_>,
    session: &SessionInfo,
    parameters: &mut Parameters,
) -> SqlResult<LogicalPlan> {
    let prepared = plan.transform_up_with_subqueries(|plan| {
        let names = NamePreserver::new(&plan);
        let schema = merge_schema(&plan.inputs());
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let prepared = expr.transform_up(|part| {
                let part = cast_operands(widen_sum(part, &schema), &schema);
                prepare(part, binder, session, parameters)
            })?;
            Ok(prepared.update_data(|expr| name.restore(expr)))
        })?
        .map_data(LogicalPlan::recompute_schema)
    });
    Ok(prepared.map_err(sql_error)?.data)
}

/// Prepares an expression without a plan.
///
/// # Errors
/// As [`prepare_plan`].
pub(super) fn prepare_expression(
    expr: Expr,
    binder: &Binder<'_, '_>,
    session: &SessionInfo,
    parameters: &mut Parameters,
) -> SqlResult<Expr> {
    let prepared = expr.transform_up(|part| prepare(part, binder, session, parameters));
    Ok(prepared.map_err(sql_error)?.data)
}

fn prepare(
    expr: Expr,
    binder: &Binder<'_, '_>,
    session: &SessionInfo,
    parameters: &mut Parameters,
) -> PlanResult<Transformed<Expr>> {
    match expr {
        Expr::Placeholder(placeholder) if ![NOW, SESSION].contains(&placeholder.id.as_str()) => {
            let number = placeholder
                .id
                .strip_prefix('$')
                .and_then(|it| it.parse::<usize>().ok());
            let Some(at) = number
                .and_then(|it| it.checked_sub(1))
                .filter(|it| *it < 65_535)
            else {
                return Err(external(SqlError::new(
                    sqlstate::UNDEFINED_PARAMETER,
                    format!("there is no parameter {}", placeholder.id),
                )));
            };
            let inferred = match &placeholder.field {
                // A number is compared and added with all its digits, not those of a column.
                Some(known) => match field_type(known) {
                    SqlType::Numeric { .. } => SqlType::NUMERIC,
                    of => of,
                },
                None => SqlType::Text,
            };
            let of = parameters.note(at, inferred);
            let field = Arc::new(field(&placeholder.id, of, true));
            let typed = Placeholder::new_with_field(placeholder.id, Some(field));
            Ok(Transformed::yes(Expr::Placeholder(typed)))
        }
        Expr::ScalarFunction(call) => function(call, binder, session, parameters),
        other => Ok(Transformed::no(other)),
    }
}

/// The sum of eight-byte numbers is a `numeric`: DataFusion's would wrap.
fn widen_sum(mut expr: Expr, schema: &DFSchema) -> Expr {
    if let Expr::AggregateFunction(call) = &mut expr
        && call.func.name() == "sum"
        && let [argument] = call.params.args.as_mut_slice()
        && argument
            .get_type(schema)
            .is_ok_and(|of| of == DataType::Int64)
    {
        // Twenty digits hold all of them, and the sum has ten more.
        let number = std::mem::take(argument);
        *argument = Expr::Cast(Cast::new(Box::new(number), DataType::Decimal128(20, 0)));
    }
    expr
}

fn text(value: &str) -> Transformed<Expr> {
    Transformed::yes(Expr::Literal(
        ScalarValue::Utf8(Some(value.to_owned())),
        None,
    ))
}

fn now_as(of: SqlType) -> Transformed<Expr> {
    let stamp = Arc::new(field(NOW, SqlType::Timestamptz, false));
    let now = Expr::Placeholder(Placeholder::new_with_field(NOW.to_owned(), Some(stamp)));
    Transformed::yes(match of {
        SqlType::Timestamptz => now,
        other => Expr::Cast(Cast::new(Box::new(now), arrow_type(other))),
    })
}

fn function(
    call: ScalarFunction,
    binder: &Binder<'_, '_>,
    session: &SessionInfo,
    parameters: &mut Parameters,
) -> PlanResult<Transformed<Expr>> {
    Ok(match call.func.name() {
        "now"
        | "current_timestamp"
        | "transaction_timestamp"
        | "statement_timestamp"
        | "clock_timestamp" => now_as(SqlType::Timestamptz),
        "current_date" => now_as(SqlType::Date),
        "localtimestamp" => now_as(SqlType::Timestamp),
        // The owner of everything is the role of the session: each has all rights.
        "current_user" | "session_user" | "user" | "current_role" | "pg_get_userbyid" => {
            parameters.depends_on_session = true;
            text(&session.user)
        }
        "current_database" | "current_catalog" => {
            parameters.depends_on_session = true;
            text(&session.database)
        }
        "lastval" => {
            let func = functions::by_number(call.func.name(), binder.state)?;
            let call = ScalarFunction::new_udf(func, vec![session_number()]);
            Transformed::yes(Expr::ScalarFunction(call))
        }
        "nextval" | "setval" | "currval" => {
            let sequence = match call.args.first() {
                Some(Expr::Literal(value, _)) => value.try_as_str().flatten().map(str::to_owned),
                Some(Expr::Cast(cast)) => match &*cast.expr {
                    Expr::Literal(value, _) => value.try_as_str().flatten().map(str::to_owned),
                    _ => None,
                },
                _ => None,
            };
            let Some(name) = sequence else {
                // Also a lifted literal: the original text is planned then.
                return Err(external(SqlError::unsupported(
                    "a sequence whose name is not a constant",
                )));
            };
            let id = sequence_named(&name, binder).map_err(external)?;
            binder.sequences.borrow_mut().push(id);
            let (func, mut args) = (
                functions::by_number(call.func.name(), binder.state)?,
                call.args,
            );
            args[0] = Expr::Literal(ScalarValue::Int64(Some(id.into())), None);
            args.insert(1, session_number());
            Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(func, args)))
        }
        _ => Transformed::no(Expr::ScalarFunction(call)),
    })
}

/// The number of the session, which is known when the plan is run.
fn session_number() -> Expr {
    let number = Arc::new(field(SESSION, SqlType::Int8, false));
    Expr::Placeholder(Placeholder::new_with_field(
        SESSION.to_owned(),
        Some(number),
    ))
}

/// The number of a sequence by its name, which may be qualified and quoted.
fn sequence_named(name: &str, binder: &Binder<'_, '_>) -> SqlResult<u32> {
    let mut reader = crate::syntax::TokenReader::new(name)?;
    let (schema, table) = reader.qualified_name()?;
    reader.end()?;
    let schema = schema.as_deref().unwrap_or(PUBLIC);
    match binder
        .catalogue
        .named(&mut binder.reader.borrow_mut(), schema, &table)?
    {
        Some(Named::Sequence(id)) => Ok(id),
        Some(_) => Err(SqlError::new(
            sqlstate::WRONG_OBJECT_TYPE,
            format!("\"{table}\" is not a sequence"),
        )),
        None => Err(SqlError::new(
            sqlstate::UNDEFINED_TABLE,
            format!("relation \"{name}\" does not exist"),
        )),
    }
}
