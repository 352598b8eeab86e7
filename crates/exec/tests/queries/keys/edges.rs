//! Compares a key's column with every value at an edge of its type, by each access path: the rows
//! are those that a filter keeps of all rows.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroUsize;
use std::sync::Arc;

use namiki_data::columns::{Column, ColumnType, Datum, NullOrder, Schema};
use namiki_exec::plan::{
    Comparison, Expr, Find, KeyRange, NestedLoopJoin, Plan, Scan, column, literal,
};
use namiki_exec::source::{MemoryTable, Source, Table, Tables};
use namiki_exec::{Executor, Options, edges, naive};
use namiki_platform::disk::Disk;

use crate::random_plans::tables::KEY_TYPES;
use crate::support::{in_segments, memory_disk, sorted};

/// The tables of one shape of key.
struct Shape {
    tables: Tables,
    /// The values before the column `v` in the key.
    equal: Vec<Datum>,
    /// The index in which `v` comes first, unless that is the key.
    index: Option<&'static str>,
}

/// The columns of a key, with an index over `v`.
const KEYS: [&[&str]; 4] = [&["v"], &["v", "n"], &["n", "v"], &["n"]];

fn shape(
    column_type: ColumnType,
    nulls: Option<NullOrder>,
    key: &[&str],
    own: &dyn Fn(MemoryTable) -> Arc<dyn Source>,
) -> Shape {
    let v = Column::new("v", column_type);
    let v = if nulls.is_some() { v.nullable() } else { v };
    let columns = vec![
        Column::new("n", ColumnType::U64),
        v,
        Column::new("text", ColumnType::Text),
    ];
    let schema = Schema::new(columns, key).unwrap();
    let schema = schema.with_null_order(nulls.unwrap_or_default());
    let mut values = edges::values(column_type);
    if nulls.is_some() {
        values.push(Datum::Null);
    }
    // The neighbours of the number in a bound, and the greatest one, which has no successor.
    let numbers: &[u64] = if key == ["v"] {
        &[0]
    } else {
        &[254, 255, 256, u64::MAX]
    };
    let mut rows = Vec::new();
    for (at, value) in values.iter().enumerate() {
        for number in numbers {
            let number = if key == ["n"] { at as u64 * 3 } else { *number };
            rows.push(vec![
                number.into(),
                value.clone(),
                format!("row {at} {number}").into(),
            ]);
        }
    }
    let table = MemoryTable::new(schema, rows).unwrap();
    let index = table.index(&["v"]).unwrap();
    let one = Schema::new(vec![Column::new("one", ColumnType::Bool)], &["one"]).unwrap();
    let one = MemoryTable::new(one, [vec![Datum::Bool(true)]]).unwrap();
    let mut tables = Tables::new();
    tables.insert("t", Table::new(own(table)).with_index("by_v", own(index)));
    tables.insert("one", Table::new(own(one)));
    Shape {
        tables,
        equal: if key == ["n", "v"] {
            vec![255_u64.into()]
        } else {
            Vec::new()
        },
        index: (key[0] == "n" && key.len() == 1).then_some("by_v"),
    }
}

impl Shape {
    /// The rows of a condition over `v`, with given values of the columns before it in the key.
    fn condition(&self, of_v: Expr) -> Expr {
        match self.equal.first() {
            Some(number) => column("n").equal(literal(number.clone())).and(of_v),
            None => of_v,
        }
    }

    fn read(&self, range: KeyRange) -> Plan {
        match self.index {
            Some(index) => Plan::index_scan("t", index, range),
            None => Plan::Scan(Scan {
                table: "t".to_owned(),
                alias: None,
                range,
                filter: None,
            }),
        }
    }

    fn lookup(&self, index: Option<&str>, lookup: Vec<Datum>) -> Plan {
        Plan::NestedLoopJoin(NestedLoopJoin {
            outer: Plan::scan("one").into(),
            table: "t".to_owned(),
            index: index.map(str::to_owned),
            alias: None,
            lookup: lookup.into_iter().map(literal).collect(),
            filter: None,
            table_first: true,
        })
    }

