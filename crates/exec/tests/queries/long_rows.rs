//! Waiting rows are bounded in bytes, and not in rows alone: rows of the answer, batches of a
//! source, gathered look-ups.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::Bound;
use std::sync::Arc;

use namiki_data::columns::Datum;

use crate::support::{long_texts, memory_disk, options, sorted};
use namiki_exec::plan::{AggregateCall, Plan};
use namiki_exec::source::{RowBatch, Source, Table, Tables};
use namiki_exec::{Executor, Options, naive};
use namiki_platform::disk::Disk;

const ROW_BYTES: usize = 32 << 10;

fn setting(rows: i64) -> (Executor, Tables) {
    let (sim, _) = memory_disk();
    let disk: Arc<dyn Disk> = sim;
    let mut tables = Tables::new();
    tables.insert(
        "long",
        Table::new(Arc::new(long_texts(rows, ROW_BYTES, |id| (id + 7) % rows))),
    );
    (Executor::new(&disk, 0).unwrap(), tables)
}

#[test]
fn rows_that_wait_for_the_consumer_have_few_bytes() {
    let (executor, tables) = setting(1_500);
    let how = Options {
        output_rows_max: 1_000_000,
        output_bytes_max: 1 << 20,
        ..options(1, 8)
    };
    let mut rows = executor.run(&Plan::scan("long"), &tables, &how).unwrap();
    let in_one_mib = (1 << 20) / ROW_BYTES as u64;
    for taken in 1..1_000 {
        assert!(rows.next_row().unwrap().is_some());
        // Time for a thread that does not stop.
        for _ in 0..20 {
            std::thread::yield_now();
        }
        let live = rows.live();
        // The batch being taken, up to two in the queue, and one that waits for room there.
        let made_max = taken + 5 * in_one_mib;
        assert!(live.rows <= made_max, "{taken} taken: {live:?}");
    }
    assert_eq!(rows.cancel().counters.tasks_live, 0);
}

#[test]
fn a_source_stops_at_a_full_batch() {
    let table = long_texts(200, ROW_BYTES, |id| (id + 7) % 200);
    let mut batch = RowBatch::new();
    let (all, rows_max) = (Bound::Unbounded, 200);
    table.scan(all, all, rows_max, &mut batch).unwrap();
    assert!(batch.is_full() && batch.len() <= 1 + (1 << 20) / ROW_BYTES);
    let keys: Vec<Vec<u8>> = table
        .encoded_rows()
        .iter()
        .map(|row| row.0.clone())
        .collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    batch.clear();
    table.get_many(&keys, &mut batch).unwrap();
    assert!(batch.is_full() && batch.len() <= 1 + (1 << 20) / ROW_BYTES);
}

/// Scans and look-ups continue after full batches, with one task and with many.
#[test]
fn no_row_is_lost_behind_a_full_batch() {
    let (executor, tables) = setting(300);
    let looked_up = Plan::scan("long").project(vec![namiki_exec::plan::Named::column("other")]);
    let looked_up = looked_up.lookup("long", &["other"]);
    let counted = looked_up
        .clone()
        .aggregate(&[], vec![AggregateCall::count("rows")]);
    for plan in [Plan::scan("long"), looked_up, counted] {
        let expected = sorted(naive::run(&plan, &tables).unwrap().rows);
        for (threads, tasks) in [(1, 1), (1, 64), (3, 16)] {
            let mut rows = executor
                .run(&plan, &tables, &options(threads, tasks))
                .unwrap();
            let answer = sorted(rows.collect_all().unwrap());
            assert!(
                answer == expected,
                "{threads} threads, {tasks} tasks: {plan:?}"
            );
        }
    }
    let count = Plan::scan("long").aggregate(&[], vec![AggregateCall::count("rows")]);
    let rows = naive::run(&count, &tables).unwrap().rows;
    assert_eq!(rows, [[Datum::I64(300)]]);
}
