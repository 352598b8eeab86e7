//! A log with transactions that are longer than a log file: `check` and `dump-log` read it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use namiki::Database;

use crate::program::{has, said};

#[test]
fn large_transactions_are_checked_shown_and_their_damage_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let db = Database::builder()
        .streams(std::num::NonZeroU16::MIN)
        .log_file_bytes(1 << 20)
        .open(&path)
        .unwrap();
    let table = db.table::<u64, [u8]>("large").unwrap();
    let long = vec![7; 3 << 20];
    db.transact(|tx| tx.put(&table, &77, &long[..])).unwrap();
    db.transact(|tx| tx.put(&table, &78, b"after")).unwrap();
    db.close().unwrap();
    let checked = said(0, "check", &path);
    has(&checked, "large");
    let dumped = said(0, "dump-log", &path);
    assert!(dumped.contains("78"), "the small one is shown");

    let stream = path.join("wal/0000");
    let mut files: Vec<_> = fs::read_dir(&stream)
        .unwrap()
        .map(|it| it.unwrap().path())
        .collect();
    files.sort();
    let long = files
        .iter()
        .find(|file| fs::metadata(file).unwrap().len() > 3 << 20)
        .unwrap();
    let mut bytes = fs::read(long).unwrap();
    bytes[2 << 20] ^= 1;
    fs::write(long, bytes).unwrap();
    let name = long.file_name().unwrap().to_str().unwrap();
    let wrong = said(1, "check", &path);
    has(&wrong, name);
}
