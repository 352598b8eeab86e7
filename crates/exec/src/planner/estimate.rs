//! Estimates of plans, operator by operator.

use super::price::Price;
use super::scope::{Scope, Size};
use super::selectivity::{of_range, selectivity};
use super::used_columns::UsedColumns;
use crate::plan::{Aggregate, Expr, IndexScan, KeyRange, NestedLoopJoin, Plan};
use crate::source::Tables;

/// Estimated rows and price of an operator, including the operators below.
#[derive(Clone, Debug, Default)]
pub(crate) struct Estimated {
    pub(crate) rows: f64,
    /// The price, with all operators below.
    pub(crate) price: Price,
    pub(super) scope: Scope,
    /// The operators below, in the order of the plan.
    pub(crate) inputs: Vec<Estimated>,
}

/// A look-up in memory, in rows' work: a search instead of a step.
const ROWS_PER_LOOKUP: f64 = 5.0;

/// Estimates the operators of one plan.
pub(crate) struct Estimator<'t> {
    pub(super) tables: &'t Tables,
    pub(super) used: UsedColumns,
}

impl<'t> Estimator<'t> {
    /// An estimator for the operators of a plan over these tables.
    pub(crate) fn new(plan: &Plan, tables: &'t Tables) -> Self {
        Self {
            tables,
            used: UsedColumns::of(plan),
        }
    }

    pub(crate) fn estimate(&self, plan: &Plan) -> Estimated {
        match plan {
            Plan::Find(find) => {
                let all = KeyRange::default();
                self.scan(
                    &find.table,
                    find.alias.as_deref(),
                    &all,
                    find.filter.as_ref(),
                )
            }
            Plan::Scan(scan) => {
                let (alias, filter) = (scan.alias.as_deref(), scan.filter.as_ref());
                self.scan(&scan.table, alias, &scan.range, filter)
            }
            Plan::IndexScan(scan) => self.index_scan(scan),
            Plan::NestedLoopJoin(join) => self.nested_loop(join),
            Plan::Join(join) => {
                let (left, right) = (self.estimate(&join.left), self.estimate(&join.right));
                self.hash_join(left, right, &join.on, join.filter.as_ref(), false)
            }
            Plan::HashJoin(join) => {
                let (build, probe) = (self.estimate(&join.build), self.estimate(&join.probe));
                self.hash_join(
                    build,
                    probe,
                    &join.on,
                    join.filter.as_ref(),
                    join.probe_first,
                )
            }
            Plan::Filter(filter) => {
                let input = self.estimate(&filter.input);
                let share = selectivity(&filter.keep, &input.scope, input.rows);
                let rows = input.rows * share;
                let work = input.rows;
                above(vec![input], rows, work, None)
            }
            Plan::Project(project) => {
                let input = self.estimate(&project.input);
                let scope = input.scope.of_named(&project.columns, input.rows);
                let rows = input.rows;
                above(vec![input], rows, rows, Some(scope))
            }
            Plan::Aggregate(aggregate) => self.aggregate(aggregate),
            Plan::Sort(sort) => {
                let input = self.estimate(&sort.input);
                let rows = input.rows;
                let work = rows * rows.max(2.0).log2();
                above(vec![input], rows, work, None)
            }
            Plan::Limit(limit) => {
                let input = self.estimate(&limit.input);
                let rows = input.rows.min(limit.rows as f64);
                above(vec![input], rows, rows, None)
            }
        }
    }

    fn size(&self, table: &str, index: Option<&str>) -> Size {
        Size::of(self.tables.get(table), index)
    }

