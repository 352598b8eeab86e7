//! Queries over tables in segments, tables in memory, and both.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use namiki::query::{
    AggregateCall, AggregateFunction, Column, ColumnType, Datum, KeyRange, Options, Plan,
    QueryError, Schema, column, encode_row, literal,
};
use namiki::{Database, IndexKind, NewTable, Table};
use namiki_exec::naive;
use namiki_exec::source::{MemoryTable, Table as PlainTable, Tables};
use namiki_platform::disk::{Disk, SimDisk};
use namiki_tests::loaded_table::{DIR, TABLE, load, parts, rows, sound};
use namiki_tests::small_database::{builder, numbers, put};

const SPEC: &str = "TT(EPOCH)+PWAL(1)";
const ROWS: u64 = 2_000;

fn open(disk: &SimDisk) -> Database {
    builder(SPEC, disk).open(DIR).unwrap()
}

/// The loaded table for the plain evaluator.
fn plain() -> Tables {
    let table = MemoryTable::new(parts().schema().clone(), rows(ROWS)).unwrap();
    let by_name = Arc::new(table.index(&["name"]).unwrap());
    let by_price = Arc::new(table.index(&["price", "name"]).unwrap());
    let mut tables = Tables::new();
    let table = PlainTable::new(Arc::new(table));
    let table = table.with_index("by_name", by_name);
    tables.insert(TABLE, table.with_index("by_price", by_price));
    tables
}

fn sorted(mut rows: Vec<Vec<Datum>>) -> Vec<Vec<Datum>> {
    rows.sort();
    rows
}

fn answer(db: &Database, plan: &Plan) -> Vec<Vec<Datum>> {
    let rows = db.query().run(plan).unwrap();
    sorted(rows.collect::<Result<_, _>>().unwrap())
}

fn sum(of: &str) -> AggregateCall {
    AggregateCall::new("sum", AggregateFunction::Sum, column(of))
}

/// The answers are the same before and after a reopening.
#[test]
fn loaded_rows_answer_like_the_plain_evaluator() {
    let range = |equal: Datum| KeyRange {
        equal: vec![equal],
        ..KeyRange::default()
    };
    let cents = |unscaled| Datum::Decimal { unscaled, scale: 2 };
    let plans = [
        Plan::scan(TABLE),
        Plan::scan(TABLE).filter(column("number").less(literal(2))),
        Plan::index_scan(TABLE, "by_name", range("part 7".into())),
        Plan::index_scan(TABLE, "by_price", range(cents(-125)))
            .aggregate(&["group"], vec![sum("price")]),
        Plan::scan(TABLE).aggregate(&[], vec![sum("number"), AggregateCall::count("rows")]),
    ];
    let disk = SimDisk::new();
    let mut db = open(&disk);
    load(&db, ROWS).unwrap();
    for _ in 0..2 {
        for plan in &plans {
            let expected = sorted(naive::run(plan, &plain()).unwrap().rows);
            assert!(!expected.is_empty(), "{plan:?}");
            assert_eq!(answer(&db, plan), expected, "{plan:?}");
            let ordered = db.query().options(Options::ordered()).run(plan).unwrap();
            let ordered: Vec<_> = ordered.collect::<Result<_, _>>().unwrap();
            assert_eq!(sorted(ordered), expected, "{plan:?}");
        }
        drop(db);
        db = open(&disk);
    }
}

/// Long texts, which have pages of their own, and columns without values.
#[test]
fn long_and_missing_values_come_back_from_segments() {
    let columns = vec![
        Column::new("id", ColumnType::U64),
        Column::new("text", ColumnType::Text).nullable(),
        Column::new("day", ColumnType::Date),
    ];
    let schema = Schema::new(columns, &["id"]).unwrap();
    let row = |id: u64| {
        let text = match id % 4 {
            0 => Datum::Null,
            1 => Datum::Text(String::new()),
            2 => Datum::Text("\0並木".repeat(id as usize)),
            _ => Datum::Text("x".repeat(3_000 * id as usize)),
        };
        vec![Datum::U64(id), text, Datum::Date(id as i32 - 20)]
    };
    let disk = SimDisk::new();
    let db = open(&disk);
    let table = NewTable::new("texts", schema).index("by_day", &["day"]);
    db.load_sorted(&table, sound((0..40).map(row))).unwrap();
    let expected: Vec<_> = (0..40).map(row).collect();
    assert_eq!(answer(&db, &Plan::scan("texts")), expected);
    let by_day = Plan::index_scan("texts", "by_day", KeyRange::default());
    assert_eq!(answer(&db, &by_day), expected);
}

