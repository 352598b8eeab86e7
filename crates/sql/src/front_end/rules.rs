//! The constraints and defaults of a table, bound from the texts in the catalogue.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use namiki_data::columns::Datum;

use super::bound_expressions::Scope;
use super::errors::parser_error;
use super::planner::Planning;
use crate::catalogue::{DefaultRow, Relation};
use crate::change::{DefaultValue, Rules, Target};
use crate::error::{SqlError, SqlResult};
use crate::program::Scalar;
use crate::sqlstate;
use crate::types::SqlType;

/// An expression's tree.
///
/// # Errors
/// 42601 if the text is none.
pub(super) fn parse_expression(text: &str) -> SqlResult<ast::Expr> {
    Parser::new(&PostgreSqlDialect {})
        .try_with_sql(text)
        .and_then(|mut parser| parser.parse_expr())
        .map_err(|error| parser_error(&error))
}

impl Planning<'_, '_> {
    /// The table with its rules, for changes.
    ///
    /// # Errors
    /// Those of the stored expressions.
    pub(super) fn target(&mut self, relation: &Arc<Relation>) -> SqlResult<Target> {
        let mut rules = Rules {
            checks: Vec::new(),
            defaults: Vec::new(),
        };
        let row = &relation.row;
        let scope = Scope::of_table(relation, &row.name)?;
        for check in &row.checks {
            let expr = parse_expression(&check.expression)?;
            let (condition, of) = self.bind_scalar(expr, &scope, None)?;
            if of != SqlType::Bool {
                return Err(SqlError::new(
                    sqlstate::DATATYPE_MISMATCH,
                    format!("argument of CHECK must be type boolean, not type {of}"),
                ));
            }
            rules.checks.push((check.name.clone(), condition));
        }
        let none = Scope::empty()?;
        for column in &row.columns {
            rules.defaults.push(match &column.default {
                None => DefaultValue::Value(Scalar::Constant(Datum::Null)),
                Some(DefaultRow::Sequence(id)) => DefaultValue::Sequence(*id),
                Some(DefaultRow::Expression(text)) => {
                    let expr = parse_expression(text)?;
                    DefaultValue::Value(self.insert_scalar(expr, column.sql_type, &none)?)
                }
            });
        }
        Ok(Target {
            relation: Arc::clone(relation),
            rules: Arc::new(rules),
        })
    }
}

impl super::planner::FrontEnd {
    /// A table with its rules.
    ///
    /// # Errors
    /// Those of the stored expressions.
    pub(crate) fn target(
        &self,
        relation: &Arc<Relation>,
        session: &super::prepare::SessionInfo,
        reader: &mut crate::storage::Reader<'_>,
    ) -> SqlResult<Target> {
        let request = super::planner::Request {
            text: "",
            types: &[],
            session,
        };
        Planning::new(self, &request, reader).target(relation)
    }
}
