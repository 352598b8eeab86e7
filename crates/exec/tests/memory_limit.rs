//! Real allocations of sorts, groups and hash tables stay near the query's limit, also while the
//! threads' parts are merged.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::num::NonZeroUsize;
use std::sync::Arc;

use namiki_data::columns::{Column, ColumnType, Datum, Schema};
use namiki_exec::plan::{AggregateCall, AggregateFunction, Plan, SortKey, column};
use namiki_exec::source::{MemoryTable, Table, Tables};
use namiki_exec::{ExecError, Executor, Options};
use namiki_platform::counting_allocator::CountingAllocator;
use namiki_platform::disk::Disk;
use support::memory_disk;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const LIMIT_BYTES: usize = 8 << 20;

/// Memory of rings between threads, batches, and rows in transit.
const BESIDE_BYTES: usize = 3 << 20;

fn rows(count: i64) -> Tables {
    let columns = vec![
        Column::new("id", ColumnType::I64),
        Column::new("mixed", ColumnType::I64),
        Column::new("text", ColumnType::Text),
    ];
    let schema = Schema::new(columns, &["id"]).unwrap();
    let row = |id: i64| {
        let mixed = id.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) >> 20;
        let text = format!("text {mixed} of some length");
        vec![Datum::I64(id), Datum::I64(mixed), text.as_str().into()]
    };
    let mut tables = Tables::new();
    let table = MemoryTable::new(schema, (0..count).map(row)).unwrap();
    tables.insert("rows", Table::new(Arc::new(table)));
    tables
}

fn scan(alias: &str) -> Plan {
    let mut plan = Plan::scan("rows");
    if let Plan::Scan(scan) = &mut plan {
        scan.alias = Some(alias.to_owned());
    }
    plan
}

#[test]
fn allocations_stay_near_the_limit() {
    let disk: Arc<dyn Disk> = memory_disk().0;
    let executor = Executor::new(&disk, 0).unwrap();
    let count = |plan: Plan| plan.aggregate(&[], vec![AggregateCall::count("rows")]);
    let texts = AggregateCall::new("text", AggregateFunction::Max, column("text"));
    let key = || SortKey::descending(column("a.mixed"));
    // The joins and the limit distribute the rows of one driver over several threads.
    let joined = || scan("a").lookup("rows", &["a.id"]);
    let plans = [
        ("sort", count(scan("a").sort(vec![key()]))),
        ("sort of a join", count(joined().sort(vec![key()]))),
        (
            "groups",
            count(scan("a").aggregate(&["mixed"], vec![texts])),
        ),
        (
            "groups of a join",
            count(joined().aggregate(
                &["a.mixed"],
                vec![AggregateCall::new(
                    "text",
                    AggregateFunction::Max,
                    column("a.text"),
                )],
            )),
        ),
        (
            "hash join",
            count(scan("a").hash_join(scan("b"), &[("b.mixed", "a.mixed")])),
        ),
        (
            "hash join of a join",
            count(scan("c").hash_join(joined(), &[("a.mixed", "c.mixed")])),
        ),
        (
            "limit",
            count(scan("a").limit(1 << 30).lookup("rows", &["a.id"])),
        ),
    ];
    let options = Options {
        threads: NonZeroUsize::new(3).unwrap(),
        memory_bytes_max: LIMIT_BYTES,
        ..Options::default()
    };
    let mut ends = [0, 0];
    for count in [10_000, 40_000, 60_000, 80_000, 120_000, 160_000, 300_000] {
        let tables = rows(count);
        for (name, plan) in &plans {
            let before = CountingAllocator::live();
            let peak = CountingAllocator::peak_of(|| {
                let mut answer = executor.run(plan, &tables, &options).unwrap();
                match answer.collect_all() {
                    Ok(rows) => {
                        assert_eq!(rows, [[Datum::I64(count)]], "{name}");
                        ends[0] += 1;
                    }
                    Err(ExecError::MemoryExceeded { .. }) => ends[1] += 1,
                    Err(other) => panic!("{name}: {other}"),
                }
            });
            let taken = (peak - before) as usize;
            // A growing list exists twice while it is copied, the second time with twice its
            // length, and its new length is counted after the copy. The lists of all threads may
            // grow at the same moment.
            let taken_max = LIMIT_BYTES + 2 * LIMIT_BYTES + BESIDE_BYTES;
            assert!(taken <= taken_max, "{name} of {count} rows: {taken} bytes");
        }
    }
    // Both outcomes occurred.
    assert!(ends[0] > 10 && ends[1] > 10, "{ends:?}");
}
