//! Explained plans: operators, estimated cost, and, after a run, actual rows.
//!
//! ```text
//! aggregate by c_nationkey: total = sum(o_totalprice), orders = count          25 rows, estimated 25
//!   nested-loop join orders by o_custkey = c_custkey                           5401 rows, estimated 5520
//!     index scan customer by c_mktsegment_acctbal: 'AUTOMOBILE', above 9980.00   552 rows, estimated 570
//! price: 29.8 ms for 5952 random reads and 4 pages in sequence, out of order
//! ```

use std::fmt;

use serde::Serialize;

use crate::plan::{
    AggregateCall, Expr, ExprNode, KeyRange, Literals, Named, NestedLoopJoin, Plan, literal,
};
use crate::planner::{Estimated, Estimator, Price, Prices};
use crate::query_statistics::Statistics;
use crate::source::Tables;

/// A plan explained.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The plan that runs, with every choice made.
    pub root: ExplainedOperator,
    /// Estimated price.
    pub price: Price,
    /// The same in microseconds.
    pub price_us: f64,
    /// Whether one task runs at a time.
    pub is_ordered: bool,
    /// Remarks.
    pub notes: Vec<String>,
    /// Statistics of the run, once it has ended.
    pub statistics: Option<Statistics>,
}

/// One operator of a plan explained.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedOperator {
    /// Description.
    pub what: String,
    /// Estimated number of rows.
    pub rows_estimated: f64,
    /// Actual number of rows, once the plan has run.
    pub rows: Option<u64>,
    /// Estimated price, including the operators below.
    pub price: Price,
    /// The operators below.
    pub inputs: Vec<ExplainedOperator>,
}

/// Explains a plan in which every choice is made.
pub(crate) fn explain(
    plan: &Plan,
    tables: &Tables,
    prices: &Prices,
    is_ordered: bool,
) -> Explanation {
    let estimated = Estimator::new(plan, tables).estimate(plan);
    let mut notes = Vec::new();
    if reads_memory(plan, tables) {
        notes.push(
            "rows in memory are read in batches, each as it was last committed then (read committed)"
                .to_owned(),
        );
    }
    Explanation {
        root: operator(plan, &estimated),
        price: estimated.price,
        price_us: estimated.price.us(prices, is_ordered),
        is_ordered,
        notes,
        statistics: None,
    }
}

impl Explanation {
    /// Adds the rows of a run: one number for each operator, before those of its inputs.
    pub(crate) fn after(mut self, rows: &[u64], statistics: Statistics) -> Self {
        fn fill(operator: &mut ExplainedOperator, rows: &mut impl Iterator<Item = u64>) {
            operator.rows = rows.next();
            for input in &mut operator.inputs {
                fill(input, rows);
            }
        }
        fill(&mut self.root, &mut rows.iter().copied());
        self.statistics = Some(statistics);
        self
    }
}

/// Whether a table of the plan, or an index that it uses, is in memory.
fn reads_memory(plan: &Plan, tables: &Tables) -> bool {
    let (table, index) = match plan {
        Plan::Find(find) => (Some(&find.table), None),
        Plan::Scan(scan) => (Some(&scan.table), None),
        Plan::IndexScan(scan) => (Some(&scan.table), Some(&scan.index)),
        Plan::NestedLoopJoin(join) => (Some(&join.table), join.index.as_ref()),
        _ => (None, None),
    };
    let table = table.and_then(|table| tables.get(table));
    let own = table.is_some_and(|table| {
        let index = index.and_then(|index| table.indexes.get(index));
        let mut sources = std::iter::once(&table.source).chain(index);
        sources.any(|source| source.segments().is_none())
    });
    own || plan
        .inputs()
        .into_iter()
        .any(|input| reads_memory(input, tables))
}

fn operator(plan: &Plan, estimated: &Estimated) -> ExplainedOperator {
    let inputs = plan.inputs().into_iter().zip(&estimated.inputs);
    ExplainedOperator {
        what: what(plan),
        rows_estimated: estimated.rows.round(),
        rows: None,
        price: estimated.price,
        inputs: inputs
            .map(|(plan, estimated)| operator(plan, estimated))
            .collect(),
    }
}

