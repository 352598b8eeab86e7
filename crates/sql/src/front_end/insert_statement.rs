//! INSERT: the rows of VALUES become expressions of ours, those of a query a plan.

use std::sync::Arc;

use datafusion::logical_expr::{Expr as PlanExpr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, Expr, Ident, Insert, ObjectName,
    OnConflictAction, OnInsert, Query, SetExpr, TableObject, UnaryOperator, Value,
};
use namiki_data::columns::Datum;

use super::arrow_values::{arrow_type, field_type};
use super::bound_expressions::Scope;
use super::errors::sql_error;
use super::names::{identifier, is_default, no_column, parameter_number, table_name};
use super::output_columns::OutputColumn;
use super::planned::{Body, Plan};
use super::planner::Planning;
use super::sql_casts::{check_assignable, check_literal, may_be_any};
use crate::change::{Arbiter, ConflictAction, InsertProgram, InsertValue, OnConflict, Target};
use crate::error::{SqlError, SqlResult};
use crate::program::{Scalar, cast};
use crate::sqlstate;
use crate::syntax::quoted;
use crate::types::{SqlType, TimeZone, from_text, parse_numeric};

impl Planning<'_, '_> {
    /// A parameter that is assigned to a column has the column's type, unless the client or another place has decided. A
    /// client that says `numeric` says nothing of the digits: the column does.
    pub(super) fn assign_parameter(&mut self, expr: &Expr, of: SqlType) {
        if let Some(number) = parameter_number(expr) {
            let types = &mut self.parameters.types;
            if types.len() <= number {
                types.resize(number + 1, None);
            }
            let known = types[number].get_or_insert(of);
            if *known == SqlType::NUMERIC && matches!(of, SqlType::Numeric { .. }) {
                *known = of;
            }
        }
    }

    /// A value for a column.
    ///
    /// # Errors
    /// Those of the expression.
    pub(super) fn insert_scalar(
        &mut self,
        expr: Expr,
        of: SqlType,
        scope: &Scope,
    ) -> SqlResult<Scalar> {
        self.assign_parameter(&expr, of);
        if let Some(number) = parameter_number(&expr)
            && self.parameters.types[number] == Some(of)
        {
            return Ok(Scalar::Parameter(number));
        }
        if let Some(value) = literal(&expr, of)? {
            return Ok(Scalar::Constant(value));
        }
        // A uuid is a text to DataFusion: the assignment to the column reads it.
        Ok(self.bind_scalar(expr, scope, Some(of))?.0)
    }

    pub(super) fn insert(
        &mut self,
        insert: Insert,
    ) -> SqlResult<(Option<Vec<OutputColumn>>, Body)> {
        let TableObject::TableName(name) = &insert.table else {
            return Err(SqlError::unsupported(
                "INSERT into something that is no table",
            ));
        };
        if insert.or.is_some()
            || insert.overwrite
            || insert.replace_into
            || !insert.assignments.is_empty()
        {
            return Err(SqlError::unsupported("this form of INSERT"));
        }
        let (schema, table) = table_name(name)?;
        let relation = self.binder.relation(schema.as_deref(), &table)?;
        let target = self.target(&relation)?;
        let alias = insert
            .table_alias
            .as_ref()
            .map_or_else(|| table.clone(), |it| identifier(&it.alias));
        let mut columns = Vec::new();
        for column in &insert.columns {
            let (_, name) = table_name(column)?;
            let at = relation
                .row
                .column(&name)
                .ok_or_else(|| no_column(&name, &table))?;
            if columns.contains(&at) {
                return Err(SqlError::new(
                    sqlstate::DUPLICATE_COLUMN,
                    format!("column \"{name}\" specified more than once"),
                ));
            }
            columns.push(at);
        }
        let named = columns.len();
        if insert.columns.is_empty() {
            columns = (0..relation.columns().len()).collect();
        }
        let (values, plan) = match insert.source {
            None => {
                columns.clear();
                (vec![Vec::new()], None)
            }
            Some(query) => self.insert_source(*query, &target, &mut columns)?,
        };
        if columns.len() < named && !(values.len() == 1 && columns.is_empty()) {
            return Err(SqlError::syntax(
                "INSERT has more target columns than expressions",
            ));
        }
        let on_conflict = match insert.on {
            None => None,
            Some(OnInsert::OnConflict(on)) => {
                Some(self.on_conflict(on.conflict_target, on.action, &target, &alias)?)
            }
            Some(_) => return Err(SqlError::unsupported("ON DUPLICATE KEY UPDATE")),
        };
        let (output, returning) = self.returning(insert.returning, &target, &alias)?;
        let program = InsertProgram {
            target,
            columns,
            values,
            on_conflict,
            returning,
        };
        Ok((output, Body::Insert { program, plan }))
    }

