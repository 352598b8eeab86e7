//! Statements, portals, and what running them tells.

use std::fmt;
use std::sync::Arc;

use namiki_data::columns::Datum;

use super::execute::PortalRows;
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

/// What a statement is.
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
    /// The formats of its columns.
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

    /// The format of each column: 0 text, 1 binary.
    #[must_use]
    pub fn formats(&self) -> &[i16] {
        &self.formats
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

/// How a statement stands between two synchronisation points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// It is the only one: it is committed, durable and, on conflicts, repeated within `execute`.
    Alone,
    /// Others come before or after it: `sync` commits them together.
    Part,
}

/// What became of a portal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has run to its end.
    Complete(CommandTag),
    /// The text has no statement.
    Empty,
    /// As many rows were written as were asked for; there may be more.
    Suspended,
    /// The sink is full: call again when its contents were sent.
    SinkFull,
    /// Rows are expected: `copy_data`, then `copy_done` or `copy_failed`.
    CopyIn {
        /// The number of columns.
        columns: usize,
        /// Whether they are in binary format.
        binary: bool,
    },
    /// Lines follow: call `execute` again.
    CopyOut {
        /// The number of columns.
        columns: usize,
        /// Whether they are in binary format.
        binary: bool,
    },
}

/// A command's tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandTag {
    pub(super) name: &'static str,
    pub(super) rows: Option<u64>,
}

impl CommandTag {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, rows: None }
    }

    pub(super) fn rows(name: &'static str, rows: u64) -> Self {
        Self {
            name,
            rows: Some(rows),
        }
    }
}

impl fmt::Display for CommandTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rows {
            None => f.write_str(self.name),
            // The number between was the row's object identifier.
            Some(rows) if self.name == "INSERT" => write!(f, "INSERT 0 {rows}"),
            Some(rows) => write!(f, "{} {rows}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_written_as_clients_read_them() {
        assert_eq!(CommandTag::rows("INSERT", 2).to_string(), "INSERT 0 2");
        assert_eq!(CommandTag::rows("SELECT", 0).to_string(), "SELECT 0");
        assert_eq!(CommandTag::new("BEGIN").to_string(), "BEGIN");
    }
}
