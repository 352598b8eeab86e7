//! Every command, run small: the keys of its rows, its exit status, and what it refuses.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const MACHINE: &[&str] = &["machine.cores", "machine.cpu", "machine.disk"];
const TXN: &[&str] = &[
    "workload",
    "spec",
    "index",
    "device",
    "threads",
    "records",
    "skew",
    "seconds",
    "committed",
    "aborted",
    "tps",
    "abort_rate",
    "latency_us.p50",
    "latency_us.p99",
    "latency_us.p999",
    "latency_us.max",
    "rss_bytes",
    "table_bytes",
];
const LOGGED: &[&str] = &["flushes", "wal_bytes"];

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_namiki-bench"))
        .args(args)
        .output()
        .expect("the program starts")
}

/// Runs with JSON output; every line must be a row.
fn rows(args: &[&str]) -> Vec<Value> {
    let output = run(&[args, &["--format", "json"]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let rows = text.lines().map(serde_json::from_str);
    rows.collect::<Result<_, _>>()
        .expect("each line is an object")
}

fn found<'a>(row: &'a Value, key: &str) -> &'a Value {
    key.split('.').fold(row, |value, part| &value[part])
}

fn assert_keys(row: &Value, keys: &[&[&str]]) {
    for key in keys.concat() {
        assert!(!found(row, key).is_null(), "{key} is missing in {row}");
    }
}

/// An ordinary error with this status that names `word`.
fn refused(args: &[&str], status: i32, word: &str) {
    let output = run(args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {errors}");
    assert!(errors.contains(word), "{args:?}: {errors}");
    assert!(!errors.contains("panicked"), "{args:?}: {errors}");
    assert!(output.stdout.is_empty(), "{args:?}");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}

const SMALL: &[&str] = &["--records", "3000", "--ops", "600"];

#[test]
fn every_workload_is_run_and_checked() {
    for workload in [
        "u1", "u10", "r10", "u5r5", "ycsb-a", "ycsb-b", "ycsb-c", "payment",
    ] {
        let args = ["txn", "--workload", workload, "--spec", "TT(NLR)+PWAL(16)"];
        let skewed = ["--skew", "0.9", "--threads", "2", "--verify-recovery"];
        let rows = rows(&[&args[..], SMALL, &skewed].concat());
        assert_eq!(rows.len(), 1);
        assert_keys(&rows[0], &[TXN, LOGGED, MACHINE]);
        assert_eq!(rows[0]["committed"], 600, "{workload}");
        assert_eq!(rows[0]["workload"], workload);
    }
}

#[test]
fn every_protocol_is_run_and_checked_and_found_again() {
    for spec in [
        "TT(NLR)+PWAL(1)",
        "TT(NLR)+PWAL(auto)",
        "TT(ELR)+PWAL(1)",
        "TT(ELR)+PWAL(16)",
        "TT(ELR)+SWAL(16)",
        "TT(NLR)+SWAL(16)",
    ] {
        let args = [
            "txn",
            "--workload",
            "u5r5",
            "--spec",
            spec,
            "--threads",
            "1,2",
        ];
        let rows = rows(&[&args[..], SMALL, &["--verify-recovery"]].concat());
        assert_eq!(rows.len(), 2);
        for row in rows {
            assert_keys(&row, &[TXN, LOGGED, MACHINE]);
            assert_eq!(row["spec"], spec);
        }
    }
}

#[test]
fn what_was_not_measured_is_absent() {
    let rows = rows(&[&["txn", "--workload", "u1", "--spec", "NOLOG"], SMALL].concat());
    assert_keys(&rows[0], &[TXN, MACHINE]);
    for key in ["flushes", "wal_bytes", "cas_misses", "pause_ns"] {
        assert!(rows[0].get(key).is_none(), "{key} in {}", rows[0]);
    }
}

#[test]
fn every_device_can_be_chosen() {
    let dir = tempfile::tempdir().unwrap();
    let raw = format!("raw:{}", text(&dir.path().join("device")));
    for device in ["file", "fdatasync", "nvm:50ns", "null", &raw] {
        let args = [
            "txn",
            "--workload",
            "u1",
            "--device",
            device,
            "--raw-mb",
            "8",
        ];
        let more = [
            "--spec",
            "TT(ELR)+PWAL(16)",
            "--sequencer",
            "cas",
            "--value-bytes",
            "100",
        ];
        let rows = rows(&[&args[..], SMALL, &more].concat());
        assert_keys(&rows[0], &[TXN, LOGGED, &["cas_misses"]]);
        assert_eq!(rows[0]["device"], device);
        assert_eq!(rows[0].get("pause_ns").is_some(), device == "nvm:50ns");
    }
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 0, "a file of its own is removed");
}

