//! Scans that are longer than a thread's limit, and chains of look-ups in memory and in pages, with
//! every small degree. No row is lost, and no thread waits for an event that cannot occur.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use namiki_data::columns::{Column, ColumnType, Datum, Schema};

use crate::support::{in_segments, memory_disk, options};
use namiki_exec::plan::{AggregateCall, AggregateFunction, Plan, column};
use namiki_exec::source::{MemoryTable, Table, Tables};
use namiki_exec::{Executor, Mode, Options};
use namiki_platform::disk::Disk;

/// A table of `rows` rows, each of which names a row of the next one; as long as `pad_bytes` makes
/// them.
fn table(number: usize, rows: i64, pad_bytes: usize) -> MemoryTable {
    let columns = vec![
        Column::new(&format!("k{number}"), ColumnType::I64),
        Column::new(&format!("v{number}"), ColumnType::I64),
        Column::new(&format!("pad{number}"), ColumnType::Text),
    ];
    let schema = Schema::new(columns, &[&format!("k{number}")]).unwrap();
    let rows = (0..rows).map(|key| {
        let next = (key * 7_919 + number as i64) % rows;
        vec![key.into(), next.into(), "x".repeat(pad_bytes).into()]
    });
    MemoryTable::new(schema, rows.collect::<Vec<_>>()).unwrap()
}

/// Rows and the sum of a column.
fn summed(plan: Plan, of: &str) -> Plan {
    let sum = AggregateCall::new("sum", AggregateFunction::Sum, column(of));
    plan.aggregate(&[], vec![AggregateCall::count("rows"), sum])
}

/// The result of [`summed`] for a column that has each number below `rows` once.
fn count_and_sum(rows: i64) -> Vec<Datum> {
    let unscaled = i128::from(rows * (rows - 1) / 2);
    vec![rows.into(), Datum::Decimal { unscaled, scale: 0 }]
}

/// The answer; fails if it does not come in time.
fn answer(executor: &Arc<Executor>, plan: &Plan, tables: &Tables, how: &Options) -> Vec<Datum> {
    let (sender, receiver) = channel();
    let mut rows = executor.run(plan, tables, how).unwrap();
    let canceller = rows.canceller();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let waited = receiver.recv_timeout(Duration::from_secs(60));
            if let Err(RecvTimeoutError::Timeout) = waited {
                canceller.cancel();
            }
        });
        let all = rows.collect_all();
        // No thread waits for it after the query was cancelled.
        let _ = sender.send(());
        let all = all.unwrap_or_else(|error| panic!("{error} with {how:?}"));
        assert_eq!(rows.statistics().counters.tasks_live, 0);
        all.concat()
    })
}

#[test]
fn long_scans_end_with_every_degree() {
    const ROWS: i64 = 16_000;
    let (sim, dir) = memory_disk();
    let disk: Arc<dyn Disk> = sim;
    let executor = Arc::new(Executor::new(&disk, 0).unwrap());
    let mut tables = Tables::new();
    // Four rows a page: far more pages than the cache and a thread's frames.
    for (number, pad_bytes) in [(0, 900), (1, 100)] {
        let paged = in_segments(&disk, &dir, &table(number, ROWS, pad_bytes), usize::MAX);
        tables.insert(&format!("t{number}"), Table::new(Arc::new(paged)));
    }
    let scan = summed(Plan::scan("t0"), "v0");
    let joined = summed(Plan::scan("t0").lookup("t1", &["v0"]), "v1");
    let expected = count_and_sum(ROWS);
    for degree in (1..=12).chain([16, 64]) {
        for threads in [1, 2] {
            for plan in [&scan, &joined] {
                let how = options(threads, degree);
                assert_eq!(answer(&executor, plan, &tables, &how), expected, "{how:?}");
            }
        }
    }
    let ordered = Options {
        mode: Mode::Ordered,
        ..options(1, 1)
    };
    assert_eq!(answer(&executor, &scan, &tables, &ordered), expected);
    assert_eq!(executor.frames_in_flight(), 0);
}

