//! Runs `query` at a small size: its output, and the equality of answers over all orders of
//! execution.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::{MACHINE, assert_keys, refused, rows};

const KEYS: &str = "query mode threads tasks seconds iops cpu_us_per_io reads distinct_pages merged_faults rows \
     groups checksum plan crc_us_per_page search_us_per_io";
/// Keys of queries that read single pages.
const LOOKUP_KEYS: &str = "iops_limit iops_limit_depth1";
/// Keys of queries that scan.
const SCAN_KEYS: &str = "mb_per_second mb_per_second_limit";
/// Tables at the smallest scale: 1,500 customers.
const SMALL: &str = "query --scale 0.01 --cache-mb 8 --warmup 0";

fn query(more: &str) -> Vec<Value> {
    rows(&format!("{SMALL} {more}"))
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
        let is_scan = row["join"] == "hash";
        let of_kind = if is_scan { SCAN_KEYS } else { LOOKUP_KEYS };
        assert_keys(row, &[KEYS, of_kind, "selectivity", MACHINE]);
        assert_eq!(row.get("cpu_us_per_io_bare").is_none(), is_scan);
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
        "--query q3-sliver,q5-sliver,q10-sliver --selectivity 0.2 --mode out-of-order --join nested-loop,hash --limit off",
    );
    assert_eq!(rows.len(), 6);
    assert_eq!(distinct(&rows, "checksum").len(), 3);
    assert!(rows.iter().all(|row| row.get("iops_limit").is_none()));
    assert!(rows.iter().all(|row| row["rows"].as_u64().unwrap() > 0));
    let plan = rows.iter().find(|row| row["query"] == "q3-sliver").unwrap();
    assert_eq!(
        plan["plan"],
        "limit 10 [sort by revenue descending, o_orderdate [aggregate by l_orderkey, o_orderdate, o_shippriority: \
         revenue = sum((l_extendedprice * (1 - l_discount))), count = count [nested-loop join lineitem by its key = \
         o_orderkey, where l_shipdate > '1995-03-15' [nested-loop join orders by o_custkey = c_custkey, where \
         o_orderdate < '1995-03-15' [index scan customer by c_mktsegment_acctbal: 'BUILDING', above -1000.00]]]]]"
    );
}

#[test]
fn emulated_drives_are_named_and_have_no_bare_loop() {
    let rows = query("--selectivity x20 --device slow:16x1ms --tasks 16 --threads 2 --ops 50");
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert_keys(row, &[KEYS, LOOKUP_KEYS]);
        assert_eq!(row["device"], "slow:16x1ms");
        assert!(row["queue"].as_str().unwrap().contains("EMULATED"), "{row}");
        assert!(row.get("cpu_us_per_io_bare").is_none());
    }
}

#[test]
fn what_cannot_be_queried_is_refused() {
    let empty = tempfile::tempdir().unwrap();
    let empty = empty.path().to_str().unwrap();
    refused(&format!("query --dir {empty}"), 2, "namiki load tpch");
    refused("query --query q99", 2, "q10-sliver");
    refused("query --selectivity 0.5", 2, "x549");
    refused("query --tasks 0", 2, "adaptive");
    refused(&format!("query --dir {empty} --scale 1"), 2, "--scale");
    refused("query --scale 0.01 --device null", 2, "slow:192x5ms");
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
    refused(small, 2, "--cache-mb");
}

#[test]
fn planner_residency_and_windows_give_the_same_answer() {
    let rows = query(
        "--selectivity 0.2 --mode out-of-order --join nested-loop,planner --resident 0,100 --window 200 --limit off",
    );
    assert_eq!(rows.len(), 4);
    assert_eq!(distinct(&rows, "checksum").len(), 1);
    for row in &rows {
        let is_resident = row["resident_percent"] == 100;
        assert_eq!(row["reads"] == 0, is_resident, "{row}");
        let is_planned = row["join"] == "planner";
        let plan = row["plan"].as_str().unwrap();
        assert_eq!(plan.contains("hash join"), is_planned, "{plan}");
        // The program itself has checked this against the same answer.
        let is_plain = row.get("plain_seconds").is_some();
        assert_eq!(is_plain, is_resident && !is_planned, "{row}");
    }
}
