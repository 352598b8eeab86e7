//! Directories written by an earlier program open with all their contents.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use namiki::files::Manifest;
use namiki::{Database, ReplayOrder};
use namiki_platform::disk::SyncedDisk;
use namiki_tests::copy_dir::copy_dir;
use namiki_tests::fixture_contents::{LIVES, LoadedRows, Rows};

/// The directory written by `namiki-harness fixture`. A change of the formats before the first
/// release replaces it.
fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/format-2")
}

/// Checks that the fixture contains what the other tests assume.
#[test]
fn the_directory_has_every_part() {
    let manifest = Manifest::read(&SyncedDisk::new(), &fixture());
    let manifest = manifest.unwrap().unwrap();
    assert!(manifest.image_list.is_some());
    assert!(!manifest.closed);
    let loaded: Vec<&str> = manifest
        .loaded_tables
        .tables
        .iter()
        .map(|it| &*it.name)
        .collect();
    assert_eq!(loaded, ["nations"]);
    let with_columns = manifest.tables.iter().filter(|it| it.columns().is_some());
    let with_columns: Vec<&str> = with_columns.map(|it| &*it.name).collect();
    assert_eq!(with_columns, ["cities"]);
    assert!(manifest.generations.iter().any(|it| it.restore_points));
    // A checkpoint has recycled the earlier generations, and the last life has written after its
    // checkpoint.
    assert!(manifest.generations.len() < LIVES.len());
    let files = fs::read_dir(fixture().join("image")).unwrap();
    assert!(files.count() > 8);
}

#[test]
fn an_old_directory_opens_with_every_row() {
    for order in [ReplayOrder::HighestStamp, ReplayOrder::Merge] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        copy_dir(&fixture(), &path);
        for opening in 0..2 {
            let db = Database::builder()
                .create(false)
                .replay_order(order)
                .open(&path)
                .unwrap();
            let context = format!("{order:?}, opening {opening}");
            assert_eq!(Rows::read(&db).unwrap(), Rows::written(), "{context}");
            let found = LoadedRows::read(&db);
            assert_eq!(found, Ok(LoadedRows::written()), "{context}");
            db.close().unwrap();
        }
    }
}

#[test]
fn an_old_directory_takes_new_commits() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    copy_dir(&fixture(), &path);
    let open = || {
        let db = Database::builder().create(false).open(&path).unwrap();
        let accounts = db.table::<u64, i64>("accounts").unwrap();
        (db, accounts)
    };
    let (db, accounts) = open();
    db.transact(|tx| tx.put(&accounts, &5, &-7)).unwrap();
    db.checkpoint().unwrap();
    db.transact(|tx| tx.put(&accounts, &6, &-8)).unwrap();
    drop(db);
    let (db, _) = open();
    let mut expected = Rows::written();
    expected.accounts.extend([(5, -7), (6, -8)]);
    assert_eq!(Rows::read(&db).unwrap(), expected);
}
