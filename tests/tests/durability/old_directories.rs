//! Directories that an earlier program wrote: they open with everything in them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};

use namiki::files::Manifest;
use namiki::query::{Column, ColumnType, Datum, Schema};
use namiki::{Database, NewTable, ReplayOrder};
use namiki_log::Records;
use namiki_platform::disk::SyncedDisk;
use namiki_tests::fixture_contents::{LIVES, Rows};

/// Written at commit a3c4117, before the words of the code changed.
fn format_1() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/format-1")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// So that the other tests are about what they say.
#[test]
fn the_old_directory_has_every_kind_of_log() {
    let manifest = Manifest::read(&SyncedDisk::new(), &format_1())
        .unwrap()
        .unwrap();
    assert_eq!(manifest.generations.len(), LIVES.len());
    let operations = manifest
        .generations
        .iter()
        .filter(|generation| generation.records == Records::Operations);
    assert_eq!(operations.count(), 2);
    let (last, sealed) = manifest.generations.split_last().unwrap();
    assert!(last.seal.is_none());
    assert!(sealed.iter().all(|generation| generation.seal.is_some()));
    assert!(!manifest.closed);
    assert_eq!(manifest.tables.len(), 4);
}

#[test]
fn an_old_directory_opens_with_every_row() {
    for order in [ReplayOrder::HighestStamp, ReplayOrder::Merge] {
        let dir = tempfile::tempdir().unwrap();
        copy(&format_1(), dir.path());
        for opening in 0..2 {
            let db = Database::builder()
                .create(false)
                .replay_order(order)
                .open(dir.path())
                .unwrap();
            assert_eq!(
                Rows::read(&db).unwrap(),
                Rows::written(),
                "{order:?}, opening {opening}"
            );
            db.close().unwrap();
        }
    }
}

#[test]
fn an_old_directory_takes_new_commits() {
    let dir = tempfile::tempdir().unwrap();
    copy(&format_1(), dir.path());
    let open = || {
        let db = Database::builder().create(false).open(dir.path()).unwrap();
        let accounts = db.table::<u64, i64>("accounts").unwrap();
        (db, accounts)
    };
    let (db, accounts) = open();
    db.transact(|tx| tx.put(&accounts, &5, &-7)).unwrap();
    drop(db);
    let (db, _) = open();
    let mut expected = Rows::written();
    expected.accounts.insert(5, -7);
    assert_eq!(Rows::read(&db).unwrap(), expected);
}

/// Its first commits have the stamp that loaded rows have.
#[test]
fn an_old_directory_takes_a_loaded_table() {
    let dir = tempfile::tempdir().unwrap();
    copy(&format_1(), dir.path());
    let open = || Database::builder().create(false).open(dir.path()).unwrap();
    let db = open();
    let columns = vec![Column::new("id", ColumnType::U64)];
    let table = NewTable::new("loaded", Schema::new(columns, &["id"]).unwrap());
    let rows = (0..9).map(|id| Ok::<_, Infallible>(vec![Datum::U64(id)]));
    db.load_sorted(&table, rows).unwrap();
    let count = |db: &Database| {
        let table = db.table::<u64, [u8]>("loaded").unwrap();
        db.transact(|tx| tx.count(&table, ..)).unwrap()
    };
    assert_eq!(count(&db), 9);
    drop(db);
    // Without an image of a checkpoint, and with one.
    let db = open();
    assert_eq!(Rows::read(&db).unwrap(), Rows::written());
    assert_eq!(count(&db), 9);
    db.checkpoint().unwrap();
    drop(db);
    let db = open();
    assert_eq!(Rows::read(&db).unwrap(), Rows::written());
    assert_eq!(count(&db), 9);
}
