//! Runs `index` and `compare index` at a small size: their output, and the arguments that they
//! refuse.

use serde_json::Value;

use crate::support::{MACHINE, assert_keys, found, refused, rows, run};

const INDEX: &[&str] = &[
    "tree",
    "mix",
    "key_bytes",
    "key_space",
    "key_layout",
    "initial",
    "keys",
    "skew",
    "threads",
    "batch",
    "scan_length",
    "load_order",
    "seed",
    "round",
];
const MEASURED: &[&str] = &[
    "ops",
    "seconds",
    "mops",
    "load_mops",
    "bytes_per_key",
    "latency_ns.p1",
    "latency_ns.p5",
    "latency_ns.p50",
    "latency_ns.p95",
    "latency_ns.p99",
    "latency_ns.p999",
    "stats.records",
    "stats.leaves",
    "stats.inner_nodes",
    "stats.height",
    "stats.leaf_deltas",
    "stats.longest_chain",
    "stats.consolidations",
    "stats.consolidations_failed",
    "stats.splits",
    "stats.merges",
    "stats.root_splits",
    "stats.root_collapses",
    "stats.cas_misses",
    "stats.restarts",
];
const SMALL: &[&str] = &[
    "--keys",
    "2000",
    "--ops",
    "5000",
    "--yardstick",
    "off",
    "--latency-ops",
    "1000",
];
const ALL_SIX: &str = "read=20,scan=5,write=20,insert=20,update=15,delete=20";

fn index(args: &[&str]) -> Vec<Value> {
    rows(&[&["index"], args, SMALL].concat())
}

