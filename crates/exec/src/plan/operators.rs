//! The operators of a plan. Their names and fields are those of plan files (`docs/plan-files.md`).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::expression::{Expr, column};
use super::expression_json::{literals, optional_literal};
use crate::data::Datum;

/// A tree of operators, each of which gives rows to the one above it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

impl Plan {
    /// The plans that this operator takes rows of.
    pub fn inputs(&self) -> Vec<&Plan> {
        match self {
            Plan::Find(_) | Plan::Scan(_) | Plan::IndexScan(_) => Vec::new(),
            Plan::Join(join) => vec![&join.left, &join.right],
            Plan::NestedLoopJoin(join) => vec![&join.outer],
            Plan::HashJoin(join) => vec![&join.build, &join.probe],
            Plan::Filter(filter) => vec![&filter.input],
            Plan::Project(project) => vec![&project.input],
            Plan::Aggregate(aggregate) => vec![&aggregate.input],
            Plan::Sort(sort) => vec![&sort.input],
            Plan::Limit(limit) => vec![&limit.input],
        }
    }

    /// The same, to change them.
    pub fn inputs_mut(&mut self) -> Vec<&mut Plan> {
        match self {
            Plan::Find(_) | Plan::Scan(_) | Plan::IndexScan(_) => Vec::new(),
            Plan::Join(join) => vec![&mut join.left, &mut join.right],
            Plan::NestedLoopJoin(join) => vec![&mut join.outer],
            Plan::HashJoin(join) => vec![&mut join.build, &mut join.probe],
            Plan::Filter(filter) => vec![&mut filter.input],
            Plan::Project(project) => vec![&mut project.input],
            Plan::Aggregate(aggregate) => vec![&mut aggregate.input],
            Plan::Sort(sort) => vec![&mut sort.input],
            Plan::Limit(limit) => vec![&mut limit.input],
        }
    }

    /// The table that this operator itself reads.
    pub fn table(&self) -> Option<&str> {
        match self {
            Plan::Find(find) => Some(&find.table),
            Plan::Scan(scan) => Some(&scan.table),
            Plan::IndexScan(scan) => Some(&scan.table),
            Plan::NestedLoopJoin(join) => Some(&join.table),
            _ => None,
        }
    }

    /// All tables that it names.
    pub fn tables(&self) -> BTreeSet<&str> {
        let mut tables = BTreeSet::new();
        let mut left = vec![self];
        while let Some(plan) = left.pop() {
            tables.extend(plan.table());
            left.extend(plan.inputs());
        }
        tables
    }
}

/// A part of a key's order: keys that begin with certain values, and of these those between two bounds of the
/// next column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KeyRange {
    /// Values of the first columns of the key.
    #[serde(with = "literals", skip_serializing_if = "Vec::is_empty")]
    pub equal: Vec<Datum>,
    /// The next column is at least this.
    #[serde(with = "optional_literal", skip_serializing_if = "Option::is_none")]
    pub from: Option<Datum>,
    /// The next column is greater than this.
    #[serde(with = "optional_literal", skip_serializing_if = "Option::is_none")]
    pub above: Option<Datum>,
    /// The next column is at most this.
    #[serde(with = "optional_literal", skip_serializing_if = "Option::is_none")]
    pub to: Option<Datum>,
    /// The next column is less than this.
    #[serde(with = "optional_literal", skip_serializing_if = "Option::is_none")]
    pub below: Option<Datum>,
}

impl KeyRange {
    /// Whether all keys lie in it.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }
}

/// The rows of a table for which something is true. Before it runs it becomes a scan or an index scan, whichever is
/// estimated to be cheaper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Find {
    /// The table.
    pub table: String,
    /// As [`Scan::alias`].
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// The rows to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Expr>,
}

/// The pairs of a row of each input that have equal values. Before it runs it becomes a nested-loop join or a hash
/// join, whichever is estimated to be cheaper; the columns are those of the left input, then those of the right one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// One input.
    pub left: Box<Plan>,
    /// The other. A [`Find`] on either side can be looked up by key or index.
    pub right: Box<Plan>,
    /// What must be equal: an expression over the left input, one over the right.
    pub on: Vec<(Expr, Expr)>,
    /// The pairs to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Expr>,
}

