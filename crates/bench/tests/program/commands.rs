//! Runs every command at a small size: the keys of its rows, its exit status, and the arguments
//! that it refuses.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{MACHINE, assert_keys, refused, rows, run};

const TXN: &str = "workload spec index device threads await streams records skew hot_keys pipeline key_bytes \
     key_space key_layout seconds committed aborted failed_locks tps abort_rate paper_abort_rate \
     latency_us.p50 latency_us.p99 latency_us.p999 latency_us.max rss_bytes table_bytes";
const LOGGED: &str = "flushes wal_bytes";

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}

const SMALL: &str = "--records 3000 --ops 600";

#[test]
fn every_workload_is_run_and_checked() {
    for workload in [
        "u1", "u10", "r10", "u5r5", "r5u5", "ycsb-a", "ycsb-b", "ycsb-c", "payment",
    ] {
        for (more, hot_keys) in [("", "adjacent"), ("--hot-keys scattered", "scattered")] {
            let rows = rows(&format!(
                "txn --workload {workload} --spec TT(NLR)+PWAL(16) {SMALL} --skew 0.9 --threads 2 --verify-recovery {more}"
            ));
            assert_eq!(rows.len(), 1);
            assert_keys(&rows[0], &[TXN, LOGGED, MACHINE]);
            assert_eq!(rows[0]["committed"], 600, "{workload}");
            assert_eq!(rows[0]["workload"], workload);
            assert_eq!(rows[0]["hot_keys"], hot_keys, "{workload}");
        }
    }
}

/// Checked for every workload and index, before and after a recovery.
#[test]
fn keys_of_every_shape_run_and_are_checked() {
    for (keys, looks) in [
        ("dense,sparse", 2),
        (
            "sparse --key-bytes 32 --key-layout shared-prefix,random-head",
            2,
        ),
        ("dense --key-bytes 13", 1),
    ] {
        let rows = rows(&format!(
            "txn --workload u10,r10,u5r5,r5u5,ycsb-a,payment --spec TT(NLR)+PWAL(16) --threads 2 --verify-recovery \
             --index art,blink,hash,art+hash --key-space {keys} {SMALL}"
        ));
        assert_eq!(rows.len(), 6 * 4 * looks);
        for row in &rows {
            assert_keys(row, &[TXN, LOGGED, MACHINE]);
            assert_eq!(row["committed"], 600);
        }
        let index = |row: &Value| row["index"].as_str().unwrap().to_owned();
        let first: Vec<String> = rows.iter().take(4).map(index).collect();
        assert_eq!(first, ["art", "blink", "hash", "art+hash"]);
    }
}

/// Each shape of keys has a table of its own in a kept folder.
#[test]
fn keys_of_different_looks_live_side_by_side() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let args = format!("txn --workload u10,u5r5 --dir {}", data.display());
    for _ in 0..2 {
        let rows = rows(&format!(
            "{args} --key-space dense,sparse --key-bytes 8,16 {SMALL}"
        ));
        assert_eq!(rows.len(), 8);
    }
    let other = format!("{args} --key-space sparse --records 2000");
    refused(&other, 2, "made with --records 3000");
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
        let rows = rows(&format!(
            "txn --workload u5r5 --spec {spec} --threads 1,2 {SMALL} --verify-recovery"
        ));
        assert_eq!(rows.len(), 2);
        for row in rows {
            assert_keys(&row, &[TXN, LOGGED, MACHINE]);
            assert_eq!(row["spec"], spec);
        }
    }
}

#[test]
fn what_was_not_measured_is_absent() {
    let rows = rows(&format!("txn --workload u1 --spec NOLOG {SMALL}"));
    assert_keys(&rows[0], &[TXN, MACHINE]);
    for key in ["flushes", "wal_bytes", "cas_misses", "pause_ns"] {
        assert!(rows[0].get(key).is_none(), "{key} in {}", rows[0]);
    }
}

