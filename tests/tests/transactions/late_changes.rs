//! Changes that the commit makes: they do not conflict with each other, need their row, and are exact.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use namiki::faults::NoPresenceCheck;
use namiki::{
    ByteTable, ConcurrencyControl, Database, Error, LockRelease, ProtocolSpec, Transaction,
};
use namiki_platform::disk::SimDisk;
use namiki_platform::seeded_random::Random;
use namiki_tests::on_another_thread::on_another_thread;
use namiki_tests::row_changes::{change, double, get, number, open, put, value};
use namiki_tests::tested_specs::{optimistic, with_and_without_log};

fn each_spec(check: impl Fn(&Database, &ByteTable)) {
    for spec in with_and_without_log() {
        let (db, table) = open(spec, &SimDisk::new(), Duration::from_millis(1));
        check(&db, &table);
    }
}

/// Another transaction deletes the key.
fn delete(db: &Database, table: &ByteTable, key: &[u8]) {
    on_another_thread(|| assert!(db.transact(|tx| tx.delete_row(table, key)).unwrap()));
}

/// Two transactions that read and write would conflict. Two late changes do not, even if one
/// commits inside the other.
#[test]
fn late_changes_of_one_row_do_not_conflict() {
    for spec in optimistic() {
        let (db, table) = open(spec, &SimDisk::new(), Duration::from_millis(1));
        db.transact(|tx| put(tx, &table, b"a", 0)).unwrap();
        let [mut outer, mut inner] = [(); 2].map(|()| db.session().unwrap());
        outer
            .try_transact_async(|tx| {
                assert!(change(tx, &table, b"a", 1)?);
                on_another_thread(|| {
                    let changed = inner.try_transact_async(|tx| change(tx, &table, b"a", 10));
                    assert!(changed.unwrap().0);
                    inner.flush()
                })?;
                // Its row has changed, and is there still.
                tx.end_statement().map(drop)
            })
            .unwrap();
        outer.flush().unwrap();
        assert_eq!(value(&db, &table, b"a"), Some(11), "{spec}");
    }
}

#[test]
fn concurrent_changes_add_up_without_a_conflict() {
    const TIMES: u64 = 200;
    each_spec(|db, table| {
        db.transact(|tx| {
            put(tx, table, b"a", 0)?;
            put(tx, table, b"b", 0)
        })
        .unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || {
                    let mut session = db.session().unwrap();
                    for _ in 0..TIMES {
                        let changed = session.transact_async(|tx| {
                            let first = change(tx, table, b"a", 1)?;
                            Ok(first && change(tx, table, b"b", -1)?)
                        });
                        assert!(changed.unwrap().0);
                    }
                    session.flush().unwrap();
                    let spec = db.spec();
                    // Locks that a group holds may be a conflict.
                    if spec.release != LockRelease::Normal && !spec.to_string().starts_with("S2PL")
                    {
                        assert_eq!(session.attempts(), TIMES, "{spec}");
                    }
                });
            }
        });
        let times = 4 * TIMES as i64;
        assert_eq!(value(db, table, b"a"), Some(times));
        assert_eq!(value(db, table, b"b"), Some(-times));
    });
}

#[test]
fn a_row_that_is_gone_is_a_conflict() {
    for spec in optimistic() {
        let (db, table) = open(spec, &SimDisk::new(), Duration::from_millis(1));
        let mut session = db.session().unwrap();
        let put_one = || db.transact(|tx| put(tx, &table, b"a", 1)).unwrap();
        put_one();
        let gone = session.try_transact_async(|tx| {
            assert!(change(tx, &table, b"a", 1)?);
            delete(&db, &table, b"a");
            Ok(())
        });
        assert!(matches!(gone, Err(Error::Conflict(_))), "{spec}: {gone:?}");
        assert_eq!(value(&db, &table, b"a"), None);
        // The end of the statement finds out, too.
        put_one();
        let gone = session.try_transact_async(|tx| {
            assert!(change(tx, &table, b"a", 1)?);
            tx.end_statement()?;
            delete(&db, &table, b"a");
            let ended = tx.end_statement();
            assert!(
                matches!(ended, Err(Error::Conflict(_))),
                "{spec}: {ended:?}"
            );
            ended
        });
        assert!(matches!(gone, Err(Error::Conflict(_))), "{spec}: {gone:?}");
        // A key that is absent is read as absent. (TicToc may order the transaction before the insert.)
        if spec.concurrency != ConcurrencyControl::Silo {
            continue;
        }
        let appeared = session.try_transact_async(|tx| {
            assert!(!change(tx, &table, b"a", 1)?);
            on_another_thread(put_one);
            put(tx, &table, b"b", 1)
        });
        assert!(
            matches!(appeared, Err(Error::Conflict(_))),
            "{spec}: {appeared:?}"
        );
    }
}

