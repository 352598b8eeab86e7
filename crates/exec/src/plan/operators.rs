//! The operators of a plan. Their names and fields are those of plan files (`docs/plan-files.md`).

use std::fmt;
use std::ops::Deref;
use std::sync::LazyLock;

use namiki_data::columns::Datum;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};

use super::calculated::{AggregateCall, Named, SortKey};
use super::expression::Expr;
use super::expression_json::{literal_lists, literals, optional_literal};
use super::limits::{
    DEBUG_PARTS_MAX, OPERATORS_MAX, PLAN_DEPTH_MAX, parts_of_text, parts_of_value, parts_of_values,
};
use super::tree::{Node, Size, Tree};
use crate::error::PlanError;

/// A tree of operators, each of which gives rows to the one above it.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// The rows of a table for which something is true; the planner chooses how they are found.
    Find(Find),
    /// The pairs of rows that agree; the planner chooses how they are found.
    Join(Join),
    /// The rows of a table.
    Scan(Scan),
    /// The rows of a table that an index finds.
    IndexScan(IndexScan),
    /// For each outer row, the rows of a table that are looked up by key or index.
    NestedLoopJoin(NestedLoopJoin),
    /// The pairs of rows of two inputs that agree.
    HashJoin(HashJoin),
    /// The rows for which something is true.
    Filter(Filter),
    /// New columns of each row.
    Project(Project),
    /// Groups of rows, and what is calculated over each.
    Aggregate(Aggregate),
    /// The rows in an order.
    Sort(Sort),
    /// The first rows.
    Limit(Limit),
}

/// The plan below an operator. It is made `from` a plan, dereferences to a plan, is cloned without
/// a copy, and is replaced instead of changed.
#[derive(Clone, PartialEq)]
pub struct Input(Tree<Plan>);

impl Input {
    /// The plan itself.
    #[must_use]
    pub fn into_plan(self) -> Plan {
        self.0.into_root()
    }

    /// Size of the operator above, at least.
    fn size_above(&self) -> Size {
        let mut size = self.0.size();
        size.depth = size.depth.saturating_add(1);
        size
    }
}

impl From<Plan> for Input {
    fn from(plan: Plan) -> Self {
        Self(Tree::new(plan))
    }
}

impl Deref for Input {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        &self.0
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.size_above();
        if size.check::<Plan>().is_ok() && size.parts <= DEBUG_PARTS_MAX {
            return (**self).fmt(f);
        }
        let Size { depth, nodes, .. } = self.0.size();
        write!(f, "Input(a plan of {depth} levels and {nodes} operators)")
    }
}

impl Serialize for Input {
    fn serialize<S: Serializer>(&self, into: S) -> Result<S::Ok, S::Error> {
        self.size_above()
            .check::<Plan>()
            .map_err(S::Error::custom)?;
        (**self).serialize(into)
    }
}

impl Node for Plan {
    const LEVELS: &'static str = "levels of operators";
    const NODES: &'static str = "operators";
    const DEPTH_MAX: u32 = PLAN_DEPTH_MAX;
    const NODES_MAX: u64 = OPERATORS_MAX;

    fn own_parts(&self) -> u64 {
        let expressions = self.expressions().into_iter().map(Expr::parts);
        let others = self.range().map_or(0, KeyRange::parts)
            + self
                .names()
                .into_iter()
                .map(|name| 1 + parts_of_text(name))
                .sum::<u64>();
        expressions.fold(others, u64::saturating_add)
    }

    fn leaf() -> Tree<Self> {
        static LEAF: LazyLock<Input> = LazyLock::new(|| Plan::scan("").into());
        LEAF.0.clone()
    }

    fn visit_children<'n>(&'n self, visit: &mut dyn FnMut(&'n Tree<Self>)) {
        self.edges().into_iter().for_each(|input| visit(&input.0));
    }

    fn visit_children_mut(&mut self, visit: &mut dyn FnMut(&mut Tree<Self>)) {
        let edges = self.inputs_mut().into_iter();
        edges.for_each(|input| visit(&mut input.0));
    }
}

impl Plan {
    /// Levels of operators that can be run and written.
    pub const DEPTH_MAX: u32 = PLAN_DEPTH_MAX;

    /// Checks the limits of levels, operators and parts of expressions. Code that works on any plan
    /// calls this first, before it uses time or memory for it.
    ///
    /// # Errors
    /// [`PlanError::TooDeep`], [`PlanError::TooLarge`].
    pub fn check(&self) -> Result<(), PlanError> {
        Size::of(self).check::<Self>()?;
        for plan in self.operators() {
            plan.expressions().into_iter().try_for_each(Expr::check)?;
        }
        Ok(())
    }
}

impl Serialize for Plan {
    fn serialize<S: Serializer>(&self, into: S) -> Result<S::Ok, S::Error> {
        Size::of(self).check::<Self>().map_err(S::Error::custom)?;
        match self {
            Self::Find(of) => into.serialize_newtype_variant("Plan", 0, "find", of),
            Self::Join(of) => into.serialize_newtype_variant("Plan", 1, "join", of),
            Self::Scan(of) => into.serialize_newtype_variant("Plan", 2, "scan", of),
            Self::IndexScan(of) => into.serialize_newtype_variant("Plan", 3, "index_scan", of),
            Self::NestedLoopJoin(of) => {
                into.serialize_newtype_variant("Plan", 4, "nested_loop_join", of)
            }
            Self::HashJoin(of) => into.serialize_newtype_variant("Plan", 5, "hash_join", of),
            Self::Filter(of) => into.serialize_newtype_variant("Plan", 6, "filter", of),
            Self::Project(of) => into.serialize_newtype_variant("Plan", 7, "project", of),
            Self::Aggregate(of) => into.serialize_newtype_variant("Plan", 8, "aggregate", of),
            Self::Sort(of) => into.serialize_newtype_variant("Plan", 9, "sort", of),
            Self::Limit(of) => into.serialize_newtype_variant("Plan", 10, "limit", of),
        }
    }
}

