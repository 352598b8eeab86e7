//! A failure ends a query with a clear error, leaves no task and no page frame behind, and damages
//! nothing.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::Bound;
use std::sync::Arc;

use namiki_data::columns::{Column, ColumnType, Datum, Schema};

use crate::support::{Shop, in_segments, long_texts, memory_disk, options, papers_query, sorted};
use namiki_exec::plan::{
    AggregateCall, AggregateFunction, KeyRange, Plan, SortKey, column, literal,
};
use namiki_exec::source::{MemoryTable, RowBatch, Source, SourceError, Table, Tables};
use namiki_exec::{ExecError, Executor, Options, Statistics, naive};
use namiki_platform::disk::sim::ReadFaults;
use namiki_platform::disk::{Disk, SimDisk};

struct Setting {
    sim: Arc<SimDisk>,
    tables: Tables,
    executor: Executor,
    expected: Vec<Vec<Datum>>,
    plan: Plan,
}

impl Setting {
    fn new() -> Self {
        let shop = Shop::new(2_000, 3);
        let (sim, dir) = memory_disk();
        let disk: Arc<dyn Disk> = Arc::clone(&sim) as _;
        let plan = papers_query(3_000);
        Self {
            tables: shop.on_disk(&disk, &dir),
            executor: Executor::new(&disk, 0).unwrap(),
            expected: sorted(naive::run(&plan, &shop.in_memory()).unwrap().rows),
            plan,
            sim,
        }
    }

    /// The error of a query that finds none of its pages in the cache.
    fn error(&self, options: &Options) -> ExecError {
        self.executor.cache().evict(usize::MAX);
        let mut rows = self
            .executor
            .run(&self.plan, &self.tables, options)
            .unwrap();
        let error = rows.collect_all().unwrap_err();
        self.check_nothing_left(&rows.statistics());
        error
    }

    fn check_nothing_left(&self, statistics: &Statistics) {
        assert_eq!(statistics.counters.tasks_live, 0, "{statistics:?}");
        assert_eq!(statistics.counters.tasks_in_flight, 0, "{statistics:?}");
        assert_eq!(self.executor.frames_in_flight(), 0);
    }

    fn check_usable(&self) {
        let mut rows = self
            .executor
            .run(&self.plan, &self.tables, &options(2, 16))
            .unwrap();
        assert_eq!(sorted(rows.collect_all().unwrap()), self.expected);
        self.check_nothing_left(&rows.statistics());
    }
}

/// An error and all its causes in one line.
fn said(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", said(source)),
        None => error.to_string(),
    }
}

#[test]
fn a_failed_read_names_its_file_and_spoils_nothing() {
    let setting = Setting::new();
    for seed in 0..20 {
        setting.sim.set_read_faults(ReadFaults {
            error: 0.05,
            ..ReadFaults::harmless(seed)
        });
        for options in [Options::ordered(), options(1, 64), options(3, 8)] {
            let text = said(&setting.error(&options));
            assert!(
                text.contains(".segment") && text.contains("os error 5"),
                "seed {seed}: {text}"
            );
        }
        setting.sim.heal();
        setting.check_usable();
    }
}

/// Every way to look up the row: in a page, in memory with others, in memory alone.
#[test]
fn an_index_entry_without_its_row_is_an_error() {
    let schema = |names: &[&str]| {
        let columns = names.iter().map(|name| Column::new(name, ColumnType::I64));
        Schema::new(columns.collect(), &["id"]).unwrap()
    };
    let table = |rows: std::ops::Range<i64>| {
        let rows = rows.map(|id| vec![Datum::I64(id), Datum::I64(id % 3), Datum::I64(9)]);
        MemoryTable::new(schema(&["id", "group", "other"]), rows).unwrap()
    };
    let index = Arc::new(table(0..300).index(&["group"]).unwrap());
    let (sim, dir) = memory_disk();
    let disk: Arc<dyn Disk> = sim;
    let executor = Executor::new(&disk, 0).unwrap();
    let sources: [Arc<dyn Source>; 5] = [
        Arc::new(table(0..299)),
        Arc::new(in_segments(&disk, &dir, &table(0..299), 100)),
        Arc::new(in_segments(&disk, &dir, &table(1..300), 100)),
        Arc::new(table(0..0)),
        Arc::new(in_segments(&disk, &dir, &table(0..0), 100)),
    ];
    for source in sources {
        let mut tables = Tables::new();
        let table = Table::new(source).with_index("by_group", Arc::clone(&index) as _);
        tables.insert("t", table);
        let plan = Plan::index_scan("t", "by_group", KeyRange::default());
        for options in [Options::ordered(), options(1, 64), options(3, 8)] {
            let mut rows = executor.run(&plan, &tables, &options).unwrap();
            let error = rows.collect_all().unwrap_err();
            assert!(
                matches!(error, ExecError::RowOfIndexEntryMissing { .. }),
                "{error}"
            );
        }
    }
}