/// The transaction was told that the row is there, whatever becomes of its change.
#[test]
fn a_change_that_is_replaced_still_needs_its_row() {
    for spec in optimistic() {
        let (db, table) = open(spec, &SimDisk::new(), Duration::from_millis(1));
        let mut session = db.session().unwrap();
        for rolled_back in [false, true] {
            let body = |tx: &mut Transaction| {
                let savepoint = tx.savepoint();
                assert!(change(tx, &table, b"a", 1)?);
                if rolled_back {
                    tx.rollback_to(&savepoint)?;
                } else {
                    put(tx, &table, b"a", 7)?;
                }
                delete(&db, &table, b"a");
                put(tx, &table, b"b", 1)
            };
            let put_one = || db.transact(|tx| put(tx, &table, b"a", 1)).unwrap();
            put_one();
            let gone = session.try_transact_async(body);
            assert!(matches!(gone, Err(Error::Conflict(_))), "{spec}: {gone:?}");
            put_one();
            let faulty = session.try_faulty::<NoPresenceCheck, _>(body);
            assert!(faulty.is_ok(), "{spec}: {faulty:?}");
            session.flush().unwrap();
        }
        // One without any write left.
        db.transact(|tx| put(tx, &table, b"a", 1)).unwrap();
        let gone = session.try_transact_async(|tx| {
            let savepoint = tx.savepoint();
            assert!(change(tx, &table, b"a", 1)?);
            tx.rollback_to(&savepoint)?;
            delete(&db, &table, b"a");
            Ok(())
        });
        assert!(matches!(gone, Err(Error::Conflict(_))), "{spec}: {gone:?}");
    }
}

#[test]
fn a_transaction_sees_its_own_late_changes() {
    each_spec(|db, table| {
        db.transact(|tx| {
            put(tx, table, b"a", 5)?;
            put(tx, table, b"b", 5)
        })
        .unwrap();
        db.transact(|tx| {
            // In their order, and after a savepoint none of them.
            assert!(change(tx, table, b"a", 1)?);
            assert!(tx.change_later(table, b"a", double, b"")?);
            let savepoint = tx.savepoint();
            assert!(change(tx, table, b"a", 100)?);
            tx.rollback_to(&savepoint)?;
            // Over what it has written itself.
            put(tx, table, b"b", 20)?;
            assert!(change(tx, table, b"b", 1)?);
            assert_eq!(get(tx, table, b"b")?, Some(21));
            put(tx, table, b"c", 1)?;
            assert!(change(tx, table, b"c", 1)?);
            assert!(tx.delete_row(table, b"c")?);
            assert!(!change(tx, table, b"c", 1)?);
            Ok(())
        })
        .unwrap();
        assert_eq!(value(db, table, b"a"), Some(12));
        assert_eq!(value(db, table, b"b"), Some(21));
        assert_eq!(value(db, table, b"c"), None);
        // A read evaluates it, and so do a scan, an update and a deletion.
        db.transact(|tx| {
            assert!(change(tx, table, b"a", 1)?);
            assert_eq!(get(tx, table, b"a")?, Some(13));
            assert!(change(tx, table, b"b", 1)?);
            let mut seen = Vec::new();
            tx.scan_rows(table, namiki::ScanRange::all(), |_, row| {
                seen.push(number(row).unwrap());
                std::ops::ControlFlow::<()>::Continue(())
            })?;
            assert_eq!(seen, [13, 22]);
            assert!(change(tx, table, b"b", 1)?);
            assert!(tx.update_row(table, b"b", |old, new| {
                new.extend((number(old).unwrap() * 10).to_le_bytes());
            })?);
            assert!(change(tx, table, b"a", 1)?);
            assert!(tx.delete_row(table, b"a")?);
            Ok(())
        })
        .unwrap();
        assert_eq!(value(db, table, b"a"), None);
        assert_eq!(value(db, table, b"b"), Some(230));
    });
}

