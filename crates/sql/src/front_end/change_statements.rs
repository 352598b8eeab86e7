//! UPDATE and DELETE: planned as SELECTs of the rows and the new values. DataFusion's own changes lose parts of them.

use datafusion::sql::sqlparser::ast::{
    Delete, Expr, FromTable, Ident, Query, Select, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, Statement, TableFactor, TableWithJoins, Update, UpdateTableFromKind,
};

use super::bound_expressions::Scope;
use super::compile::change_program;
use super::insert_statement::cast_columns;
use super::names::{identifier, table_name};
use super::output_columns::{OutputColumn, name_of};
use super::parse::parse;
use super::planned::{Body, Plan};
use super::planner::Planning;
use crate::change::{DeleteProgram, Increments, Target, UpdateProgram};
use crate::error::{SqlError, SqlResult};
use crate::program::{Access, Scalar};
use crate::types::SqlType;

/// How a statement calls the table that it changes.
struct Changed {
    target: Target,
    /// Its alias, or its name.
    name: String,
}

impl Planning<'_, '_> {
    pub(super) fn update(
        &mut self,
        update: Update,
    ) -> SqlResult<(Option<Vec<OutputColumn>>, Body)> {
        if update.or.is_some() || !update.order_by.is_empty() || update.limit.is_some() {
            return Err(SqlError::unsupported("UPDATE with ORDER BY or LIMIT"));
        }
        let changed = self.changed(&update.table)?;
        let target = changed.target.clone();
        let (mut columns, mut values) = (Vec::new(), Vec::new());
        for (column, expr) in self.assignments(update.assignments, &target)? {
            let of = target.relation.columns()[column].sql_type;
            self.assign_parameter(&expr, of);
            values.push(self.or_default(expr, &target, column)?);
            columns.push(column);
        }
        let mut from = vec![update.table];
        match update.from {
            None => {}
            Some(
                UpdateTableFromKind::AfterSet(tables) | UpdateTableFromKind::BeforeSet(tables),
            ) => {
                from.extend(tables);
            }
        }
        let types: Vec<SqlType> = columns
            .iter()
            .map(|at| target.relation.columns()[*at].sql_type)
            .collect();
        let (access, scalars, plan) =
            self.found_rows(&changed, from, update.selection, values, &types)?;
        let (output, returning) = self.returning(update.returning, &target, &changed.name)?;
        let placeholder = || Scalar::Constant(namiki_data::columns::Datum::Null);
        let assignments: Vec<(usize, Scalar)> = match &access {
            Some(_) => columns.into_iter().zip(scalars).collect(),
            None => columns
                .into_iter()
                .map(|column| (column, placeholder()))
                .collect(),
        };
        let increments = access
            .as_ref()
            .and_then(|_| Increments::of(&target, &assignments));
        let program = UpdateProgram {
            target,
            access,
            assignments,
            increments,
            returning,
        };
        Ok((output, Body::Update { program, plan }))
    }

    pub(super) fn delete(
        &mut self,
        delete: Delete,
    ) -> SqlResult<(Option<Vec<OutputColumn>>, Body)> {
        if !delete.order_by.is_empty() || delete.limit.is_some() || !delete.tables.is_empty() {
            return Err(SqlError::unsupported("DELETE with ORDER BY or LIMIT"));
        }
        let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = delete.from;
        let [table] = tables.as_slice() else {
            return Err(SqlError::syntax(
                "DELETE names one table; others follow USING",
            ));
        };
        let changed = self.changed(table)?;
        let mut from = tables.clone();
        from.extend(delete.using.unwrap_or_default());
        let (access, _, plan) =
            self.found_rows(&changed, from, delete.selection, Vec::new(), &[])?;
        let (output, returning) =
            self.returning(delete.returning, &changed.target, &changed.name)?;
        let program = DeleteProgram {
            target: changed.target,
            access,
            returning,
        };
        Ok((output, Body::Delete { program, plan }))
    }

    fn changed(&mut self, table: &TableWithJoins) -> SqlResult<Changed> {
        if !table.joins.is_empty() {
            return Err(SqlError::syntax(
                "the table that is changed stands alone; others follow FROM or USING",
            ));
        }
        let TableFactor::Table { name, alias, .. } = &table.relation else {
            return Err(SqlError::unsupported(
                "a change of something that is no table",
            ));
        };
        let (schema, table) = table_name(name)?;
        let relation = self.binder.relation(schema.as_deref(), &table)?;
        let target = self.target(&relation)?;
        let name = alias
            .as_ref()
            .map_or(table, |alias| identifier(&alias.name));
        Ok(Changed { target, name })
    }

