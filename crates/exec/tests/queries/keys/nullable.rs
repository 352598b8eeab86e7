//! Rows with missing values in their keys are found by every access path: by the key, by an index,
//! by the row's key in an index entry. A look-up of a missing value finds nothing.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use namiki_data::columns::{Column, ColumnType, Datum, NullOrder, Schema};
use namiki_exec::plan::{Expr, KeyRange, Named, NestedLoopJoin, Plan, column, literal};
use namiki_exec::source::{MemoryTable, Source, Table, Tables};
use namiki_exec::{Executor, Options, naive};
use namiki_platform::disk::Disk;

use crate::random_plans::tables::KEY_TYPES;
use crate::support::{in_segments, memory_disk, sorted};

/// Values of each type, and a missing one.
fn values(column_type: ColumnType) -> Vec<Datum> {
    let mut values = vec![Datum::Null];
    values.extend((0..6_i64).map(|number| match column_type {
        ColumnType::Bool => Datum::Bool(number > 2),
        ColumnType::I64 => Datum::I64(number - 3),
        ColumnType::U64 => Datum::U64(number as u64),
        ColumnType::Decimal { scale } | ColumnType::LongDecimal { scale } => Datum::Decimal {
            unscaled: i128::from(number - 3),
            scale,
        },
        ColumnType::F64 => Datum::from((number - 3) as f64 / 2.0),
        ColumnType::Date => Datum::Date(number as i32 - 3),
        ColumnType::Text => ["", "\0", "a", "a\0", "ab", "b"][number as usize].into(),
        ColumnType::Bytes => {
            Datum::Bytes([&b""[..], &[0], &[1], &[0, 255], b"a", &[255]][number as usize].to_vec())
        }
    }));
    values.dedup();
    values
}

/// A table `t` with a column of this type at this position of its key, an index over the column and
/// one over another, and a table `outer` of the values.
fn tables(
    column_type: ColumnType,
    nulls: NullOrder,
    place: usize,
    own: &dyn Fn(MemoryTable) -> Arc<dyn Source>,
) -> Tables {
    let number = || Column::new("number", ColumnType::U64);
    let value = || Column::new("value", column_type).nullable();
    let columns = vec![
        value(),
        number(),
        Column::new("group", ColumnType::I64),
        Column::new("text", ColumnType::Text),
    ];
    let key = [&["value"][..], &["value", "number"], &["number", "value"]][place];
    let values = values(column_type);
    let rows = values.iter().flat_map(|value| {
        let numbers = if place == 0 { 0..1 } else { 0..3_u64 };
        numbers.map(move |number| {
            let group = Datum::I64(number as i64 % 2);
            vec![
                value.clone(),
                Datum::U64(number),
                group,
                format!("{value} {number}").into(),
            ]
        })
    });
    let schema = Schema::new(columns, key).unwrap().with_null_order(nulls);
    let table = MemoryTable::new(schema, rows).unwrap();
    let (by_value, by_group) = (
        table.index(&["value"]).unwrap(),
        table.index(&["group"]).unwrap(),
    );
    let schema = Schema::new(vec![number(), value()], &["number"]).unwrap();
    let outer = values
        .iter()
        .enumerate()
        .map(|(number, value)| vec![Datum::U64(number as u64), value.clone()]);
    let outer = MemoryTable::new(schema, outer).unwrap();
    let table = Table::new(own(table)).with_index("by_value", own(by_value));
    let mut tables = Tables::new();
    tables.insert("t", table.with_index("by_group", own(by_group)));
    tables.insert("outer", Table::new(own(outer)));
    tables
}

fn lookup(index: Option<&str>, lookup: Vec<Expr>) -> Plan {
    Plan::NestedLoopJoin(NestedLoopJoin {
        outer: Plan::scan("outer").into(),
        table: "t".to_owned(),
        index: index.map(str::to_owned),
        alias: None,
        lookup,
        filter: None,
        table_first: false,
    })
}

#[test]
fn rows_with_missing_values_in_their_key_are_found() {
    let (sim, dir) = memory_disk();
    let disk: Arc<dyn Disk> = sim;
    let executor = Executor::new(&disk, 0).unwrap();
    let types = KEY_TYPES.into_iter();
    for (column_type, nulls) in types.flat_map(|it| [(it, NullOrder::First), (it, NullOrder::Last)])
    {
        for (place, in_memory) in [0, 1, 2]
            .into_iter()
            .flat_map(|place| [(place, true), (place, false)])
        {
            let own = |table: MemoryTable| -> Arc<dyn Source> {
                if in_memory {
                    Arc::new(table)
                } else {
                    Arc::new(in_segments(&disk, &dir, &table, 7))
                }
            };
            let tables = tables(column_type, nulls, place, &own);
            let rows = tables.get("t").unwrap().source.rows() as usize;
            let of_key = || match place {
                0 | 1 => vec![column("outer.value")],
                _ => vec![column("outer.number"), column("outer.value")],
            };
            let by_group = vec![literal(Datum::I64(0))];
            let answers = [
                (Plan::scan("t"), Some(rows)),
                (
                    Plan::index_scan("t", "by_value", KeyRange::default()),
                    Some(rows),
                ),
                (
                    Plan::index_scan("t", "by_group", KeyRange::default()),
                    Some(rows),
                ),
                (
                    Plan::index_scan("t", "by_value", KeyRange::default())
                        .project(vec![Named::column("value")]),
                    Some(rows),
                ),
                (lookup(None, of_key()), None),
                (lookup(Some("by_value"), vec![column("outer.value")]), None),
                (lookup(Some("by_group"), by_group), None),
                (
                    lookup(Some("by_value"), vec![literal(Datum::Null)]),
                    Some(0),
                ),
            ];
            for (plan, count) in answers {
                for options in [Options::default(), Options::ordered()] {
                    let said = format!(
                        "{column_type} at {place}, nulls {nulls:?}, in memory: {in_memory}, {plan:?}"
                    );
                    let answer = executor
                        .run(&plan, &tables, &options)
                        .unwrap()
                        .collect_all()
                        .unwrap();
                    let expected = naive::run(&plan, &tables).unwrap().rows;
                    assert_eq!(answer.len(), count.unwrap_or(expected.len()), "{said}");
                    assert_eq!(sorted(answer), sorted(expected), "{said}");
                }
            }
        }
    }
}
