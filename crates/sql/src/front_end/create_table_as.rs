//! CREATE TABLE AS and SELECT INTO: a table with the columns of a query.

use datafusion::sql::sqlparser::ast::{CreateTable as CreateTableAst, Query, SetExpr};

use super::ddl::{create_table, qualified};
use super::insert_statement::cast_columns;
use super::output_columns::{OutputColumn, output_columns, tell_apart};
use super::planned::Body;
use super::planner::Planning;
use crate::ddl_command::{ColumnDefinition, CreateTable};
use crate::error::{SqlError, SqlResult};
use crate::types::SqlType;

impl Planning<'_, '_> {
    /// CREATE TABLE AS this query, which was taken out of the tree.
    ///
    /// # Errors
    /// Those of the query; 0A000 if columns are named.
    pub(super) fn create_table_as(
        &mut self,
        create: CreateTableAst,
        query: Query,
    ) -> SqlResult<(Option<Vec<OutputColumn>>, Body)> {
        if !create.columns.is_empty() || !create.constraints.is_empty() {
            return Err(SqlError::unsupported("CREATE TABLE AS with columns"));
        }
        let mut table = create_table(create)?;
        self.filled_by(query, &mut table)
    }

    /// The query with its INTO, which is taken out.
    ///
    /// # Errors
    /// As [`create_table_as`](Self::create_table_as).
    pub(super) fn select_into(
        &mut self,
        mut query: Query,
    ) -> SqlResult<(Option<Vec<OutputColumn>>, Body)> {
        let into = match &mut *query.body {
            SetExpr::Select(select) => select.into.take(),
            _ => None,
        };
        let Some(into) = into else {
            return Err(SqlError::corrupted("the SELECT has no INTO"));
        };
        if into.temporary {
            return Err(SqlError::unsupported("SELECT INTO a temporary table"));
        }
        let mut table = CreateTable {
            name: qualified(&into.name)?,
            if_not_exists: false,
            columns: Vec::new(),
            keys: Vec::new(),
            checks: Vec::new(),
        };
        self.filled_by(query, &mut table)
    }

    fn filled_by(
        &mut self,
        mut query: Query,
        table: &mut CreateTable,
    ) -> SqlResult<(Option<Vec<OutputColumn>>, Body)> {
        tell_apart(&mut query);
        let bound = self.bind_query(query.clone())?;
        let columns = output_columns(bound.schema(), Some(&query));
        for column in columns {
            table.columns.push(ColumnDefinition {
                name: column.name,
                sql_type: stored_type(column.sql_type)?,
                not_null: false,
                default: None,
                identity: None,
            });
        }
        let types: Vec<SqlType> = table.columns.iter().map(|it| it.sql_type).collect();
        let cast = cast_columns(bound, &types, 0)?;
        let body = Body::CreateTableAs {
            table: table.clone(),
            plan: self.optimize(&cast)?,
        };
        Ok((None, body))
    }
}

/// Whether a query selects into a table.
pub(super) fn has_into(query: &Query) -> bool {
    matches!(&*query.body, SetExpr::Select(select) if select.into.is_some())
}

/// The type of a column that is stored with the values of an expression.
fn stored_type(of: SqlType) -> SqlResult<SqlType> {
    match of {
        SqlType::Name => Ok(SqlType::Text),
        SqlType::Interval => Err(SqlError::unsupported("a column of type interval")),
        of => Ok(of),
    }
}