    /// The rows of VALUES, or the plan of a query. `columns` is cut to those that the source gives.
    fn insert_source(
        &mut self,
        query: Query,
        target: &Target,
        columns: &mut Vec<usize>,
    ) -> SqlResult<(Vec<Vec<InsertValue>>, Option<Plan>)> {
        let too_many = |given: usize, columns: &[usize]| {
            if given > columns.len() {
                Some(SqlError::syntax(
                    "INSERT has more expressions than target columns",
                ))
            } else {
                None
            }
        };
        let relation = &target.relation;
        let is_plain =
            query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none();
        let is_values = is_plain && matches!(&*query.body, SetExpr::Values(_));
        if !is_values {
            let bound = self.bind_query(query)?;
            let given = bound.schema().fields().len();
            if let Some(error) = too_many(given, columns) {
                return Err(error);
            }
            columns.truncate(given);
            let types = columns.iter().map(|at| relation.columns()[*at].sql_type);
            let cast = cast_columns(bound, &types.collect::<Vec<_>>(), 0)?;
            return Ok((Vec::new(), Some(self.optimize(&cast)?)));
        }
        let SetExpr::Values(values) = *query.body else {
            return Err(SqlError::corrupted("the source of INSERT is no VALUES"));
        };
        let scope = Scope::empty()?;
        let mut rows = Vec::with_capacity(values.rows.len());
        let width = values.rows.first().map_or(0, |row| row.content.len());
        if let Some(error) = too_many(width, columns) {
            return Err(error);
        }
        columns.truncate(width);
        for row in values.rows {
            if row.content.len() != width {
                return Err(SqlError::syntax("VALUES lists must all be the same length"));
            }
            let mut scalars = Vec::with_capacity(width);
            for (expr, at) in row.content.into_iter().zip(columns.iter()) {
                scalars.push(if is_default(&expr) {
                    InsertValue::Default
                } else {
                    let of = relation.columns()[*at].sql_type;
                    InsertValue::Scalar(self.insert_scalar(expr, of, &scope)?)
                });
            }
            rows.push(scalars);
        }
        Ok((rows, None))
    }

    fn on_conflict(
        &mut self,
        conflict_target: Option<ConflictTarget>,
        action: OnConflictAction,
        target: &Target,
        alias: &str,
    ) -> SqlResult<OnConflict> {
        let relation = Arc::clone(&target.relation);
        let arbiter = match conflict_target {
            None => Arbiter::Any,
            Some(ConflictTarget::Columns(names)) => {
                let number = |name: &Ident| {
                    let name = identifier(name);
                    relation
                        .row
                        .column(&name)
                        .ok_or_else(|| no_column(&name, &relation.row.name))
                };
                let columns = names.iter().map(number).collect::<SqlResult<Vec<_>>>()?;
                Arbiter::over_columns(target, &columns)?
            }
            Some(ConflictTarget::OnConstraint(name)) => {
                Arbiter::named(target, &table_name(&name)?.1)?
            }
        };
        let action = match action {
            OnConflictAction::DoNothing => ConflictAction::Nothing,
            OnConflictAction::DoUpdate(_) if arbiter == Arbiter::Any => {
                return Err(SqlError::syntax(
                    "ON CONFLICT DO UPDATE requires inference specification or constraint name",
                )
                .with_hint("For example, ON CONFLICT (column_name)."));
            }
            OnConflictAction::DoUpdate(update) => {
                let scope = Scope::with_excluded(&relation, alias)?;
                let mut assignments = Vec::new();
                for (column, expr) in self.assignments(update.assignments, target)? {
                    let of = relation.columns()[column].sql_type;
                    let expr = self.or_default(expr, target, column)?;
                    assignments.push((column, self.insert_scalar(expr, of, &scope)?));
                }
                let condition = match update.selection {
                    Some(expr) => Some(self.bind_scalar(expr, &scope, None)?.0),
                    None => None,
                };
                ConflictAction::Update {
                    assignments,
                    condition,
                }
            }
        };
        Ok(OnConflict { arbiter, action })
    }

