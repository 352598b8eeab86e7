//! The operators of a bound plan.

use super::access::{Access, KeyBounds};
use super::scalar::Scalar;
use crate::data::ColumnType;
use crate::error::Names;
use crate::error::PlanError;
use crate::plan::AggregateFunction;

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

/// An operator.
pub(crate) enum Node {
    /// A range of a table's key or of an index.
    Read {
        access: Access,
        bounds: KeyBounds,
        filter: Option<Scalar>,
    },
    /// For each outer row those of a table whose key or index entry begins with these values.
    NestedLoop {
        outer: Box<Node>,
        access: Access,
        lookup: Vec<Scalar>,
        filter: Option<Scalar>,
    },
    HashJoin {
        build: Box<Node>,
        probe: Box<Node>,
        on: Vec<(Scalar, Scalar)>,
        filter: Option<Scalar>,
    },
    Filter {
        input: Box<Node>,
        keep: Scalar,
    },
    Project {
        input: Box<Node>,
        columns: Vec<(ColumnId, Scalar)>,
    },
    Aggregate(AggregateNode),
    Sort {
        input: Box<Node>,
        /// What decides, and whether the greatest comes first.
        by: Vec<(Scalar, bool)>,
        /// All columns of the input, which decide between equal rows.
        all: Vec<ColumnId>,
    },
    Limit {
        input: Box<Node>,
        rows: u64,
    },
}

/// Groups and what is calculated over each.
pub(crate) struct AggregateNode {
    pub(crate) input: Box<Node>,
    pub(crate) groups: Vec<(ColumnId, Scalar)>,
    pub(crate) calls: Vec<(ColumnId, AggregateFunction, Option<Scalar>)>,
}
