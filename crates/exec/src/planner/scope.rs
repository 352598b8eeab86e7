//! Columns of an operator, with statistics.

use std::sync::Arc;

use crate::plan::{Expr, ExprNode, Named};
use crate::source::{Table, Tables};
use crate::statistics::{ColumnStatistics, TableStatistics};

/// The columns that an operator gives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    columns: Vec<ScopeColumn>,
}

#[derive(Clone, Debug)]
struct ScopeColumn {
    /// The table or its alias; empty for a calculated column.
    table: String,
    name: String,
    /// Estimated number of different values.
    distinct: f64,
    /// The statistics of the table, and the column's name in it; `None` for a calculated column.
    statistics: Option<(Arc<TableStatistics>, String)>,
}

/// Assumed number of different values of a column without statistics, for a number of rows.
fn unknown_distinct(rows: f64) -> f64 {
    // Neither a key nor a flag.
    rows.max(1.0).powf(0.7)
}

impl Scope {
    /// The columns of a table.
    pub(super) fn of_table(tables: &Tables, table: &str, alias: Option<&str>) -> Self {
        let Some(found) = tables.get(table) else {
            return Self::default();
        };
        let schema = found.source.schema();
        let columns = schema.columns().iter().enumerate().map(|(at, column)| {
            let statistics = found.statistics.clone();
            let statistics =
                statistics.filter(|statistics| statistics.columns.contains_key(&column.name));
            let rows = found.source.rows() as f64;
            let distinct = match &statistics {
                Some(statistics) => statistics.columns[&column.name].distinct as f64,
                // A key of one column has as many values as there are rows.
                None if schema.key() == [at] => rows,
                None => unknown_distinct(rows),
            };
            ScopeColumn {
                table: alias.unwrap_or(table).to_owned(),
                name: column.name.clone(),
                distinct: distinct.max(1.0),
                statistics: statistics.map(|statistics| (statistics, column.name.clone())),
            }
        });
        Self {
            columns: columns.collect(),
        }
    }

    fn find(&self, name: &str) -> Option<&ScopeColumn> {
        let mut columns = self.columns.iter();
        columns.find(|column| {
            column.name == name
                || name
                    .split_once('.')
                    .is_some_and(|(table, own)| column.table == table && column.name == own)
        })
    }

    /// Statistics of a column, and the number of rows they are of.
    pub(super) fn statistics(&self, name: &str) -> Option<(&ColumnStatistics, u64)> {
        let (statistics, column) = self.find(name)?.statistics.as_ref()?;
        Some((statistics.columns.get(column)?, statistics.rows))
    }

    /// Estimated number of different values of an expression, for a number of rows.
    pub(super) fn distinct(&self, expr: &Expr, rows: f64) -> f64 {
        let of_columns = match expr.node() {
            ExprNode::Column(name) => self.find(name).map(|column| column.distinct),
            ExprNode::Literal(_) => Some(1.0),
            _ => None,
        };
        of_columns
            .unwrap_or_else(|| unknown_distinct(rows))
            .clamp(1.0, rows.max(1.0))
    }

    /// The columns of both.
    pub(super) fn with(mut self, other: Self) -> Self {
        self.columns.extend(other.columns);
        self
    }

    /// Calculated columns.
    pub(super) fn of_named<'n>(
        &self,
        named: impl IntoIterator<Item = &'n Named>,
        rows: f64,
    ) -> Self {
        let columns = named.into_iter().map(|named| {
            let statistics = match named.of.node() {
                ExprNode::Column(name) => {
                    self.find(name).and_then(|column| column.statistics.clone())
                }
                _ => None,
            };
            ScopeColumn {
                table: String::new(),
                name: named.name.clone(),
                distinct: self.distinct(&named.of, rows),
                statistics,
            }
        });
        Self {
            columns: columns.collect(),
        }
    }

    /// One more column, without statistics.
    pub(super) fn add_unknown(&mut self, name: &str, rows: f64) {
        self.columns.push(ScopeColumn {
            table: String::new(),
            name: name.to_owned(),
            distinct: unknown_distinct(rows),
            statistics: None,
        });
    }
}

/// Rows and pages of a table, or of one of its indexes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) rows: f64,
    /// None where rows are in memory.
    pub(super) pages: f64,
}

impl Size {
    pub(super) fn of(table: Option<&Table>, index: Option<&str>) -> Self {
        let source = table.and_then(|table| match index {
            Some(index) => table.indexes.get(index),
            None => Some(&table.source),
        });
        let Some(source) = source else {
            return Self::default();
        };
        let segments = source.segments().unwrap_or_default();
        Self {
            rows: source.rows() as f64,
            pages: segments
                .iter()
                .map(|segment| f64::from(segment.data_pages()))
                .sum(),
        }
    }

    /// Cardenas' formula: the number of different pages that look-ups of single rows reach.
    pub(super) fn pages_of(&self, lookups: f64) -> f64 {
        if self.pages <= 1.0 {
            return self.pages.min(lookups);
        }
        self.pages * (1.0 - (1.0 - 1.0 / self.pages).powf(lookups.max(0.0)))
    }
}
