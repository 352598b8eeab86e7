//! A directory moved away while it is open, with a copy in its place. The copy is another database,
//! possibly of another program, and neither loses an acknowledged commit.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use namiki::{Database, Error, Prepare};
use namiki_platform::disk::SyncedDisk;
use namiki_tests::copy_dir::copy_dir;
use namiki_tests::small_database::{keys, put};

fn open(dir: &Path) -> Database {
    Database::builder()
        .disk(Arc::new(SyncedDisk::new()))
        .spec("TT(NLR)+PWAL(1)".parse().unwrap())
        .streams(NonZeroU16::MIN)
        .prepare(Prepare::Inline)
        .group_wait_max(Duration::MAX)
        .buffer_bytes(8 << 10)
        .log_file_bytes(16 << 10)
        .open(dir)
        .unwrap()
}

fn contents(dir: &Path, into: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            contents(&path, into);
        } else {
            into.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
}

/// Returns an open database with one row, its new directory, and a copy in its old place.
fn moved(dir: &Path) -> (Database, PathBuf, PathBuf) {
    let (db, old) = (dir.join("db"), dir.join("old"));
    let open = open(&db);
    put(&open, 0).unwrap();
    fs::rename(&db, &old).unwrap();
    copy_dir(&old, &db);
    (open, old, db)
}

/// Whether the directory's move caused the error.
fn names_the_move(error: &Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.to_string().contains("was moved or replaced") {
            return true;
        }
        cause = error.source();
    }
    false
}

#[test]
fn the_next_file_is_not_made_in_another_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (moved, old, path) = moved(dir.path());
    let other = open(&path);
    put(&other, 1000).unwrap();
    let mut before = BTreeMap::new();
    contents(&path, &mut before);
    let mut acknowledged = vec![0];
    let error = loop {
        let key = acknowledged.len() as u64;
        match put(&moved, key) {
            Ok(()) => acknowledged.push(key),
            Err(error) => break error,
        }
        assert!(key < 1000, "its log file is full long before");
    };
    assert!(names_the_move(&error), "{error:?}");
    let mut after = BTreeMap::new();
    contents(&path, &mut after);
    assert!(before == after);
    drop(moved);
    assert_eq!(keys(&open(&old)), acknowledged);
    put(&other, 1001).unwrap();
    other.close().unwrap();
    assert_eq!(keys(&open(&path)), [0, 1000, 1001]);
}

#[test]
fn a_table_is_not_made_in_another_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (moved, old, path) = moved(dir.path());
    let mut before = BTreeMap::new();
    contents(&path, &mut before);
    let error = moved.table::<u64, u64>("new").unwrap_err();
    assert!(names_the_move(&error), "{error:?}");
    let error = moved.close().unwrap_err();
    assert!(names_the_move(&error), "{error:?}");
    let mut after = BTreeMap::new();
    contents(&path, &mut after);
    assert!(before == after);
    // At its current path, and at the path at which it was opened.
    assert_eq!(keys(&open(&old)), [0]);
    assert_eq!(keys(&open(&path)), [0]);
}
