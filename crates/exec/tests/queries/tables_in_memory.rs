//! All threads of a query read a range of a table in memory, if its source can be divided.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use namiki_data::columns::{Column, ColumnType, Datum, Schema};

use crate::support::source_layer::{Layered, SourceLayer};
use crate::support::{memory_disk, sorted};
use namiki_exec::plan::{
    AggregateCall, AggregateFunction, KeyRange, Plan, SortKey, column, literal,
};
use namiki_exec::source::{MemoryTable, RowBatch, Source, SourceError, Table, Tables};
use namiki_exec::{Degree, ExecError, Executor, Options, naive};
use namiki_platform::disk::Disk;

fn table(rows: i64) -> MemoryTable {
    let columns = vec![
        Column::new("id", ColumnType::I64),
        Column::new("other", ColumnType::I64),
    ];
    let schema = Schema::new(columns, &["id"]).unwrap();
    let row = |id: i64| vec![id.into(), (id * 7 % rows).into()];
    MemoryTable::new(schema, (0..rows).map(row)).unwrap()
}

fn options(threads: usize) -> Options {
    Options {
        threads: NonZeroUsize::new(threads).unwrap(),
        ..Options::default()
    }
}

fn executor() -> Executor {
    let disk: Arc<dyn Disk> = memory_disk().0;
    Executor::new(&disk, 0).unwrap()
}

fn tables(source: impl Source + 'static) -> Tables {
    let mut tables = Tables::new();
    tables.insert("t", Table::new(Arc::new(source)));
    tables
}

/// A table that gives rows only once this number of threads has requested some.
struct ForMany {
    table: MemoryTable,
    threads: usize,
    asked: Mutex<HashSet<ThreadId>>,
    more: Condvar,
}

impl SourceLayer for ForMany {
    fn inner(&self) -> &dyn Source {
        &self.table
    }

    fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        rows_max: usize,
        into: &mut RowBatch,
    ) -> Result<(), SourceError> {
        let mut asked = self.asked.lock().unwrap();
        asked.insert(std::thread::current().id());
        self.more.notify_all();
        let is_missing = |asked: &mut HashSet<ThreadId>| asked.len() < self.threads;
        let waited = self
            .more
            .wait_timeout_while(asked, Duration::from_secs(60), is_missing);
        let (asked, end) = waited.unwrap();
        if end.timed_out() {
            return Err(format!("{} of {} threads", asked.len(), self.threads).into());
        }
        drop(asked);
        self.table.scan(from, to, rows_max, into)
    }
}

#[test]
fn all_threads_go_through_a_table_in_memory() {
    const ROWS: i64 = 5_000;
    let executor = executor();
    for threads in [1, 2, 3, 5, 8] {
        let source = ForMany {
            table: table(ROWS),
            threads,
            asked: Mutex::default(),
            more: Condvar::new(),
        };
        let sum = AggregateCall::new("sum", AggregateFunction::Sum, column("other"));
        let plan = Plan::scan("t")
            .filter(column("id").greater_or_equal(literal(1)))
            .aggregate(&[], vec![AggregateCall::count("rows"), sum]);
        let mut rows = executor
            .run(&plan, &tables(Layered(source)), &options(threads))
            .unwrap();
        let unscaled = i128::from(ROWS * (ROWS - 1) / 2);
        let sum = Datum::Decimal { unscaled, scale: 0 };
        let answer = rows.collect_all().unwrap();
        assert_eq!(answer, [[Datum::I64(ROWS - 1), sum]], "{threads} threads");
        assert_eq!(rows.statistics().counters.tasks_live, 0);
    }
}

/// How a source may divide ranges.
#[derive(Clone, Copy, Debug)]
enum Divided {
    /// At the second row: one part has all the rest.
    First,
    /// At the last row.
    Last,
    Never,
    /// The call with this number fails.
    Fails(usize),
}

/// A table that is badly divided.
struct Uneven(MemoryTable, Divided, AtomicUsize);

