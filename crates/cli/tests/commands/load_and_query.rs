//! `namiki load tpch` and `namiki query`, as their user sees them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use namiki::files::{Manifest, image_dir};
use namiki_platform::disk::SyncedDisk;

use crate::program::has;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_namiki"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Standard output and standard error of the command, which must end with this status.
fn said(status: i32, arguments: &[&str]) -> (String, String) {
    let output = command(arguments).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        output.status.code(),
        Some(status),
        "{arguments:?}: {errors}"
    );
    (String::from_utf8(output.stdout).unwrap(), errors)
}

fn loaded(dir: &Path) -> Vec<String> {
    let manifest = Manifest::read(&SyncedDisk::new(), dir).unwrap();
    let tables = manifest.map(|manifest| manifest.loaded_tables.tables);
    let tables = tables.unwrap_or_default().into_iter();
    tables.map(|table| table.name).collect()
}

/// Loaded tables are checked and queried, and the same load skips them.
#[test]
fn tables_of_tpch_are_loaded_checked_and_queried() {
    let dir = tempfile::tempdir().unwrap();
    let database = dir.path().join("tpch");
    let name = database.to_str().unwrap();
    let small = ["load", "tpch", "--scale", "0.01", "--dir", name];
    let (out, _) = said(0, &[&small[..], &["--tables", "customer,orders"]].concat());
    assert!(out.starts_with("customer: 1,500 rows, "), "{out}");
    has(&out, "orders: 15,000 rows, ");
    has(&out, "index o_custkey");

    let (out, _) = said(0, &["check", name]);
    has(
        &out,
        "table \"orders\" in segments: 15,000 rows by o_orderkey",
    );
    has(&out, "of segments; every checksum holds");
    let (out, _) = said(0, &["dump-log", name]);
    assert!(
        out.starts_with("table \"customer\" in segments: 1,500 rows by c_custkey"),
        "{out}"
    );
    let (out, _) = said(0, &["dump-log", name, "--format", "json", "--limit", "2"]);
    assert!(
        out.contains(r#"{"kind":"loaded","table":"orders","rows":15000,"files":["#),
        "{out}"
    );

    let plan = dir.path().join("plan.json");
    let text = r#"{ "aggregate": { "input": { "scan": { "table": "orders" } },
        "calculate": [ { "function": "count", "as": "orders" },
                       { "function": "sum", "of": "o_totalprice", "as": "total" } ] } }"#;
    fs::write(&plan, text).unwrap();
    let (out, errors) = said(
        0,
        &["query", name, plan.to_str().unwrap(), "--format", "json"],
    );
    assert!(out.starts_with("{\"orders\":15000,\"total\":\""), "{out}");
    has(&errors, "1 row in ");
    has(&errors, " reads ");
    let sorted = |mode: &str| {
        let (out, _) = said(
            0,
            &["query", name, "paper", "--mode", mode, "--tasks", "16"],
        );
        let mut lines: Vec<String> = out.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted("ordered"), sorted("out-of-order"));

    let (out, _) = said(0, &small);
    has(&out, "customer: there already");
    has(&out, "lineitem: ");
    assert_eq!(loaded(&database).len(), 8);
    let (_, errors) = said(2, &["load", "tpch", "--scale", "0.1", "--dir", name]);
    has(
        &errors,
        "supplier already, with 100 rows, and at scale 0.1 it has 1,000",
    );
}

#[test]
fn a_query_that_cannot_be_says_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let database = dir.path().join("tpch");
    let name = database.to_str().unwrap();
    let (_, errors) = said(1, &["query", name, "paper"]);
    has(&errors, "does not exist");
    assert!(!database.exists());
    said(
        0,
        &[
            "load", "tpch", "--scale", "0.01", "--dir", name, "--tables", "nation",
        ],
    );
    let (_, errors) = said(1, &["query", name, "paper"]);
    assert!(
        errors.contains("customer") || errors.contains("orders"),
        "{errors}"
    );
    has(&errors, "\"nation\"");
    let plan = dir.path().join("plan.json");
    fs::write(&plan, "{ \"scan\": { \"tabel\": \"nation\" } }").unwrap();
    let (_, errors) = said(1, &["query", name, plan.to_str().unwrap()]);
    has(&errors, "plan.json");
    has(&errors, "`tabel`");
    let (_, errors) = said(1, &["query", name, "no-such-file"]);
    has(&errors, "no-such-file");
    for scale in ["0", "-1", "0.015", "nan", "1e9"] {
        let (_, errors) = said(2, &["load", "tpch", "--scale", scale, "--dir", name]);
        assert!(errors.contains("between"), "{scale}: {errors}");
    }
}

/// A signal while the large table is written: the tables before it stay, it leaves no file, and the
/// load continues later.
#[test]
fn an_interrupted_load_is_gone_on_with() {
    let dir = tempfile::tempdir().unwrap();
    let database = dir.path().join("tpch");
    let name = database.to_str().unwrap();
    for signal in ["-INT", "-KILL"] {
        let mut load = command(&["load", "tpch", "--scale", "1", "--dir", name]);
        load.args(["--tables", "nation,lineitem"]);
        let mut load = load
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(load.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert!(line.starts_with("nation: "), "{line}");
        let mut errors = BufReader::new(load.stderr.take().unwrap());
        while !line.contains("lineitem: ") {
            line.clear();
            assert!(errors.read_line(&mut line).unwrap() > 0, "it ended before");
        }
        let pid = load.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &pid])
                .status()
                .unwrap()
                .success()
        );
        let status = load.wait().unwrap();
        let mut rest = String::new();
        errors.read_to_string(&mut rest).unwrap();
        assert_eq!(status.code(), (signal == "-INT").then_some(130), "{rest}");
        assert_eq!(loaded(&database), ["nation"], "{signal}");
        said(0, &["check", name]);
    }
    said(
        0,
        &[
            "load", "tpch", "--scale", "1", "--dir", name, "--tables", "region",
        ],
    );
    assert_eq!(loaded(&database), ["nation", "region"]);
    assert_eq!(fs::read_dir(image_dir(&database)).unwrap().count(), 2);
}

/// At that time the rows' segment is complete, and the sorted runs of the index are being merged.
#[test]
fn a_load_killed_at_its_index_leaves_nothing_for_long() {
    let dir = tempfile::tempdir().unwrap();
    let database = dir.path().join("tpch");
    let name = database.to_str().unwrap();
    let mut load = command(&["load", "tpch", "--scale", "1", "--dir", name]);
    load.args(["--tables", "orders", "--sort-mb", "1"]);
    let mut load = load
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let rows = image_dir(&database).join("00000001.new");
    while !rows.exists() {
        assert_eq!(load.try_wait().unwrap(), None, "it ended before");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    load.kill().unwrap();
    load.wait().unwrap();
    let (out, _) = said(0, &["check", name]);
    has(&out, "00000001.new: left over");
    has(&out, ".run: left over");
    said(
        0,
        &[
            "load", "tpch", "--scale", "1", "--dir", name, "--tables", "region",
        ],
    );
    assert_eq!(loaded(&database), ["region"]);
    assert_eq!(fs::read_dir(image_dir(&database)).unwrap().count(), 1);
}
