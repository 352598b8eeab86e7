//! `namiki-bench cluster` as its user sees it.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it was skipped"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_namiki-bench"))
        .arg("cluster")
        .args(arguments)
        .output()
        .unwrap()
}

/// Whether the program that runs nodes was built, too. A test of this package alone does not build it.
fn has_nodes() -> bool {
    let beside = Path::new(env!("CARGO_BIN_EXE_namiki-bench")).with_file_name("namiki");
    if !beside.exists() {
        println!(
            "skipped: there is no {}; cargo build -p namiki-cli makes it",
            beside.display()
        );
    }
    beside.exists()
}

/// Runs three nodes with a fault, and returns the row and the history.
fn run_three(arguments: &[&str]) -> (Value, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.jsonl");
    let common = [
        "--nodes=3",
        "--workload=register",
        "--clients=4",
        "--rate=400",
        "--warmup=0",
        "--max-log=2000",
        "--format=json",
        "--history",
        path.to_str().unwrap(),
    ];
    let output = bench(&[&common, arguments].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
    let row = serde_json::from_slice(&output.stdout).unwrap();
    (row, fs::read_to_string(&path).unwrap())
}

#[test]
fn a_killed_leader_loses_nothing_and_reorders_nothing() {
    if !has_nodes() {
        return;
    }
    let (row, history) = run_three(&["--seconds=3", "--fault=kill-leader:2s"]);
    assert!(row["failovers"].as_u64().unwrap() >= 1, "{row}");
    assert_eq!(row["history"]["strictly_serializable"], true, "{row}");
    assert_eq!(row["replicas_equal"], true, "{row}");
    assert!(row["acknowledged"].as_u64().unwrap() > 100, "{row}");
    // The file is complete: what it is about, the operations, the fault and its end.
    let lines: Vec<Value> = history
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["history"]["version"], 1);
    let count = |key: &str| lines.iter().filter(|line| !line[key].is_null()).count();
    let operations = row["history"]["operations"].as_u64().unwrap();
    assert_eq!(count("start_ns") as u64, operations);
    let breaks = row["failovers"].as_u64().unwrap();
    assert_eq!(count("fault") as u64, 2 * breaks);
    assert_eq!(lines.last().unwrap()["fault"], "restart");
}

#[test]
fn a_restart_of_all_nodes_loses_nothing() {
    if !has_nodes() {
        return;
    }
    let (row, _) = run_three(&["--seconds=3", "--fault=restart-all:2s"]);
    assert_eq!(row["history"]["strictly_serializable"], true, "{row}");
    assert_eq!(row["replicas_equal"], true, "{row}");
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().to_str().unwrap();
    for (arguments, word) in [
        (vec!["--fault", "kill-leader"], "kill-leader:5s"),
        (vec!["--fault", "kill-leader:0.1s"], "a second apart"),
        (vec!["--rate", "0"], "commands per second"),
        (vec!["--reads", "1.5"], "from 0 to 1"),
        (vec!["--history", "h"], "--workload register"),
        (
            vec!["--fault", "full-disk:5s", "--dir", dir],
            "leave --dir out",
        ),
        (vec!["--nodes", "3,5", "--dir", dir], "one number of nodes"),
    ] {
        let output = bench(&arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(word), "{arguments:?}: {said}");
    }
}
