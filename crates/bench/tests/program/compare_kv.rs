//! Runs `compare kv` at a small size: the keys of its rows, its checks, and the arguments that it
//! refuses.

use serde_json::Value;

use crate::support::{MACHINE, assert_keys, refused, rows, run};

const KV: &str = "store workload durable threads records value_bytes skew seconds committed aborted tps \
     abort_rate latency_us.p50 latency_us.p99 latency_us.p999 rss_bytes isolation durability";
const LONG: &str = "kind intervals tps_min tps_median tps_max longest_stall_ms slow_seconds file_bytes_max file_bytes \
     space_amplification_max space_amplification";
const INTERVAL: &str = "kind store workload durable threads skew round end_seconds interval_seconds committed tps \
     p50_us p99_us p999_us max_us file_bytes";
const SMALL: &str = "--records 2000 --ops 300 --threads 1,3";

fn kv(args: &str) -> Vec<Value> {
    rows(&format!("compare kv {args} {SMALL}"))
}

/// Each store, with the number of the five workloads that it supports.
fn all_do_the_same(stores: &str, parts: &[(&str, usize)]) {
    for (more, is_durable) in [
        ("--verify-recovery --skew 0,0.99", true),
        ("--durable off", false),
    ] {
        let rows = kv(&format!(
            "--workload u1,u10,r10,u5r5,scan100 --stores {stores} {more}"
        ));
        for row in &rows {
            assert_keys(row, &[KV, MACHINE]);
            assert_eq!(row["committed"], 300, "{row}");
        }
        for (store, workloads) in parts {
            let count = rows.iter().filter(|row| row["store"] == *store).count();
            // The number of combinations of threads and skews.
            let each = if is_durable { 4 } else { 2 };
            let workloads = if *store == "floor" && !is_durable {
                0
            } else {
                *workloads
            };
            assert_eq!(count, workloads * each, "{store}");
        }
    }
}

#[test]
fn namiki_and_the_floor_are_always_there() {
    all_do_the_same("namiki,floor", &[("namiki", 5), ("floor", 2)]);
}

#[cfg(feature = "compare")]
#[test]
fn other_stores_do_the_same() {
    let stores = "redb redb-batched fjall lmdb lmdb-batched sqlite sqlite-batched";
    do_all_the_same(stores);
}

#[cfg(feature = "compare-more")]
#[test]
fn more_stores_do_the_same() {
    do_all_the_same("surrealkv canopydb canopydb-batched");
}

/// Stores that support all workloads.
#[cfg(feature = "compare")]
fn do_all_the_same(stores: &str) {
    let parts: Vec<(&str, usize)> = stores.split(' ').map(|store| (store, 5)).collect();
    all_do_the_same(&stores.replace(' ', ","), &parts);
}

#[cfg(not(feature = "compare-more"))]
#[test]
fn a_store_that_is_not_built_in_is_refused() {
    let args = "compare kv --workload u1 --stores namiki,surrealkv";
    refused(args, 2, "--features compare-more");
}

#[cfg(feature = "compare-rocksdb")]
#[test]
fn all_of_rocksdb_does_the_same() {
    let parts = [
        ("rocksdb", 4),
        ("rocksdb-pipelined", 4),
        ("rocksdb-pessimistic", 5),
        ("rocksdb-optimistic", 5),
    ];
    all_do_the_same(&parts.map(|(store, _)| store).join(","), &parts);
}

#[cfg(not(feature = "compare-rocksdb"))]
#[test]
fn rocksdb_is_refused_when_not_built_in() {
    let args = "compare kv --workload u1 --stores namiki,rocksdb-optimistic";
    refused(args, 2, "--features compare-rocksdb");
}

#[test]
fn stores_take_turns_and_protocols_are_chosen() {
    for durable in ["on", "off"] {
        let rows = rows(&format!(
            "compare kv --durable {durable} --spec TT(NLR)+PWAL(1) --spec TT(ELR)+PWAL(16) --workload u1 \
             --stores floor,namiki --repeat 2 --records 100 --ops 50"
        ));
        let order: Vec<&str> = rows
            .iter()
            .map(|row| row["store"].as_str().unwrap())
            .collect();
        let floor: &[&str] = if durable == "on" { &["floor"] } else { &[] };
        let turn = [floor, &["namiki", "namiki"]].concat();
        assert_eq!(order, [&turn[..], &turn].concat());
        let logged = rows.iter().filter(|row| row.get("spec").is_some());
        assert_eq!(logged.count(), 4);
    }
}

#[test]
fn a_long_run_has_a_row_for_each_interval() {
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("rates.csv");
    let rows = rows(&format!(
        "compare kv --workload u10 --stores namiki,floor --threads 2 --records 2000 --minutes 0.03 \
         --every-seconds 0.3 --csv {}",
        csv.display()
    ));
    let (intervals, runs): (Vec<&Value>, Vec<&Value>) =
        rows.iter().partition(|row| row["kind"] == "interval");
    let stores: Vec<&Value> = runs.iter().map(|row| &row["store"]).collect();
    assert_eq!(stores, ["namiki", "floor"]);
    for run in runs {
        assert_keys(run, &[KV, LONG, MACHINE]);
        let of_run = intervals.iter().filter(|row| row["store"] == run["store"]);
        let of_run: Vec<_> = of_run
            .inspect(|row| assert_keys(row, &[INTERVAL]))
            .collect();
        assert_eq!(run["intervals"], of_run.len(), "{run}");
        let committed = of_run.iter().map(|row| row["committed"].as_u64().unwrap());
        assert!(committed.sum::<u64>() <= run["committed"].as_u64().unwrap());
        // A table of 2000 records of 8 + 100 bytes is in the files at least once.
        assert!(run["space_amplification"].as_f64().unwrap() >= 1.0, "{run}");
    }
    let text = std::fs::read_to_string(csv).unwrap();
    let mut lines = text.lines();
    let heading = lines.next().unwrap();
    let due: Vec<&str> = INTERVAL.split_whitespace().collect();
    assert!(
        due.iter()
            .all(|key| heading.split(',').any(|it| it == *key)),
        "{heading}"
    );
    assert_eq!(lines.count(), intervals.len());
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (args, word) in [
        ("--workload u2", "scan100"),
        ("--workload u1 --stores oak", "namiki"),
        ("--workload r10 --stores floor", "--stores"),
        (
            "--workload u1 --stores namiki --spec NOLOG",
            "--durable off",
        ),
        (
            "--workload u1 --stores namiki --durable off --verify-recovery",
            "--verify-recovery",
        ),
        (
            "--workload scan100 --stores namiki --index hash",
            "no order",
        ),
        ("--stores namiki", "--workload"),
        ("--workload u1 --minutes 0", "nothing can be measured"),
        ("--workload u1 --minutes 1 --seconds 3", "--seconds"),
        ("--workload u1 --csv rates.csv", "--minutes"),
    ] {
        refused(&format!("compare kv {args}"), 2, word);
    }
}

#[test]
fn comparing_is_explained() {
    let output = run("compare kv --help");
    let help = String::from_utf8(output.stdout).unwrap();
    for word in ["floor", "--features compare", "Examples:"] {
        assert!(help.contains(word), "{help}");
    }
}
