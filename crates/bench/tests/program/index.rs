//! Runs `index` and `compare index` at a small size: their output, and the arguments that they
//! refuse.

use serde_json::Value;

use crate::support::{MACHINE, assert_keys, found, refused, rows, run};

const INDEX: &str = "tree mix key_bytes key_space key_layout initial keys skew threads batch scan_length \
     load_order seed round";
const MEASURED: &str = "ops seconds mops load_mops bytes_per_key latency_ns.p1 latency_ns.p5 latency_ns.p50 \
     latency_ns.p95 latency_ns.p99 latency_ns.p999 stats.records stats.leaves stats.inner_nodes \
     stats.height stats.leaf_deltas stats.longest_chain stats.consolidations \
     stats.consolidations_failed stats.splits stats.merges stats.root_splits stats.root_collapses \
     stats.cas_misses stats.restarts stats.delta_visits";
const SMALL: &str = "--keys 2000 --ops 5000 --yardstick off --latency-ops 1000";
const ALL_SIX: &str = "read=20,scan=5,write=20,insert=20,update=15,delete=20";

fn index(args: &str) -> Vec<Value> {
    rows(&format!("index {args} {SMALL}"))
}

#[test]
fn every_tree_does_all_six_operations_and_is_checked() {
    for more in ["", "--initial 700 --writes returning"] {
        let args = format!("--tree all,art+hash,bwtree+hash --mix {ALL_SIX} --threads 1,2 {more}");
        for row in index(&args) {
            let left_out = row.get("left_out").is_some();
            assert_eq!(left_out, row["tree"] == "hash", "{row}");
            if left_out {
                assert_keys(&row, &[INDEX, MACHINE]);
                assert!(row.get("mops").is_none(), "{row}");
                continue;
            }
            assert_keys(&row, &[INDEX, MEASURED, MACHINE]);
            assert_eq!(row["mix"], ALL_SIX);
            assert_eq!(row["ops"], 5000);
            assert_eq!(row["latency_ns"].as_object().unwrap().len(), 22);
            assert!(row.get("miss_ns").is_none());
            let at = |key| found(&row, key).as_f64().unwrap();
            assert!(at("latency_ns.p1") <= at("latency_ns.p50"));
            assert!(at("latency_ns.p50") <= at("latency_ns.p999"));
        }
    }
}

/// The hash table keeps no order, and supports everything else.
#[test]
fn the_hash_table_does_all_that_needs_no_order() {
    let measured = index(
        "--tree hash,art+hash --mix read=30,write=20,insert=20,update=15,delete=15 --mix read=100 --threads 1,2 \
         --key-bytes 8,32 --key-space sparse --initial 1500 --writes returning --batch 1,8",
    );
    assert_eq!(measured.len(), 2 * 2 * 2 * 2 * 2);
    for row in measured {
        assert_keys(&row, &[INDEX, MEASURED, MACHINE]);
        assert_eq!(row["ops"], 5000);
    }
    let mixes = "--mix read=100 --mix read=99,scan=1";
    let said = "--tree hash: it keeps no order, and cannot scan, and there are scans in --mix read=99,scan=1";
    refused(&format!("index --tree art,hash {mixes}"), 2, said);
    let compared = rows(&format!("compare index --trees hash {mixes} {SMALL}"));
    let left_out: Vec<_> = compared
        .iter()
        .map(|row| row.get("left_out").and_then(Value::as_str))
        .collect();
    assert_eq!(left_out, [None, Some("it keeps no order, and cannot scan")]);
}

#[test]
fn every_tree_takes_keys_of_every_size_space_and_layout() {
    let found = index(
        "--tree all --mix read=50,write=50 --threads 2 --key-bytes 8,16,32,64,128 --key-space dense,sparse \
         --key-layout random-head,shared-prefix --load-order sorted",
    );
    let of = |key: &str, value: &str| found.iter().filter(|row| row[key] == value).count();
    assert_eq!(of("key_space", "sparse") * 2, found.len());
    assert_eq!(of("key_layout", "shared-prefix") * 2, found.len());
    for row in found {
        assert_keys(&row, &[INDEX, MEASURED]);
        assert_eq!(row["load_order"], "sorted");
    }
}

