//! Bounds and look-ups of queries at the edges of keys, over typed tables in memory and over loaded
//! tables in segments and in memory. The answers are those of a filter over all rows.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroUsize;
use std::sync::Arc;

use namiki::query::{
    Column, ColumnType, Comparison, Datum, Expr, KeyRange, NestedLoopJoin, Plan, Query, Scan,
    Schema, column, literal,
};
use namiki::{Database, Key, NewTable, Table};
use namiki_exec::source::{MemoryTable, Table as PlainTable, Tables};
use namiki_exec::{edges, naive};
use namiki_platform::disk::SimDisk;
use namiki_tests::loaded_table::{DIR, sound};
use namiki_tests::small_database::builder;

const SPEC: &str = "TT(EPOCH)+PWAL(1)";

fn open(disk: &SimDisk) -> Database {
    builder(SPEC, disk)
        .buffer_bytes(1 << 20)
        .log_file_bytes(2 << 20)
        .open(DIR)
        .unwrap()
}

/// The values that a query compares the first column of a key with.
fn bounds(column_type: ColumnType) -> Vec<Datum> {
    let mut bounds = edges::values(column_type);
    if matches!(column_type, ColumnType::Text | ColumnType::Bytes) {
        bounds.extend(edges::beyond(column_type));
    }
    bounds
}

/// A database and the plain evaluator, both with a table `t` with column `a`, and `b` if its key
/// has two columns.
struct Both<'d> {
    query: &'d dyn Fn() -> Query,
    plain: Tables,
}

impl<'d> Both<'d> {
    fn new(query: &'d dyn Fn() -> Query, table: MemoryTable) -> Self {
        let mut plain = Tables::new();
        plain.insert("t", PlainTable::new(Arc::new(table)));
        let one = Schema::new(vec![Column::new("one", ColumnType::Bool)], &["one"]).unwrap();
        plain.insert(
            "one",
            PlainTable::new(Arc::new(
                MemoryTable::new(one, [vec![Datum::Bool(true)]]).unwrap(),
            )),
        );
        Self { query, plain }
    }

    fn check(&self, plan: &Plan, keep: &Expr) {
        let said = || format!("{plan:?}").chars().take(1_000).collect::<String>();
        let rows = (self.query)().threads(NonZeroUsize::MIN).run(plan);
        let rows = rows.unwrap_or_else(|error| panic!("{error}: {}", said()));
        let answer: Result<Vec<_>, _> = rows.collect();
        let mut answer = answer.unwrap_or_else(|error| panic!("{error:?}: {}", said()));
        answer.sort();
        let filtered = Plan::scan("t").filter(keep.clone());
        let mut expected = naive::run(&filtered, &self.plain).unwrap().rows;
        expected.sort();
        let width = expected.first().map_or(0, Vec::len);
        answer.iter_mut().for_each(|row| row.truncate(width));
        assert_eq!(answer.len(), expected.len(), "{}", said());
        assert!(answer == expected, "{}", said());
    }

    /// Every comparison of `a` with each of these values, and of `b` where `a` equals one of them.
    fn check_all(&self, a: &[Datum], b: Option<&[Datum]>) {
        for value in a {
            self.check_comparisons("a", &[], value);
            for second in b.into_iter().flatten() {
                self.check_comparisons("b", std::slice::from_ref(value), second);
            }
        }
    }

    fn check_comparisons(&self, name: &str, equal: &[Datum], value: &Datum) {
        for comparison in Comparison::ALL {
            let mut keep = column(name).compare(comparison, literal(value.clone()));
            if let [first] = equal {
                keep = column("a").equal(literal(first.clone())).and(keep);
            }
            self.check(&Plan::find("t", keep.clone()), &keep);
            let range = KeyRange {
                equal: equal.to_vec(),
                ..KeyRange::default()
            };
            let Some(range) = edges::bounded(range, comparison, value) else {
                continue;
            };
            let lookup = range.equal.clone();
            let scan = Scan {
                table: "t".to_owned(),
                alias: None,
                range,
                filter: None,
            };
            self.check(&Plan::Scan(scan), &keep);
            if comparison == Comparison::Equal {
                let join = NestedLoopJoin {
                    outer: Plan::scan("one").into(),
                    table: "t".to_owned(),
                    index: None,
                    alias: None,
                    lookup: lookup.into_iter().map(literal).collect(),
                    filter: None,
                    table_first: true,
                };
                self.check(&Plan::NestedLoopJoin(join), &keep);
            }
        }
    }
}