#[test]
fn a_flipped_bit_is_found_and_named_by_page() {
    let setting = Setting::new();
    for seed in 0..20 {
        setting.sim.set_read_faults(ReadFaults {
            flipped: 0.05,
            ..ReadFaults::harmless(seed)
        });
        let text = said(&setting.error(&options(2, 32)));
        assert!(text.contains("is damaged at page"), "seed {seed}: {text}");
        setting.sim.heal();
        setting.check_usable();
    }
}

#[test]
fn a_file_that_ends_early_is_said_to_be_damaged() {
    let setting = Setting::new();
    for (seed, window_tasks) in [(0, 0), (1, 500), (2, 0), (3, 2_000)] {
        setting.sim.set_read_faults(ReadFaults {
            short: 0.5,
            ..ReadFaults::harmless(seed)
        });
        let options = Options {
            window_tasks,
            ..options(2, 32)
        };
        let text = said(&setting.error(&options));
        assert!(text.contains("bytes are there"), "seed {seed}: {text}");
        setting.sim.heal();
        setting.check_usable();
    }
}

/// Cancelled by its consumer, by another thread, and by a drop.
#[test]
fn a_cancelled_query_leaves_nothing_behind() {
    let setting = Setting::new();
    let many = Plan::scan("customer").index_lookup("orders", "by_customer", &["c_custkey"]);
    for (threads, tasks, take) in [(1, 1, 1), (2, 64, 0), (4, 16, 700), (1, 256, 5_000)] {
        let mut how = options(threads, tasks);
        how.output_rows_max = 100;
        let mut rows = setting.executor.run(&many, &setting.tables, &how).unwrap();
        for _ in 0..take {
            assert!(rows.next_row().unwrap().is_some());
        }
        setting.check_nothing_left(&rows.cancel());

        let mut rows = setting.executor.run(&many, &setting.tables, &how).unwrap();
        let canceller = rows.canceller();
        std::thread::scope(|scope| {
            scope.spawn(move || canceller.cancel());
            let end = rows.collect_all();
            assert!(matches!(end, Err(ExecError::Cancelled)), "{end:?}");
        });
        setting.check_nothing_left(&rows.statistics());

        let mut rows = setting.executor.run(&many, &setting.tables, &how).unwrap();
        rows.next_row().unwrap();
        drop(rows);
        assert_eq!(setting.executor.frames_in_flight(), 0);
    }
    setting.check_usable();
}

/// The rows produced for the consumer are bounded, however long it waits.
#[test]
fn a_consumer_that_stops_stops_the_producers() {
    let setting = Setting::new();
    let many = Plan::scan("customer").index_lookup("orders", "by_customer", &["c_custkey"]);
    let (threads, output_rows_max) = (2, 300);
    let how = Options {
        output_rows_max,
        ..options(threads, 32)
    };
    let mut rows = setting.executor.run(&many, &setting.tables, &how).unwrap();
    let mut taken = 0;
    while taken < 2_000 {
        taken += u64::from(rows.next_row().unwrap().is_some());
        let live = rows.live();
        assert!(live.tasks_in_flight <= 64, "{live:?}");
        // In the queue, and in each thread: the rows produced by one pass over the tasks.
        let made_max = taken + (output_rows_max * threads) as u64 + 2 * 2_000;
        assert!(live.rows <= made_max, "{taken} taken: {live:?}");
    }
    setting.check_nothing_left(&rows.cancel());
    setting.check_usable();
}