#[test]
fn every_device_can_be_chosen() {
    let dir = tempfile::tempdir().unwrap();
    let raw = format!("raw:{}", text(&dir.path().join("device")));
    for device in [
        "file",
        "fdatasync",
        "nvm:50ns",
        "nvm:50ns:64",
        "null",
        "slow:8x1ms",
        &raw,
    ] {
        let rows = rows(&format!(
            "txn --workload u1 --device {device} --raw-mb 8 {SMALL} --spec TT(ELR)+PWAL(16) --sequencer cas --value-bytes 100"
        ));
        assert_keys(&rows[0], &[TXN, LOGGED, "cas_misses"]);
        assert_eq!(rows[0]["device"], device);
        assert_eq!(
            rows[0].get("pause_ns").is_some(),
            device.starts_with("nvm:")
        );
    }
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 0, "a file of its own is removed");
}

#[test]
fn runs_take_turns() {
    let rows = rows(&format!(
        "txn --workload u1,r10 --spec NOLOG --repeat 2 {SMALL}"
    ));
    let name = |row: &Value| format!("{} {}", row["workload"].as_str().unwrap(), row["round"]);
    let order: Vec<String> = rows.iter().map(name).collect();
    assert_eq!(order, ["u1 1", "r10 1", "u1 2", "r10 2"]);
}

#[test]
fn a_given_folder_is_kept_and_its_database_continued() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let on = format!("--dir {}", text(&data));
    for workload in ["payment", "u10", "payment", "u5r5", "r10"] {
        let rows = rows(&format!(
            "txn --workload {workload} {on} --skew 0.5 {SMALL}"
        ));
        assert_eq!(rows[0]["committed"], 600, "{workload}");
    }
    assert!(data.join("MANIFEST").exists());
    // Keys would be drawn from absent records, or not from all present ones.
    for (size, word) in [
        ("--records 5000", "made with --records 3000"),
        ("--records 2000", "made with --records 3000"),
        (
            "--records 3000 --value-bytes 9",
            "made with --value-bytes 8",
        ),
    ] {
        refused(&format!("txn --workload u1 {on} {size}"), 2, word);
    }
    rows(&format!("txn --workload u1 {on} {SMALL}"));
}

/// Only `txn` continues the database in the folder.
#[test]
fn other_commands_leave_a_given_folder_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("precious"), "precious").unwrap();
    for args in [
        "log --ops 100",
        "recover --log-mb 1 --records 500",
        "restart --records 500 --updates 100 --ending killed --cache warm",
        "device --ops 10 --bytes 4096",
    ] {
        assert_eq!(rows(&format!("{args} --dir {}", text(dir.path()))).len(), 1);
        let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}

/// A folder in memory is not on a device.
#[test]
fn a_folder_in_memory_is_said_to_be_one() {
    let memory = Path::new("/dev/shm");
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    if !mounts.lines().any(|line| line.contains(" /dev/shm tmpfs ")) {
        eprintln!("there is no folder in memory here");
        return;
    }
    let dir = tempfile::tempdir_in(memory).unwrap();
    for args in [
        "device --mode fdatasync --ops 10 --file-mb 1",
        "log --device fdatasync --ops 100 --log-file-mb 1",
    ] {
        let output = run(&format!("{args} --dir {}", text(dir.path())));
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{errors}");
        assert!(errors.contains("is in memory (tmpfs"), "{errors}");
    }
}

