//! Tables in the manifest's journal: `check` and `dump-log` know them, and report damage to the
//! journal.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use namiki::Database;

use crate::command::copy_tree;
use crate::program::{has, said};

#[test]
fn changes_of_dropped_tables_are_shown_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("data");
    let db = Database::open(&dir).unwrap();
    let table = db.table::<u64, str>("first").unwrap();
    db.transact(|tx| tx.put(&table, &1, "gone")).unwrap();
    db.drop_table("first").unwrap();
    let table = db.table::<u64, str>("second").unwrap();
    db.transact(|tx| tx.put(&table, &1, "there")).unwrap();
    db.close().unwrap();
    let checked = said(0, "check", &dir);
    has(&checked, "table \"second\": u64 to str");
    assert!(!checked.contains("first"), "{checked}");
    let dumped = said(0, "dump-log", &dir);
    let lines: Vec<_> = dumped.lines().filter(|line| line.contains("put")).collect();
    assert_eq!(lines.len(), 2, "{dumped}");
    assert!(
        lines[0].contains("(dropped)") && !lines[0].contains("second"),
        "{dumped}"
    );
    assert!(
        lines[1].contains("second") && lines[1].contains("there"),
        "{dumped}"
    );
}

#[test]
fn tables_of_the_journal_are_checked_and_shown() {
    let dir = tempfile::tempdir().unwrap();
    let (open, killed) = (dir.path().join("open"), dir.path().join("killed"));
    let db = Database::open(&open).unwrap();
    let table = db.table::<u64, str>("journalled").unwrap();
    db.transact(|tx| tx.put(&table, &1, "a value")).unwrap();
    copy_tree(&open, &killed);
    db.close().unwrap();
    let journal = killed.join("TABLES");
    let sound = fs::read(&journal).unwrap();
    for dir in [&open, &killed] {
        assert!(said(0, "check", dir).contains("table \"journalled\": u64 to str"));
        let dumped = said(0, "dump-log", dir);
        has(&dumped, "journalled");
        has(&dumped, "a value");
    }

    let mut damaged = sound.clone();
    let at = damaged.iter().rposition(|byte| *byte != 0).unwrap();
    damaged[at] ^= 1;
    fs::write(&journal, damaged).unwrap();
    for command in ["check", "dump-log"] {
        let said = said(1, command, &killed);
        has(&said, "TABLES is damaged at byte");
    }
    fs::write(&journal, sound).unwrap();
    fs::remove_dir_all(killed.join("wal")).unwrap();
    fs::remove_file(killed.join("MANIFEST")).unwrap();
    let said = said(1, "check", &killed);
    has(&said, "MANIFEST is missing, although");
    has(&said, "TABLES is there");
}