/// A million tasks wait at a time, in a window.
#[test]
fn a_million_tasks_wait_and_go() {
    let shop = Shop::new(1_000, 5);
    let (sim, dir) = memory_disk();
    let disk: Arc<dyn Disk> = sim;
    let on_disk = shop.on_disk(&disk, &dir);
    let mut tables = shop.in_memory();
    tables.insert("paged", on_disk.get("orders").unwrap().clone());
    let pair = |at: i64| {
        let side = Plan::Scan(namiki_exec::plan::Scan {
            table: "customer".to_owned(),
            alias: Some(format!("c{at}")),
            range: Default::default(),
            filter: None,
        });
        side.project(vec![
            namiki_exec::plan::Named::new(&format!("k{at}"), column(&format!("c{at}.c_custkey"))),
            namiki_exec::plan::Named::new(&format!("one{at}"), literal(1)),
        ])
    };
    let pairs = pair(0).hash_join(pair(1), &[("one1", "one0")]);
    let plan = Plan::NestedLoopJoin(namiki_exec::plan::NestedLoopJoin {
        outer: pairs.into(),
        table: "paged".to_owned(),
        index: None,
        alias: None,
        lookup: vec![column("k0").plus(column("k1")).times(literal(4))],
        filter: None,
        table_first: false,
    })
    .aggregate(&[], vec![AggregateCall::count("found")]);
    let executor = Executor::new(&disk, 0).unwrap();
    for (threads, window_tasks) in [(1, 1_000_000), (2, 600_000), (1, 0)] {
        let how = Options {
            window_tasks,
            ..options(threads, 64)
        };
        let mut rows = executor.run(&plan, &tables, &how).unwrap();
        assert_eq!(rows.collect_all().unwrap(), [vec![Datum::I64(1_000_000)]]);
        let statistics = rows.statistics();
        assert_eq!(statistics.counters.tasks_live, 0, "{statistics:?}");
        assert!(
            statistics.tasks_in_flight_max <= window_tasks.max(64) as u64,
            "{statistics:?}"
        );
        if threads == 1 && window_tasks > 0 {
            // Look-ups that find their page in the cache are no tasks.
            assert!(statistics.tasks_in_flight_max > 500_000, "{statistics:?}");
        }
        assert_eq!(executor.frames_in_flight(), 0);
        executor.cache().evict(usize::MAX);
    }
}

#[test]
fn memory_beyond_the_limit_is_an_error() {
    let setting = Setting::new();
    let sort = Plan::scan("orders").sort(vec![SortKey::ascending(column("o_totalprice"))]);
    let groups = Plan::scan("orders").aggregate(&["o_orderkey"], vec![AggregateCall::count("n")]);
    let join =
        Plan::scan("customer").hash_join(Plan::scan("orders"), &[("o_custkey", "c_custkey")]);
    // One text for each of 25 groups, none of them short.
    let longest = AggregateCall::new("last", AggregateFunction::Max, column("text"));
    let texts = Plan::scan("texts").aggregate(&["other"], vec![longest]);
    let mut tables = setting.tables.clone();
    tables.insert(
        "texts",
        Table::new(Arc::new(long_texts(100, 10_000, |id| id % 25))),
    );
    let cases = [
        (sort, "sort"),
        (groups, "groups"),
        (texts, "groups"),
        (join, "hash table"),
    ];
    for (plan, operator) in cases {
        let how = Options {
            memory_bytes_max: 100_000,
            ..options(2, 16)
        };
        let mut rows = setting.executor.run(&plan, &tables, &how).unwrap();
        let text = said(&rows.collect_all().unwrap_err());
        assert!(text.contains(operator) && text.contains("100000"), "{text}");
        setting.check_nothing_left(&rows.statistics());
    }
    setting.check_usable();
}

/// Fails, or panics, when rows are requested.
struct BadSource(Schema, bool);

impl Source for BadSource {
    fn schema(&self) -> &Schema {
        &self.0
    }

    fn rows(&self) -> u64 {
        1
    }

    fn scan(
        &self,
        _: Bound<&[u8]>,
        _: Bound<&[u8]>,
        _: usize,
        _: &mut RowBatch,
    ) -> Result<(), SourceError> {
        assert!(!self.1, "the source has a bug");
        Err("the source is gone".into())
    }
}

