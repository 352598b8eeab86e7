//! Changes that the commit makes: they do not conflict with each other, need their row, and are exact.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use namiki::faults::NoPresenceCheck;
use namiki::{
    ByteTable, ChangeRefused, ConcurrencyControl, Database, Error, LockRelease, ProtocolSpec,
    Transaction, UntypedTable,
};
use namiki_platform::disk::{Disk, SimDisk};
use namiki_platform::seeded_random::Random;
use namiki_tests::on_another_thread::on_another_thread;
use namiki_tests::tested_specs::{optimistic, with_and_without_log};

/// The code of an overflow.
const OVERFLOW: u32 = 22003;

fn number(bytes: &[u8]) -> Result<i64, ChangeRefused> {
    bytes
        .try_into()
        .map(i64::from_le_bytes)
        .map_err(|_| ChangeRefused(1))
}

fn add(row: &[u8], amount: &[u8], into: &mut Vec<u8>) -> Result<(), ChangeRefused> {
    let sum = number(row)?.checked_add(number(amount)?);
    into.extend(sum.ok_or(ChangeRefused(OVERFLOW))?.to_le_bytes());
    Ok(())
}

fn double(row: &[u8], _: &[u8], into: &mut Vec<u8>) -> Result<(), ChangeRefused> {
    let product = number(row)?.checked_mul(2);
    into.extend(product.ok_or(ChangeRefused(OVERFLOW))?.to_le_bytes());
    Ok(())
}

fn open(spec: ProtocolSpec, disk: &SimDisk, group_wait_max: Duration) -> (Database, ByteTable) {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let db = Database::builder()
        .spec(spec)
        .streams(NonZeroU16::new(2).unwrap())
        .group_wait_max(group_wait_max)
        .disk(disk)
        .open("/db")
        .unwrap();
    let table = db
        .create_untyped_table(&UntypedTable {
            name: "numbers",
            key_type: "key",
            value_type: "number",
            ..UntypedTable::default()
        })
        .unwrap();
    (db, table)
}

fn each_spec(check: impl Fn(&Database, &ByteTable)) {
    for spec in with_and_without_log() {
        let (db, table) = open(spec, &SimDisk::new(), Duration::from_millis(1));
        check(&db, &table);
    }
}

fn put(tx: &mut Transaction, table: &ByteTable, key: &[u8], number: i64) -> Result<(), Error> {
    tx.put_row(table, key, &number.to_le_bytes())
}

/// `key = key + amount`
fn change(tx: &mut Transaction, table: &ByteTable, key: &[u8], amount: i64) -> Result<bool, Error> {
    tx.change_later(table, key, add, &amount.to_le_bytes())
}

fn get(tx: &mut Transaction, table: &ByteTable, key: &[u8]) -> Result<Option<i64>, Error> {
    let row = tx.row(table, key)?;
    Ok(row.map(|row| number(row).unwrap()))
}

fn value(db: &Database, table: &ByteTable, key: &[u8]) -> Option<i64> {
    db.transact(|tx| get(tx, table, key)).unwrap()
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
            let mut body = |tx: &mut Transaction| {
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
            let gone = session.try_transact_async(&mut body);
            assert!(matches!(gone, Err(Error::Conflict(_))), "{spec}: {gone:?}");
            put_one();
            let faulty = session.try_faulty::<NoPresenceCheck, _>(&mut body);
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
        let is_overflow = |error: &Error| matches!(error, Error::ChangeRefused { table, code: OVERFLOW } if table == "numbers");
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

#[test]
fn late_changes_come_back_after_a_crash() {
    for spec in ProtocolSpec::tested() {
        let disk = SimDisk::new();
        let (db, table) = open(spec, &disk, Duration::from_millis(1));
        db.transact(|tx| put(tx, &table, b"a", 1)).unwrap();
        for _ in 0..20 {
            db.transact(|tx| change(tx, &table, b"a", 1)).unwrap();
        }
        drop((db, table));
        let (db, table) = open(spec, &disk, Duration::from_millis(1));
        assert_eq!(value(&db, &table, b"a"), Some(21), "{spec}");
    }
}
