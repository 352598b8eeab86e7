//! The choices: a scan or an index scan, a nested-loop join or a hash join.

use super::access_paths::{conjunction, conjuncts, lookup_of, qualified, ranges_of};
use super::estimate::Estimator;
use super::price::Prices;
use crate::bind::bind;
use crate::plan::{Expr, Find, HashJoin, IndexScan, Join, NestedLoopJoin, Plan, Scan};
use crate::source::Tables;

/// The same plan with every choice made.
pub(crate) fn choose(plan: &Plan, tables: &Tables, prices: &Prices, is_ordered: bool) -> Plan {
    let chooser = Chooser {
        estimator: Estimator::new(plan, tables),
        tables,
        prices,
        is_ordered,
    };
    chooser.chosen(plan)
}

struct Chooser<'t> {
    estimator: Estimator<'t>,
    tables: &'t Tables,
    prices: &'t Prices,
    is_ordered: bool,
}

impl Chooser<'_> {
    fn chosen(&self, plan: &Plan) -> Plan {
        match plan {
            Plan::Find(find) => self.cheapest(self.accesses(find)),
            Plan::Join(join) => self.cheapest(self.joins(join)),
            _ => {
                let mut plan = plan.clone();
                for input in plan.inputs_mut() {
                    *input = self.chosen(input).into();
                }
                plan
            }
        }
    }

    /// The cheapest of several plans, at least one; the first of equal ones.
    fn cheapest(&self, plans: Vec<Plan>) -> Plan {
        let price = |plan: &Plan| {
            let estimated = self.estimator.estimate(plan);
            estimated.price.us(self.prices, self.is_ordered)
        };
        let priced = plans.into_iter().map(|plan| (price(&plan), plan));
        let least = priced.min_by(|(a, _), (b, _)| a.total_cmp(b));
        least
            .map(|(_, plan)| plan)
            .expect("there is always the way that always works")
    }

    /// The ways to the rows of a table.
    fn accesses(&self, find: &Find) -> Vec<Plan> {
        let Find {
            table,
            alias,
            filter,
        } = find;
        let called = alias.as_deref().unwrap_or(table);
        let parts = || conjuncts(filter.as_ref());
        let Some(found) = self.tables.get(table) else {
            // The binder reports that it does not exist.
            return vec![Plan::scan(table)];
        };
        let mut plans = Vec::new();
        for (range, left) in ranges_of(found.source.schema(), called, parts()) {
            plans.push(Plan::Scan(Scan {
                table: table.clone(),
                alias: alias.clone(),
                range,
                filter: conjunction(left),
            }));
        }
        for (name, index) in &found.indexes {
            for (range, left) in ranges_of(index.schema(), called, parts()) {
                plans.push(Plan::IndexScan(IndexScan {
                    table: table.clone(),
                    index: name.clone(),
                    alias: alias.clone(),
                    range,
                    filter: conjunction(left),
                }));
            }
        }
        plans
    }

    /// The ways to the pairs of a join.
    fn joins(&self, join: &Join) -> Vec<Plan> {
        let swapped = |on: &[(Expr, Expr)]| {
            on.iter()
                .map(|(left, right)| (right.clone(), left.clone()))
                .collect::<Vec<_>>()
        };
        let (left, right) = (self.chosen(&join.left), self.chosen(&join.right));
        let mut plans = vec![
            Plan::HashJoin(HashJoin {
                build: left.clone().into(),
                probe: right.clone().into(),
                on: join.on.clone(),
                filter: join.filter.clone(),
                probe_first: false,
            }),
            Plan::HashJoin(HashJoin {
                build: right.clone().into(),
                probe: left.clone().into(),
                on: swapped(&join.on),
                filter: join.filter.clone(),
                probe_first: true,
            }),
        ];
        let filter = join.filter.as_ref();
        if let Plan::Find(inner) = &*join.right {
            plans.extend(self.nested_loops(&left, inner, &join.on, filter, false));
        }
        if let Plan::Find(inner) = &*join.left {
            plans.extend(self.nested_loops(&right, inner, &swapped(&join.on), filter, true));
        }
        plans
    }

    /// The ways to look the rows of a table up for each outer row.
    fn nested_loops(
        &self,
        outer: &Plan,
        inner: &Find,
        on: &[(Expr, Expr)],
        filter: Option<&Expr>,
        table_first: bool,
    ) -> Vec<Plan> {
        let Some(found) = self.tables.get(&inner.table) else {
            return Vec::new();
        };
        let called = inner.alias.as_deref().unwrap_or(&inner.table);
        let indexes = found
            .indexes
            .iter()
            .map(|(name, index)| (Some(name.clone()), index));
        let paths = std::iter::once((None, &found.source)).chain(indexes);
        let mut plans = Vec::new();
        for (index, source) in paths {
            let (lookup, left) = lookup_of(source.schema(), called, on.to_vec());
            if lookup.is_empty() {
                continue;
            }
            let mut parts: Vec<Expr> = left
                .into_iter()
                .map(|(outer, inner)| outer.equal(qualified(&inner, called)))
                .collect();
            parts.extend(inner.filter.as_ref().map(|own| qualified(own, called)));
            parts.extend(filter.cloned());
            let plan = Plan::NestedLoopJoin(NestedLoopJoin {
                outer: outer.clone().into(),
                table: inner.table.clone(),
                index,
                alias: inner.alias.clone(),
                lookup,
                filter: conjunction(parts),
                table_first,
            });
            // A column that both sides have may be ambiguous in one condition over both.
            if bind(&plan, self.tables).is_ok() {
                plans.push(plan);
            }
        }
        plans
    }
}
