//! The choices of the planner, its explanations, and the independence of the answer from them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use namiki_data::columns::Datum;

use crate::support::{Shop, memory_disk, sorted, statistics};
use namiki_exec::plan::{AggregateCall, AggregateFunction, Plan, column, literal};
use namiki_exec::source::{Table, Tables};
use namiki_exec::{Executor, ExplainedOperator, Options, naive};
use namiki_platform::disk::Disk;

struct Setting {
    shop: Shop,
    tables: Tables,
    executor: Executor,
}

impl Setting {
    fn new(customers: i64) -> Self {
        let shop = Shop::new(customers, 4);
        let (sim, dir) = memory_disk();
        let disk: Arc<dyn Disk> = sim;
        let on_disk = shop.on_disk(&disk, &dir);
        let mut tables = Tables::new();
        for (name, of) in [("customer", &shop.customer), ("orders", &shop.orders)] {
            let table: Table = on_disk.get(name).unwrap().clone();
            tables.insert(name, table.with_statistics(statistics(of)));
        }
        Self {
            tables,
            executor: Executor::new(&disk, 0).unwrap(),
            shop,
        }
    }
}

/// The paper's query, with the access paths left to the planner.
fn query(balance_above: i64) -> Plan {
    let of_segment = column("c_mktsegment").equal(literal("AUTOMOBILE"));
    let of_balance = column("c_acctbal").greater(literal(balance_above));
    Plan::find("customer", of_segment.and(of_balance))
        .join(
            Plan::find("orders", literal(true)),
            &[("c_custkey", "o_custkey")],
        )
        .aggregate(
            &["c_nationkey"],
            vec![
                AggregateCall::new("total", AggregateFunction::Sum, column("o_totalprice")),
                AggregateCall::count("orders"),
            ],
        )
}

fn all_operators(operator: &ExplainedOperator) -> Vec<String> {
    let inputs = operator.inputs.iter().flat_map(all_operators);
    std::iter::once(operator.what.clone())
        .chain(inputs)
        .collect()
}

/// Few rows are looked up, many are scanned. Ordered execution scans from fewer rows on.
#[test]
fn the_price_chooses_between_loops_and_hash_joins() {
    let setting = Setting::new(20_000);
    let loops = |balance: i64, options: &Options| {
        let explained = setting
            .executor
            .explain(&query(balance), &setting.tables, options)
            .unwrap();
        let operators = all_operators(&explained.root).join("\n");
        assert_ne!(
            operators.contains("hash join"),
            operators.contains("nested-loop"),
            "{operators}"
        );
        operators.contains("nested-loop")
    };
    let crossing = |options: &Options| {
        // In steps of a hundredth of the balances, beginning without rows.
        (0..100)
            .rev()
            .find(|percent| !loops(percent * 100, options))
            .unwrap()
    };
    let (out_of_order, ordered) = (crossing(&Options::default()), crossing(&Options::ordered()));
    assert!(
        out_of_order < ordered,
        "out of order {out_of_order}, ordered {ordered}"
    );
    assert!(out_of_order > 0 && ordered < 100);
    assert!(loops(9_990, &Options::default()) && loops(9_999, &Options::ordered()));
}

#[test]
fn the_answer_does_not_depend_on_the_choice() {
    let setting = Setting::new(2_000);
    for balance in [-1, 5_000, 9_900] {
        let expected = sorted(
            naive::run(&query(balance), &setting.shop.in_memory())
                .unwrap()
                .rows,
        );
        for options in [Options::default(), Options::ordered()] {
            let mut rows = setting
                .executor
                .run(&query(balance), &setting.tables, &options)
                .unwrap();
            assert_eq!(sorted(rows.collect_all().unwrap()), expected, "{balance}");
        }
    }
}

#[test]
fn estimates_of_rows_are_near_what_there_are() {
    let setting = Setting::new(20_000);
    for balance in [500, 5_000, 9_000, 9_900] {
        let mut rows = setting
            .executor
            .run(&query(balance), &setting.tables, &Options::default())
            .unwrap();
        rows.collect_all().unwrap();
        let explained = rows.explain();
        fn check(operator: &ExplainedOperator, text: &str) {
            let (rows, estimated) = (operator.rows.unwrap() as f64, operator.rows_estimated);
            let is_near = (estimated - rows).abs() <= rows * 0.35 + 12.0;
            assert!(
                is_near,
                "{}: {rows} rows, estimated {estimated}\n{text}",
                operator.what
            );
            operator.inputs.iter().for_each(|input| check(input, text));
        }
        check(&explained.root, &explained.to_string());
    }
}

#[test]
fn an_explanation_tells_plan_price_and_run() {
    let setting = Setting::new(2_000);
    let before = setting
        .executor
        .explain(&query(9_950), &setting.tables, &Options::default())
        .unwrap();
    assert!(before.statistics.is_none() && before.price_us > 0.0);
    let mut rows = setting
        .executor
        .run(&query(9_950), &setting.tables, &Options::default())
        .unwrap();
    let groups = rows.collect_all().unwrap().len();
    let text = rows.explain().to_string();
    for part in [
        "aggregate by c_nationkey: total = sum(o_totalprice), orders = count",
        "nested-loop join orders by by_customer = c_custkey",
        "index scan customer by segment_balance: 'AUTOMOBILE', above 9950.00",
        &format!("{groups} rows, estimated"),
        "random reads and",
        "out of order",
        "different ones",
        "at a time in a thread at most",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains("note:"), "{text}");
    let in_memory = setting.shop.in_memory();
    let explained = setting
        .executor
        .explain(&query(9_950), &in_memory, &Options::ordered())
        .unwrap();
    let text = explained.to_string();
    assert!(
        text.contains("read committed") && text.contains("in order"),
        "{text}"
    );
    assert!(
        serde_json::to_string(&explained)
            .unwrap()
            .contains("rows_estimated")
    );
}

#[test]
fn an_index_that_has_all_columns_spares_the_rows() {
    let setting = Setting::new(2_000);
    let find = Plan::find(
        "customer",
        column("c_mktsegment").equal(literal("BUILDING")),
    );
    let covered = find.clone().aggregate(
        &["c_mktsegment"],
        vec![AggregateCall::new(
            "least",
            AggregateFunction::Min,
            column("c_acctbal"),
        )],
    );
    let explained = setting
        .executor
        .explain(&covered, &setting.tables, &Options::default())
        .unwrap();
    assert_eq!(explained.price.reads, 0.0, "{explained}");
    let mut rows = setting
        .executor
        .run(&covered, &setting.tables, &Options::default())
        .unwrap();
    let answer = rows.collect_all().unwrap();
    assert_eq!(answer[0][0], Datum::from("BUILDING"));
    // A fifth of the table's whole rows is scanned, not looked up.
    let whole = setting
        .executor
        .explain(&find, &setting.tables, &Options::ordered())
        .unwrap();
    assert!(whole.root.what.starts_with("scan customer"), "{whole}");
}
