//! Plans built by functions, from the tables up.

use super::calculated::{AggregateCall, AggregateFunction, Named, SortKey};
use super::expression::{Expr, column};
use super::operators::{
    Aggregate, Filter, Find, HashJoin, IndexScan, Join, KeyRange, Limit, NestedLoopJoin, Plan,
    Project, Scan, Sort,
};

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

    /// Joins each of these rows with the rows of a table with a primary key that begins with the
    /// values of these columns.
    #[must_use]
    pub fn lookup(self, table: &str, by: &[&str]) -> Self {
        self.nested_loop(table, None, by)
    }

    /// Joins each of these rows with the rows of a table with an entry in an index that begins with
    /// the values of these columns.
    #[must_use]
    pub fn index_lookup(self, table: &str, index: &str, by: &[&str]) -> Self {
        self.nested_loop(table, Some(index), by)
    }

    fn nested_loop(self, table: &str, index: Option<&str>, by: &[&str]) -> Self {
        Self::NestedLoopJoin(NestedLoopJoin {
            outer: self.into(),
            table: table.to_owned(),
            index: index.map(str::to_owned),
            alias: None,
            lookup: by.iter().map(|name| column(name)).collect(),
            filter: None,
            table_first: false,
        })
    }

    /// The pairs of these rows and those of `build` in which these columns are equal. The rows of
    /// `build` go into a hash table, and their columns come first.
    #[must_use]
    pub fn hash_join(self, build: Self, on: &[(&str, &str)]) -> Self {
        let pair = |(build, probe): &(&str, &str)| (column(build), column(probe));
        Self::HashJoin(HashJoin {
            build: build.into(),
            probe: self.into(),
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

    /// The pairs of these rows and those of another plan in which these columns are equal, found in
    /// the cheapest way.
    #[must_use]
    pub fn join(self, right: Self, on: &[(&str, &str)]) -> Self {
        let pair = |(left, right): &(&str, &str)| (column(left), column(right));
        Self::Join(Join {
            left: self.into(),
            right: right.into(),
            on: on.iter().map(pair).collect(),
            filter: None,
        })
    }

    /// Keeps the rows for which this is true.
    #[must_use]
    pub fn filter(self, keep: Expr) -> Self {
        Self::Filter(Filter {
            input: self.into(),
            keep,
        })
    }

    /// New columns of these rows.
    #[must_use]
    pub fn project(self, columns: Vec<Named>) -> Self {
        Self::Project(Project {
            input: self.into(),
            columns,
        })
    }

    /// Groups of these rows with equal values in these columns, and what is calculated over each
    /// group.
    #[must_use]
    pub fn aggregate(self, group_by: &[&str], calculate: Vec<AggregateCall>) -> Self {
        Self::Aggregate(Aggregate {
            input: self.into(),
            group_by: group_by.iter().map(|name| Named::column(name)).collect(),
            calculate,
        })
    }

    /// Sorts the rows by these expressions.
    #[must_use]
    pub fn sort(self, by: Vec<SortKey>) -> Self {
        Self::Sort(Sort {
            input: self.into(),
            by,
        })
    }

    /// The first of these rows.
    #[must_use]
    pub fn limit(self, rows: u64) -> Self {
        Self::Limit(Limit {
            input: self.into(),
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