#[test]
fn a_table_in_memory_joins_one_in_segments() {
    let disk = SimDisk::new();
    let db = open(&disk);
    load(&db, ROWS).unwrap();
    let wanted = db.table::<i64, str>("labels").unwrap();
    db.transact(|tx| {
        for group in [-3, 5, 7_000] {
            tx.put(&wanted, &group, &format!("group {group}"))?;
        }
        Ok(())
    })
    .unwrap();
    let plan = Plan::scan("labels")
        .lookup(TABLE, &["label_group"])
        .aggregate(&["label"], vec![AggregateCall::count("parts")]);
    let query = db
        .query()
        .table(&wanted, &["label_group"], "label")
        .unwrap();
    let rows: Vec<_> = query.run(&plan).unwrap().collect::<Result<_, _>>().unwrap();
    let expected = |group: i64| {
        let label = Datum::Text(format!("group {group}"));
        vec![label, Datum::I64(7)]
    };
    assert_eq!(sorted(rows), [expected(-3), expected(5)]);
    // The reverse direction: the table in memory is looked up.
    let plan = Plan::scan(TABLE)
        .lookup("labels", &["group"])
        .aggregate(&["label"], vec![AggregateCall::count("parts")]);
    let query = db
        .query()
        .table(&wanted, &["label_group"], "label")
        .unwrap();
    let rows: Vec<_> = query.run(&plan).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(sorted(rows), [expected(-3), expected(5)]);
}

/// Every index, with keys and values of every type that queries read.
#[test]
fn every_kind_of_table_in_memory_answers() {
    let all = [
        IndexKind::default(),
        "art+hash".parse().unwrap(),
        "bwtree".parse().unwrap(),
    ];
    for index in all {
        let disk = SimDisk::new();
        let db = builder(SPEC, &disk)
            .index(index)
            .buffer_bytes(1 << 20)
            .log_file_bytes(2 << 20)
            .open(DIR)
            .unwrap();
        let pairs = db.table::<(i64, String), bool>("pairs").unwrap();
        let texts = db.table::<str, [u8]>("texts").unwrap();
        let columns = vec![
            Column::new("id", ColumnType::U64),
            Column::new("price", ColumnType::Decimal { scale: 2 }),
            Column::new("note", ColumnType::Text).nullable(),
        ];
        let schema = Schema::new(columns, &["id"]).unwrap();
        let encoded = db.table::<u64, [u8]>("encoded").unwrap();
        let long = "long ".repeat(12_000);
        let price = Datum::Decimal {
            unscaled: -7,
            scale: 2,
        };
        let row = vec![Datum::U64(9), price, Datum::Null];
        // More rows than a transaction of the query reads.
        let many = 1_000;
        db.transact(|tx| {
            for number in 0..many {
                tx.put(
                    &pairs,
                    &(number - 500, format!("a\0{number}")),
                    &(number % 2 == 0),
                )?;
            }
            for text in ["", "short", &long] {
                tx.put(&texts, text, text.as_bytes())?;
            }
            tx.put(&encoded, &9, &encode_row(&schema, &row).unwrap())
        })
        .unwrap();
        let run = |plan: &Plan| {
            let query = db
                .query()
                .table(&pairs, &["number", "name"], "even")
                .unwrap();
            let query = query.table(&texts, &["text"], "bytes").unwrap();
            let query = query.table_of_rows(&encoded, schema.clone()).unwrap();
            let rows = query.run(plan).unwrap();
            sorted(rows.collect::<Result<_, _>>().unwrap())
        };
        let found = run(&Plan::scan("pairs"));
        let expected = (0..many).map(|number| {
            let name = Datum::Text(format!("a\0{number}"));
            vec![Datum::I64(number - 500), name, Datum::Bool(number % 2 == 0)]
        });
        assert!(found == expected.collect::<Vec<_>>(), "{index}");
        let found = run(&Plan::scan("texts"));
        let expected = ["", &long, "short"].map(|text| {
            let bytes = Datum::Bytes(text.as_bytes().to_vec());
            vec![Datum::Text(text.to_owned()), bytes]
        });
        assert!(found == expected, "{index}");
        assert_eq!(run(&Plan::scan("encoded")), [row], "{index}");
    }
}