    /// All access paths to the rows of a comparison.
    fn ways(&self, comparison: Comparison, value: &Datum, is_stored: bool) -> Vec<Plan> {
        let compared = column("v").compare(comparison, literal(value.clone()));
        let find = Find {
            table: "t".to_owned(),
            alias: None,
            filter: Some(self.condition(compared)),
        };
        let mut ways = vec![Plan::Find(find)];
        let of_type =
            |value: &Datum| is_stored || matches!(value, Datum::Text(_) | Datum::Bytes(_));
        let equal = KeyRange {
            equal: self.equal.clone(),
            ..KeyRange::default()
        };
        if of_type(value)
            && let Some(range) = edges::bounded(equal, comparison, value)
        {
            ways.push(self.read(range));
        }
        if comparison == Comparison::Equal {
            let key = [self.equal.as_slice(), std::slice::from_ref(value)].concat();
            ways.push(self.lookup(self.index, key));
        }
        ways
    }
}

struct Checked {
    executor: Executor,
    options: Options,
    queries: usize,
    rows: usize,
}

impl Checked {
    fn check(&mut self, shape: &Shape, plan: &Plan, expected: &[Vec<Datum>]) {
        let said = || format!("{plan:?}").chars().take(2_000).collect::<String>();
        let rows = self.executor.run(plan, &shape.tables, &self.options);
        let mut rows = rows.unwrap_or_else(|error| panic!("{error}: {}", said()));
        let answer = rows.collect_all();
        let mut answer = answer.unwrap_or_else(|error| panic!("{error}: {}", said()));
        answer.iter_mut().for_each(|row| row.truncate(3));
        assert_eq!(sorted(answer), expected, "{}", said());
        self.queries += 1;
        self.rows += expected.len();
    }
}

fn filtered(shape: &Shape, keep: Expr) -> Vec<Vec<Datum>> {
    let plan = Plan::scan("t").filter(shape.condition(keep));
    sorted(naive::run(&plan, &shape.tables).unwrap().rows)
}

#[test]
fn every_bound_at_every_edge_keeps_what_a_filter_keeps() {
    let (sim, dir) = memory_disk();
    let disk: Arc<dyn Disk> = sim;
    let mut checked = Checked {
        executor: Executor::new(&disk, 0).unwrap(),
        options: Options {
            threads: NonZeroUsize::MIN,
            ..Options::default()
        },
        queries: 0,
        rows: 0,
    };
    let in_memory = |table: MemoryTable| -> Arc<dyn Source> { Arc::new(table) };
    let paged =
        |table: MemoryTable| -> Arc<dyn Source> { Arc::new(in_segments(&disk, &dir, &table, 9)) };
    let places: [&dyn Fn(MemoryTable) -> Arc<dyn Source>; 2] = [&in_memory, &paged];
    for column_type in KEY_TYPES {
        let (stored, beyond) = (edges::values(column_type), edges::beyond(column_type));
        let orders = [None, Some(NullOrder::First), Some(NullOrder::Last)];
        for (key, nulls) in KEYS.into_iter().flat_map(|key| orders.map(|it| (key, it))) {
            for own in places {
                let shape = shape(column_type, nulls, key, own);
                for value in stored.iter().chain(&beyond) {
                    for comparison in Comparison::ALL {
                        let keep = column("v").compare(comparison, literal(value.clone()));
                        let expected = filtered(&shape, keep);
                        for plan in shape.ways(comparison, value, stored.contains(value)) {
                            checked.check(&shape, &plan, &expected);
                        }
                    }
                }
                if key != ["v", "n"] {
                    two_bounds(&mut checked, &shape, &stored);
                }
            }
        }
    }
    println!("{} queries, {} rows", checked.queries, checked.rows);
    assert!(checked.queries > 10_000 && checked.rows > checked.queries);
}

/// All pairs of bounds, including reversed ones.
fn two_bounds(checked: &mut Checked, shape: &Shape, values: &[Datum]) {
    for low in values {
        for (high, is_exclusive) in values.iter().flat_map(|high| [(high, false), (high, true)]) {
            let (lower, upper) = if is_exclusive {
                (Comparison::Greater, Comparison::Less)
            } else {
                (Comparison::GreaterOrEqual, Comparison::LessOrEqual)
            };
            let side =
                |comparison, value: &Datum| column("v").compare(comparison, literal(value.clone()));
            let expected = filtered(shape, side(lower, low).and(side(upper, high)));
            let equal = KeyRange {
                equal: shape.equal.clone(),
                ..KeyRange::default()
            };
            let both = edges::bounded(equal, lower, low)
                .and_then(|both| edges::bounded(both, upper, high));
            checked.check(shape, &shape.read(both.unwrap()), &expected);
        }
    }
}
