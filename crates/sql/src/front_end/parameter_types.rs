//! Types of parameters that a statement's text says: `$1::int`, and numbers of rows.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, LimitClause, Query, Statement, Visit, Visitor};

use super::ddl_types::sql_type_of_ast;
use super::names::parameter_number;
use crate::types::SqlType;

/// Adds the types that the text says where the client has said none.
pub(super) fn note_types(statement: &Statement, types: &mut Vec<Option<SqlType>>) {
    let _: ControlFlow<()> = statement.visit(&mut Noting(types));
}

struct Noting<'t>(&'t mut Vec<Option<SqlType>>);

impl Noting<'_> {
    fn note(&mut self, expr: &Expr, of: SqlType) {
        if let Some(number) = parameter_number(expr) {
            if self.0.len() <= number {
                self.0.resize(number + 1, None);
            }
            self.0[number].get_or_insert(of);
        }
    }
}

impl Visitor for Noting<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        match &query.limit_clause {
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                let offset = offset.iter().map(|offset| &offset.value);
                for number in limit.iter().chain(offset) {
                    self.note(number, SqlType::Int8);
                }
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
                self.note(offset, SqlType::Int8);
                self.note(limit, SqlType::Int8);
            }
            None => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Cast {
            expr, data_type, ..
        } = expr
            && let Ok(of) = sql_type_of_ast(data_type)
        {
            self.note(expr, of);
        }
        ControlFlow::Continue(())
    }
}
