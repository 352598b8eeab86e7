//! `query`, run small: what it prints, and that all orders of execution give one answer.

mod support;

use std::collections::BTreeSet;

use serde_json::Value;

use self::support::{MACHINE, assert_keys, refused, rows};

const KEYS: &[&str] = &[
    "query",
    "mode",
    "threads",
    "tasks",
    "seconds",
    "iops",
    "iops_limit",
    "iops_limit_depth1",
    "cpu_us_per_io",
    "reads",
    "distinct_pages",
    "merged_faults",
    "rows",
    "groups",
    "checksum",
    "plan",
    "crc_us_per_page",
    "search_us_per_io",
];
/// Tables at the smallest scale that there is: 1,500 customers.
const SMALL: &str = "query --scale 0.01 --cache-mb 8 --warmup 0";

fn query(more: &str) -> Vec<Value> {
    let args = format!("{SMALL} {more}");
    rows(&args.split_whitespace().collect::<Vec<_>>())
}

fn distinct(rows: &[Value], key: &str) -> BTreeSet<String> {
    rows.iter().map(|row| row[key].to_string()).collect()
}

#[test]
fn all_orders_of_execution_give_one_answer() {
    let more = "--selectivity x10,0.2 --threads 1,2 --tasks 1,16,adaptive --join nested-loop,hash --ops 200 --repeat 2";
    let rows = query(more);
    assert_eq!(rows.len(), 2 * 2 * (1 + 2 * 3) * 2);
    for row in &rows {
        assert_keys(
            row,
            &[KEYS, &["selectivity", "cpu_us_per_io_bare"], MACHINE],
        );
        assert!(
            row["reads"].as_u64()
                >= row["distinct_pages"]
                    .as_u64()
                    .filter(|_| row["join"] != "hash")
        );
    }
    let balances = distinct(&rows, "balance_above");
    assert_eq!(
        balances.into_iter().collect::<Vec<_>>(),
        ["-1000.0", "9800.0"]
    );
    assert_eq!(
        distinct(&rows, "checksum").len(),
        2,
        "one for each selectivity"
    );
    assert_eq!(distinct(&rows, "rows").len(), 2);
    let ordered = rows.iter().filter(|row| row["mode"] == "ordered");
    for row in ordered {
        assert_eq!((&row["threads"], &row["tasks"]), (&1.into(), &1.into()));
    }
}

#[test]
fn joins_of_many_tables_have_the_answers_of_hash_joins() {
    let rows = query(
        "--query q3,q5,q10 --selectivity 0.2 --mode out-of-order --join nested-loop,hash --limit off",
    );
    assert_eq!(rows.len(), 6);
    assert_eq!(distinct(&rows, "checksum").len(), 3);
    assert!(rows.iter().all(|row| row.get("iops_limit").is_none()));
    assert!(rows.iter().all(|row| row["rows"].as_u64().unwrap() > 0));
    let plan = rows.iter().find(|row| row["query"] == "q3").unwrap();
    assert_eq!(
        plan["plan"],
        "limit 10(sort(aggregate(nested loops(nested loops(index scan customer.c_mktsegment_acctbal, \
         orders.o_custkey), lineitem))))"
    );
}

#[test]
fn emulated_drives_are_named_and_have_no_bare_loop() {
    let rows = query("--selectivity x20 --device slow:16x1ms --tasks 16 --threads 2 --ops 50");
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert_keys(row, &[KEYS]);
        assert_eq!(row["device"], "slow:16x1ms");
        assert!(row["queue"].as_str().unwrap().contains("EMULATED"), "{row}");
        assert!(row.get("cpu_us_per_io_bare").is_none());
    }
}

#[test]
fn what_cannot_be_queried_is_refused() {
    let empty = tempfile::tempdir().unwrap();
    let empty = empty.path().to_str().unwrap();
    refused(&["query", "--dir", empty], 2, "namiki load tpch");
    refused(&["query", "--query", "q99"], 2, "q10");
    refused(&["query", "--selectivity", "0.5"], 2, "x549");
    refused(&["query", "--tasks", "0"], 2, "adaptive");
    refused(&["query", "--dir", empty, "--scale", "1"], 2, "--scale");
    refused(
        &["query", "--scale", "0.01", "--device", "null"],
        2,
        "slow:192x5ms",
    );
}

#[test]
fn resident_pages_are_not_read() {
    let rows = query("--selectivity 0.2 --mode out-of-order --resident 0,50,100 --limit off");
    let reads = |percent: u64| {
        let row = rows.iter().find(|row| row["resident_percent"] == percent);
        row.unwrap()["reads"].as_u64().unwrap()
    };
    assert!(reads(0) > reads(50) && reads(50) > 0);
    assert_eq!(reads(100), 0);
    // 500 pages do not fit 2 MiB.
    let small = "query --scale 0.024 --selectivity 0.2 --cache-mb 2 --resident 90";
    refused(
        &small.split_whitespace().collect::<Vec<_>>(),
        2,
        "--cache-mb",
    );
}
