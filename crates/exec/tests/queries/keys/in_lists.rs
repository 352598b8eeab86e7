//! `in` with many values: looked up by key or index where that is cheaper, each value once, with
//! the same answer as the plain filter.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroUsize;
use std::sync::Arc;

use namiki_data::columns::{Column, ColumnType, Datum, Schema};

use crate::support::{Shop, memory_disk, sorted};
use namiki_exec::plan::{Expr, KeyRange, Plan, column, literal};
use namiki_exec::source::{MemoryTable, Source, Table, Tables};
use namiki_exec::{Degree, ExecError, Executor, Options, PlanError, naive};
use namiki_platform::disk::Disk;

struct Setting {
    executor: Executor,
    places: [Tables; 2],
}

impl Setting {
    /// A shop, and a table with a key of two columns, with missing values and decimals in its
    /// index; in segments and in memory.
    fn new() -> Self {
        let (sim, dir) = memory_disk();
        let disk: Arc<dyn Disk> = sim;
        let shop = Shop::new(3_000, 21);
        let mut places = [shop.on_disk(&disk, &dir), shop.in_memory()];
        let columns = vec![
            Column::new("tenant", ColumnType::Text),
            Column::new("number", ColumnType::U64),
            Column::new("price", ColumnType::Decimal { scale: 2 }).nullable(),
        ];
        let schema = Schema::new(columns, &["tenant", "number"]).unwrap();
        let rows = (0..40_000_u64).map(|at| {
            let price = Datum::Decimal {
                unscaled: i128::from(at % 50) * 25,
                scale: 2,
            };
            vec![
                format!("t{}", at % 4).into(),
                (at / 4).into(),
                if at % 7 == 0 { Datum::Null } else { price },
            ]
        });
        let items = MemoryTable::new(schema, rows.collect::<Vec<_>>()).unwrap();
        let by_price = items.index(&["price"]).unwrap();
        let paged = |table: &MemoryTable| -> Arc<dyn Source> {
            Arc::new(crate::support::in_segments(&disk, &dir, table, 20_000))
        };
        let on_disk = Table::new(paged(&items)).with_index("by_price", paged(&by_price));
        places[0].insert("items", on_disk);
        let in_memory = Table::new(Arc::new(items)).with_index("by_price", Arc::new(by_price));
        places[1].insert("items", in_memory);
        Self {
            executor: Executor::new(&disk, 0).unwrap(),
            places,
        }
    }

    /// The answer, which is the plain one wherever the tables are and however the plan is run, and
    /// the explained plan.
    fn answer(&self, plan: &Plan) -> (Vec<Vec<Datum>>, [String; 2]) {
        let plain = sorted(naive::run(plan, &self.places[1]).unwrap().rows);
        let explained = self.places.each_ref().map(|tables| {
            for (threads, degree) in [(1, 1), (1, 64), (3, 16)] {
                let options = Options {
                    threads: NonZeroUsize::new(threads).unwrap(),
                    degree: Degree::Fixed(degree),
                    ..Options::default()
                };
                let mut rows = self.executor.run(plan, tables, &options).unwrap();
                assert_eq!(sorted(rows.collect_all().unwrap()), plain, "{plan:?}");
                assert_eq!(rows.statistics().counters.tasks_live, 0);
            }
            let options = Options::default();
            let explained = self.executor.explain(plan, tables, &options);
            explained.unwrap().to_string()
        });
        (plain, explained)
    }

    /// Checks the number of rows of the answer, and that they are looked up.
    fn looks_up(&self, table: &str, filter: Expr, rows: usize, by: &str) {
        let (answer, explained) = self.answer(&Plan::find(table, filter));
        assert_eq!(answer.len(), rows, "{explained:?}");
        for explained in explained {
            assert!(explained.contains(by), "{by}: {explained}");
        }
    }
}