#[test]
fn every_tree_does_all_six_operations_and_is_checked() {
    for more in [&[][..], &["--initial", "700", "--writes", "returning"]] {
        let trees = "all,art+hash,bwtree+hash";
        let args = ["--tree", trees, "--mix", ALL_SIX, "--threads", "1,2"];
        for row in index(&[&args[..], more].concat()) {
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
    let mix = "read=30,write=20,insert=20,update=15,delete=15";
    let every = ["--tree", "hash,art+hash", "--mix", mix, "--mix", "read=100"];
    let more = ["--threads", "1,2", "--key-bytes", "8,32", "--key-space"];
    let rest = ["sparse", "--initial", "1500", "--writes", "returning"];
    let measured = index(&[&every[..], &more, &rest, &["--batch", "1,8"]].concat());
    assert_eq!(measured.len(), 2 * 2 * 2 * 2 * 2);
    for row in measured {
        assert_keys(&row, &[INDEX, MEASURED, MACHINE]);
        assert_eq!(row["ops"], 5000);
    }
    let mixes = ["--mix", "read=100", "--mix", "read=99,scan=1"];
    let hash = ["index", "--tree", "art,hash"];
    let said = "--tree hash: it keeps no order, and cannot scan, and there are scans in --mix read=99,scan=1";
    refused(&[&hash[..], &mixes].concat(), 2, said);
    let compared = rows(&[&["compare", "index", "--trees", "hash"], &mixes[..], SMALL].concat());
    let left_out: Vec<_> = compared
        .iter()
        .map(|row| row.get("left_out").and_then(Value::as_str))
        .collect();
    assert_eq!(left_out, [None, Some("it keeps no order, and cannot scan")]);
}

#[test]
fn every_tree_takes_keys_of_every_size_space_and_layout() {
    let args = ["--tree", "all", "--mix", "read=50,write=50", "--threads"];
    let keys = ["2", "--key-bytes", "8,16,32,64,128"];
    let places = ["--key-space", "dense,sparse", "--key-layout"];
    let layouts = ["random-head,shared-prefix", "--load-order", "sorted"];
    let found = index(&[&args[..], &keys, &places, &layouts].concat());
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
    let args = ["--mix", "read=100", "--mix", "write=100", "--skew", "0,1.5"];
    let rows = index(&[&args[..], &["--repeat", "2"]].concat());
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
    let args = ["--mix", "read=70,insert=30", "--batch", "1,16"];
    let rows = index(&args);
    assert_eq!(rows.len(), 2);
    for (row, batch) in rows.iter().zip([1, 16]) {
        assert_eq!(row["batch"], batch);
        assert_eq!(row["ops"], 5000);
    }
}

#[test]
fn what_was_not_measured_is_absent() {
    let args = ["index", "--initial", "0", "--mix", "insert=100"];
    let more = ["--keys", "100", "--ops", "50", "--yardstick", "off"];
    let rows = rows(&[&args[..], &more, &["--latency-ops", "0"]].concat());
    for key in ["load_mops", "bytes_per_key", "latency_ns", "left_out"] {
        assert!(rows[0].get(key).is_none(), "{key}");
    }
}

#[test]
fn tiny_runs_and_short_ones_are_runs() {
    let one = ["index", "--keys", "1", "--ops", "1", "--mix", ALL_SIX];
    for threads in ["1", "3"] {
        let more = ["--yardstick", "off", "--threads", threads];
        let rows = rows(&[&one[..], &more].concat());
        assert_eq!(rows[0]["ops"], 1);
    }
    let short = ["index", "--keys", "500", "--seconds", "0.05", "--warmup"];
    let rows = rows(&[&short[..], &["0.01", "--yardstick", "off"]].concat());
    assert!(rows[0]["seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn the_table_says_the_rate_at_the_yardstick() {
    let small = ["index", "--keys", "1000", "--ops", "1000", "--batch", "1,4"];
    let output = run(&[&small[..], &["--key-layout", "random-head,shared-prefix"]].concat());
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
        (&["--mix", "read=50,write=60"][..], "make 110, not 100"),
        (&["--mix", "read=50"], "make 50, not 100"),
        (&["--mix", "peek=100"], "no operation \"peek\""),
        (&["--mix", "read=50,read=50"], "twice"),
        (&["--keys", "0"], "0 is not in 1..=536870912"),
        (&["--keys", "1e6"], "'1e6' for '--keys"),
        (&["--keys", "10", "--initial", "11"], "--initial 11"),
        (
            &["--keys", "536870912", "--key-bytes", "65536"],
            "GB of memory",
        ),
        (&["--key-bytes", "7"], "7 is not in 8..=65536"),
        (&["--key-bytes", "99999"], "99999 is not in 8..=65536"),
        (&["--key-space", "full"], "dense"),
        (&["--skew", "-1"], "not between 0 and 100"),
        (
            &["--scan-length", "0"],
            "0 is not in 1..=18446744073709551615",
        ),
        (
            &["--batch", "4", "--mix", "write=100"],
            "no reads in --mix write=100",
        ),
        (&["--tree", "oak"], "bwtree"),
        (&["--tree", "hash+hash"], "one of the trees with +hash"),
        (&["--threads", "0"], "0 is not in 1..=1024"),
        (&["--ops", "-5"], "'-5' for '--ops"),
        (&["--load-order", "reverse"], "sorted"),
    ] {
        refused(&[&["index"], args].concat(), 2, word);
    }
    refused(&["compare", "index", "--trees", "oak"], 2, "congee");
    refused(&["compare", "index", "--ops", "-5"], 2, "'-5' for '--ops");
    refused(&["compare", "trees"], 2, "trees");
}

#[test]
fn comparing_is_explained() {
    let output = run(&["compare", "index", "--help"]);
    let help = String::from_utf8(output.stdout).unwrap();
    for word in ["crossbeam-skiplist", "--features compare", "Examples:"] {
        assert!(help.contains(word), "{help}");
    }
}

#[cfg(feature = "compare")]
#[test]
fn others_do_the_same_or_say_why_not() {
    let every = [
        "--trees",
        "all",
        "--threads",
        "1,2",
        "--key-bytes",
        "8,32",
        "--key-space",
        "sparse",
    ];
    let mixes = [
        "--mix",
        ALL_SIX,
        "--mix",
        "read=40,scan=10,insert=25,delete=25",
        "--mix",
        "read=50,write=50",
        "--mix",
        "scan=100",
    ];
    let rows = rows(&[&["compare", "index"], &every[..], &mixes, SMALL].concat());
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