#[test]
fn combinations_take_turns() {
    let rows = index("--mix read=100 --mix write=100 --skew 0,1.5 --repeat 2");
    let named = |row: &Value| format!("{} {} {}", row["mix"], row["skew"], row["round"]);
    let names: Vec<String> = rows.iter().map(named).collect();
    assert_eq!(
        names,
        [
            "\"read=100\" 0.0 1",
            "\"read=100\" 1.5 1",
            "\"write=100\" 0.0 1",
            "\"write=100\" 1.5 1",
            "\"read=100\" 0.0 2",
            "\"read=100\" 1.5 2",
            "\"write=100\" 0.0 2",
            "\"write=100\" 1.5 2",
        ]
    );
}

#[test]
fn reads_can_be_looked_up_together() {
    let rows = index("--mix read=70,insert=30 --batch 1,16");
    assert_eq!(rows.len(), 2);
    for (row, batch) in rows.iter().zip([1, 16]) {
        assert_eq!(row["batch"], batch);
        assert_eq!(row["ops"], 5000);
    }
}

#[test]
fn what_was_not_measured_is_absent() {
    let rows = rows(
        "index --initial 0 --mix insert=100 --keys 100 --ops 50 --yardstick off --latency-ops 0",
    );
    for key in ["load_mops", "bytes_per_key", "latency_ns", "left_out"] {
        assert!(rows[0].get(key).is_none(), "{key}");
    }
}

#[test]
fn tiny_runs_and_short_ones_are_runs() {
    for threads in ["1", "3"] {
        let rows = rows(&format!(
            "index --keys 1 --ops 1 --mix {ALL_SIX} --yardstick off --threads {threads}"
        ));
        assert_eq!(rows[0]["ops"], 1);
    }
    let rows = rows("index --keys 500 --seconds 0.05 --warmup 0.01 --yardstick off");
    assert!(rows[0]["seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn the_table_says_the_rate_at_the_yardstick() {
    let output =
        run("index --keys 1000 --ops 1000 --batch 1,4 --key-layout random-head,shared-prefix");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("at 151 ns"), "{text}");
    assert!(!text.contains('{'), "{text}");
    // Four combinations with one run each, so there are no medians.
    assert_eq!(text.lines().count(), 5, "{text}");
}

#[test]
fn what_makes_no_sense_is_refused_by_its_name() {
    for (args, word) in [
        ("--mix read=50,write=60", "make 110, not 100"),
        ("--mix read=50", "make 50, not 100"),
        ("--mix peek=100", "no operation \"peek\""),
        ("--mix read=50,read=50", "twice"),
        ("--keys 0", "0 is not in 1..=536870912"),
        ("--keys 1e6", "'1e6' for '--keys"),
        ("--keys 10 --initial 11", "--initial 11"),
        ("--keys 536870912 --key-bytes 65536", "GB of memory"),
        ("--key-bytes 7", "7 is not in 8..=65536"),
        ("--key-bytes 99999", "99999 is not in 8..=65536"),
        ("--key-space full", "dense"),
        ("--skew -1", "not between 0 and 100"),
        ("--scan-length 0", "0 is not in 1..=18446744073709551615"),
        ("--batch 4 --mix write=100", "no reads in --mix write=100"),
        ("--tree oak", "bwtree"),
        ("--tree hash+hash", "one of the trees with +hash"),
        ("--threads 0", "0 is not in 1..=1024"),
        ("--ops -5", "'-5' for '--ops"),
        ("--load-order reverse", "sorted"),
    ] {
        refused(&format!("index {args}"), 2, word);
    }
    refused("compare index --trees oak", 2, "congee");
    refused("compare index --ops -5", 2, "'-5' for '--ops");
    refused("compare trees", 2, "trees");
}

#[test]
fn comparing_is_explained() {
    let output = run("compare index --help");
    let help = String::from_utf8(output.stdout).unwrap();
    for word in ["crossbeam-skiplist", "--features compare", "Examples:"] {
        assert!(help.contains(word), "{help}");
    }
}

#[cfg(feature = "compare")]
#[test]
fn others_do_the_same_or_say_why_not() {
    let rows = rows(&format!(
        "compare index --trees all --threads 1,2 --key-bytes 8,32 --key-space sparse --mix {ALL_SIX} \
         --mix read=40,scan=10,insert=25,delete=25 --mix read=50,write=50 --mix scan=100 {SMALL}"
    ));
    for row in &rows {
        assert_keys(row, &[INDEX, MACHINE]);
        let measured = row.get("mops").is_some();
        assert_ne!(measured, row.get("left_out").is_some(), "{row}");
    }
    for name in ["scc", "crossbeam-skiplist", "congee", "btreemap"] {
        let of = |row: &&Value| row["tree"] == name && row.get("mops").is_some();
        assert!(rows.iter().filter(of).count() >= 6, "{name}");
    }
}
