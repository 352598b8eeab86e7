//! Directories that were written on memory, in blocks of 64 bytes: `check` and `dump-log` read them
//! on a disk.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use namiki::Database;
use namiki_platform::disk::DelayedDisk;

use crate::command::copy_tree;
use crate::program::{has, said};

const BLOCK_BYTES: usize = 64;

#[test]
fn a_log_in_short_blocks_is_checked_and_dumped() {
    let dir = tempfile::tempdir().unwrap();
    let (open, killed) = (dir.path().join("open"), dir.path().join("killed"));
    let disk = DelayedDisk::new(Duration::ZERO).with_blocks(BLOCK_BYTES);
    let db = Database::builder()
        .disk(Arc::new(disk))
        .streams(1.try_into().unwrap())
        .log_file_bytes(1 << 20)
        .open(&open)
        .unwrap();
    let table = db.table::<u64, str>("short").unwrap();
    let value = "a value ".repeat(30);
    for key in 0..5 {
        db.transact(|tx| tx.put(&table, &key, value.as_str()))
            .unwrap();
    }
    copy_tree(&open, &killed);
    db.close().unwrap();
    for dir in [&open, &killed] {
        has(&said(0, "check", dir), "5 commits");
        has(&said(0, "dump-log", dir), "short[4]");
    }

    // The second block of the last frame, in which its header ends.
    let stream = killed.join("wal").join("0000");
    let log_file = fs::read_dir(&stream).unwrap().next().unwrap().unwrap();
    let mut bytes = fs::read(log_file.path()).unwrap();
    let frames = (0..bytes.len() - 4).step_by(BLOCK_BYTES);
    let frames: Vec<usize> = frames
        .filter(|at| bytes[*at..].starts_with(b"NLF1"))
        .collect();
    let last = *frames.last().unwrap();
    bytes[last + BLOCK_BYTES..][..BLOCK_BYTES].fill(0);
    fs::write(log_file.path(), &bytes).unwrap();
    let checked = said(0, "check", &killed);
    has(&checked, "4 commits");
    has(&checked, "torn");

    // The same amid the log is damage.
    let first = frames[0];
    bytes[first + BLOCK_BYTES..][..BLOCK_BYTES].fill(0);
    fs::write(log_file.path(), &bytes).unwrap();
    has(&said(1, "check", &killed), &format!("at byte {first}"));
}
