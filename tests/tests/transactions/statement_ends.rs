//! The end of a statement: what the transaction has read so far is of one moment, and durable.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use namiki::{Database, Error, ProtocolSpec, Table};
use namiki_platform::disk::sim::Loss;
use namiki_platform::disk::{Disk, SimDisk};
use namiki_tests::on_another_thread::on_another_thread;
use namiki_tests::tested_specs::{optimistic, with_and_without_log};

type Numbers = Table<u64, u64>;

fn open(spec: ProtocolSpec, disk: &SimDisk) -> (Database, Numbers) {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let db = Database::builder()
        .spec(spec)
        .group_wait_max(Duration::MAX)
        .disk(disk)
        .open("/db")
        .unwrap();
    let table = db.table("numbers").unwrap();
    db.transact(|tx| {
        tx.put(&table, &1, &10)?;
        tx.put(&table, &2, &10)
    })
    .unwrap();
    (db, table)
}

/// Another transaction adds to some keys, and creates those that are absent.
fn change(db: &Database, table: &Numbers, keys: &[u64]) {
    on_another_thread(|| {
        db.transact(|tx| {
            keys.iter().try_for_each(|key| {
                let before = tx.get(table, key)?.unwrap_or(0);
                tx.put(table, key, &(before + 1))
            })
        })
        .unwrap();
    });
}

#[test]
fn a_transaction_continues_after_each_statement() {
    for spec in with_and_without_log() {
        let (db, table) = open(spec, &SimDisk::new());
        let mut tx = db.begin().unwrap();
        for round in 0..3 {
            assert_eq!(tx.get(&table, &1).unwrap(), Some(10 + round));
            assert_eq!(tx.get(&table, &9).unwrap(), None);
            let ticket = tx.end_statement().unwrap();
            db.wait(&ticket).unwrap();
            tx.update(&table, &1, |n| n + 1).unwrap();
        }
        tx.end_statement().unwrap();
        tx.commit().unwrap();
        let found = db.transact(|tx| tx.get(&table, &1)).unwrap();
        assert_eq!(found, Some(13), "{spec}");
    }
}

#[test]
fn a_statement_that_read_a_replaced_version_fails() {
    for spec in optimistic() {
        let (db, table) = open(spec, &SimDisk::new());
        for changed in [1, 9] {
            let mut tx = db.begin().unwrap();
            tx.get(&table, &1).unwrap();
            tx.get(&table, &9).unwrap();
            change(&db, &table, &[changed]);
            let ended = tx.end_statement();
            // TicToc may order it before the change, since it has written nothing.
            let is_before = spec.to_string().starts_with("TT") && ended.is_ok();
            let is_conflict = matches!(ended, Err(Error::Conflict(_)));
            assert!(is_conflict || is_before, "{spec}, {changed}: {ended:?}");
            if is_conflict {
                let again = tx.end_statement();
                assert!(matches!(again, Err(Error::Conflict(_))), "{again:?}");
                assert!(matches!(tx.commit(), Err(Error::Conflict(_))));
            }
        }
    }
}

/// Each statement alone has read current versions, and the two together are of no moment.
#[test]
fn two_statements_show_one_moment() {
    for spec in optimistic() {
        let (db, table) = open(spec, &SimDisk::new());
        let mut tx = db.begin().unwrap();
        assert_eq!(tx.get(&table, &1).unwrap(), Some(10));
        tx.end_statement().unwrap();
        change(&db, &table, &[1, 2]);
        assert_eq!(tx.get(&table, &2).unwrap(), Some(11));
        let ended = tx.end_statement();
        assert!(
            matches!(ended, Err(Error::Conflict(_))),
            "{spec}: {ended:?}"
        );
    }
}

/// Under early release, a transaction may read what a crash would lose.
#[test]
fn a_statement_is_acknowledged_once_its_reads_are_durable() {
    for spec in [
        "SILO(EPOCH)+PWAL(auto)",
        "TT(ELR)+PWAL(16)",
        "SILO(ELR)+SWAL(16)",
        "S2PL(EPOCH)+PWAL(auto)",
    ] {
        let disk = SimDisk::new();
        let (db, table) = open(spec.parse().unwrap(), &disk);
        let mut writer = db.session().unwrap();
        let written = writer.try_transact_async(|tx| tx.put(&table, &1, &77));
        let (_, written) = written.unwrap();
        let mut tx = db.begin().unwrap();
        assert_eq!(tx.get(&table, &1).unwrap(), Some(77));
        let ticket = tx.end_statement().unwrap();
        if !db.is_acknowledged(&written) {
            assert!(!db.is_acknowledged(&ticket), "{spec}");
        }
        db.wait(&ticket).unwrap();
        let image = disk.crash_image(disk.events(), Loss::All);
        drop(tx);
        let (_db, seen) = reopened(spec, &image);
        assert_eq!(seen, Some(77), "{spec}");
    }
}

fn reopened(spec: &str, disk: &SimDisk) -> (Database, Option<u64>) {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let builder = Database::builder().spec(spec.parse().unwrap()).disk(disk);
    let db = builder.open("/db").unwrap();
    let table = db.table::<u64, u64>("numbers").unwrap();
    let seen = db.transact(|tx| tx.get(&table, &1)).unwrap();
    (db, seen)
}
