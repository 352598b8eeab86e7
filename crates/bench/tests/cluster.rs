//! Tests of `namiki-bench cluster` through its command line.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use namiki_client::{ClientOptions, status};
use namiki_cluster::config::NodeConfig;
use serde_json::Value;

const WATCHDOG: Duration = Duration::from_secs(120);

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_namiki-bench"))
        .arg("cluster")
        .args(arguments)
        .output()
        .unwrap()
}

/// The program that runs nodes. A test of this package alone does not build it; without it the test
/// would check nothing.
fn nodes_program() -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_namiki-bench")).with_file_name("namiki-cluster");
    assert!(
        beside.exists(),
        "there is no {}; cargo build -p namiki-cluster-cli makes it",
        beside.display()
    );
    beside
}

/// Runs three nodes with a fault. Returns the row and the history.
fn run_three(arguments: &[&str]) -> (Value, String) {
    nodes_program();
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
    let (row, history) = run_three(&["--seconds=3", "--fault=kill-leader:2s"]);
    assert!(row["failovers"].as_u64().unwrap() >= 1, "{row}");
    assert_eq!(row["history"]["strictly_serializable"], true, "{row}");
    assert_eq!(row["replicas_equal"], true, "{row}");
    assert!(row["acknowledged"].as_u64().unwrap() > 100, "{row}");
    // The file is complete: the description, the operations, the fault and its end.
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
    let (row, _) = run_three(&["--seconds=3", "--fault=restart-all:2s"]);
    assert_eq!(row["history"]["strictly_serializable"], true, "{row}");
    assert_eq!(row["replicas_equal"], true, "{row}");
}

/// One after the other, and under load: nothing is lost, and all nodes are reached.
#[test]
fn a_rolling_restart_reaches_every_node() {
    let (row, _) = run_three(&["--seconds=6", "--fault=rolling-restart:1s"]);
    assert_eq!(row["history"]["strictly_serializable"], true, "{row}");
    assert_eq!(row["replicas_equal"], true, "{row}");
    assert!(row["rolling_rounds"].as_u64().unwrap() >= 1, "{row}");
    assert!(row["faults"].as_u64().unwrap() >= 3, "{row}");
}

/// No node has all payloads, and every payload is whole on one.
#[test]
fn payloads_damaged_on_every_node_heal() {
    let (row, _) = run_three(&["--seconds=5", "--fault=damage-everywhere:3s"]);
    assert_eq!(row["history"]["strictly_serializable"], true, "{row}");
    assert_eq!(row["replicas_equal"], true, "{row}");
    assert!(row["frames_damaged"].as_u64().unwrap() >= 3, "{row}");
}

#[test]
fn a_follower_that_was_away_reports_what_it_missed() {
    let (row, _) = run_three(&["--seconds=4", "--fault=away:1s"]);
    assert_eq!(row["replicas_equal"], true, "{row}");
    let absence = &row["absences"][0];
    assert!(absence["commands"].as_u64().unwrap() > 10, "{row}");
    for time in ["votes_ms", "has_log_ms", "back_ms"] {
        assert!(absence[time].as_f64().unwrap() > 0.0, "{row}");
    }
    // The log was enough.
    assert!(absence["image_copy_ms"].is_null(), "{row}");
}

/// A log of few files: images are written all the time.
#[test]
fn throughput_is_told_apart_by_the_images_of_the_leader() {
    nodes_program();
    let output = bench(&[
        "--nodes=1",
        "--workload=rows",
        "--rows=20000",
        "--max-log=128",
        "--warmup=0",
        "--seconds=5",
        "--format=json",
    ]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let row: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(row["leader_image_seconds"].as_f64().unwrap() > 0.0, "{row}");
    assert!(
        row["directory_ratio"]["outside_transfers"].is_number(),
        "{row}"
    );
}

#[test]
fn the_applier_is_measured_with_and_without_a_view() {
    let output = bench(&[
        "--applier",
        "--group-size=100",
        "--accounts=1000",
        "--seconds=0.1",
        "--format=json",
    ]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    let rows = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let rows: Vec<(String, String)> = rows
        .map(|row| {
            assert!(row["us_per_group"].as_f64().unwrap() > 0.0, "{row}");
            let of = |key: &str| row[key].as_str().unwrap().to_owned();
            assert_eq!(row["view"].as_bool(), Some(of("views") != "none"), "{row}");
            (of("installs"), of("views"))
        })
        .collect();
    let expected = ["apply", "locks"].into_iter().flat_map(|installs| {
        ["none", "one", "anew"].map(|views| (installs.to_owned(), views.to_owned()))
    });
    assert_eq!(rows, expected.collect::<Vec<_>>());
}

#[test]
fn rows_of_an_earlier_run_are_no_violation() {
    let dir = tempfile::tempdir().unwrap();
    let dir = format!("--dir={}", dir.path().join("cluster").display());
    for _ in 0..2 {
        let (row, _) = run_three(&["--seconds=1", &dir]);
        assert_eq!(row["history"]["strictly_serializable"], true, "{row}");
    }
}

/// The only node loses its directory during the run, and starts empty: no client can continue.
#[test]
fn a_run_that_fails_leaves_its_history() {
    let program = nodes_program();
    let folder = tempfile::tempdir().unwrap();
    let (dir, kept) = (
        folder.path().join("cluster"),
        folder.path().join("history.jsonl"),
    );
    let running = Command::new(env!("CARGO_BIN_EXE_namiki-bench"))
        .args(["cluster", "--nodes=1", "--workload=register", "--clients=2"])
        .args(["--warmup=0", "--seconds=600", "--max-log=2000", "--dir"])
        .args([dir.as_path(), Path::new("--history"), &kept])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let config = dir.join("node-1/namiki.toml");
    let applied = || {
        let address = NodeConfig::read(&config).ok()?.client_listen;
        let status = status(&address, &ClientOptions::default()).ok()?;
        Some(status.applied_lsn)
    };
    let begin = Instant::now();
    while applied().is_none_or(|lsn| lsn < 100) {
        assert!(begin.elapsed() < WATCHDOG, "the clients do not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    let works = |arguments: &[&str]| {
        let output = Command::new(&program).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    };
    let [dir_name, config_name] = [&dir, &config].map(|it| it.to_str().unwrap());
    works(&["--dir", dir_name, "kill", "1"]);
    fs::remove_dir_all(dir.join("node-1/data")).unwrap();
    works(&["node", "init", "--config", config_name]);
    works(&["--dir", dir_name, "restart", "1"]);
    let output = running.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("is kept in"), "{said}");
    let history = fs::read_to_string(&kept).unwrap();
    assert!(history.lines().count() > 10, "{history}");
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
        (vec!["--applier", "--nodes", "3"], "cannot be used with"),
        (vec!["--applier", "--accounts", "10"], "raise --accounts"),
    ] {
        let output = bench(&arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(word), "{arguments:?}: {said}");
    }
}
