//! Directories that an earlier program wrote: they open with everything in them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use namiki::files::Manifest;
use namiki::{Database, ReplayOrder};
use namiki_log::Records;
use namiki_platform::disk::SyncedDisk;
use namiki_tests::fixture_contents::{LIVES, LoadedRows, Rows};

/// Written at commit a3c4117, before the words of the code changed.
const FORMAT_1: &str = "format-1";
/// Written when images, restore points and loaded tables in memory were new.
const FORMAT_7: &str = "format-7";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(name)
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

fn manifest_of(name: &str) -> Manifest {
    let manifest = Manifest::read(&SyncedDisk::new(), &fixture(name)).unwrap();
    manifest.unwrap()
}

/// So that the other tests are about what they say.
#[test]
fn the_oldest_directory_has_every_kind_of_log() {
    let manifest = manifest_of(FORMAT_1);
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

/// So is this.
#[test]
fn the_directory_with_an_image_has_every_new_part() {
    let manifest = manifest_of(FORMAT_7);
    assert!(manifest.image_list.is_some());
    assert!(!manifest.closed);
    let loaded: Vec<&str> = manifest.image.tables.iter().map(|it| &*it.name).collect();
    assert_eq!(loaded, ["nations"]);
    let with_columns = manifest.tables.iter().filter(|it| it.columns().is_some());
    let with_columns: Vec<&str> = with_columns.map(|it| &*it.name).collect();
    assert_eq!(with_columns, ["cities"]);
    assert!(manifest.generations.iter().any(|it| it.restore_points));
    // A checkpoint has recycled what came before, and the last life has written after its checkpoint.
    assert!(manifest.generations.len() < LIVES.len());
    let text = fs::read_to_string(fixture(FORMAT_7).join("MANIFEST")).unwrap();
    let head = text.lines().next().unwrap();
    assert!(head.contains(" 7 "), "{head}");
    let files = fs::read_dir(fixture(FORMAT_7).join("image")).unwrap();
    assert!(files.count() > 8);
}

#[test]
fn an_old_directory_opens_with_every_row() {
    for name in [FORMAT_1, FORMAT_7] {
        for order in [ReplayOrder::HighestStamp, ReplayOrder::Merge] {
            let dir = tempfile::tempdir().unwrap();
            copy(&fixture(name), dir.path());
            for opening in 0..2 {
                let db = Database::builder()
                    .create(false)
                    .replay_order(order)
                    .open(dir.path())
                    .unwrap();
                let context = format!("{name}, {order:?}, opening {opening}");
                assert_eq!(Rows::read(&db).unwrap(), Rows::written(), "{context}");
                if name == FORMAT_7 {
                    let found = LoadedRows::read(&db);
                    assert_eq!(found, Ok(LoadedRows::written()), "{context}");
                }
                db.close().unwrap();
            }
        }
    }
}

#[test]
fn an_old_directory_takes_new_commits() {
    for name in [FORMAT_1, FORMAT_7] {
        let dir = tempfile::tempdir().unwrap();
        copy(&fixture(name), dir.path());
        let open = || {
            let db = Database::builder().create(false).open(dir.path()).unwrap();
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
        assert_eq!(Rows::read(&db).unwrap(), expected, "{name}");
    }
}
