//! Why a query was not run.

use namiki_exec::ExecError;
use namiki_platform::debug_as_sentence;
use namiki_segment::SegmentError;

use crate::error::Error;

debug_as_sentence!(QueryError);

/// Why a query was not run. Nothing was changed.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The plan is invalid, or the executor of queries could not be started.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// A segment of a table cannot be read.
    #[error("cannot open a segment")]
    Segment(#[from] SegmentError),
    /// Segments of a table contradict the manifest.
    #[error(
        "the segments of table {table:?} are none of this manifest: {why}; restore both from one backup"
    )]
    WrongSegments {
        /// The table's name.
        table: String,
        /// Why they cannot be read.
        why: String,
    },
    /// There is no table of this name.
    #[error("there is no table {table:?}; there are {}", listed(known))]
    UnknownTable {
        /// The name.
        table: String,
        /// The tables that this query can read.
        known: Vec<String>,
    },
    /// The table is in memory, and its columns have no names: give them to the query with
    /// [`Query::table`](crate::query::Query::table).
    #[error("table {table:?} is in memory; name its columns with `Query::table`")]
    NotDescribed {
        /// The table's name.
        table: String,
    },
    /// Queries cannot read the table in this way.
    #[error("table {table:?} cannot be read by a query so: {why}")]
    NotQueryable {
        /// The table's name.
        table: String,
        /// The fault.
        why: String,
    },
    /// The table's handle comes from another database, or from an earlier opening of this one.
    #[error("the handle of table {table:?} comes from another database")]
    ForeignTable {
        /// The table's name.
        table: String,
    },
    /// The view comes from another database, or from an earlier opening of this one.
    #[error("the view comes from another database; open one of this database, with Database::view")]
    ForeignView,
    /// No view of the tables in memory could be opened.
    #[error("cannot read the tables in memory")]
    View(#[source] Error),
    /// The database was closed.
    #[error("the database is closed")]
    Closed,
    /// This process was forked from the one that opened the database.
    #[error(
        "the database was opened by the parent of this process; let the parent query, or fork before opening it"
    )]
    Forked,
}

impl From<Error> for QueryError {
    fn from(error: Error) -> Self {
        match error {
            Error::Closed => Self::Closed,
            Error::Forked => Self::Forked,
            other => Self::View(other),
        }
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    quoted.join(", ")
}