    /// The columns of SET, and what they are set to.
    ///
    /// # Errors
    /// 42703 for a column that there is not; 42601 if one is set twice.
    pub(super) fn assignments(
        &self,
        assignments: Vec<Assignment>,
        target: &Target,
    ) -> SqlResult<Vec<(usize, Expr)>> {
        let row = &target.relation.row;
        let column = |name: &ObjectName| {
            let last = name.0.last().and_then(|part| part.as_ident());
            let name = last.map(identifier).unwrap_or_default();
            row.column(&name).ok_or_else(|| no_column(&name, &row.name))
        };
        let mut found: Vec<(usize, Expr)> = Vec::new();
        for assignment in assignments {
            let pairs = match (assignment.target, assignment.value) {
                (AssignmentTarget::ColumnName(name), value) => vec![(column(&name)?, value)],
                (AssignmentTarget::Tuple(names), Expr::Tuple(values))
                    if names.len() == values.len() =>
                {
                    let numbers = names.iter().map(column).collect::<SqlResult<Vec<_>>>()?;
                    numbers.into_iter().zip(values).collect()
                }
                _ => return Err(SqlError::unsupported("SET of several columns to a query")),
            };
            for (at, value) in pairs {
                if found.iter().any(|(other, _)| *other == at) {
                    return Err(SqlError::syntax(format!(
                        "multiple assignments to same column \"{}\"",
                        row.columns[at].name
                    )));
                }
                found.push((at, value));
            }
        }
        Ok(found)
    }

    /// The expression, or the default of the column if it is DEFAULT.
    ///
    /// # Errors
    /// 428C9 for anything but DEFAULT if the column is generated always.
    pub(super) fn or_default(&self, expr: Expr, target: &Target, column: usize) -> SqlResult<Expr> {
        use crate::catalogue::DefaultRow;
        if !is_default(&expr) {
            target.check_set(column)?;
            return Ok(expr);
        }
        match &target.relation.columns()[column].default {
            None => Ok(Expr::Value(Value::Null.into())),
            Some(DefaultRow::Expression(text)) => super::rules::parse_expression(text),
            Some(DefaultRow::Sequence(id)) => {
                let mut reader = self.binder.reader.borrow_mut();
                let found = self.binder.catalogue.sequence(&mut reader, *id)?;
                let sequence =
                    found.ok_or_else(|| SqlError::corrupted("a column has lost its sequence"))?;
                let name = format!("{}.{}", quoted(&sequence.schema), quoted(&sequence.name));
                let call = format!("nextval('{}')", name.replace('\'', "''"));
                super::rules::parse_expression(&call)
            }
        }
    }
}

/// The columns of a plan, cast to these types from the column `from` on.
///
/// # Errors
/// 42804 if one cannot be cast; 22P02 and its like for a literal that is no value of its column's type.
pub(super) fn cast_columns(
    plan: LogicalPlan,
    types: &[SqlType],
    from: usize,
) -> SqlResult<LogicalPlan> {
    let schema = Arc::clone(plan.schema());
    let mut columns = Vec::with_capacity(schema.fields().len());
    for (at, column) in schema.columns().into_iter().enumerate() {
        let name = format!("c{at}");
        if let Some(of) = at.checked_sub(from).and_then(|at| types.get(at)) {
            let expr = match &plan {
                LogicalPlan::Projection(outer) => outer.expr.get(at),
                _ => None,
            };
            let from = field_type(schema.field(at));
            check_assignable(from, *of, expr.is_none_or(may_be_any))?;
            if let Some(expr) = expr
                && from == SqlType::Text
            {
                check_literal(expr, *of)?;
            }
        }
        let expr = PlanExpr::Column(column);
        columns.push(match at.checked_sub(from).and_then(|at| types.get(at)) {
            Some(of) => expr
                .cast_to(&arrow_type(*of), schema.as_ref())
                .map_err(sql_error)?
                .alias(name),
            None => expr.alias(name),
        });
    }
    let projected = LogicalPlanBuilder::from(plan)
        .project(columns)
        .map_err(sql_error)?;
    projected.build().map_err(sql_error)
}

/// The value of a literal for a column; `None` if the expression is none that is read here.
///
/// # Errors
/// 22P02 or 22003 if it is no value of the type.
fn literal(expr: &Expr, of: SqlType) -> SqlResult<Option<Datum>> {
    let (value, negative) = match expr {
        Expr::Value(value) => (value, false),
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => match &**expr {
            Expr::Value(value) => (value, true),
            _ => return Ok(None),
        },
        Expr::Nested(inner) => return literal(inner, of),
        _ => return Ok(None),
    };
    Ok(match &value.value {
        Value::Null if !negative => Some(Datum::Null),
        Value::Boolean(value) if of == SqlType::Bool && !negative => Some(Datum::Bool(*value)),
        // The time zone of the session decides on times without one: left to the run.
        Value::SingleQuotedString(text) if !negative && of != SqlType::Timestamptz => {
            Some(from_text(of, text, TimeZone::Utc)?)
        }
        Value::Number(digits, _) => {
            let is_number = of.is_integer()
                || matches!(
                    of,
                    SqlType::Numeric { .. } | SqlType::Float4 | SqlType::Float8
                );
            let sign = if negative { "-" } else { "" };
            match parse_numeric(&format!("{sign}{digits}")) {
                Some(number) if is_number => Some(cast(number, of)?),
                _ => None,
            }
        }
        _ => None,
    })
}