#[test]
fn the_log_is_measured_beside_its_device() {
    let keys = "layout streams group record_bytes commits_per_s flushes_per_s mb_per_s device_limit_flushes_per_s fraction_of_limit";
    for (bytes, device) in [("512", "file"), ("compact", "nvm:50ns")] {
        let rows = rows(&format!(
            "log --layout parallel,single --streams 2 --group 1,16 --ops 2000 --log-file-mb 1 --record-bytes {bytes} --device {device}"
        ));
        assert_eq!(rows.len(), 4);
        for row in &rows {
            assert_keys(row, &[keys, MACHINE]);
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

/// A region is not overwritten: a timed run ends when it is full, and a given number of operations
/// must fit.
///
/// Paper: pwal §5.7 (one device for all logs)
#[test]
fn the_log_can_share_one_device() {
    let dir = tempfile::tempdir().unwrap();
    let raw = format!("raw:{}", text(&dir.path().join("device")));
    let on = format!("log --device {raw} --streams 2 --raw-mb");
    let rows = rows(&format!(
        "{on} 8 --layout parallel,single --group 1,16 --ops 600"
    ));
    assert_eq!(rows.len(), 4);
    for row in &rows {
        assert_eq!(row["commits"], 600);
        assert_eq!(row["device"], raw);
        assert!(row["fraction_of_limit"].as_f64().unwrap() > 0.0);
    }

    let output = run(&format!("{on} 8 --warmup 0 --seconds 600 --group 64"));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains("was full after"), "{errors}");

    for too_much in ["8 --ops 1000000", "1 --ops 10 --group 1000"] {
        refused(&format!("{on} {too_much}"), 2, "raise --raw-mb");
    }
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 0, "the device is removed, as it was made here");
}

#[test]
fn a_log_is_recovered_as_it_was_written() {
    let keys = "spec transactions records_per_s mb_per_s seconds order threads equal_to_oracle";
    for spec in ["TT(NLR)+PWAL(16)", "TT(ELR)+PWAL(4)", "TT(ELR)+SWAL(16)"] {
        for bytes in ["compact", "512"] {
            let rows = rows(&format!(
                "recover --spec {spec} --record-bytes {bytes} --log-mb 1 --threads 1,2 --order highest-stamp,merge --records 500"
            ));
            assert_eq!(rows.len(), 4);
            for row in rows {
                assert_keys(&row, &[keys, MACHINE]);
                assert_eq!(row["equal_to_oracle"], true);
                assert!(row["transactions"].as_u64().unwrap() > 100, "{row}");
            }
        }
    }
}

/// A database with this much log takes a checkpoint when it is closed, unless configured otherwise.
#[test]
fn a_log_worth_a_checkpoint_is_recovered_repeatedly() {
    let rows =
        rows("recover --log-mb 20 --record-bytes 512 --records 5000 --threads 1,2 --repeat 2");
    assert_eq!(rows.len(), 4);
    for row in &rows {
        assert_eq!(row["equal_to_oracle"], true);
        assert_eq!(row["transactions"], rows[0]["transactions"]);
        // More than the amount that makes a checkpoint due at the end.
        assert!(row["log_bytes"].as_u64().unwrap() > 16 << 20, "{row}");
    }
}

#[test]
fn a_log_to_recover_has_the_requested_transactions() {
    for pin in ["on", "off"] {
        let rows = rows(&format!(
            "recover --ops 1001 --records 500 --threads 1,2 --pin {pin}"
        ));
        assert_eq!(rows.len(), 2);
        for row in rows {
            assert_eq!(row["transactions"], 1001);
            assert_eq!(row["equal_to_oracle"], true);
        }
    }
}

#[test]
fn every_command_teaches_its_use() {
    for command in [
        "txn",
        "index",
        "log",
        "recover",
        "restart",
        "device",
        "figure",
        "report",
        "agreement",
    ] {
        let output = run(&format!("{command} --help"));
        assert!(output.status.success());
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(help.contains("Examples:"), "{help}");
        assert!(help.contains(&format!("namiki-bench {command}")), "{help}");
        let continued = help.contains("a database in it is recovered and continued");
        assert_eq!(continued, command == "txn", "{help}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("precious");
    std::fs::write(&file, "precious").unwrap();
    for (args, word) in [
        ("txn --workload u99", "u99"),
        ("txn --workload tpcc", "tpcc is not part of this release"),
        ("txn --workload u1 --spec TT(XLR)+PWAL(1)", "TT(XLR)"),
        ("txn --workload u1 --index oak", "bwtree"),
        ("txn --workload u1 --index art,oak", "hash"),
        ("txn --workload u1 --key-space full", "--key-space"),
        ("txn --workload u1 --device tape", "tape"),
        ("txn --workload u1 --threads 0", "--threads"),
        ("txn --workload u1 --skew nan", "--skew"),
        ("txn --workload u1 --hot-keys warm", "--hot-keys"),
        ("txn --workload u1 --value-bytes 7", "--value-bytes"),
        ("txn --workload payment --records 1", "payment"),
        ("txn --workload u1 --device null --verify-recovery", "null"),
        ("log --device raw:/nowhere --log-file-mb 2", "raw:PATH"),
        ("log --group 1000000", "1000000"),
        ("log --seconds 0", "in no time"),
        ("txn --workload u1 --seconds 0.0", "in no time"),
        ("device --seconds 0", "in no time"),
        ("recover --spec NOLOG", "NOLOG"),
        ("restart --spec NOLOG", "NOLOG"),
        ("device --mode memory,direct", "memory"),
        ("device --bytes 100 --file-mb 1", "100"),
        ("frobnicate", "frobnicate"),
    ] {
        refused(args, 2, word);
    }
    let on = |flag: &str, path: &Path| format!("txn --workload u1 {flag}{}", text(path));
    refused(&on("--device raw:", &file), 2, "precious");
    refused(&on("--dir ", &file), 2, "precious is not a folder");
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    refused(&on("--dir ", &file.join("data")), 1, "precious");
    refused(&on("--dir ", dir.path()), 1, "holds files but no database");
}

/// An argument that is not a number, or out of range, gives an error that names the flag.
#[test]
fn numbers_out_of_range_are_refused_with_flag_and_range() {
    for (command, flag, range) in [
        ("txn --workload u1", "--threads", (1, 1024)),
        ("txn --workload u1", "--records", (1, 2147483648)),
        ("txn --workload u1", "--value-bytes", (8, 2040)),
        ("txn --workload u1", "--key-bytes", (8, 1024)),
        ("txn --workload u1", "--outstanding", (1, 4294967295)),
        ("txn --workload u1", "--raw-mb", (1, 16777216)),
        ("txn --workload u1", "--repeat", (1, 4294967295)),
        ("txn --workload u1", "--ops", (1, u64::MAX)),
        ("txn --workload u1", "--seed", (0, u64::MAX)),
        ("log", "--streams", (1, 1024)),
        ("log", "--group", (1, 4294967295)),
        ("log", "--retain", (2, 4294967295)),
        ("log", "--log-file-mb", (1, 1024)),
        ("recover", "--threads", (1, 1024)),
        ("recover", "--streams", (1, 1024)),
        ("recover", "--records", (1, 2147483648)),
        ("recover", "--log-mb", (1, 1048576)),
        ("recover", "--repeat", (1, 4294967295)),
        ("recover", "--seed", (0, u64::MAX)),
        ("restart", "--records", (1, 2147483648)),
        ("restart", "--updates", (1, 2147483648)),
        ("restart", "--threads", (1, 1024)),
        ("device", "--bytes", (1, 1073741824)),
        ("device", "--writers", (1, 1024)),
        ("device", "--depth", (1, 1024)),
        ("device", "--file-mb", (1, 1048576)),
    ] {
        for bad in ["-1", "x", "1.5", "99999999999999999999"] {
            let said = format!("'{bad}' for '{flag}");
            refused(&format!("{command} {flag} {bad}"), 2, &said);
        }
        let (first, last): (u64, u64) = range;
        for bad in [first.checked_sub(1), last.checked_add(1)] {
            let Some(bad) = bad else { continue };
            let said = format!("{bad} is not in {first}..={last}");
            refused(&format!("{command} {flag} {bad}"), 2, &said);
        }
    }
    for (flag, range) in [
        ("--skew", "not between 0 and 100"),
        ("--seconds", "not between 0 and 1000000 seconds"),
        ("--warmup", "not between 0 and 1000000 seconds"),
    ] {
        refused(&format!("txn --workload u1 {flag} -1"), 2, range);
    }
}

/// Some command lines are found to be invalid only when the engine refuses the resulting settings.
#[test]
fn engine_refusals_name_the_flag_to_change() {
    let dir = tempfile::tempdir().unwrap();
    let raw = text(&dir.path().join("device")).to_owned();
    // Too small for the log buffers of all streams.
    let many = format!(
        "txn --spec TT(NLR)+PWAL(16) --ops 600 --workload u1 --threads 16 --device raw:{raw} --raw-mb 1"
    );
    refused(&many, 2, "raise --raw-mb");
    let output = Command::new(env!("CARGO_BIN_EXE_namiki-bench"))
        .args(["device", "--ops", "1"])
        .env("TMPDIR", dir.path().join("absent"))
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("absent; --dir or TMPDIR names"), "{errors}");
}

/// A table for readers has headings, and medians if runs were repeated.
#[test]
fn a_table_is_the_default() {
    let output = run(&format!(
        "txn --workload u1 --spec NOLOG --repeat 2 {SMALL}"
    ));
    assert!(output.status.success());
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.trim_start().starts_with("workload"), "{table}");
    assert!(table.contains("medians"), "{table}");
}

/// A program that will get signals, and the folder of its temporary folders.
struct Running {
    child: Child,
    errors: BufReader<ChildStderr>,
    temporary: tempfile::TempDir,
}

impl Running {
    /// Starts a run that takes [`LONG`].
    fn start(args: &str) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_namiki-bench"))
            .args(format!("{LONG} {args}").split_whitespace())
            .env("TMPDIR", temporary.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        Self {
            child,
            errors,
            temporary,
        }
    }

    /// Returns the first line on standard error with these words.
    fn wait_for_line(&mut self, words: &str) {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            let read = self.errors.read_line(&mut line).unwrap();
            assert!(read > 0, "it ended without having said {words:?}");
        }
    }

    /// Waits until the program has created a file or folder with a path that ends like this.
    fn wait_for_file(&mut self, ending: &str) {
        while !has_file(self.temporary.path(), ending) {
            assert!(self.child.try_wait().unwrap().is_none(), "it has ended");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The program's exit status, its output, and the number of entries left behind.
    fn end(mut self) -> (Option<i32>, String, usize) {
        let output = self.child.stdout.take().unwrap();
        let printed = std::io::read_to_string(output).unwrap();
        let status = self.child.wait().unwrap().code();
        let left = std::fs::read_dir(self.temporary.path()).unwrap().count();
        (status, printed, left)
    }
}

fn has_file(dir: &Path, ending: &str) -> bool {
    // An entry that has been removed in the meantime cannot be the one.
    let Ok(entries) = std::fs::read_dir(dir) else {
        return false;
    };
    entries
        .flatten()
        .any(|entry| text(&entry.path()).ends_with(ending) || has_file(&entry.path(), ending))
}

const LONG: &str = "txn --workload u1 --seconds 600 --format json";

/// Ctrl-C: the run ends, is checked, and its row is printed.
#[test]
fn an_interrupted_run_prints_its_row() {
    let mut running = Running::start("--spec NOLOG --records 1000 --warmup 0");
    // After the first progress message, transactions have been committed.
    running.wait_for_line(": 10 s");
    running.send(Signal::INT);
    let (status, printed, left) = running.end();
    assert_eq!((status, left), (Some(130), 0), "{printed}");
    assert_eq!(printed.lines().count(), 1, "{printed}");
    assert_keys(&serde_json::from_str(&printed).unwrap(), &[TXN]);
}

/// Before the first transaction there is nothing to print or to wait for.
#[test]
fn a_signal_before_the_run_ends_it() {
    for (ending, args) in [
        // The manifest exists before the load, and so do the folders. Log files are created during
        // the load and the warm-up.
        ("MANIFEST", "--records 100000000"),
        ("0000", "--threads 100"),
        (".log", "--threads 100 --records 1000 --warmup 600"),
    ] {
        for signal in [Signal::INT, Signal::TERM] {
            let mut running = Running::start(args);
            running.wait_for_file(ending);
            running.send(signal);
            let (status, printed, left) = running.end();
            assert_eq!((status, left), (Some(130), 0), "{args}: {printed}");
            assert_eq!(printed, "", "{args}");
        }
    }
}

/// The second signal ends the program, whatever the first one started, and leaves nothing behind
/// either.
#[test]
fn a_second_signal_removes_what_is_temporary() {
    let mut running = Running::start("--records 300000 --warmup 0");
    running.wait_for_line("for 600 s");
    running.send(Signal::INT);
    running.wait_for_line("once more to quit");
    running.send(Signal::TERM);
    let (status, printed, left) = running.end();
    assert_eq!((status, left), (Some(130), 0), "{printed}");
}
