//! Inputs and expressions of operators, for walks through a plan.

use std::collections::{BTreeSet, HashSet};

use super::expression::Expr;
use super::operators::{Input, KeyRange, Plan};

impl Plan {
    /// The inputs of this operator.
    pub fn inputs(&self) -> Vec<&Plan> {
        self.edges().into_iter().map(|input| &**input).collect()
    }

    pub(super) fn edges(&self) -> Vec<&Input> {
        match self {
            Self::Find(_) | Self::Scan(_) | Self::IndexScan(_) => Vec::new(),
            Self::Join(join) => vec![&join.left, &join.right],
            Self::NestedLoopJoin(join) => vec![&join.outer],
            Self::HashJoin(join) => vec![&join.build, &join.probe],
            Self::Filter(filter) => vec![&filter.input],
            Self::Project(project) => vec![&project.input],
            Self::Aggregate(aggregate) => vec![&aggregate.input],
            Self::Sort(sort) => vec![&sort.input],
            Self::Limit(limit) => vec![&limit.input],
        }
    }

    /// The same, to replace them.
    pub fn inputs_mut(&mut self) -> Vec<&mut Input> {
        match self {
            Self::Find(_) | Self::Scan(_) | Self::IndexScan(_) => Vec::new(),
            Self::Join(join) => vec![&mut join.left, &mut join.right],
            Self::NestedLoopJoin(join) => vec![&mut join.outer],
            Self::HashJoin(join) => vec![&mut join.build, &mut join.probe],
            Self::Filter(filter) => vec![&mut filter.input],
            Self::Project(project) => vec![&mut project.input],
            Self::Aggregate(aggregate) => vec![&mut aggregate.input],
            Self::Sort(sort) => vec![&mut sort.input],
            Self::Limit(limit) => vec![&mut limit.input],
        }
    }

    /// The expressions of this operator.
    pub(crate) fn expressions(&self) -> Vec<&Expr> {
        fn both((left, right): &(Expr, Expr)) -> [&Expr; 2] {
            [left, right]
        }
        let mut all: Vec<&Expr> = Vec::new();
        match self {
            Self::Find(find) => all.extend(&find.filter),
            Self::Scan(scan) => all.extend(&scan.filter),
            Self::IndexScan(scan) => all.extend(&scan.filter),
            Self::Join(join) => {
                all.extend(join.on.iter().flat_map(both));
                all.extend(&join.filter);
            }
            Self::NestedLoopJoin(join) => {
                all.extend(&join.lookup);
                all.extend(&join.filter);
            }
            Self::HashJoin(join) => {
                all.extend(join.on.iter().flat_map(both));
                all.extend(&join.filter);
            }
            Self::Filter(filter) => all.push(&filter.keep),
            Self::Project(project) => all.extend(project.columns.iter().map(|named| &named.of)),
            Self::Aggregate(aggregate) => {
                all.extend(aggregate.group_by.iter().map(|named| &named.of));
                all.extend(
                    aggregate
                        .calculate
                        .iter()
                        .filter_map(|call| call.of.as_ref()),
                );
            }
            Self::Sort(sort) => all.extend(sort.by.iter().map(|key| &key.of)),
            Self::Limit(_) => {}
        }
        all
    }

    /// The range that this operator reads.
    pub(super) fn range(&self) -> Option<&KeyRange> {
        match self {
            Self::Scan(scan) => Some(&scan.range),
            Self::IndexScan(scan) => Some(&scan.range),
            _ => None,
        }
    }

    /// The names that this operator gives to columns.
    pub(super) fn names(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        match self {
            Self::Project(project) => all.extend(project.columns.iter().map(|it| &*it.name)),
            Self::Aggregate(aggregate) => {
                all.extend(aggregate.group_by.iter().map(|it| &*it.name));
                all.extend(aggregate.calculate.iter().map(|it| &*it.name));
            }
            _ => {}
        }
        all
    }

    /// The table that this operator reads.
    pub fn table(&self) -> Option<&str> {
        match self {
            Self::Find(find) => Some(&find.table),
            Self::Scan(scan) => Some(&scan.table),
            Self::IndexScan(scan) => Some(&scan.table),
            Self::NestedLoopJoin(join) => Some(&join.table),
            _ => None,
        }
    }

    /// This operator and all below it; a shared one once.
    pub(super) fn operators(&self) -> impl Iterator<Item = &Self> {
        let mut left = vec![self];
        let mut seen = HashSet::from([std::ptr::from_ref(self)]);
        std::iter::from_fn(move || {
            let plan = left.pop()?;
            let inputs = plan.inputs().into_iter();
            left.extend(inputs.filter(|input| seen.insert(std::ptr::from_ref(*input))));
            Some(plan)
        })
    }

    /// All tables of the plan.
    pub fn tables(&self) -> BTreeSet<&str> {
        self.operators().filter_map(Self::table).collect()
    }
}