fn what(plan: &Plan) -> String {
    let called = |table: &str, alias: Option<&String>| match alias {
        Some(alias) => format!("{table} as {alias}"),
        None => table.to_owned(),
    };
    let kept = |filter: Option<&Expr>| match filter {
        Some(filter) => format!(", where {filter}"),
        None => String::new(),
    };
    match plan {
        Plan::Find(find) => format!(
            "find {}{}",
            called(&find.table, find.alias.as_ref()),
            kept(find.filter.as_ref())
        ),
        Plan::Scan(scan) => format!(
            "scan {}{}{}",
            called(&scan.table, scan.alias.as_ref()),
            of_range(&scan.range),
            kept(scan.filter.as_ref())
        ),
        Plan::IndexScan(scan) => format!(
            "index scan {} by {}{}{}",
            called(&scan.table, scan.alias.as_ref()),
            scan.index,
            of_range(&scan.range),
            kept(scan.filter.as_ref())
        ),
        Plan::NestedLoopJoin(join) => nested_loop(join, &called(&join.table, join.alias.as_ref())),
        Plan::Join(join) => format!("join on {}{}", pairs(&join.on), kept(join.filter.as_ref())),
        Plan::HashJoin(join) => {
            format!(
                "hash join on {}{}",
                pairs(&join.on),
                kept(join.filter.as_ref())
            )
        }
        Plan::Filter(filter) => format!("filter: {}", filter.keep),
        Plan::Project(project) => format!("project {}", all_named(&project.columns)),
        Plan::Aggregate(aggregate) => {
            let by = match aggregate.group_by.as_slice() {
                [] => String::new(),
                by => format!(" by {}", all_named(by)),
            };
            let calls: Vec<String> = aggregate.calculate.iter().map(call).collect();
            format!("aggregate{by}: {}", calls.join(", "))
        }
        Plan::Sort(sort) => {
            let by = sort.by.iter().map(|key| {
                let order = if key.descending { " descending" } else { "" };
                format!("{}{order}", key.of)
            });
            format!("sort by {}", by.collect::<Vec<_>>().join(", "))
        }
        Plan::Limit(limit) => format!("limit {}", limit.rows),
    }
}

fn nested_loop(join: &NestedLoopJoin, called: &str) -> String {
    let lookup: Vec<String> = join.lookup.iter().map(Expr::to_string).collect();
    let by = join.index.as_deref().unwrap_or("its key");
    let kept = join
        .filter
        .as_ref()
        .map(|filter| format!(", where {filter}"));
    format!(
        "nested-loop join {called} by {by} = {}{}",
        lookup.join(", "),
        kept.unwrap_or_default()
    )
}

fn of_range(range: &KeyRange) -> String {
    let mut parts: Vec<String> = range
        .equal
        .iter()
        .map(|value| literal(value.clone()).to_string())
        .collect();
    for (word, bound) in [
        ("from", &range.from),
        ("above", &range.above),
        ("to", &range.to),
        ("below", &range.below),
    ] {
        if let Some(value) = bound {
            parts.push(format!("{word} {}", literal(value.clone())));
        }
    }
    for list in &range.one_of {
        parts.push(format!("one of ({})", Literals(list)));
    }
    if parts.is_empty() {
        String::new()
    } else {
        format!(": {}", parts.join(", "))
    }
}

fn pairs(on: &[(Expr, Expr)]) -> String {
    let pairs = on.iter().map(|(left, right)| format!("{left} = {right}"));
    pairs.collect::<Vec<_>>().join(" and ")
}

fn all_named(columns: &[Named]) -> String {
    let named = columns.iter().map(|named| match named.of.node() {
        ExprNode::Column(column) if *column == named.name => column.clone(),
        _ => format!("{} = {}", named.name, named.of),
    });
    named.collect::<Vec<_>>().join(", ")
}

fn call(call: &AggregateCall) -> String {
    let function = call.function.name();
    match &call.of {
        Some(of) => format!("{} = {function}({of})", call.name),
        None => format!("{} = {function}", call.name),
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        collect_lines(&self.root, 0, &mut lines);
        let width = lines
            .iter()
            .map(|(what, _)| what.chars().count())
            .max()
            .unwrap_or(0);
        for (what, rows) in lines {
            writeln!(f, "{what:width$}  {rows}")?;
        }
        write!(
            f,
            "price: {:.1} ms for {:.0} random reads and {:.0} pages in sequence, {}",
            self.price_us / 1e3,
            self.price.reads,
            self.price.sequential_pages,
            if self.is_ordered {
                "in order"
            } else {
                "out of order"
            }
        )?;
        for note in &self.notes {
            write!(f, "\nnote: {note}")?;
        }
        let Some(run) = &self.statistics else {
            return Ok(());
        };
        let counters = run.counters;
        write!(
            f,
            "\ntook: {:.1} ms, {:.1} ms of processor time in {} threads with {} tasks each\nread: {} pages ({} \
             different ones) in {} reads; {} faults met a page on its way",
            run.elapsed.as_secs_f64() * 1e3,
            run.cpu.as_secs_f64() * 1e3,
            run.threads,
            run.degree,
            counters.pages,
            run.distinct_pages,
            counters.reads,
            counters.merged_faults,
        )?;
        write!(
            f,
            "\ntasks: {}, {} at a time in a thread at most, {} handed over",
            counters.tasks, run.tasks_in_flight_max, run.handed_over
        )?;
        if run.device.is_empty() {
            return Ok(());
        }
        write!(f, "\ndevice: {}", run.device)
    }
}

fn collect_lines(operator: &ExplainedOperator, depth: usize, into: &mut Vec<(String, String)>) {
    let what = format!("{}{}", "  ".repeat(depth), operator.what);
    let estimated = operator.rows_estimated;
    into.push((
        what,
        match operator.rows {
            Some(rows) => format!("{rows} rows, estimated {estimated}"),
            None => format!("about {estimated} rows"),
        },
    ));
    for input in &operator.inputs {
        collect_lines(input, depth + 1, into);
    }
}
