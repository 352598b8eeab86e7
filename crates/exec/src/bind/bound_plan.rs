//! The operators of a bound plan.

use super::access::Access;
use super::column::ColumnId;
use super::key_bounds::KeyBounds;
use super::key_lists::KeyLists;
use super::scalar::Scalar;
use crate::plan::AggregateFunction;

/// An operator.
pub(crate) enum Node {
    /// A part of a table's key or of an index.
    Read {
        access: Access,
        keys: Keys,
        filter: Option<Scalar>,
    },
    /// Joins each outer row with the rows of a table with a key or index entry that begins with these
    /// values.
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
        /// The sort keys, and whether the greatest comes first.
        by: Vec<(Scalar, bool)>,
        /// All columns of the input, which decide between equal rows.
        all: Vec<ColumnId>,
    },
    Limit {
        input: Box<Node>,
        rows: u64,
    },
}

/// A part of a key's order.
pub(crate) enum Keys {
    /// Keys between two bounds.
    Range(KeyBounds),
    /// Keys that begin with one of these combinations.
    OneOf(KeyLists),
}

/// Groups and what is calculated over each.
pub(crate) struct AggregateNode {
    pub(crate) input: Box<Node>,
    pub(crate) groups: Vec<(ColumnId, Scalar)>,
    pub(crate) calls: Vec<(ColumnId, AggregateFunction, Option<Scalar>)>,
}
