//! Columns of a bound plan: their numbers, their types, their names.

use crate::data::ColumnType;
use crate::error::{Names, PlanError};

/// A column's number in the plan.
pub(crate) type ColumnId = usize;

/// A column of the plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnInfo {
    pub(crate) column_type: ColumnType,
    pub(crate) nullable: bool,
}

/// A column by its names, as an operator gives it to the one above.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// The table or its alias; empty for what was calculated.
    pub(crate) table: String,
    pub(crate) name: String,
    pub(crate) id: ColumnId,
}

/// The column of this name among those an operator gives: `column`, or `table.column`.
pub(crate) fn resolve(name: &str, fields: &[Field]) -> Result<ColumnId, PlanError> {
    let matches = |field: &&Field| {
        field.name == name
            || name
                .split_once('.')
                .is_some_and(|(table, column)| field.table == table && field.name == column)
    };
    let mut found = fields.iter().filter(matches);
    match (found.next(), found.next()) {
        (Some(field), None) => Ok(field.id),
        (Some(_), Some(_)) => Err(PlanError::AmbiguousColumn {
            column: name.to_owned(),
        }),
        (None, _) => Err(PlanError::UnknownColumn {
            column: name.to_owned(),
            known: Names::of(fields.iter().map(|field| field.name.as_str())),
        }),
    }
}