/// A range handed to another thread meets unfinished extents there, which hold all frames: the
/// first caller gets most frames, and the others have 17 for all their threads.
#[test]
fn callers_with_few_frames_come_to_their_ends() {
    const ROWS: i64 = 12_000;
    const NARROW_ROWS: i64 = 150_000;
    let (sim, dir) = memory_disk();
    let disk: Arc<dyn Disk> = sim;
    let executor = Arc::new(Executor::new(&disk, 0).unwrap());
    let mut tables = Tables::new();
    let mut insert = |name: &str, table: &MemoryTable| {
        let paged = in_segments(&disk, &dir, table, usize::MAX);
        tables.insert(name, Table::new(Arc::new(paged)));
    };
    // An extent of a few pages has more rows than a thread processes between two looks at its
    // rings.
    let schema = Schema::new(vec![Column::new("k", ColumnType::I64)], &["k"]).unwrap();
    let rows = (0..NARROW_ROWS).map(|key| vec![Datum::I64(key)]);
    insert("narrow", &MemoryTable::new(schema, rows).unwrap());
    insert("t0", &table(0, ROWS, 0));
    // Each row needs a page that the cache does not have.
    insert("t1", &table(1, ROWS, 700));
    let plans = [
        (
            summed(Plan::scan("narrow"), "k"),
            count_and_sum(NARROW_ROWS),
        ),
        (
            summed(Plan::scan("t0").lookup("t1", &["v0"]), "v1"),
            count_and_sum(ROWS),
        ),
    ];
    for degree in 1..=3 {
        for (callers, threads) in [(1, 64), (2, 16), (3, 2), (4, 8), (8, 4)] {
            let how = options(threads, degree);
            std::thread::scope(|scope| {
                for caller in 0..callers {
                    let (executor, tables, plans) = (&executor, &tables, &plans);
                    let how = &how;
                    scope.spawn(move || {
                        for turn in 0..2 {
                            let (plan, expected) = &plans[(caller + turn) % 2];
                            let answer = answer(executor, plan, tables, how);
                            assert_eq!(&answer, expected, "{callers} callers, {how:?}");
                        }
                    });
                }
            });
        }
    }
    assert_eq!(executor.frames_in_flight(), 0);
}

#[test]
fn chained_look_ups_lose_no_row() {
    const ROWS: i64 = 9_000;
    let (sim, dir) = memory_disk();
    let disk: Arc<dyn Disk> = sim;
    let executor = Arc::new(Executor::new(&disk, 0).unwrap());
    // Which tables are in pages, and the length of their rows; the others are in memory.
    let in_pages: [(&str, &[(usize, usize)]); 4] = [
        ("ends in memory", &[(0, 0), (2, 700)]),
        ("ends in pages", &[(0, 0), (2, 700), (5, 0)]),
        ("begins in memory", &[(2, 700)]),
        ("pages that no cache holds", &[(0, 0), (2, 700), (5, 700)]),
    ];
    for (what, in_pages) in in_pages {
        let mut tables = Tables::new();
        let length = if in_pages.iter().any(|(number, _)| *number == 5) {
            6
        } else {
            5
        };
        for number in 0..length {
            let paged = in_pages.iter().find(|(paged, _)| *paged == number);
            let own = table(number, ROWS, paged.map_or(0, |(_, pad_bytes)| *pad_bytes));
            let own = match paged {
                Some(_) => Table::new(Arc::new(in_segments(&disk, &dir, &own, usize::MAX))),
                None => Table::new(Arc::new(own)),
            };
            tables.insert(&format!("t{number}"), own);
        }
        let chain = (1..length).fold(Plan::scan("t0"), |plan, number| {
            plan.lookup(&format!("t{number}"), &[&format!("v{}", number - 1)])
        });
        let plan = summed(chain, &format!("v{}", length - 1));
        let expected = count_and_sum(ROWS);
        for degree in [1, 3, 8, 20, 70, 200] {
            for threads in [1, 3] {
                let how = options(threads, degree);
                let answer = answer(&executor, &plan, &tables, &how);
                assert_eq!(answer, expected, "{what}: {how:?}");
            }
        }
    }
}
