//! Random tables: columns of all types, keys of one to three columns, indexes, missing values in
//! all of them; in memory, in segments, or with some of each.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use namiki_data::columns::{Column, ColumnType, Datum, Schema};
use namiki_exec::source::{MemoryTable, Source, Table, Tables};
use namiki_platform::disk::Disk;
use namiki_platform::seeded_random::Random;

use crate::support::{in_segments, statistics};

pub(crate) const TYPES: [ColumnType; 7] = [
    ColumnType::I64,
    ColumnType::U64,
    ColumnType::Decimal { scale: 2 },
    ColumnType::Date,
    ColumnType::Text,
    ColumnType::Bool,
    ColumnType::Bytes,
];

/// Types of keys: those of queries, and those that queries only compare, or do not tell from others.
pub(crate) const KEY_TYPES: [ColumnType; 9] = [
    ColumnType::I64,
    ColumnType::U64,
    ColumnType::Decimal { scale: 2 },
    ColumnType::LongDecimal { scale: 2 },
    ColumnType::F64,
    ColumnType::Date,
    ColumnType::Text,
    ColumnType::Bool,
    ColumnType::Bytes,
];

/// A column of text that may be longer than a page.
const LONG: &str = "long";

/// The place of a table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Memory,
    Segments,
    /// Some sources in segments, others in memory.
    Mixed,
}

/// The tables for plans.
pub(crate) struct RandomTables {
    pub(crate) tables: Tables,
    /// Everything in memory, for the oracle.
    pub(crate) plain: Tables,
    pub(crate) names: Vec<String>,
    /// The generated rows of each table, before any of our code has encoded them.
    pub(crate) rows: Vec<Vec<Vec<Datum>>>,
}

/// A value that often repeats in its column.
pub(crate) fn datum(random: &mut Random, column_type: ColumnType) -> Datum {
    let small = random.below(12) as i64;
    match column_type {
        ColumnType::Bool => Datum::Bool(random.chance(0.5)),
        ColumnType::I64 => Datum::I64(small - 4),
        ColumnType::U64 => Datum::U64(small as u64),
        ColumnType::Decimal { scale } | ColumnType::LongDecimal { scale } => Datum::Decimal {
            unscaled: i128::from(small - 4) * 50,
            scale,
        },
        ColumnType::F64 => Datum::from((small - 4) as f64 / 2.0),
        ColumnType::Date => Datum::Date(9_000 + small as i32),
        ColumnType::Text => ["", "a", "ab", "b", "\0", "a\0b", "é"][random.index(7)].into(),
        ColumnType::Bytes => {
            let bytes = [&b""[..], &[0], &[0, 255], &[255], b"ab"][random.index(5)];
            Datum::Bytes(bytes.to_vec())
        }
    }
}

fn key_type(random: &mut Random, first: bool) -> ColumnType {
    // A key of bools alone leaves two rows, one of bytes five.
    let types = if first && random.chance(0.95) { 5 } else { 7 };
    TYPES[random.index(types)]
}

/// A nullable column, in which some values are missing.
fn column(random: &mut Random, name: &str, column_type: ColumnType, nullable: f64) -> Column {
    let column = Column::new(name, column_type);
    if random.chance(nullable) {
        column.nullable()
    } else {
        column
    }
}

/// A table, and its rows.
fn table(random: &mut Random, rows_max: usize) -> (MemoryTable, Vec<Vec<Datum>>) {
    let key_columns = 1 + random.index(3);
    let others = random.index(5);
    let mut columns = Vec::new();
    for at in 0..key_columns {
        let column_type = key_type(random, at == 0);
        columns.push(column(random, &format!("k{at}"), column_type, 0.3));
    }
    for at in 0..others {
        let column_type = TYPES[random.index(7)];
        columns.push(column(random, &format!("c{at}"), column_type, 0.4));
    }
    if random.chance(0.3) {
        columns.push(Column::new(LONG, ColumnType::Text));
    }
    let key: Vec<String> = (0..key_columns).map(|at| format!("k{at}")).collect();
    let key: Vec<&str> = key.iter().map(String::as_str).collect();
    // The order of columns is not that of the key.
    random.shuffle(&mut columns);
    let schema = Schema::new(columns, &key).unwrap();
    // By their keys: the last of equal ones counts.
    let mut rows = BTreeMap::new();
    let rows_min = if random.chance(0.1) { 0 } else { 5 };
    for _ in 0..rows_min + random.index(rows_max) {
        let columns = schema.columns().iter();
        let row = columns.map(|column| {
            if column.nullable
                && random.chance(if column.name.starts_with('k') {
                    0.1
                } else {
                    0.2
                })
            {
                Datum::Null
            } else if column.name == "k0" && column.column_type == ColumnType::I64 {
                Datum::I64(random.below(200) as i64)
            } else if column.name == LONG {
                let length = if random.chance(0.1) {
                    random.index(9_000)
                } else {
                    3
                };
                "z".repeat(length).into()
            } else {
                datum(random, column.column_type)
            }
        });
        let row: Vec<Datum> = row.collect();
        let key: Vec<Datum> = schema.key().iter().map(|at| row[*at].clone()).collect();
        rows.insert(key, row);
    }
    let rows: Vec<Vec<Datum>> = rows.into_values().collect();
    (MemoryTable::new(schema, rows.clone()).unwrap(), rows)
}

pub(crate) fn random_tables(
    random: &mut Random,
    place: Where,
    disk: &Arc<dyn Disk>,
    dir: &Path,
) -> RandomTables {
    let (mut tables, mut plain) = (Tables::new(), Tables::new());
    let (mut names, mut rows) = (Vec::new(), Vec::new());
    for number in 0..2 + random.index(2) {
        let rows_max = [30, 300, 1500][random.index(3)];
        let (own, own_rows) = table(random, rows_max);
        let mut source_of = |table: &MemoryTable| -> Arc<dyn Source> {
            let paged = match place {
                Where::Memory => false,
                Where::Segments => true,
                Where::Mixed => random.chance(0.5),
            };
            let segment_rows = if random.chance(0.3) {
                1 + random.index(400)
            } else {
                usize::MAX
            };
            if paged {
                Arc::new(in_segments(disk, dir, table, segment_rows))
            } else {
                Arc::new(table.clone())
            }
        };
        let mut found = Table::new(source_of(&own));
        let mut oracle = Table::new(Arc::new(own.clone()));
        let columns: Vec<&str> = own
            .schema()
            .columns()
            .iter()
            .map(|it| it.name.as_str())
            .filter(|it| *it != LONG)
            .collect();
        for first in 0..columns.len().min(3) {
            let on = [columns[first], columns[(first + 1) % columns.len()]];
            let on = if first % 2 == 0 || on[0] == on[1] {
                &on[..1]
            } else {
                &on[..]
            };
            let index = own.index(on).unwrap();
            let name = format!("i{first}");
            found = found.with_index(&name, source_of(&index));
            oracle = oracle.with_index(&name, Arc::new(index));
        }
        if random.chance(0.6) {
            found = found.with_statistics(statistics(&own));
        }
        let name = format!("t{number}");
        tables.insert(&name, found);
        plain.insert(&name, oracle);
        names.push(name);
        rows.push(own_rows);
    }
    RandomTables {
        tables,
        plain,
        names,
        rows,
    }
}
