//! CREATE TABLE AS and SELECT INTO: a table with the columns of a query.

use datafusion::sql::sqlparser::ast::{
    ColumnDef, CreateTable as CreateTableAst, DataType, Query, SetExpr,
};

use super::ddl::{create_table, qualified};
use super::insert_statement::cast_columns;
use super::names::identifier;
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
    /// Those of the query; 42601 if more columns are named than it has.
    pub(super) fn create_table_as(
        &mut self,
        mut create: CreateTableAst,
        query: Query,
    ) -> SqlResult<(Option<Vec<OutputColumn>>, Body)> {
        let named = std::mem::take(&mut create.columns);
        let mut table = create_table(create)?;
        if !table.keys.is_empty() || !table.checks.is_empty() {
            return Err(SqlError::syntax("CREATE TABLE AS has no constraints"));
        }
        self.filled_by(query, &named, &mut table)
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
        self.filled_by(query, &[], &mut table)
    }

    fn filled_by(
        &mut self,
        mut query: Query,
        named: &[ColumnDef],
        table: &mut CreateTable,
    ) -> SqlResult<(Option<Vec<OutputColumn>>, Body)> {
        tell_apart(&mut query);
        let bound = self.bind_query(query.clone())?;
        let columns = output_columns(bound.schema(), Some(&query));
        if named.len() > columns.len() {
            return Err(SqlError::syntax("too many column names were specified"));
        }
        let mut names = named.iter();
        for column in columns {
            let name = match names.next() {
                Some(named) if named.data_type != DataType::Unspecified => {
                    return Err(SqlError::syntax(
                        "CREATE TABLE AS names columns without their types",
                    ));
                }
                Some(named) => identifier(&named.name),
                None => column.name,
            };
            table.columns.push(ColumnDefinition {
                name,
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