#[test]
fn lists_become_lookups_of_different_values() {
    let setting = Setting::new();
    let key = || column("c_custkey");
    let many = || (0..10_i64).map(|at| at * 400 - 300);
    setting.looks_up(
        "customer",
        key().is_in(many()),
        8,
        "scan customer: one of (-300, 100, ",
    );
    let twice = many().chain(many());
    setting.looks_up(
        "customer",
        key().is_in(twice),
        8,
        "scan customer: one of (-300, 100, ",
    );
    let ors = many().map(|at| key().equal(literal(at)));
    setting.looks_up(
        "customer",
        Expr::any(ors),
        8,
        "scan customer: one of (-300, 100, ",
    );
    // Equal numbers of all types are one value. Values outside the column's type, and missing
    // values, do not count.
    let decimal = |text: &str| Datum::parse_decimal(text).unwrap();
    let mixed = [
        Datum::U64(7),
        Datum::I64(7),
        decimal("7.00"),
        decimal("7.5"),
        Datum::Null,
        Datum::U64(u64::MAX),
        decimal("123456789012345678901234567890"),
        Datum::I64(2_999),
    ];
    setting.looks_up(
        "customer",
        key().is_in(mixed.clone()),
        2,
        "one of (7, 2999)",
    );
    setting.looks_up("customer", key().is_in([Datum::Null]), 0, "one of ()");
    setting.looks_up("customer", key().is_in(Vec::<Datum>::new()), 0, "one of ()");
    setting.looks_up("customer", key().is_in([7_i64]), 1, "scan customer: 7");
    // The shorter of two lists is looked up, and the other is compared.
    let both = key().is_in(many()).and(key().is_in([100_i64, 101, 500]));
    setting.looks_up(
        "customer",
        both,
        2,
        "one of (100, 101, 500), where c_custkey in (-300",
    );
    // A list that is compared only, because it has nearly all keys.
    let all = (0..3_000_i64).filter(|at| at % 100 != 0);
    let (answer, explained) = setting.answer(&Plan::find("customer", key().is_in(all)));
    assert_eq!(answer.len(), 2_970);
    assert!(
        explained.iter().all(|it| !it.contains("one of")),
        "{explained:?}"
    );
    // A negated list is not looked up.
    let not = !key().is_in([1_i64, 2]);
    let (answer, explained) = setting.answer(&Plan::find("customer", not));
    assert_eq!(answer.len(), 2_998);
    assert!(explained.iter().all(|it| !it.contains("one of")));
}

#[test]
fn lists_of_several_columns_and_of_indexes_are_looked_up() {
    let setting = Setting::new();
    let tenant = |names: &[&str]| column("tenant").is_in(names.iter().copied());
    let number = |numbers: &[i64]| column("items.number").is_in(numbers.iter().copied());
    let both = tenant(&["t3", "t1", "t9", "t1"]).and(number(&[5, 999, 1_000, -1]));
    setting.looks_up(
        "items",
        both,
        6,
        "one of ('t1', 't3', 't9'), one of (5, 999, 1000)",
    );
    let one = column("tenant")
        .equal(literal("t2"))
        .and(number(&[5, 6, 6]));
    setting.looks_up("items", one, 2, "one of ('t2'), one of (5, 6)");
    let bounded = tenant(&["t0", "t1"]).and(column("number").less(literal(3)));
    setting.looks_up("items", bounded, 6, "one of ('t0', 't1'), where number < 3");
    let decimal = |text: &str| Datum::parse_decimal(text).unwrap();
    let prices = [
        decimal("0.50"),
        decimal("0.505"),
        Datum::Null,
        Datum::I64(1),
    ];
    let price = column("price").is_in(prices);
    let (answer, explained) = setting.answer(&Plan::find("items", price));
    assert!(answer.len() > 100, "{explained:?}");
    let lists = KeyRange {
        one_of: vec![vec![decimal("0.5"), Datum::Null, Datum::I64(1)]],
        ..KeyRange::default()
    };
    let (by_index, explained) = setting.answer(&Plan::index_scan("items", "by_price", lists));
    assert_eq!(by_index, answer, "{explained:?}");
}

/// In a plan file, too.
#[test]
fn lists_that_make_no_sense_are_refused() {
    let setting = Setting::new();
    let refused = |range: KeyRange| {
        let plan = Plan::index_scan("items", "by_price", range);
        let run = setting
            .executor
            .run(&plan, &setting.places[0], &Options::default());
        run.err().unwrap()
    };
    let lists = |one_of: Vec<Vec<Datum>>| KeyRange {
        one_of,
        ..KeyRange::default()
    };
    let error = refused(lists(vec![vec!["x".into()]]));
    assert!(
        matches!(error, ExecError::Plan(PlanError::NotOfColumn { .. })),
        "{error}"
    );
    let error = refused(lists(vec![vec![], vec![], vec![], vec![], vec![]]));
    let is_too_many = matches!(
        error,
        ExecError::Plan(PlanError::TooManyLookupValues { .. })
    );
    assert!(is_too_many, "{error}");
    let error = refused(KeyRange {
        to: Some(1_i64.into()),
        ..lists(vec![vec![]])
    });
    assert!(
        matches!(error, ExecError::Plan(PlanError::ListsAndBounds { .. })),
        "{error}"
    );
    let numbers: Vec<Datum> = (0..1_i64 << 16).map(Datum::I64).collect();
    let error = setting.executor.run(
        &Plan::index_scan(
            "customer",
            "segment_balance",
            lists(vec![vec!["a".into(); 1], numbers.clone(), numbers]),
        ),
        &setting.places[0],
        &Options::default(),
    );
    let error = error.err().unwrap();
    assert!(
        matches!(error, ExecError::Plan(PlanError::TooLarge { .. })),
        "{error}"
    );
}
