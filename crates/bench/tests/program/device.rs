//! Tests the measurements of `device`, and the arguments that it refuses.

use serde_json::Value;

use crate::support::{MACHINE, assert_keys, refused, rows};

const KEYS: &str = "mode bytes ops_per_s mb_per_s cpu_us_per_op latency_us.p50";

fn measured(command: &str) -> Vec<Value> {
    rows(&format!("device {command} --ops 50 --file-mb 1"))
}

#[test]
fn the_device_is_measured_in_every_mode() {
    for mode in ["direct", "fdatasync", "mutexed"] {
        let rows = measured(&format!("--mode {mode} --bytes 4096 --writers 1,2"));
        assert_eq!(rows.len(), 2);
        for row in rows {
            assert_keys(&row, &[KEYS, "writers", MACHINE]);
        }
    }
    let rows = measured("--mode read,read-blocking --depth 1,2");
    assert_eq!(rows.len(), 4);
    for row in &rows {
        assert_keys(row, &[KEYS, "depth device", MACHINE]);
        assert_eq!(row["bytes"], 4096);
    }
    // Without io_uring there is no bare loop.
    let queue = rows[0]["queue"].as_str().unwrap();
    if queue.starts_with("io_uring") {
        let rows = measured("--mode read-bare --depth 3");
        assert_keys(&rows[0], &[KEYS, "depth queue", MACHINE]);
    }
    let rows = self::rows("device --mode memory");
    assert!(rows[0]["miss_ns"].as_f64().unwrap() > 0.0);
}

#[test]
fn asynchronous_reads_have_threads_batches_and_lengths() {
    let rows = measured("--mode read --depth 4 --readers 1,2 --batch 1,2 --bytes 4096,16384");
    assert_eq!(rows.len(), 8);
    let combination = |row: &Value| ["bytes", "readers", "batch"].map(|key| row[key].as_u64());
    let mut seen: Vec<_> = rows.iter().map(combination).collect();
    seen.dedup();
    assert_eq!(seen.len(), 8);
}

#[test]
fn emulated_drives_are_named_in_every_row() {
    for mode in ["read", "read-blocking"] {
        let rows = measured(&format!("--mode {mode} --depth 8 --device slow:8x1ms"));
        assert_eq!(rows[0]["device"], "slow:8x1ms");
        // Each of 50 reads takes one millisecond, with eight at a time.
        assert!(rows[0]["ops_per_s"].as_f64().unwrap() <= 8000.0);
        if mode == "read" {
            assert!(rows[0]["queue"].as_str().unwrap().contains("EMULATED"));
        }
    }
}

#[test]
fn what_cannot_be_measured_is_refused_by_name() {
    for (command, word) in [
        ("--mode read --bytes 512", "read-blocking"),
        ("--mode read-bare --bytes 8388608", "1024 pages"),
        ("--mode read --depth 2 --readers 3", "--readers 3"),
        ("--mode read-bare --device slow:8x1ms", "read-bare"),
        ("--mode direct --device fdatasync", "direct"),
        ("--mode read --device null", "null"),
        ("--mode read --device slow:8x", "slow"),
        ("--mode read,memory", "memory"),
    ] {
        refused(&format!("device {command}"), 2, word);
    }
}
