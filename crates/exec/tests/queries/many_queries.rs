//! Concurrent queries: one that waits for its consumer keeps its resources, and leaves enough to
//! the others.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroUsize;
use std::sync::Arc;

use namiki_data::columns::{Column, ColumnType, Datum, Schema};

use crate::support::{in_segments, memory_disk};
use namiki_exec::plan::{AggregateCall, Plan, column, literal};
use namiki_exec::source::{MemoryTable, Table, Tables};
use namiki_exec::{Degree, ExecError, Executor, Options, Rows};
use namiki_platform::disk::Disk;

const ROWS: i64 = 150_000;

/// A table of many more pages than the cache has, and an executor with the minimum cache.
fn setting() -> (Executor, Tables) {
    let (sim, dir) = memory_disk();
    let disk: Arc<dyn Disk> = sim;
    let columns = vec![
        Column::new("id", ColumnType::I64),
        Column::new("other", ColumnType::I64),
        Column::new("text", ColumnType::Text),
    ];
    let schema = Schema::new(columns, &["id"]).unwrap();
    let row = |id: i64| {
        let other = id * 7_919 % ROWS;
        vec![id.into(), other.into(), "x".repeat(200).as_str().into()]
    };
    let table = MemoryTable::new(schema, (0..ROWS).map(row)).unwrap();
    let table = in_segments(&disk, &dir, &table, usize::MAX);
    let mut tables = Tables::new();
    tables.insert("rows", Table::new(Arc::new(table)));
    (Executor::new(&disk, 0).unwrap(), tables)
}

fn options(threads: usize, degree: Degree) -> Options {
    Options {
        threads: NonZeroUsize::new(threads).unwrap(),
        degree,
        output_rows_max: 1,
        ..Options::default()
    }
}

/// A query from which one row was taken.
fn paused(executor: &Executor, plan: &Plan, tables: &Tables, options: &Options) -> Rows {
    let mut rows = executor.run(plan, tables, options).unwrap();
    assert!(rows.next_row().unwrap().is_some());
    rows
}

/// Their threads would hold all page frames: those of extents that they have read, and of pages
/// that they look up.
#[test]
fn paused_queries_leave_frames_to_others() {
    let (executor, tables) = setting();
    let scan = Plan::scan("rows");
    let looked_up = |outer: Plan| {
        let mut plan = outer.lookup("rows", &["rows.other"]);
        if let Plan::NestedLoopJoin(join) = &mut plan {
            join.alias = Some("others".to_owned());
        }
        plan
    };
    let few = 5_000;
    let some = scan.clone().filter(column("id").less(literal(few)));
    let count = |plan: Plan| plan.aggregate(&[], vec![AggregateCall::count("rows")]);
    let to_the_end = [(count(scan.clone()), ROWS), (count(looked_up(some)), few)];
    let how = [
        options(16, Degree::Fixed(64)),
        options(24, Degree::Adaptive),
        Options {
            window_tasks: 10_000,
            ..options(16, Degree::Fixed(64))
        },
    ];
    let mut others = Vec::new();
    for how in &how {
        for plan in [&scan, &looked_up(scan.clone())] {
            others.push(paused(&executor, plan, &tables, how));
            // With the resources that the paused queries have left.
            for (plan, expected) in &to_the_end {
                let mut rows = executor.run(plan, &tables, how).unwrap();
                assert_eq!(rows.collect_all().unwrap(), [[Datum::I64(*expected)]]);
            }
        }
    }
    // The first one continues, too, and the others can end.
    let mut left = 0;
    while others[0].next_row().unwrap().is_some() {
        left += 1;
    }
    assert_eq!(left, ROWS - 1);
    for rows in others {
        assert_eq!(rows.cancel().counters.tasks_live, 0);
    }
    assert_eq!(executor.frames_in_flight(), 0);
}

#[test]
fn too_many_queries_at_once_are_refused() {
    let (executor, tables) = setting();
    let plan = Plan::scan("rows");
    let how = options(8, Degree::Adaptive);
    let mut running: Vec<Rows> = Vec::new();
    let refused = loop {
        match executor.run(&plan, &tables, &how) {
            Ok(rows) => running.push(rows),
            Err(error) => break error,
        }
    };
    let count = running.len();
    assert!(matches!(refused, ExecError::TooManyQueries { running } if running == count));
    let threads: usize = running.iter().map(|rows| rows.statistics().threads).sum();
    assert!(count >= 16 && threads <= 256, "{count}, {threads} threads");
    // Each of them continues.
    for rows in &mut running {
        assert!(rows.next_row().unwrap().is_some());
    }
    drop(running.pop());
    let again = executor.run(&plan, &tables, &how).unwrap();
    assert_eq!(again.cancel().counters.tasks_live, 0);
    drop(running);
    assert_eq!(executor.frames_in_flight(), 0);
}
