//! The same query without an index: every table is read from end to end, and joins are hash joins.
//!
//! It is what the planner would choose for much of a table, and it is what answers are checked by where the plain
//! evaluator would take too much memory: no index and no look-up takes part in it.

use namiki_exec::data::Schema;
use namiki_exec::plan::{
    Aggregate, Expr, Filter, HashJoin, KeyRange, Limit, Plan, Project, Scan, Sort, column,
};
use namiki_exec::source::{Source, Tables};

/// The plan with scans for look-ups; nothing if it names what there is not.
pub(crate) fn sequential_form(plan: &Plan, tables: &Tables) -> Option<Plan> {
    let below = |input: &Plan| sequential_form(input, tables).map(Box::new);
    Some(match plan {
        Plan::Scan(scan) => Plan::Scan(scan.clone()),
        Plan::Find(find) => Plan::Scan(Scan {
            table: find.table.clone(),
            alias: find.alias.clone(),
            range: KeyRange::default(),
            filter: find.filter.clone(),
        }),
        Plan::Join(join) => Plan::HashJoin(HashJoin {
            build: below(&join.left)?,
            probe: below(&join.right)?,
            on: join.on.clone(),
            filter: join.filter.clone(),
            probe_first: false,
        }),
        Plan::IndexScan(scan) => {
            let schema = index_schema(tables, &scan.table, Some(&scan.index))?;
            let called = scan.alias.as_ref().unwrap_or(&scan.table);
            let in_range = in_range(&scan.range, schema, called)?;
            Plan::Scan(Scan {
                table: scan.table.clone(),
                alias: scan.alias.clone(),
                range: KeyRange::default(),
                filter: in_range
                    .into_iter()
                    .chain(scan.filter.clone())
                    .reduce(Expr::and),
            })
        }
        Plan::NestedLoopJoin(join) => {
            let schema = index_schema(tables, &join.table, join.index.as_deref())?;
            let called = join.alias.as_ref().unwrap_or(&join.table);
            let looked_up = join.lookup.iter().zip(schema.key());
            let on = looked_up.map(|(of, at)| {
                (
                    of.clone(),
                    column(&format!("{called}.{}", schema.columns()[*at].name)),
                )
            });
            Plan::HashJoin(HashJoin {
                build: below(&join.outer)?,
                probe: Box::new(Plan::Scan(Scan {
                    table: join.table.clone(),
                    alias: join.alias.clone(),
                    range: KeyRange::default(),
                    filter: None,
                })),
                on: on.collect(),
                filter: join.filter.clone(),
                probe_first: join.table_first,
            })
        }
        Plan::HashJoin(join) => Plan::HashJoin(HashJoin {
            build: below(&join.build)?,
            probe: below(&join.probe)?,
            ..join.clone()
        }),
        Plan::Filter(filter) => Plan::Filter(Filter {
            input: below(&filter.input)?,
            keep: filter.keep.clone(),
        }),
        Plan::Project(project) => Plan::Project(Project {
            input: below(&project.input)?,
            columns: project.columns.clone(),
        }),
        Plan::Aggregate(aggregate) => Plan::Aggregate(Aggregate {
            input: below(&aggregate.input)?,
            group_by: aggregate.group_by.clone(),
            calculate: aggregate.calculate.clone(),
        }),
        Plan::Sort(sort) => Plan::Sort(Sort {
            input: below(&sort.input)?,
            by: sort.by.clone(),
        }),
        Plan::Limit(limit) => Plan::Limit(Limit {
            input: below(&limit.input)?,
            rows: limit.rows,
        }),
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

/// What is true of the rows in a range, one after the other.
fn in_range(range: &KeyRange, schema: &Schema, called: &str) -> Option<Vec<Expr>> {
    let key_column = |at: usize| {
        let at = schema.key().get(at)?;
        Some(column(&format!("{called}.{}", schema.columns()[*at].name)))
    };
    let mut all = Vec::new();
    for (at, value) in range.equal.iter().enumerate() {
        all.push(key_column(at)?.equal(Expr::Literal(value.clone())));
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
            all.push(compare(next, Expr::Literal(bound.clone())));
        }
    }
    Some(all)
}