#[test]
fn a_source_that_fails_or_panics_fails_its_query_alone() {
    let setting = Setting::new();
    for panics in [false, true] {
        let customer = setting.tables.get("customer").unwrap();
        let mut tables = setting.tables.clone();
        let schema = customer.source.schema().clone();
        tables.insert("bad", Table::new(Arc::new(BadSource(schema, panics))));
        let plan = Plan::scan("orders").lookup("bad", &["o_custkey"]);
        let mut rows = setting
            .executor
            .run(&plan, &tables, &options(2, 16))
            .unwrap();
        let text = said(&rows.collect_all().unwrap_err());
        let expected = if panics {
            "the source has a bug"
        } else {
            "the source is gone"
        };
        assert!(text.contains(expected), "{text}");
        setting.check_nothing_left(&rows.statistics());
    }
    setting.check_usable();
}

/// Rows that were written by another schema.
#[test]
fn rows_of_another_schema_are_an_error() {
    let shop = Shop::new(50, 1);
    let (sim, dir) = memory_disk();
    let disk: Arc<dyn Disk> = sim;
    let customer = crate::support::in_segments(&disk, &dir, &shop.customer, usize::MAX);
    let segments = customer.segments().unwrap().to_vec();
    let other =
        namiki_exec::source::SegmentTable::new(shop.orders.schema().clone(), segments).unwrap();
    let mut tables = Tables::new();
    tables.insert("orders", Table::new(Arc::new(other)));
    let executor = Executor::new(&disk, 0).unwrap();
    let mut rows = executor
        .run(&Plan::scan("orders"), &tables, &options(1, 4))
        .unwrap();
    let error = rows.collect_all().unwrap_err();
    assert!(matches!(error, ExecError::NotARow { .. }), "{error}");
}

#[test]
fn a_wrong_plan_is_refused_before_anything_is_read() {
    let setting = Setting::new();
    let wrong = [
        (Plan::scan("order"), "there is no table `order`"),
        (
            Plan::index_scan("orders", "x", Default::default()),
            "no index `x`; it has `by_customer`",
        ),
        (
            Plan::scan("orders").filter(column("o_key").equal(literal(1))),
            "no column `o_key`",
        ),
        (
            Plan::scan("orders").filter(column("o_comment").equal(literal(1))),
            "do not go together",
        ),
        (
            Plan::scan("orders").filter(column("o_orderkey")),
            "true or false is needed",
        ),
        (
            Plan::scan("orders")
                .lookup("orders", &["o_orderkey"])
                .filter(column("o_custkey").equal(literal(1))),
            "of several tables",
        ),
        (
            Plan::scan("orders").lookup("customer", &["o_custkey", "o_orderkey"]),
            "2 values look up `customer`",
        ),
    ];
    for (plan, expected) in wrong {
        let text = setting
            .executor
            .run(&plan, &setting.tables, &options(1, 1))
            .unwrap_err()
            .to_string();
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(setting.sim.read_fault_counts().completed, 0);
}

#[test]
fn a_limit_ends_the_query_and_not_its_answer() {
    let setting = Setting::new();
    let empty = MemoryTable::new(
        setting
            .tables
            .get("orders")
            .unwrap()
            .source
            .schema()
            .clone(),
        [],
    )
    .unwrap();
    let mut tables = setting.tables.clone();
    tables.insert("none", Table::new(Arc::new(empty)));
    for limit in [0, 1, 1_000, 1_000_000] {
        let plan = Plan::scan("customer")
            .index_lookup("orders", "by_customer", &["c_custkey"])
            .limit(limit);
        let mut rows = setting
            .executor
            .run(&plan, &setting.tables, &options(3, 16))
            .unwrap();
        let all = rows.collect_all().unwrap().len() as u64;
        assert_eq!(all, limit.min(20_000));
        setting.check_nothing_left(&rows.statistics());
        let mut rows = setting
            .executor
            .run(&Plan::scan("none").limit(limit), &tables, &options(2, 4))
            .unwrap();
        assert!(rows.collect_all().unwrap().is_empty());
    }
}
