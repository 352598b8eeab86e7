//! Expressions outside of queries: values of INSERT, defaults, checks, RETURNING, ON CONFLICT.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::planner::SqlToRel;
use datafusion::sql::sqlparser::ast;

use super::arrow_values::{arrow_type, field, field_type};
use super::checked::check_expression;
use super::context::parser_options;
use super::errors::sql_error;
use super::expressions::Columns;
use super::mixed_types::cast_operands;
use super::planner::Planning;
use super::prepare::prepare_expression;
use super::sql_casts::{check_assignable, may_be_any};
use crate::catalogue::Relation;
use crate::error::SqlResult;
use crate::program::Scalar;
use crate::types::SqlType;

/// The columns that expressions outside of a query may name: those of a row, and for ON CONFLICT those of the new row.
pub(super) struct Scope {
    /// With qualifiers, for binding.
    schema: DFSchema,
    /// By position.
    columns: Columns,
}

/// The qualifier of the new row's columns in ON CONFLICT.
const EXCLUDED: &str = "excluded";

/// The name of a column of the new row, which no column of a table has.
fn excluded_name(name: &str) -> String {
    format!("\u{0}{EXCLUDED}.{name}")
}

impl Scope {
    /// No columns.
    ///
    /// # Errors
    /// None in practice.
    pub(super) fn empty() -> SqlResult<Self> {
        Ok(Self {
            schema: DFSchema::empty(),
            columns: Columns::of_schema(&Schema::empty())?,
        })
    }

    /// The columns of a table under a name.
    ///
    /// # Errors
    /// Those of the planner.
    pub(super) fn of_table(relation: &Relation, name: &str) -> SqlResult<Self> {
        let schema = table_schema(relation, str::to_owned);
        Ok(Self {
            schema: DFSchema::try_from_qualified_schema(name.to_owned(), &schema)
                .map_err(sql_error)?,
            columns: Columns::of_schema(&schema)?,
        })
    }

    /// The columns of a table, then those of the row that could not be inserted.
    ///
    /// # Errors
    /// Those of the planner.
    pub(super) fn with_excluded(relation: &Relation, name: &str) -> SqlResult<Self> {
        let schema = table_schema(relation, str::to_owned);
        let own =
            DFSchema::try_from_qualified_schema(name.to_owned(), &schema).map_err(sql_error)?;
        let excluded = DFSchema::try_from_qualified_schema(EXCLUDED, &schema).map_err(sql_error)?;
        let new = table_schema(relation, excluded_name);
        let fields = schema.fields().iter().chain(new.fields()).cloned();
        Ok(Self {
            schema: own.join(&excluded).map_err(sql_error)?,
            columns: Columns::of_schema(&Schema::new(fields.collect::<Vec<_>>()))?,
        })
    }
}

fn table_schema(relation: &Relation, name: impl Fn(&str) -> String) -> Schema {
    let columns = relation.columns().iter();
    let fields = columns.map(|column| field(&name(&column.name), column.sql_type, true));
    Schema::new(fields.collect::<Vec<_>>())
}

impl Planning<'_, '_> {
    /// Binds an expression; with a target, it is cast to that type. Returns its type, too.
    ///
    /// # Errors
    /// Those of the expression.
    pub(super) fn bind_scalar(
        &mut self,
        expr: ast::Expr,
        scope: &Scope,
        target: Option<SqlType>,
    ) -> SqlResult<(Scalar, SqlType)> {
        let mut context = self.planner_context();
        let planner = SqlToRel::new_with_options(&self.binder, parser_options());
        let bound = planner
            .sql_to_expr(expr, &scope.schema, &mut context)
            .map_err(sql_error)?;
        let mixed =
            bound.transform_up(|part| Ok(Transformed::yes(cast_operands(part, &scope.schema))));
        let bound = prepare_expression(
            mixed.map_err(sql_error)?.data,
            &self.binder,
            self.request.session,
            &mut self.parameters,
        )?;
        self.finish_scalar(bound, scope, target)
    }

    fn finish_scalar(
        &self,
        bound: Expr,
        scope: &Scope,
        target: Option<SqlType>,
    ) -> SqlResult<(Scalar, SqlType)> {
        let options = self.front_end.state.config_options();
        let simplify = SimplifyContext::builder()
            .with_schema(Arc::new(scope.schema.clone()))
            .with_config_options(Arc::clone(options))
            .build();
        let simplifier = ExprSimplifier::new(simplify);
        let coerced = simplifier.coerce(bound, &scope.schema).map_err(sql_error)?;
        if let Some(of) = target {
            let (_, from) = coerced.to_field(&scope.schema).map_err(sql_error)?;
            check_assignable(field_type(&from), of, may_be_any(&coerced))?;
        }
        let cast = match target {
            Some(of) if coerced.get_type(&scope.schema).map_err(sql_error)? != arrow_type(of) => {
                coerced
                    .cast_to(&arrow_type(of), &scope.schema)
                    .map_err(sql_error)?
            }
            _ => coerced,
        };
        let checked = check_expression(cast, &scope.schema).map_err(sql_error)?;
        // Some functions are only written in terms of others.
        let simple = simplifier.simplify(checked).map_err(sql_error)?;
        let named = simple.transform(|part| match part {
            Expr::Column(column)
                if column
                    .relation
                    .as_ref()
                    .is_some_and(|it| it.table() == EXCLUDED) =>
            {
                let name = excluded_name(&column.name);
                Ok(Transformed::yes(Expr::Column(Column::new_unqualified(
                    name,
                ))))
            }
            other => Ok(Transformed::no(other)),
        });
        let named = named.map_err(sql_error)?.data;
        let of = scope.columns.sql_type(&named)?;
        Ok((scope.columns.scalar(&named)?, of))
    }
}