/// Fills a table with these keys, and checks it.
fn check_typed<K: Key<Owned = K> + Clone>(
    types: &[ColumnType],
    keys: &[K],
    datums: impl Fn(&K) -> Vec<Datum>,
) {
    let disk = SimDisk::new();
    let db = open(&disk);
    load_one(&db);
    let table: Table<K, u64> = db.table("t").unwrap();
    db.transact(|tx| {
        (0..)
            .zip(keys)
            .try_for_each(|(number, key)| tx.put(&table, key, &number))
    })
    .unwrap();
    let names = &["a", "b"][..types.len()];
    let columns = names
        .iter()
        .zip(types)
        .map(|(name, column_type)| Column::new(name, *column_type));
    let columns = columns
        .chain([Column::new("value", ColumnType::U64)])
        .collect();
    let rows = (0_u64..).zip(keys).map(|(number, key)| {
        let mut row = datums(key);
        row.push(number.into());
        row
    });
    let plain = MemoryTable::new(Schema::new(columns, names).unwrap(), rows).unwrap();
    let query = || db.query().table(&table, names, "value").unwrap();
    let bounds: Vec<Vec<Datum>> = types
        .iter()
        .map(|column_type| bounds(*column_type))
        .collect();
    Both::new(&query, plain).check_all(&bounds[0], bounds.get(1).map(Vec::as_slice));
}

/// A table of one row, the outer side of look-ups.
fn load_one(db: &Database) {
    let schema = Schema::new(vec![Column::new("one", ColumnType::Bool)], &["one"]).unwrap();
    db.load_sorted(
        &NewTable::new("one", schema),
        sound([vec![Datum::Bool(true)]]),
    )
    .unwrap();
}

fn text(datum: &Datum) -> Option<String> {
    match datum {
        Datum::Text(text) if text.len() <= 65_536 => Some(text.clone()),
        _ => None,
    }
}

fn bytes(datum: &Datum) -> Option<Vec<u8>> {
    match datum {
        Datum::Bytes(bytes) if bytes.len() <= 65_536 => Some(bytes.clone()),
        _ => None,
    }
}

fn i64s() -> Vec<i64> {
    let value = |datum: Datum| match datum {
        Datum::I64(value) => Some(value),
        _ => None,
    };
    bounds(ColumnType::I64)
        .into_iter()
        .filter_map(value)
        .collect()
}

fn u64s() -> Vec<u64> {
    let value = |datum: Datum| match datum {
        Datum::U64(value) => Some(value),
        _ => None,
    };
    bounds(ColumnType::U64)
        .into_iter()
        .filter_map(value)
        .collect()
}

/// Some values of a list, including the first and the last.
fn some<T: Clone>(all: &[T]) -> Vec<T> {
    let step = (all.len() / 4).max(1);
    let mut some: Vec<T> = all.iter().step_by(step).cloned().collect();
    some.extend(all.last().cloned());
    some
}

fn pairs<A: Clone, B: Clone>(a: &[A], b: &[B]) -> Vec<(A, B)> {
    let a = some(a).into_iter();
    a.flat_map(|a| some(b).into_iter().map(move |b| (a.clone(), b)))
        .collect()
}

