//! Late changes that are refused, or become too many.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::ControlFlow;
use std::time::Duration;

use namiki::{ByteTable, Database, Error, ScanRange, Transaction};
use namiki_platform::disk::SimDisk;
use namiki_tests::row_changes::{OVERFLOW, change, double, get, open, put, value};
use namiki_tests::tested_specs::with_and_without_log;

fn each_spec(check: impl Fn(&Database, &ByteTable)) {
    for spec in with_and_without_log() {
        let (db, table) = open(spec, &SimDisk::new(), Duration::from_millis(1));
        check(&db, &table);
    }
}

fn is_overflow(error: &Error) -> bool {
    matches!(error, Error::ChangeRefused { table, code: OVERFLOW } if table == "numbers")
}

#[test]
fn a_refused_change_leaves_everything_as_it_was() {
    each_spec(|db, table| {
        db.transact(|tx| {
            put(tx, table, b"a", i64::MAX)?;
            put(tx, table, b"b", 1)
        })
        .unwrap();
        let refused = db.transact(|tx| {
            put(tx, table, b"b", 2)?;
            change(tx, table, b"a", 1)
        });
        assert!(refused.as_ref().is_err_and(is_overflow), "{refused:?}");
        assert_eq!(value(db, table, b"b"), Some(1));
        // On a row of its own, the call fails, and the transaction continues.
        db.transact(|tx| {
            put(tx, table, b"c", i64::MAX)?;
            let refused = change(tx, table, b"c", 1);
            assert!(refused.as_ref().is_err_and(is_overflow), "{refused:?}");
            put(tx, table, b"b", 3)
        })
        .unwrap();
        assert_eq!(value(db, table, b"b"), Some(3));
        assert_eq!(value(db, table, b"c"), Some(i64::MAX));
    });
}

/// As a client does that ignores an error after a savepoint: what came before the savepoint commits.
#[test]
fn a_rollback_takes_a_refused_change_back() {
    type Access = fn(&mut Transaction, &ByteTable) -> Result<(), Error>;
    let accesses: [Access; 4] = [
        |tx, table| get(tx, table, b"a").map(drop),
        |tx, table| tx.delete_row(table, b"a").map(drop),
        |tx, table| tx.update_row(table, b"a", |_, _| {}).map(drop),
        |tx, table| {
            let visit = |_: &[u8], _: &[u8]| ControlFlow::<()>::Continue(());
            tx.scan_rows(table, ScanRange::all(), visit).map(drop)
        },
    ];
    each_spec(|db, table| {
        for access in accesses {
            for rolls_back in [true, false] {
                db.transact(|tx| {
                    put(tx, table, b"a", i64::MAX)?;
                    put(tx, table, b"b", 1)
                })
                .unwrap();
                let mut tx = db.begin().unwrap();
                put(&mut tx, table, b"b", 2).unwrap();
                let savepoint = tx.savepoint();
                let refused = match change(&mut tx, table, b"a", 1) {
                    // Where reads are locked, it is evaluated at once.
                    Err(error) => Err(error),
                    Ok(_) => access(&mut tx, table),
                };
                assert!(refused.as_ref().is_err_and(is_overflow), "{refused:?}");
                if rolls_back {
                    tx.rollback_to(&savepoint).unwrap();
                    let ticket = tx.end_statement().unwrap();
                    db.wait(&ticket).unwrap();
                    assert_eq!(get(&mut tx, table, b"a").unwrap(), Some(i64::MAX));
                    tx.commit().unwrap();
                    assert_eq!(value(db, table, b"b"), Some(2));
                } else if !db.spec().to_string().starts_with("S2PL") {
                    let committed = tx.commit();
                    assert!(committed.as_ref().is_err_and(is_overflow), "{committed:?}");
                    assert_eq!(value(db, table, b"b"), Some(1));
                } else {
                    // What was refused is no part of it.
                    tx.commit().unwrap();
                    assert_eq!(value(db, table, b"b"), Some(2));
                }
                assert_eq!(value(db, table, b"a"), Some(i64::MAX));
            }
        }
    });
}

/// Details are inserted, and each adds to the one total.
#[test]
fn many_changes_of_one_row_take_little_memory() {
    const TIMES: i64 = 10_000;
    each_spec(|db, table| {
        db.transact(|tx| put(tx, table, b"a", 1)).unwrap();
        let most = db.transact(|tx| {
            let mut most = 0;
            assert!(tx.change_later(table, b"a", double, b"")?);
            for _ in 0..TIMES {
                assert!(change(tx, table, b"a", 1)?);
                most = most.max(tx.written_bytes());
            }
            assert!(tx.change_later(table, b"a", double, b"")?);
            Ok(most)
        });
        assert!(most.unwrap() < 1 << 20);
        assert_eq!(value(db, table, b"a"), Some(2 * (2 + TIMES)));
    });
}

/// Increments of a typed handle and programs, on the same row.
#[test]
fn amounts_after_many_changes_take_little_memory() {
    const TIMES: i64 = 10_000;
    for spec in with_and_without_log() {
        let (db, _) = open(spec, &SimDisk::new(), Duration::from_millis(1));
        let numbers = db.table::<u64, i64>("typed").unwrap();
        db.transact(|tx| tx.put(&numbers, &1, &1)).unwrap();
        let rows = db.untyped_table("typed").unwrap().unwrap();
        let mut keys = Vec::new();
        db.transact(|tx| {
            keys.clear();
            tx.scan_rows(&rows, ScanRange::all(), |key, _| {
                keys.push(key.to_vec());
                ControlFlow::<()>::Continue(())
            })
            .map(drop)
        })
        .unwrap();
        let most = db.transact(|tx| {
            let mut most = 0;
            assert!(tx.change_later(&rows, &keys[0], double, b"")?);
            for _ in 0..TIMES {
                tx.add(&numbers, &1, 1)?;
                most = most.max(tx.written_bytes());
            }
            Ok(most)
        });
        assert!(most.unwrap() < 1 << 20, "{spec}");
        let found = db.transact(|tx| tx.get(&numbers, &1)).unwrap();
        assert_eq!(found, Some(2 + TIMES), "{spec}");
    }
}

#[test]
fn a_change_that_is_rolled_back_is_remembered_once() {
    each_spec(|db, table| {
        db.transact(|tx| put(tx, table, b"a", 1)).unwrap();
        let mut tx = db.begin().unwrap();
        for _ in 0..100 {
            let savepoint = tx.savepoint();
            assert!(change(&mut tx, table, b"a", 1).unwrap());
            tx.rollback_to(&savepoint).unwrap();
        }
        if !db.spec().to_string().starts_with("S2PL") {
            assert_eq!(tx.read_count(), 1, "that the row is there");
        }
        tx.commit().unwrap();
        assert_eq!(value(db, table, b"a"), Some(1));
    });
}
