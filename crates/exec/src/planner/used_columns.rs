//! Which columns of tables a plan uses, by their bare names: an index that has all of them spares the rows.

use std::collections::BTreeSet;

use crate::plan::{Expr, Plan};
use crate::source::{Table, Tables};

/// The names of the columns that a plan uses anywhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct UsedColumns {
    names: BTreeSet<String>,
    /// Whole rows come out, or into a sort.
    all: bool,
}

impl UsedColumns {
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut used = Self::default();
        used.visit(plan, true);
        used
    }

    /// Whether an index of a table has all of its columns that are used.
    pub(super) fn are_in_index(&self, tables: &Tables, table: &str, index: &str) -> bool {
        let Some(table) = tables.get(table) else {
            return false;
        };
        let Some(index) = table.indexes.get(index) else {
            return false;
        };
        let index = index.schema();
        self.of_table(table)
            .all(|name| index.column(name).is_some())
    }

    fn of_table<'t>(&'t self, table: &'t Table) -> impl Iterator<Item = &'t str> {
        let columns = table
            .source
            .schema()
            .columns()
            .iter()
            .map(|column| column.name.as_str());
        columns.filter(|name| self.all || self.names.contains(*name))
    }

    fn add(&mut self, expr: &Expr) {
        match expr {
            Expr::Column(name) => {
                let own = name.rsplit_once('.').map_or(name.as_str(), |(_, own)| own);
                self.names.insert(own.to_owned());
            }
            Expr::Literal(_) => {}
            Expr::Compare(_, left, right) | Expr::Calculate(_, left, right) => {
                self.add(left);
                self.add(right);
            }
            Expr::And(parts) | Expr::Or(parts) => parts.iter().for_each(|part| self.add(part)),
            Expr::Not(inner)
            | Expr::IsNull(inner)
            | Expr::In(inner, _)
            | Expr::StartsWith(inner, _)
            | Expr::Contains(inner, _) => self.add(inner),
        }
    }

    /// `whole`: all columns of the operator are used.
    fn visit(&mut self, plan: &Plan, whole: bool) {
        match plan {
            Plan::Find(find) => self.access(find.filter.as_ref(), whole),
            Plan::Scan(scan) => self.access(scan.filter.as_ref(), whole),
            Plan::IndexScan(scan) => self.access(scan.filter.as_ref(), whole),
            Plan::NestedLoopJoin(join) => {
                self.access(join.filter.as_ref(), whole);
                join.lookup.iter().for_each(|value| self.add(value));
                self.visit(&join.outer, whole);
            }
            Plan::HashJoin(join) => {
                self.pairs(&join.on, join.filter.as_ref());
                self.visit(&join.build, whole);
                self.visit(&join.probe, whole);
            }
            Plan::Join(join) => {
                self.pairs(&join.on, join.filter.as_ref());
                self.visit(&join.left, whole);
                self.visit(&join.right, whole);
            }
            Plan::Filter(filter) => {
                self.add(&filter.keep);
                self.visit(&filter.input, whole);
            }
            Plan::Project(project) => {
                project.columns.iter().for_each(|named| self.add(&named.of));
                self.visit(&project.input, false);
            }
            Plan::Aggregate(aggregate) => {
                aggregate
                    .group_by
                    .iter()
                    .for_each(|named| self.add(&named.of));
                let of = aggregate
                    .calculate
                    .iter()
                    .filter_map(|call| call.of.as_ref());
                of.for_each(|of| self.add(of));
                self.visit(&aggregate.input, false);
            }
            Plan::Sort(sort) => {
                sort.by.iter().for_each(|key| self.add(&key.of));
                // All columns decide between equal rows.
                self.visit(&sort.input, true);
            }
            Plan::Limit(limit) => self.visit(&limit.input, whole),
        }
    }

    fn access(&mut self, filter: Option<&Expr>, whole: bool) {
        self.all |= whole;
        filter.into_iter().for_each(|filter| self.add(filter));
    }

    fn pairs(&mut self, on: &[(Expr, Expr)], filter: Option<&Expr>) {
        for (left, right) in on {
            self.add(left);
            self.add(right);
        }
        filter.into_iter().for_each(|filter| self.add(filter));
    }
}
