//! The logical plan behind a physical one: its choices are reopened, for the planner or for scans.
//!
//! An answer is checked by the plan without indexes and look-ups where the naive evaluator would
//! take too much memory.

use namiki_data::columns::Schema;
use namiki_exec::plan::{Expr, Find, HashJoin, Input, Join, KeyRange, Plan, Scan, column, literal};
use namiki_exec::source::{Source, Tables};

/// The plan with its choices left to the planner. `None` if it names an unknown table, column or
/// index.
pub(super) fn logical_plan(plan: &Plan, tables: &Tables) -> Option<Plan> {
    let mut plan = plan.clone();
    for input in plan.inputs_mut() {
        *input = logical_plan(input, tables)?.into();
    }
    Some(match plan {
        Plan::Scan(scan) => {
            let schema = tables.get(&scan.table)?.source.schema();
            find(scan.table, scan.alias, &scan.range, schema, scan.filter)?
        }
        Plan::IndexScan(scan) => {
            let schema = index_schema(tables, &scan.table, Some(&scan.index))?;
            find(scan.table, scan.alias, &scan.range, schema, scan.filter)?
        }
        Plan::NestedLoopJoin(join) => {
            let schema = index_schema(tables, &join.table, join.index.as_deref())?;
            let called = join.alias.as_ref().unwrap_or(&join.table);
            let looked_up = join.lookup.into_iter().zip(schema.key());
            let on = looked_up.map(|(of, at)| {
                let name = format!("{called}.{}", schema.columns()[*at].name);
                (of, column(&name))
            });
            let on = on.collect();
            let inner = Plan::Find(Find {
                table: join.table,
                alias: join.alias,
                filter: None,
            });
            join_of(join.outer, inner.into(), on, join.filter, join.table_first)
        }
        Plan::HashJoin(join) => join_of(
            join.build,
            join.probe,
            join.on,
            join.filter,
            join.probe_first,
        ),
        other => other,
    })
}

/// The plan that scans every table completely and joins by hash tables. `None` if it names an
/// unknown table, column or index.
pub(super) fn sequential_plan(plan: &Plan, tables: &Tables) -> Option<Plan> {
    logical_plan(plan, tables).map(without_choices)
}

fn without_choices(mut plan: Plan) -> Plan {
    for input in plan.inputs_mut() {
        *input = without_choices((**input).clone()).into();
    }
    match plan {
        Plan::Find(find) => Plan::Scan(Scan {
            table: find.table,
            alias: find.alias,
            range: KeyRange::default(),
            filter: find.filter,
        }),
        Plan::Join(join) => Plan::HashJoin(HashJoin {
            build: join.left,
            probe: join.right,
            on: join.on,
            filter: join.filter,
            probe_first: false,
        }),
        other => other,
    }
}

fn find(
    table: String,
    alias: Option<String>,
    range: &KeyRange,
    schema: &Schema,
    filter: Option<Expr>,
) -> Option<Plan> {
    let in_range = in_range(range, schema, alias.as_ref().unwrap_or(&table))?;
    Some(Plan::Find(Find {
        filter: in_range.into_iter().chain(filter).reduce(Expr::and),
        table,
        alias,
    }))
}

fn join_of(
    first: Input,
    second: Input,
    on: Vec<(Expr, Expr)>,
    filter: Option<Expr>,
    second_first: bool,
) -> Plan {
    let (left, right, on) = if second_first {
        let turned = on.into_iter().map(|(first, second)| (second, first));
        (second, first, turned.collect())
    } else {
        (first, second, on)
    };
    Plan::Join(Join {
        left,
        right,
        on,
        filter,
    })
}

fn index_schema<'t>(tables: &'t Tables, table: &str, index: Option<&str>) -> Option<&'t Schema> {
    let table = tables.get(table)?;
    let source: &dyn Source = match index {
        Some(index) => &**table.indexes.get(index)?,
        None => &*table.source,
    };
    Some(source.schema())
}

/// The conditions that hold for the rows in a range.
fn in_range(range: &KeyRange, schema: &Schema, called: &str) -> Option<Vec<Expr>> {
    let key_column = |at: usize| {
        let at = schema.key().get(at)?;
        Some(column(&format!("{called}.{}", schema.columns()[*at].name)))
    };
    let mut all = Vec::new();
    for (at, value) in range.equal.iter().enumerate() {
        all.push(key_column(at)?.equal(literal(value.clone())));
    }
    for (at, list) in range.one_of.iter().enumerate() {
        all.push(key_column(at)?.is_in(list.iter().cloned()));
    }
    let bounds: [(_, fn(Expr, Expr) -> Expr); 4] = [
        (&range.from, Expr::greater_or_equal),
        (&range.above, Expr::greater),
        (&range.to, Expr::less_or_equal),
        (&range.below, Expr::less),
    ];
    for (bound, compare) in bounds {
        if let Some(bound) = bound {
            let next = key_column(range.equal.len())?;
            all.push(compare(next, literal(bound.clone())));
        }
    }
    Some(all)
}