/// Reads a table in the order of its key, or a range of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scan {
    /// The table.
    pub table: String,
    /// What its columns are called by beside their own names, instead of the table's name.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// The part of the primary key's order to read.
    #[serde(default, skip_serializing_if = "KeyRange::is_everything")]
    pub range: KeyRange,
    /// The rows to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Expr>,
}

/// Reads a range of an index, and for each entry the table's row. The row is left out where the index has all
/// the columns that the plan uses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexScan {
    /// The table.
    pub table: String,
    /// The index.
    pub index: String,
    /// As [`Scan::alias`].
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// The part of the index to read.
    #[serde(default, skip_serializing_if = "KeyRange::is_everything")]
    pub range: KeyRange,
    /// The rows to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Expr>,
}

/// For each outer row, the rows of a table with a key, or an entry in an index, that begins with certain values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NestedLoopJoin {
    /// The outer rows.
    pub outer: Box<Plan>,
    /// The inner table.
    pub table: String,
    /// The index to look up in; the primary key without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// As [`Scan::alias`], for the inner table.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Calculated of the outer row: what the first columns of the key or the index must be.
    pub lookup: Vec<Expr>,
    /// The pairs to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Expr>,
    /// Whether the columns of the table come before those of `outer`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub table_first: bool,
}

/// The pairs of a row of each input that have equal values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HashJoin {
    /// Kept in a hash table: the smaller one.
    pub build: Box<Plan>,
    /// Goes through once the hash table is complete.
    pub probe: Box<Plan>,
    /// What must be equal: an expression over the first input, one over the second.
    pub on: Vec<(Expr, Expr)>,
    /// The pairs to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Expr>,
    /// Whether the columns of `probe` come before those of `build`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub probe_first: bool,
}

/// Keeps the rows for which something is true.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// The rows.
    pub input: Box<Plan>,
    /// What must be true.
    pub keep: Expr,
}

/// Calculates new columns of each row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Project {
    /// The rows.
    pub input: Box<Plan>,
    /// The new columns, which are all there are above.
    pub columns: Vec<Named>,
}

/// An expression with a name. In a plan file a column alone stands for itself under its own name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "NamedFile", into = "NamedFile")]
pub struct Named {
    /// What the column is called above.
    pub name: String,
    /// What it is calculated from.
    pub of: Expr,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum NamedFile {
    Column(String),
    Named {
        #[serde(rename = "as")]
        name: String,
        of: Expr,
    },
}

impl From<NamedFile> for Named {
    fn from(file: NamedFile) -> Self {
        match file {
            NamedFile::Named { name, of } => Self { name, of },
            NamedFile::Column(column) => Self::column(&column),
        }
    }
}

impl From<Named> for NamedFile {
    fn from(named: Named) -> Self {
        match named.of {
            Expr::Column(column) if own_name(&column) == named.name => Self::Column(column),
            of => Self::Named {
                name: named.name,
                of,
            },
        }
    }
}

/// The column's name without its table's.
fn own_name(column: &str) -> &str {
    column.rsplit_once('.').map_or(column, |(_, name)| name)
}

impl Named {
    /// A column under its own name.
    #[must_use]
    pub fn column(name: &str) -> Self {
        Self {
            name: own_name(name).to_owned(),
            of: column(name),
        }
    }

    /// An expression under a name.
    #[must_use]
    pub fn new(name: &str, of: Expr) -> Self {
        Self {
            name: name.to_owned(),
            of,
        }
    }
}

/// Groups rows, and calculates over each group. Without groups there is one row, also where there are no rows
/// below.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Aggregate {
    /// The rows.
    pub input: Box<Plan>,
    /// Rows with equal values here are a group. Missing values equal each other here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub group_by: Vec<Named>,
    /// What is calculated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calculate: Vec<AggregateCall>,
}

