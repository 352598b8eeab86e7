//! A forked child has a copy of its parent's queries, without the threads that run them: it is
//! refused, and waits for nothing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::Cell;
use std::num::NonZeroUsize;
use std::sync::Arc;

use namiki::Database;
use namiki_data::columns::{Column, ColumnType, Datum, Schema};
use namiki_exec::plan::Plan;
use namiki_exec::source::{MemoryTable, Table, Tables};
use namiki_exec::{ExecError, Executor, Options, Statistics};
use namiki_platform::disk::{Disk, SimDisk};
use namiki_tests::forked_child::in_forked_child;
use namiki_tests::loaded_table::{DIR, TABLE, load};
use namiki_tests::small_database::builder;

const ROWS: i64 = 20_000;

fn tables() -> Tables {
    let schema = Schema::new(vec![Column::new("id", ColumnType::I64)], &["id"]).unwrap();
    let rows = (0..ROWS).map(|id| vec![Datum::I64(id)]);
    let mut tables = Tables::new();
    let table = MemoryTable::new(schema, rows).unwrap();
    tables.insert("rows", Table::new(Arc::new(table)));
    tables
}

/// At any moment of the query: its threads may hold any lock at the fork.
#[test]
fn a_forked_child_does_not_wait_for_a_query() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let executor = Executor::new(&disk, 0).unwrap();
    let tables = tables();
    let plan = Plan::scan("rows").lookup("rows", &["id"]);
    let options = Options {
        threads: NonZeroUsize::new(2).unwrap(),
        output_rows_max: 300,
        ..Options::default()
    };
    let run = || executor.run(&plan, &tables, &options);
    for round in 0..20 {
        let mut rows = run().unwrap();
        for _ in 0..round * 100 {
            assert!(rows.next_row().unwrap().is_some());
        }
        let rows = Cell::new(Some(rows));
        assert!(in_forked_child(|| {
            let mut inherited = rows.take().unwrap();
            let canceller = inherited.canceller();
            canceller.cancel();
            // Rows that were already produced may be returned.
            while let Ok(Some(_)) = inherited.next_row() {}
            let is_over = matches!(inherited.next_row(), Ok(None));
            let knows_nothing = inherited.statistics() == Statistics::default();
            let is_refused = matches!(run(), Err(ExecError::Forked));
            drop(inherited);
            is_over && knows_nothing && is_refused
        }));
        let mut rows = rows.take().unwrap();
        let left = rows.collect_all().unwrap().len() as i64;
        assert_eq!(left, ROWS - round * 100);
    }
}

#[test]
fn a_forked_child_hears_that_it_has_no_query() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let executor = Executor::new(&disk, 0).unwrap();
    let mut rows = executor
        .run(&Plan::scan("rows"), &tables(), &Options::default())
        .unwrap();
    let first = rows.next_row().map(|row| row.is_some());
    assert!(first.unwrap());
    let rows = Cell::new(Some(rows));
    assert!(in_forked_child(|| {
        let rows = rows.take().unwrap();
        matches!(rows.last(), Some(Err(ExecError::Forked)))
    }));
}

fn loaded_rows(db: &Database) -> usize {
    let mut rows = db.query().run(&Plan::scan(TABLE)).unwrap();
    rows.collect_all().unwrap().len()
}

/// The executor's threads, which manage the page cache, do not exist in the child.
#[test]
fn a_forked_child_leaves_the_executor_as_it_is() {
    let disk = SimDisk::new();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let db = builder("TT(EPOCH)+PWAL(1)", &disk)
        .disk(Arc::clone(&shared))
        .open(DIR)
        .unwrap();
    load(&db, 50).unwrap();
    assert_eq!(loaded_rows(&db), 50);
    let db = Cell::new(Some(db));
    assert!(in_forked_child(|| {
        let users = Arc::strong_count(&shared);
        drop(db.take());
        Arc::strong_count(&shared) == users
    }));
    assert_eq!(loaded_rows(&db.take().unwrap()), 50);
}