    /// The columns of a table's key, or of an index.
    fn key_columns(&self, table: &str, index: Option<&str>) -> Vec<&'t str> {
        let Some(table) = self.tables.get(table) else {
            return Vec::new();
        };
        let source = match index {
            Some(index) => table.indexes.get(index),
            None => Some(&table.source),
        };
        let Some(source) = source else {
            return Vec::new();
        };
        let schema = source.schema();
        schema
            .key()
            .iter()
            .map(|at| schema.columns()[*at].name.as_str())
            .collect()
    }

    fn scan(
        &self,
        table: &str,
        alias: Option<&str>,
        range: &KeyRange,
        filter: Option<&Expr>,
    ) -> Estimated {
        let scope = Scope::of_table(self.tables, table, alias);
        let size = self.size(table, None);
        let columns = self.key_columns(table, None);
        let share = of_range(range, &columns, &scope, size.rows);
        let mut rows = size.rows * share;
        if range.one_of.len() == columns.len() {
            // A whole key finds one row at most.
            rows = rows.min(combinations(range));
        }
        let price = self.read(size, range, share, rows);
        let kept = filter.map_or(1.0, |filter| selectivity(filter, &scope, size.rows));
        Estimated {
            rows: rows * kept,
            price,
            scope,
            inputs: Vec::new(),
        }
    }

    fn index_scan(&self, scan: &IndexScan) -> Estimated {
        let (table, index) = (scan.table.as_str(), scan.index.as_str());
        let scope = Scope::of_table(self.tables, table, scan.alias.as_deref());
        let size = self.size(table, Some(index));
        let columns = self.key_columns(table, Some(index));
        let share = of_range(&scan.range, &columns, &scope, size.rows);
        let entries = size.rows * share;
        let mut price = self.read(size, &scan.range, share, entries);
        if !self.used.are_in_index(self.tables, table, index) {
            price += self.lookups(self.size(table, None), entries);
        }
        let filter = scan.filter.as_ref();
        let kept = filter.map_or(1.0, |filter| selectivity(filter, &scope, size.rows));
        Estimated {
            rows: entries * kept,
            price,
            scope,
            inputs: Vec::new(),
        }
    }

    /// The cost of reading a part of a key's order: one stretch of pages, or one for each
    /// combination of values.
    fn read(&self, size: Size, range: &KeyRange, share: f64, rows: f64) -> Price {
        let stretch = Price {
            sequential_pages: (size.pages * share).ceil(),
            ..Price::of_rows(rows)
        };
        if range.one_of.is_empty() {
            return stretch;
        }
        self.lookups(size, combinations(range)) + Price::of_rows(rows)
    }

    /// Look-ups of single rows.
    fn lookups(&self, size: Size, lookups: f64) -> Price {
        Price {
            reads: size.pages_of(lookups),
            ..Price::of_rows(lookups * ROWS_PER_LOOKUP)
        }
    }

    fn nested_loop(&self, join: &NestedLoopJoin) -> Estimated {
        let outer = self.estimate(&join.outer);
        let (table, index) = (join.table.as_str(), join.index.as_deref());
        let inner = Scope::of_table(self.tables, table, join.alias.as_deref());
        let size = self.size(table, None);
        let columns = self.key_columns(table, index);
        // In each pair of equal columns the one with more values decides.
        let mut share = 1.0;
        for (value, column) in join.lookup.iter().zip(&columns) {
            let own = inner.distinct(&crate::plan::column(column), size.rows);
            share /= own.max(outer.scope.distinct(value, outer.rows));
        }
        // A whole key finds one row at most.
        let is_key = index.is_none() && join.lookup.len() == columns.len();
        let per_row = size.rows * share;
        let found = outer.rows * if is_key { per_row.min(1.0) } else { per_row };
        let mut price = match index {
            None => self.lookups(size, outer.rows),
            Some(index) => {
                let mut price = self.lookups(self.size(table, Some(index)), outer.rows);
                if !self.used.are_in_index(self.tables, table, index) {
                    price += self.lookups(size, found);
                }
                price
            }
        };
        price += Price::of_rows(found);
        let scope = if join.table_first {
            inner.with(outer.scope.clone())
        } else {
            outer.scope.clone().with(inner)
        };
        let filter = join.filter.as_ref();
        let kept = filter.map_or(1.0, |filter| selectivity(filter, &scope, found));
        Estimated {
            rows: found * kept,
            price: price + outer.price,
            scope,
            inputs: vec![outer],
        }
    }

    fn hash_join(
        &self,
        build: Estimated,
        probe: Estimated,
        on: &[(Expr, Expr)],
        filter: Option<&Expr>,
        probe_first: bool,
    ) -> Estimated {
        let mut share = 1.0;
        for (left, right) in on {
            let left = build.scope.distinct(left, build.rows);
            share /= left.max(probe.scope.distinct(right, probe.rows));
        }
        let found = build.rows * probe.rows * share;
        let (first, second) = (build.scope.clone(), probe.scope.clone());
        let scope = if probe_first {
            second.with(first)
        } else {
            first.with(second)
        };
        let kept = filter.map_or(1.0, |filter| selectivity(filter, &scope, found));
        // A row of the table is copied, and found again out of the processor's cache.
        let work = build.rows * 4.0 + probe.rows * 2.0 + found;
        above(vec![build, probe], found * kept, work, Some(scope))
    }

    fn aggregate(&self, aggregate: &Aggregate) -> Estimated {
        let input = self.estimate(&aggregate.input);
        let mut groups = 1.0_f64;
        for named in &aggregate.group_by {
            groups *= input.scope.distinct(&named.of, input.rows);
        }
        let rows = if aggregate.group_by.is_empty() {
            1.0
        } else {
            groups.min(input.rows)
        };
        let mut scope = input.scope.of_named(&aggregate.group_by, input.rows);
        for call in &aggregate.calculate {
            scope.add_unknown(&call.name, rows);
        }
        let work = input.rows * 2.0 + rows;
        above(vec![input], rows, work, Some(scope))
    }
}

/// Number of combinations of values that a range is looked up by.
fn combinations(range: &KeyRange) -> f64 {
    range.one_of.iter().map(|list| list.len() as f64).product()
}

/// An operator above others, with its rows and those that it works on.
fn above(inputs: Vec<Estimated>, rows: f64, work: f64, scope: Option<Scope>) -> Estimated {
    let mut price = Price::of_rows(work);
    for input in &inputs {
        price += input.price;
    }
    let scope = scope.or_else(|| inputs.first().map(|input| input.scope.clone()));
    Estimated {
        rows,
        price,
        scope: scope.unwrap_or_default(),
        inputs,
    }
}