#[test]
fn runs_take_turns() {
    let args = [
        "txn",
        "--workload",
        "u1,r10",
        "--spec",
        "NOLOG",
        "--repeat",
        "2",
    ];
    let rows = rows(&[&args[..], SMALL].concat());
    let order: Vec<(&str, u64)> = rows
        .iter()
        .map(|row| {
            (
                row["workload"].as_str().unwrap(),
                row["round"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(order, [("u1", 1), ("r10", 1), ("u1", 2), ("r10", 2)]);
}

#[test]
fn a_given_folder_is_kept_and_its_database_continued() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    for workload in ["payment", "u10", "payment", "u5r5", "r10"] {
        let args = [
            "txn",
            "--workload",
            workload,
            "--dir",
            text(&data),
            "--skew",
            "0.5",
        ];
        let rows = rows(&[&args[..], SMALL].concat());
        assert_eq!(rows[0]["committed"], 600, "{workload}");
    }
    assert!(data.join("MANIFEST").exists());
    // More records than there were: those that are missing come to be.
    let args = [
        "txn",
        "--workload",
        "u1",
        "--dir",
        text(&data),
        "--records",
        "5000",
    ];
    rows(&[&args[..], &["--ops", "100"]].concat());
}

#[test]
fn the_log_is_measured_beside_its_device() {
    let keys = [
        "layout",
        "streams",
        "group",
        "record_bytes",
        "commits_per_s",
        "flushes_per_s",
        "mb_per_s",
        "device_limit_flushes_per_s",
        "fraction_of_limit",
    ];
    for (bytes, device) in [("512", "file"), ("compact", "nvm:50ns")] {
        let args = [
            "log",
            "--layout",
            "parallel,single",
            "--streams",
            "2",
            "--group",
            "1,16",
        ];
        let more = [
            "--ops",
            "2000",
            "--segment-mb",
            "1",
            "--record-bytes",
            bytes,
        ];
        let rows = rows(&[&args[..], &more, &["--device", device]].concat());
        assert_eq!(rows.len(), 4);
        for row in &rows {
            assert_keys(row, &[&keys, MACHINE]);
            assert_eq!(row["commits"], 2000);
        }
        let expected = if bytes == "512" {
            Value::from(512)
        } else {
            Value::from("compact")
        };
        assert_eq!(rows[0]["record_bytes"], expected);
    }
}

#[test]
fn a_log_is_recovered_as_it_was_written() {
    let keys = [
        "spec",
        "transactions",
        "records_per_s",
        "mb_per_s",
        "seconds",
        "order",
        "threads",
        "equal_to_oracle",
    ];
    for spec in ["TT(NLR)+PWAL(16)", "TT(ELR)+PWAL(4)", "TT(ELR)+SWAL(16)"] {
        for bytes in ["compact", "512"] {
            let args = [
                "recover",
                "--spec",
                spec,
                "--record-bytes",
                bytes,
                "--log-mb",
                "1",
            ];
            let more = [
                "--threads",
                "1,2",
                "--order",
                "highest-stamp,merge",
                "--records",
                "500",
            ];
            let rows = rows(&[&args[..], &more].concat());
            assert_eq!(rows.len(), 4);
            for row in rows {
                assert_keys(&row, &[&keys, MACHINE]);
                assert_eq!(row["equal_to_oracle"], true);
                assert!(row["transactions"].as_u64().unwrap() > 100, "{row}");
            }
        }
    }
}

#[test]
fn the_device_is_measured_in_every_mode() {
    let keys = [
        "mode",
        "bytes",
        "ops_per_s",
        "mb_per_s",
        "cpu_us_per_op",
        "latency_us.p50",
    ];
    for mode in ["direct", "fdatasync", "mutexed", "read"] {
        let args = [
            "device",
            "--mode",
            mode,
            "--bytes",
            "4096",
            "--ops",
            "50",
            "--file-mb",
            "1",
        ];
        let rows = rows(&[&args[..], &["--writers", "1,2", "--depth", "1,2"]].concat());
        assert_eq!(rows.len(), 2);
        let count = if mode == "read" { "depth" } else { "writers" };
        for row in rows {
            assert_keys(&row, &[&keys, &[count], MACHINE]);
        }
    }
    let rows = rows(&["device", "--mode", "memory"]);
    assert!(rows[0]["miss_ns"].as_f64().unwrap() > 0.0);
}

#[test]
fn every_command_teaches_its_use() {
    for command in ["txn", "log", "recover", "device"] {
        let output = run(&[command, "--help"]);
        assert!(output.status.success());
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(help.contains("Examples:"), "{help}");
        assert!(help.contains(&format!("namiki-bench {command}")), "{help}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("precious");
    std::fs::write(&file, "precious").unwrap();
    let raw = format!("raw:{}", text(&file));
    for (args, word) in [
        (&["txn", "--workload", "u99"][..], "u99"),
        (
            &["txn", "--workload", "tpcc"],
            "tpcc is not part of this release",
        ),
        (
            &["txn", "--workload", "u1", "--spec", "TT(XLR)+PWAL(1)"],
            "TT(XLR)",
        ),
        (&["txn", "--workload", "u1", "--index", "oak"], "bwtree"),
        (&["txn", "--workload", "u1", "--device", "tape"], "tape"),
        (&["txn", "--workload", "u1", "--threads", "0"], "--threads"),
        (&["txn", "--workload", "u1", "--skew", "nan"], "--skew"),
        (
            &["txn", "--workload", "u1", "--value-bytes", "7"],
            "--value-bytes",
        ),
        (
            &["txn", "--workload", "payment", "--records", "1"],
            "payment",
        ),
        (
            &[
                "txn",
                "--workload",
                "u1",
                "--device",
                "null",
                "--verify-recovery",
            ],
            "null",
        ),
        (&["txn", "--workload", "u1", "--device", &raw], "precious"),
        (&["log", "--device", "raw:/nowhere"], "raw:PATH"),
        (&["log", "--group", "1000000"], "1000000"),
        (&["recover", "--spec", "NOLOG"], "NOLOG"),
        (&["device", "--mode", "memory,direct"], "memory"),
        (&["device", "--bytes", "100", "--file-mb", "1"], "100"),
        (&["frobnicate"], "frobnicate"),
    ] {
        refused(args, 2, word);
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    let not_a_folder = file.join("data");
    refused(
        &["txn", "--workload", "u1", "--dir", text(&not_a_folder)],
        1,
        "precious",
    );
    let foreign = text(dir.path());
    refused(
        &["txn", "--workload", "u1", "--dir", foreign],
        1,
        "holds files but no database",
    );
}

/// A table for people has headings, and medians where there is something to take them of.
#[test]
fn a_table_is_the_default() {
    let args = [
        "txn",
        "--workload",
        "u1",
        "--spec",
        "NOLOG",
        "--repeat",
        "2",
    ];
    let output = run(&[&args[..], SMALL].concat());
    assert!(output.status.success());
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        table.starts_with("workload") || table.trim_start().starts_with("workload"),
        "{table}"
    );
    assert!(table.contains("medians"), "{table}");
}

/// Ctrl-C: the run ends, is checked, and its row is printed.
#[test]
fn an_interrupted_run_prints_its_row() {
    use std::io::Read;
    let mut child = Command::new(env!("CARGO_BIN_EXE_namiki-bench"))
        .args([
            "txn",
            "--workload",
            "u1",
            "--spec",
            "NOLOG",
            "--records",
            "1000",
        ])
        .args(["--warmup", "0", "--seconds", "600", "--format", "json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_secs(3));
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let mut text = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert_keys(&serde_json::from_str(&text).unwrap(), &[TXN]);
}