    /// How the rows to be changed and the new values are found: by a program, or else by a plan. Its rows have
    /// the stored columns and the new values.
    fn found_rows(
        &mut self,
        changed: &Changed,
        from: Vec<TableWithJoins>,
        selection: Option<Expr>,
        values: Vec<Expr>,
        types: &[SqlType],
    ) -> SqlResult<(Option<Access>, Vec<Scalar>, Option<Plan>)> {
        let stored = changed.target.relation.layout.columns();
        let mut projection = Vec::with_capacity(stored.len() + values.len());
        for (at, column) in stored.iter().enumerate() {
            projection.push(SelectItem::ExprWithAlias {
                expr: Expr::CompoundIdentifier(vec![
                    Ident::with_quote('"', changed.name.clone()),
                    Ident::with_quote('"', column.name.clone()),
                ]),
                alias: Ident::with_quote('"', format!("\u{0}stored {at}")),
            });
        }
        for (at, value) in values.into_iter().enumerate() {
            projection.push(SelectItem::ExprWithAlias {
                expr: value,
                alias: Ident::with_quote('"', format!("\u{0}value {at}")),
            });
        }
        let query = query_of(projection, from, selection)?;
        self.binder.shows_row_numbers = true;
        let bound = self.bind_query(query);
        self.binder.shows_row_numbers = false;
        let cast = cast_columns(bound?, types, stored.len())?;
        let plan = self.optimize(&cast)?;
        if *self.binder.uses_system.borrow() {
            return Err(SqlError::unsupported(
                "a change that reads tables of the catalogue",
            ));
        }
        match change_program(&plan.logical)? {
            Some(found) if is_row(&found.output, stored.len()) => {
                let scalars = found.output.into_iter().skip(stored.len()).collect();
                Ok((found.access, scalars, None))
            }
            _ => Ok((None, Vec::new(), Some(plan))),
        }
    }

    /// The columns of RETURNING.
    ///
    /// # Errors
    /// Those of its expressions.
    pub(super) fn returning(
        &mut self,
        items: Option<Vec<SelectItem>>,
        target: &Target,
        name: &str,
    ) -> SqlResult<(Option<Vec<OutputColumn>>, Option<Vec<Scalar>>)> {
        let Some(items) = items else {
            return Ok((None, None));
        };
        let relation = &target.relation;
        let scope = Scope::of_table(relation, name)?;
        let (mut columns, mut scalars) = (Vec::new(), Vec::new());
        for item in items {
            let (expr, alias) = match item {
                SelectItem::UnnamedExpr(expr) => (expr, None),
                SelectItem::ExprWithAlias { expr, alias } => (expr, Some(identifier(&alias))),
                SelectItem::Wildcard(_)
                | SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(_),
                    _,
                ) => {
                    for (at, column) in relation.columns().iter().enumerate() {
                        columns.push(self.column_of(target, at, column.name.clone()));
                        scalars.push(Scalar::Column(at));
                    }
                    continue;
                }
                _ => return Err(SqlError::unsupported("this form of RETURNING")),
            };
            let shown = alias
                .or_else(|| name_of(&expr))
                .unwrap_or_else(|| "?column?".to_owned());
            let (scalar, of) = self.bind_scalar(expr, &scope, None)?;
            columns.push(match &scalar {
                Scalar::Column(at) => self.column_of(target, *at, shown),
                _ => OutputColumn::new(shown, of),
            });
            scalars.push(scalar);
        }
        Ok((Some(columns), Some(scalars)))
    }

    fn column_of(&self, target: &Target, at: usize, name: String) -> OutputColumn {
        OutputColumn {
            name,
            sql_type: target.relation.columns()[at].sql_type,
            table: target.relation.id(),
            column: at as i16 + 1,
        }
    }
}

/// Whether a program returns the stored columns first.
fn is_row(output: &[Scalar], stored: usize) -> bool {
    let own =
        |(at, scalar): (usize, &Scalar)| matches!(scalar, Scalar::Column(number) if *number == at);
    output.len() >= stored && output.iter().take(stored).enumerate().all(own)
}

/// `SELECT projection FROM from WHERE selection`.
fn query_of(
    projection: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
    selection: Option<Expr>,
) -> SqlResult<Query> {
    let Some(Statement::Query(mut query)) = parse("SELECT 1")? else {
        return Err(SqlError::corrupted("a SELECT was not read as one"));
    };
    let SetExpr::Select(select) = &mut *query.body else {
        return Err(SqlError::corrupted("a SELECT was not read as one"));
    };
    let select: &mut Select = select;
    select.projection = projection;
    select.from = from;
    select.selection = selection;
    Ok(*query)
}
