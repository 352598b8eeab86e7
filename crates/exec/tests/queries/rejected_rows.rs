//! Rows rejected by a step's own filter use up a thread's budget like others. However many there
//! are, the thread hands over its rows, answers requests and notices a cancellation.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroUsize;
use std::sync::Arc;

use namiki_data::columns::{Column, ColumnType, Datum, Schema};

use crate::support::{in_segments, memory_disk};
use namiki_exec::plan::{Plan, column};
use namiki_exec::source::{MemoryTable, Table, Tables};
use namiki_exec::{Degree, Executor, Options};
use namiki_platform::disk::Disk;

/// Rows of the only group.
const ROWS: i64 = 40_000;
/// One in this number of rows is kept.
const KEPT_EACH: i64 = 2_000;

fn groups() -> MemoryTable {
    let schema = Schema::new(vec![Column::new("id", ColumnType::I64)], &["id"]).unwrap();
    MemoryTable::new(schema, [vec![Datum::I64(0)]]).unwrap()
}

fn events() -> MemoryTable {
    let columns = vec![
        Column::new("group", ColumnType::I64),
        Column::new("number", ColumnType::I64),
    ];
    let schema = Schema::new(columns, &["group", "number"]).unwrap();
    let rows = (0..ROWS).map(|number| vec![Datum::I64(0), number.into()]);
    MemoryTable::new(schema, rows).unwrap()
}

/// If a consumer takes only one row, the rows behind it are not processed.
#[test]
fn a_look_comes_after_so_many_rejected_rows() {
    let (sim, dir) = memory_disk();
    let disk: Arc<dyn Disk> = sim;
    let executor = Executor::new(&disk, 0).unwrap();
    let events = events();
    let mut tables = Tables::new();
    tables.insert("groups", Table::new(Arc::new(groups())));
    let paged = in_segments(&disk, &dir, &events, usize::MAX);
    tables.insert("paged", Table::new(Arc::new(paged)));
    tables.insert("resident", Table::new(Arc::new(events)));
    let kept = (0..ROWS / KEPT_EACH).map(|at| Datum::I64(at * KEPT_EACH));
    let keep = column("number").is_in(kept);
    for table in ["paged", "resident"] {
        let mut scan = Plan::scan(table);
        let mut walk = Plan::scan("groups").lookup(table, &["id"]);
        if let (Plan::Scan(scan), Plan::NestedLoopJoin(walk)) = (&mut scan, &mut walk) {
            (scan.filter, walk.filter) = (Some(keep.clone()), Some(keep.clone()));
        }
        for plan in [scan, walk] {
            let options = Options {
                threads: NonZeroUsize::MIN,
                degree: Degree::Fixed(8),
                output_rows_max: 1,
                ..Options::default()
            };
            // Reads the pages into the cache.
            let mut rows = executor.run(&plan, &tables, &options).unwrap();
            assert_eq!(rows.collect_all().unwrap().len() as i64, ROWS / KEPT_EACH);
            let mut rows = executor.run(&plan, &tables, &options).unwrap();
            assert!(rows.next_row().unwrap().is_some());
            // The row that was taken, one in the queue, and one that waits for room there.
            let live = rows.live();
            assert!(live.rows <= 3, "{table}, {plan:?}: {live:?}");
            assert_eq!(rows.cancel().counters.tasks_live, 0);
        }
    }
}