/// Threads divide the keys among themselves: dense keys, clusters and isolated keys. Rows move from
/// key to key at the same time.
#[test]
fn every_number_of_threads_sees_each_row_once() {
    for index in ["art", "art+hash", "bwtree"] {
        let disk = SimDisk::new();
        let builder = || {
            builder(SPEC, &disk)
                .index(index.parse::<IndexKind>().unwrap())
                .buffer_bytes(1 << 20)
                .log_file_bytes(2 << 20)
        };
        let db = builder().open(DIR).unwrap();
        let table = db.table::<(u64, u64), i64>("amounts").unwrap();
        let key = |number: u64| match number % 4 {
            0 => (7, number),
            1 => (8, 1 << 40 | number),
            2 => (8, u64::MAX - number),
            _ => (number << 50, number),
        };
        let rows = 4_000;
        db.transact(|tx| {
            (0..rows).try_for_each(|number| tx.put(&table, &key(number), &(number as i64)))
        })
        .unwrap();
        let expected = {
            let unscaled = i128::from(rows * (rows - 1) / 2);
            [[(rows as i64).into(), Datum::Decimal { unscaled, scale: 0 }]]
        };
        let plan =
            Plan::scan("amounts").aggregate(&[], vec![AggregateCall::count("rows"), sum("amount")]);
        let check = |db: &Database, table: &Table<(u64, u64), i64>| {
            for threads in [1, 2, 3, 8, 32] {
                let query = db.query().table(table, &["a", "b"], "amount").unwrap();
                let query = query.threads(NonZeroUsize::new(threads).unwrap());
                let found: Result<Vec<_>, _> = query.run(&plan).unwrap().collect();
                assert_eq!(found.unwrap(), expected, "{index}, {threads} threads");
            }
        };
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Each round moves some rows to keys of its own.
                let mut round = 0;
                while !over.load(Ordering::Relaxed) {
                    for number in (0..rows).step_by(97) {
                        let from = key(number + round * rows);
                        let to = key(number + (round + 1) * rows);
                        db.transact(|tx| {
                            let amount = tx.get(&table, &from)?.unwrap();
                            tx.delete(&table, &from)?;
                            tx.put(&table, &to, &amount)
                        })
                        .unwrap();
                    }
                    round += 1;
                }
            });
            (0..5).for_each(|_| check(&db, &table));
            over.store(true, Ordering::Relaxed);
        });
        drop(table);
        db.close().unwrap();
        // Reads the image, whether or not it is loaded by then.
        let db = builder().open(DIR).unwrap();
        let table = db.table::<(u64, u64), i64>("amounts").unwrap();
        check(&db, &table);
        db.wait_until_loaded().unwrap();
        check(&db, &table);
    }
}