/// One calculation over a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AggregateCall {
    /// Which.
    pub function: AggregateFunction,
    /// Over what; rows are counted without it. Missing values are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Expr>,
    /// What the column is called above.
    #[serde(rename = "as")]
    pub name: String,
}

/// What can be calculated over a group. All of it is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AggregateFunction {
    /// How many; an `i64`.
    Count,
    /// The sum, a decimal with the scale of what is added, of sixteen bytes. None of no values.
    Sum,
    /// The least value. None of no values.
    Min,
    /// The greatest value. None of no values.
    Max,
    /// The mean, a decimal with six more digits, rounded half away from zero. None of no values.
    Avg,
}

/// Puts rows into an order. Equal rows are ordered by all their columns, from the first on, so that the answer
/// does not depend on the order in which rows arrived.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sort {
    /// The rows.
    pub input: Box<Plan>,
    /// What decides, the first first.
    pub by: Vec<SortKey>,
}

/// What rows are ordered by. In a plan file an expression alone means ascending.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "SortKeyFile", into = "SortKeyFile")]
pub struct SortKey {
    /// Its value decides; missing values come first.
    pub of: Expr,
    /// Whether the greatest comes first, and missing values last.
    pub descending: bool,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum SortKeyFile {
    Descending { descending: Expr },
    Ascending(Expr),
}

impl From<SortKeyFile> for SortKey {
    fn from(file: SortKeyFile) -> Self {
        match file {
            SortKeyFile::Ascending(of) => Self {
                of,
                descending: false,
            },
            SortKeyFile::Descending { descending } => Self {
                of: descending,
                descending: true,
            },
        }
    }
}

impl From<SortKey> for SortKeyFile {
    fn from(key: SortKey) -> Self {
        if key.descending {
            Self::Descending { descending: key.of }
        } else {
            Self::Ascending(key.of)
        }
    }
}

/// Keeps the first rows. Which these are is not determined unless the rows below are sorted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// The rows.
    pub input: Box<Plan>,
    /// How many.
    pub rows: u64,
}

impl Plan {
    /// All rows of a table.
    #[must_use]
    pub fn scan(table: &str) -> Self {
        Self::Scan(Scan {
            table: table.to_owned(),
            alias: None,
            range: KeyRange::default(),
            filter: None,
        })
    }

    /// The rows of a table that a range of an index finds.
    #[must_use]
    pub fn index_scan(table: &str, index: &str, range: KeyRange) -> Self {
        Self::IndexScan(IndexScan {
            table: table.to_owned(),
            index: index.to_owned(),
            alias: None,
            range,
            filter: None,
        })
    }

    /// For each of these rows, those of a table with a primary key that begins with the values of these columns.
    #[must_use]
    pub fn lookup(self, table: &str, by: &[&str]) -> Self {
        self.nested_loop(table, None, by)
    }

    /// For each of these rows, those of a table with an entry in an index that begins with the values of these
    /// columns.
    #[must_use]
    pub fn index_lookup(self, table: &str, index: &str, by: &[&str]) -> Self {
        self.nested_loop(table, Some(index), by)
    }

    fn nested_loop(self, table: &str, index: Option<&str>, by: &[&str]) -> Self {
        Self::NestedLoopJoin(NestedLoopJoin {
            outer: Box::new(self),
            table: table.to_owned(),
            index: index.map(str::to_owned),
            alias: None,
            lookup: by.iter().map(|name| column(name)).collect(),
            filter: None,
            table_first: false,
        })
    }

    /// The pairs of these rows and those of `build`, which go into a hash table, in which these columns are
    /// equal: that of `build` first.
    #[must_use]
    pub fn hash_join(self, build: Self, on: &[(&str, &str)]) -> Self {
        let pair = |(build, probe): &(&str, &str)| (column(build), column(probe));
        Self::HashJoin(HashJoin {
            build: Box::new(build),
            probe: Box::new(self),
            on: on.iter().map(pair).collect(),
            filter: None,
            probe_first: false,
        })
    }

    /// The rows of a table for which this is true, found in the cheapest way.
    #[must_use]
    pub fn find(table: &str, filter: Expr) -> Self {
        Self::Find(Find {
            table: table.to_owned(),
            alias: None,
            filter: Some(filter),
        })
    }