/// Rows appear and vanish while others send them money: none is lost, and none made.
#[test]
fn money_moves_between_rows_that_come_and_go() {
    const ROWS: u64 = 6;
    const TOTAL: i64 = 1_000;
    for spec in optimistic() {
        let (db, table) = open(spec, &SimDisk::new(), Duration::from_millis(1));
        db.transact(|tx| put(tx, &table, &[0], TOTAL)).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (db, table) = (&db, &table);
                scope.spawn(move || {
                    let mut random = Random::seeded(thread);
                    let mut session = db.session().unwrap();
                    for _ in 0..150 {
                        let from = [random.below(ROWS) as u8];
                        let to = [random.below(ROWS) as u8];
                        let amount = random.below(100) as i64;
                        let choice = random.below(4);
                        let moved = session.transact_async(|tx| match choice {
                            0 => tx.insert_row(table, &to, &0_i64.to_le_bytes()).map(drop),
                            1 => close(tx, table, &from, &to),
                            _ => transfer(tx, table, &from, &to, amount),
                        });
                        moved.unwrap();
                    }
                    session.flush().unwrap();
                });
            }
            for _ in 0..20 {
                let sum = db.transact(|tx| {
                    let mut sum = 0;
                    tx.scan_rows(&table, namiki::ScanRange::all(), |_, row| {
                        sum += number(row).unwrap();
                        std::ops::ControlFlow::<()>::Continue(())
                    })?;
                    Ok(sum)
                });
                assert_eq!(sum.unwrap(), TOTAL, "{spec}");
            }
        });
    }
}

/// Moves an amount without reading the rows, if both are there.
fn transfer(
    tx: &mut Transaction,
    table: &ByteTable,
    from: &[u8],
    to: &[u8],
    amount: i64,
) -> Result<(), Error> {
    let savepoint = tx.savepoint();
    if change(tx, table, from, -amount)? && !change(tx, table, to, amount)? {
        tx.rollback_to(&savepoint)?;
    }
    Ok(())
}

/// Deletes a row and gives its money to another one, which has to be there.
fn close(tx: &mut Transaction, table: &ByteTable, from: &[u8], to: &[u8]) -> Result<(), Error> {
    let Some(rest) = get(tx, table, from)? else {
        return Ok(());
    };
    if from != to && change(tx, table, to, rest)? {
        // If it is gone by now, the commit fails, as it was read.
        tx.delete_row(table, from)?;
    }
    Ok(())
}

/// The versions of a hot row are never durable for long, but that the row is there is.
#[test]
fn the_presence_of_a_hot_row_is_durable() {
    let spec: ProtocolSpec = "SILO(EPOCH)+PWAL(16)".parse().unwrap();
    let (db, table) = open(spec, &SimDisk::new(), Duration::MAX);
    db.transact(|tx| put(tx, &table, b"hot", 0)).unwrap();
    // From here on, the epoch in which the row appeared is known to be durable.
    let mut tx = db.begin().unwrap();
    assert!(change(&mut tx, &table, b"hot", 1).unwrap());
    let ticket = tx.end_statement().unwrap();
    db.wait(&ticket).unwrap();
    drop(tx);
    let mut writer = db.session().unwrap();
    for _ in 0..3 {
        let written = writer.try_transact_async(|tx| change(tx, &table, b"hot", 1));
        let (_, written) = written.unwrap();
        assert!(!db.is_acknowledged(&written));
        let mut tx = db.begin().unwrap();
        assert!(change(&mut tx, &table, b"hot", 1).unwrap());
        let ticket = tx.end_statement().unwrap();
        assert!(db.is_acknowledged(&ticket));
        // Its value is not.
        get(&mut tx, &table, b"hot").unwrap();
        let ticket = tx.end_statement().unwrap();
        assert!(!db.is_acknowledged(&ticket));
    }
    let written = writer.try_transact_async(|tx| put(tx, &table, b"new", 0));
    let (_, written) = written.unwrap();
    let mut tx = db.begin().unwrap();
    assert!(change(&mut tx, &table, b"new", 1).unwrap());
    let ticket = tx.end_statement().unwrap();
    assert!(!db.is_acknowledged(&written) && !db.is_acknowledged(&ticket));
    db.wait(&ticket).unwrap();
    assert!(db.is_acknowledged(&written));
}