/// Each value holds the same number twice; no reader sees halves of two values.
#[test]
fn records_are_read_atomically_while_they_are_written() {
    let disk = SimDisk::new();
    let db = builder(SPEC, &disk)
        .buffer_bytes(1 << 20)
        .log_file_bytes(2 << 20)
        .open(DIR)
        .unwrap();
    let table = db.table::<u64, str>("twice").unwrap();
    let put = |round: u64| {
        let half = format!("{round:08}").repeat(20);
        db.transact(|tx| {
            (0..50).try_for_each(|key| tx.put(&table, &key, &format!("{half}{half}")))
        })
        .unwrap();
    };
    put(0);
    let over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            (1..)
                .take_while(|_| !over.load(Ordering::Relaxed))
                .for_each(put);
        });
        for _ in 0..50 {
            let query = db.query().table(&table, &["key"], "value").unwrap();
            let rows = query.run(&Plan::scan("twice")).unwrap();
            let mut count = 0;
            for row in rows {
                let row = row.unwrap();
                let Datum::Text(text) = &row[1] else {
                    panic!("{row:?}");
                };
                let (first, second) = text.split_at(text.len() / 2);
                assert_eq!(first, second);
                count += 1;
            }
            assert_eq!(count, 50);
        }
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn tables_that_a_query_cannot_read_are_refused_by_name() {
    let disk = SimDisk::new();
    let db = open(&disk);
    load(&db, 10).unwrap();
    let numbers = db.table::<u32, u64>("numbers").unwrap();
    let floats = db.table::<u64, f64>("floats").unwrap();
    let pairs = db.table::<(u64, u64), u64>("pairs").unwrap();
    let run = |plan: &Plan| db.query().run(plan).unwrap_err();
    let error = run(&Plan::scan("numbers"));
    assert!(
        matches!(error, QueryError::NotDescribed { .. }),
        "{error:?}"
    );
    let error = run(&Plan::scan("nothing"));
    assert!(
        matches!(&error, QueryError::UnknownTable { table, known } if table == "nothing" && known == &[TABLE]),
        "{error:?}"
    );
    let error = run(&Plan::index_scan(TABLE, "nothing", KeyRange::default()));
    assert!(error.to_string().contains("by_price"), "{error}");
    let error = db.query().table(&numbers, &["a"], "b").unwrap_err();
    assert!(error.to_string().contains("u32"), "{error}");
    let error = db.query().table(&floats, &["a"], "b").unwrap_err();
    assert!(error.to_string().contains("f64"), "{error}");
    let error = db.query().table(&pairs, &["a"], "b").unwrap_err();
    assert!(error.to_string().contains("2 parts"), "{error}");
    let error = db.query().table(&pairs, &["a", "b"], "b").unwrap_err();
    assert!(error.to_string().contains("two columns"), "{error}");
    let other = builder(SPEC, &SimDisk::new()).open(DIR).unwrap();
    let error = other.query().table(&pairs, &["a", "b"], "c").unwrap_err();
    assert!(
        matches!(error, QueryError::ForeignTable { .. }),
        "{error:?}"
    );
    db.close().unwrap();
    let error = run(&Plan::scan(TABLE));
    assert!(matches!(error, QueryError::Closed), "{error:?}");
}

/// A query's threads may release the database some time after the query's rows were dropped.
#[test]
fn rows_do_not_keep_a_database_open() {
    let disk = SimDisk::new();
    for _ in 0..20 {
        let db = open(&disk);
        put(&db, 1).unwrap();
        let numbers = numbers(&db);
        let query = db.query().table(&numbers, &["key"], "value").unwrap();
        let rows = query.run(&Plan::scan("numbers")).unwrap();
        drop(db);
        let again = open(&disk);
        drop((rows, numbers));
        drop(again);
    }
}

/// The manifest and the files come from different loads.
#[test]
fn segments_of_another_load_are_not_read() {
    let (disk, other) = (SimDisk::new(), SimDisk::new());
    for (disk, count) in [(&disk, 50), (&other, 60)] {
        let db = open(disk);
        db.load_sorted(&parts(), sound(rows(count))).unwrap();
        db.close().unwrap();
    }
    let file = namiki_tests::loaded_table::image_files(&disk).remove(0);
    let bytes = other.read(&file).unwrap();
    disk.replace(&file, &bytes).unwrap();
    let error = open(&disk).query().run(&Plan::scan(TABLE)).unwrap_err();
    let QueryError::Segment(error) = error else {
        panic!("{error:?}");
    };
    assert!(
        error.is_damage() && error.to_string().contains("00000001.seg"),
        "{error}"
    );
}