#[test]
fn bounds_of_typed_keys_keep_what_a_filter_keeps() {
    use ColumnType::{Bytes, I64, Text, U64};
    let texts: Vec<String> = bounds(Text).iter().filter_map(text).collect();
    let all_bytes: Vec<Vec<u8>> = bounds(Bytes).iter().filter_map(bytes).collect();
    check_typed(&[U64], &u64s(), |key| vec![(*key).into()]);
    check_typed(&[I64], &i64s(), |key| vec![(*key).into()]);
    check_typed(&[Text], &texts, |key| vec![key.clone().into()]);
    check_typed(&[Bytes], &all_bytes, |key| vec![Datum::Bytes(key.clone())]);
    // In a key with another part, a text must be shorter than a whole key.
    let texts: Vec<String> = texts.into_iter().filter(|text| text.len() < 9).collect();
    check_typed(&[U64, Text], &pairs(&u64s(), &texts), |(a, b)| {
        vec![(*a).into(), b.clone().into()]
    });
    check_typed(&[Text, I64], &pairs(&texts, &i64s()), |(a, b)| {
        vec![a.clone().into(), (*b).into()]
    });
    check_typed(&[Bytes, U64], &pairs(&all_bytes, &u64s()), |(a, b)| {
        vec![Datum::Bytes(a.clone()), (*b).into()]
    });
}

/// Loads a table with a key of one column of this type.
fn loaded(column_type: ColumnType, nullable: bool) -> (Schema, Vec<Vec<Datum>>) {
    let a = Column::new("a", column_type);
    let a = if nullable { a.nullable() } else { a };
    let columns = vec![a, Column::new("value", ColumnType::U64)];
    let schema = Schema::new(columns, &["a"]).unwrap();
    let fits = |datum: &Datum| match datum {
        Datum::Text(text) => text.len() < 1_000,
        Datum::Bytes(bytes) => bytes.len() < 1_000,
        _ => true,
    };
    let mut keys: Vec<Datum> = bounds(column_type).into_iter().filter(fits).collect();
    keys.extend(nullable.then_some(Datum::Null));
    keys.sort();
    let rows = (0_u64..)
        .zip(keys)
        .map(|(number, key)| vec![key, number.into()]);
    (schema, rows.collect())
}

/// Takes a loaded table into memory, with keys of the type that it opens with.
fn take_into_memory(db: &Database, column_type: ColumnType, nullable: bool) {
    match column_type {
        _ if nullable => drop(db.table::<[u8], [u8]>("t").unwrap()),
        ColumnType::Bool => drop(db.table::<bool, [u8]>("t").unwrap()),
        ColumnType::I64 | ColumnType::Decimal { .. } => drop(db.table::<i64, [u8]>("t").unwrap()),
        ColumnType::U64 => drop(db.table::<u64, [u8]>("t").unwrap()),
        ColumnType::Date => drop(db.table::<i32, [u8]>("t").unwrap()),
        ColumnType::Text => drop(db.table::<str, [u8]>("t").unwrap()),
        ColumnType::Bytes | ColumnType::F64 | ColumnType::LongDecimal { .. } => {
            drop(db.table::<[u8], [u8]>("t").unwrap());
        }
    }
}

#[test]
fn bounds_of_loaded_keys_keep_what_a_filter_keeps() {
    let types = [
        ColumnType::Bool,
        ColumnType::I64,
        ColumnType::U64,
        ColumnType::Decimal { scale: 2 },
        ColumnType::Date,
        ColumnType::Text,
        ColumnType::Bytes,
    ];
    for (column_type, nullable) in types.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let disk = SimDisk::new();
        let db = open(&disk);
        load_one(&db);
        let (schema, rows) = loaded(column_type, nullable);
        db.load_sorted(&NewTable::new("t", schema.clone()), sound(rows.clone()))
            .unwrap();
        for in_memory in [false, true] {
            if in_memory {
                take_into_memory(&db, column_type, nullable);
            }
            let query = || db.query();
            let plain = MemoryTable::new(schema.clone(), rows.clone()).unwrap();
            let both = Both::new(&query, plain);
            both.check_all(&bounds(column_type), None);
            both.check(&Plan::scan("t"), &literal(true));
        }
    }
}
