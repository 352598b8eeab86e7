//! Statements and portals.

use std::fmt;
use std::sync::Arc;

use namiki_data::columns::Datum;

use super::found_rows::PortalRows;
use crate::front_end::{OutputColumn, Planned};
use crate::program::OutputFormat;
use crate::syntax::Utility;
use crate::types::SqlType;

/// A column of an answer, as `RowDescription` tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDescription {
    /// Its name.
    pub name: String,
    /// The number of its table; 0: none.
    pub table_oid: u32,
    /// The column's number in the table, counted from 1; 0: none.
    pub column: i16,
    /// The number of its type in `pg_type`.
    pub type_oid: u32,
    /// The type's length in bytes; -1: variable.
    pub type_size: i16,
    /// The type's modifier; -1: none.
    pub type_modifier: i32,
}

impl From<&OutputColumn> for ColumnDescription {
    fn from(column: &OutputColumn) -> Self {
        Self {
            name: column.name.clone(),
            table_oid: column.table,
            column: column.column,
            type_oid: column.sql_type.oid(),
            type_size: column.sql_type.size(),
            type_modifier: column.sql_type.modifier(),
        }
    }
}

/// The kind of a statement.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// No statement.
    Empty,
    /// A command without a plan.
    Utility(Arc<Utility>),
    /// A planned statement.
    Planned(Arc<Planned>),
}

/// A prepared statement.
#[derive(Clone, Debug)]
pub struct Statement {
    pub(super) text: Arc<str>,
    /// The types that the client gave, or that lifted literals have.
    pub(super) given: Arc<[Option<SqlType>]>,
    pub(super) is_lifted: bool,
    pub(super) work: Work,
    pub(super) parameters: Arc<[u32]>,
    pub(super) columns: Option<Arc<[ColumnDescription]>>,
}

impl Statement {
    /// Its text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The numbers of its parameters' types.
    #[must_use]
    pub fn parameters(&self) -> &[u32] {
        &self.parameters
    }

    /// Its columns; `None` if it returns no rows.
    #[must_use]
    pub fn columns(&self) -> Option<&[ColumnDescription]> {
        self.columns.as_deref()
    }

    /// Whether a failed transaction block accepts it.
    #[must_use]
    pub fn is_transaction_end(&self) -> bool {
        match &self.work {
            Work::Utility(utility) => {
                matches!(
                    **utility,
                    Utility::Commit | Utility::Rollback | Utility::RollbackTo(_)
                )
            }
            _ => false,
        }
    }
}

/// A statement with the values of its parameters.
pub struct Portal {
    pub(super) statement: Statement,
    pub(super) parameters: Arc<[Datum]>,
    /// The formats of its columns, see [`formats`](Self::formats).
    pub(super) formats: Vec<i16>,
    pub(super) output: Vec<OutputFormat>,
    /// Rows that were found and not written yet.
    pub(super) rows: Option<PortalRows>,
    pub(super) is_done: bool,
    pub(super) deallocates: Option<Deallocated>,
}

impl Portal {
    /// Its columns; `None` if it returns no rows.
    #[must_use]
    pub fn columns(&self) -> Option<&[ColumnDescription]> {
        self.statement.columns()
    }

    /// The formats of its columns: 0 text, 1 binary; one for each, or one for all. None: all are texts.
    #[must_use]
    pub fn formats(&self) -> &[i16] {
        &self.formats
    }

    /// The memory of its parameters, and of rows that were found and not written yet.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let parameter = |value: &Datum| match value {
            Datum::Text(text) => text.capacity(),
            Datum::Bytes(bytes) => bytes.capacity(),
            _ => 0,
        };
        let parameters: usize = self.parameters.iter().map(parameter).sum();
        let own = size_of::<Self>() + size_of_val(&*self.parameters);
        own + parameters + self.rows.as_ref().map_or(0, PortalRows::memory_bytes)
    }

    /// Whether it has run to its end.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// After DEALLOCATE and DISCARD ALL are complete: the prepared statements that the server forgets.
    #[must_use]
    pub fn deallocates(&self) -> Option<Deallocated> {
        self.deallocates.clone()
    }
}

impl fmt::Debug for Portal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Portal")
            .field("text", &self.statement.text)
            .field("is_done", &self.is_done)
            .finish_non_exhaustive()
    }
}

/// Prepared statements that the server forgets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deallocated {
    /// The one of this name.
    One(String),
    /// All of the connection.
    All,
}