/// A range of a key: keys that begin with certain values and have the next column between two
/// bounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KeyRange {
    /// Values of the first columns of the key.
    #[serde(serialize_with = "literals", skip_serializing_if = "Vec::is_empty")]
    pub equal: Vec<Datum>,
    /// The next column is at least this.
    #[serde(
        serialize_with = "optional_literal",
        skip_serializing_if = "Option::is_none"
    )]
    pub from: Option<Datum>,
    /// The next column is greater than this.
    #[serde(
        serialize_with = "optional_literal",
        skip_serializing_if = "Option::is_none"
    )]
    pub above: Option<Datum>,
    /// The next column is at most this.
    #[serde(
        serialize_with = "optional_literal",
        skip_serializing_if = "Option::is_none"
    )]
    pub to: Option<Datum>,
    /// The next column is less than this.
    #[serde(
        serialize_with = "optional_literal",
        skip_serializing_if = "Option::is_none"
    )]
    pub below: Option<Datum>,
    /// Instead of all these: lists of values for the first columns of the key. Rows are looked up
    /// by each combination once. No value is equal to a missing one.
    #[serde(
        serialize_with = "literal_lists",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub one_of: Vec<Vec<Datum>>,
}

impl KeyRange {
    /// The parts that it counts as.
    fn parts(&self) -> u64 {
        let bounds = [&self.from, &self.above, &self.to, &self.below];
        let bounds = bounds.into_iter().flatten().map(parts_of_value);
        let lists = self.one_of.iter().chain([&self.equal]);
        bounds.chain(lists.map(|list| parts_of_values(list))).sum()
    }

    /// Whether it has all keys.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }
}

/// The rows of a table for which something is true. Before it runs it becomes a scan or an index
/// scan, whichever is estimated to be cheaper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Find {
    /// The table.
    pub table: String,
    /// As [`Scan::alias`].
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// The rows to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Expr>,
}

/// The pairs of a row of each input that have equal values. Before it runs it becomes a nested-loop
/// join or a hash join, whichever is estimated to be cheaper; the columns are those of the left
/// input, then those of the right one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Join {
    /// One input.
    pub left: Input,
    /// The other. A [`Find`] on either side can be looked up by key or index.
    pub right: Input,
    /// Expressions that must be equal: one over the left input, one over the right.
    pub on: Vec<(Expr, Expr)>,
    /// The pairs to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Expr>,
}

/// Reads a table in the order of its key, or a range of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scan {
    /// The table.
    pub table: String,
    /// A name for the table in this plan: it qualifies the columns instead of the table's own name.
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// The part of the primary key's order to read.
    #[serde(skip_serializing_if = "KeyRange::is_everything")]
    pub range: KeyRange,
    /// The rows to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Expr>,
}

/// Reads a range of an index, and for each entry the table's row. The row is left out where the
/// index has all the columns that the plan uses.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IndexScan {
    /// The table.
    pub table: String,
    /// The index.
    pub index: String,
    /// As [`Scan::alias`].
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// The part of the index to read.
    #[serde(skip_serializing_if = "KeyRange::is_everything")]
    pub range: KeyRange,
    /// The rows to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Expr>,
}

/// For each outer row, the rows of a table with a key, or an entry in an index, that begins with
/// certain values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NestedLoopJoin {
    /// The outer rows.
    pub outer: Input,
    /// The inner table.
    pub table: String,
    /// The index to look up in; the primary key without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// As [`Scan::alias`], for the inner table.
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Expressions over the outer row: values of the first columns of the key or the index.
    pub lookup: Vec<Expr>,
    /// The pairs to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Expr>,
    /// Whether the columns of the table come before those of `outer`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub table_first: bool,
}

/// The pairs of a row of each input that have equal values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HashJoin {
    /// The input that goes into the hash table: the smaller one.
    pub build: Input,
    /// The input that probes the complete hash table.
    pub probe: Input,
    /// Expressions that must be equal: one over the first input, one over the second.
    pub on: Vec<(Expr, Expr)>,
    /// The pairs to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Expr>,
    /// Whether the columns of `probe` come before those of `build`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub probe_first: bool,
}

/// Keeps the rows for which something is true.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Filter {
    /// The rows.
    pub input: Input,
    /// The condition.
    pub keep: Expr,
}

/// Calculates new columns of each row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Project {
    /// The rows.
    pub input: Input,
    /// The new columns; the operator above sees no others.
    pub columns: Vec<Named>,
}

/// Groups rows, and calculates over each group. Without groups there is one row, even if there are
/// no rows below.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Aggregate {
    /// The rows.
    pub input: Input,
    /// Rows with equal values here are a group. Missing values are equal here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub group_by: Vec<Named>,
    /// The aggregates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calculate: Vec<AggregateCall>,
}

/// Puts rows into an order. Equal rows are ordered by all their columns, from the first on, so that
/// the answer does not depend on the order in which rows arrived.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sort {
    /// The rows.
    pub input: Input,
    /// The sort keys, the first one first.
    pub by: Vec<SortKey>,
}

/// Keeps the first rows. The choice is undefined unless the rows below are sorted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// The rows.
    pub input: Input,
    /// Number of rows.
    pub rows: u64,
}