impl SourceLayer for Uneven {
    fn inner(&self) -> &dyn Source {
        &self.0
    }

    fn middle_key(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Result<Option<Vec<u8>>, SourceError> {
        let call = self.2.fetch_add(1, Ordering::Relaxed);
        let mut batch = RowBatch::new();
        match self.1 {
            Divided::First => self.0.scan(from, to, 2, &mut batch)?,
            Divided::Last => self.0.scan(from, to, usize::MAX, &mut batch)?,
            Divided::Never => return Ok(None),
            Divided::Fails(at) if at == call => return Err("the source is gone".into()),
            Divided::Fails(_) => return self.0.middle_key(from, to),
        }
        let last = batch.len().checked_sub(1).filter(|last| *last > 0);
        Ok(last.and_then(|last| batch.get(last).map(|(key, _)| key.to_vec())))
    }
}

#[test]
fn a_table_divided_badly_has_the_same_answer() {
    const ROWS: i64 = 20_000;
    let executor = executor();
    let range = KeyRange {
        from: Some(100.into()),
        below: Some(15_000.into()),
        ..KeyRange::default()
    };
    let mut some = Plan::scan("t");
    if let Plan::Scan(scan) = &mut some {
        scan.range = range;
        scan.filter = Some(column("other").less(literal(9_000)));
    }
    let plans = [
        Plan::scan("t"),
        some.clone(),
        some.clone()
            .sort(vec![SortKey::descending(column("other"))])
            .limit(40),
        some.aggregate(&["other"], vec![AggregateCall::count("rows")]),
        Plan::scan("t").limit(0),
    ];
    let plain = tables(table(ROWS));
    for divided in [Divided::First, Divided::Last, Divided::Never] {
        let tables = tables(Layered(Uneven(table(ROWS), divided, AtomicUsize::new(0))));
        for plan in &plans {
            let expected = sorted(naive::run(plan, &plain).unwrap().rows);
            for threads in [1, 2, 3, 8] {
                let mut rows = executor.run(plan, &tables, &options(threads)).unwrap();
                let answer = rows.collect_all().unwrap();
                let how = format!("{divided:?}, {threads} threads, {plan:?}");
                if threads == 1 && matches!(plan, Plan::Scan(_)) {
                    assert!(answer.is_sorted(), "{how}");
                }
                assert_eq!(sorted(answer), expected, "{how}");
                assert_eq!(rows.statistics().counters.tasks_live, 0, "{how}");
            }
        }
    }
}

/// At the beginning, and while other threads read their parts.
#[test]
fn a_source_that_fails_to_divide_fails_its_query() {
    let executor = executor();
    let mut failed = 0;
    for at in 0..12 {
        let source = Uneven(table(30_000), Divided::Fails(at), AtomicUsize::new(0));
        let mut rows = executor
            .run(&Plan::scan("t"), &tables(Layered(source)), &options(4))
            .unwrap();
        match rows.collect_all() {
            // The source was asked fewer times.
            Ok(all) => assert_eq!(all.len(), 30_000),
            Err(error) => {
                assert!(matches!(error, ExecError::Source { .. }), "{error}");
                failed += 1;
            }
        }
        assert_eq!(rows.statistics().counters.tasks_live, 0);
    }
    assert!(failed >= 3, "three calls divide the table for four threads");
}

#[test]
fn a_cancelled_scan_in_memory_leaves_nothing_behind() {
    let executor = executor();
    let tables = tables(table(200_000));
    for threads in [1, 2, 8] {
        let how = Options {
            output_rows_max: 1,
            degree: Degree::Fixed(4),
            ..options(threads)
        };
        let mut rows = executor.run(&Plan::scan("t"), &tables, &how).unwrap();
        assert!(rows.next_row().unwrap().is_some());
        let statistics = rows.cancel();
        assert!(statistics.counters.rows < 200_000, "{statistics:?}");
        assert_eq!(statistics.counters.tasks_live, 0, "{statistics:?}");
    }
}
