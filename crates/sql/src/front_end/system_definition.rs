//! What there is to say of a table of the catalogue.

use namiki_data::columns::Datum;

use super::run_context::RunContext;
use crate::error::SqlResult;
use crate::types::SqlType;

/// Rows, each with a value for each column.
pub(super) type Rows = Vec<Vec<Datum>>;

/// Columns of a table: names and types.
pub(super) type SystemColumns = &'static [(&'static str, SqlType)];

/// A table of the catalogue.
#[derive(Debug)]
pub(super) struct SystemDefinition {
    pub(super) schema: &'static str,
    pub(super) name: &'static str,
    pub(super) columns: SystemColumns,
    /// Makes its rows; `None`: it never has any.
    pub(super) rows: Option<fn(&RunContext) -> SqlResult<Rows>>,
}