    /// The pairs of these rows and those of another plan in which these columns are equal, found in the cheapest way.
    #[must_use]
    pub fn join(self, right: Self, on: &[(&str, &str)]) -> Self {
        let pair = |(left, right): &(&str, &str)| (column(left), column(right));
        Self::Join(Join {
            left: Box::new(self),
            right: Box::new(right),
            on: on.iter().map(pair).collect(),
            filter: None,
        })
    }

    /// Those of these rows for which this is true.
    #[must_use]
    pub fn filter(self, keep: Expr) -> Self {
        Self::Filter(Filter {
            input: Box::new(self),
            keep,
        })
    }

    /// New columns of these rows.
    #[must_use]
    pub fn project(self, columns: Vec<Named>) -> Self {
        Self::Project(Project {
            input: Box::new(self),
            columns,
        })
    }

    /// Groups of these rows with equal values in these columns, and what is calculated over each group.
    #[must_use]
    pub fn aggregate(self, group_by: &[&str], calculate: Vec<AggregateCall>) -> Self {
        Self::Aggregate(Aggregate {
            input: Box::new(self),
            group_by: group_by.iter().map(|name| Named::column(name)).collect(),
            calculate,
        })
    }

    /// These rows in an order: by these expressions, descending where it says so.
    #[must_use]
    pub fn sort(self, by: Vec<SortKey>) -> Self {
        Self::Sort(Sort {
            input: Box::new(self),
            by,
        })
    }

    /// The first of these rows.
    #[must_use]
    pub fn limit(self, rows: u64) -> Self {
        Self::Limit(Limit {
            input: Box::new(self),
            rows,
        })
    }
}

impl AggregateCall {
    /// Counts rows.
    #[must_use]
    pub fn count(name: &str) -> Self {
        Self {
            function: AggregateFunction::Count,
            of: None,
            name: name.to_owned(),
        }
    }

    /// Calculates over an expression.
    #[must_use]
    pub fn new(name: &str, function: AggregateFunction, of: Expr) -> Self {
        Self {
            function,
            of: Some(of),
            name: name.to_owned(),
        }
    }
}

impl SortKey {
    /// The least first.
    #[must_use]
    pub fn ascending(of: Expr) -> Self {
        Self {
            of,
            descending: false,
        }
    }

    /// The greatest first.
    #[must_use]
    pub fn descending(of: Expr) -> Self {
        Self {
            of,
            descending: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::literal;
    use super::*;

    /// Paper: oode §3, figure 1.
    #[test]
    fn the_papers_query_comes_back_from_json() {
        let range = KeyRange {
            equal: vec!["AUTOMOBILE".into()],
            above: Some(9980_i64.into()),
            ..KeyRange::default()
        };
        let plan = Plan::index_scan("customer", "segment_balance", range)
            .index_lookup("orders", "by_customer", &["c_custkey"])
            .aggregate(
                &["c_nationkey"],
                vec![
                    AggregateCall::new("total", AggregateFunction::Sum, column("o_totalprice")),
                    AggregateCall::count("orders"),
                ],
            )
            .sort(vec![SortKey::descending(column("total"))])
            .limit(10);
        let text = serde_json::to_string_pretty(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan, "{text}");
    }

    #[test]
    fn all_operators_come_back_from_json() {
        let plan = Plan::scan("a")
            .filter(column("x").less(literal(3)))
            .hash_join(Plan::scan("b"), &[("b.y", "a.y")])
            .lookup("c", &["x"])
            .project(vec![
                Named::column("a.x"),
                Named::new("z", literal(1).plus(column("y"))),
            ])
            .sort(vec![SortKey::ascending(column("x"))]);
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan, "{text}");
    }

    #[test]
    fn a_wrong_plan_says_where_and_what() {
        let text = "{ \"scan\": {\n \"tabel\": \"a\" } }";
        let error = serde_json::from_str::<Plan>(text).unwrap_err().to_string();
        assert!(
            error.contains("`tabel`") && error.contains("line 2"),
            "{error}"
        );
    }
}
