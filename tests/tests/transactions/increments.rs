//! Commutative increments: sums are exact under concurrent increments, and increments never conflict.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use namiki::{Database, Error, ProtocolSpec, Table};
use namiki_platform::disk::{Disk, SimDisk};
use namiki_tests::on_another_thread::on_another_thread;
use namiki_tests::tested_specs::with_and_without_log;

type Totals = Table<u64, i64>;

fn open(spec: ProtocolSpec, disk: &SimDisk) -> (Database, Totals) {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let db = Database::builder()
        .spec(spec)
        .streams(NonZeroU16::new(2).unwrap())
        .group_wait_max(Duration::from_millis(1))
        .disk(disk)
        .open("/db")
        .unwrap();
    let table = db.table("totals").unwrap();
    (db, table)
}

fn each_spec(check: impl Fn(&Database, &Totals)) {
    for spec in with_and_without_log() {
        let (db, table) = open(spec, &SimDisk::new());
        check(&db, &table);
    }
}

fn total(db: &Database, table: &Totals, key: u64) -> Option<i64> {
    db.transact(|tx| tx.get(table, &key)).unwrap()
}

#[test]
fn a_sum_that_is_too_large_changes_nothing() {
    each_spec(|db, table| {
        db.transact(|tx| tx.put(table, &1, &(i64::MAX - 1)))
            .unwrap();
        db.transact(|tx| tx.add(table, &1, 1)).unwrap();
        for within in [false, true] {
            let ended = db.transact(|tx| {
                tx.put(table, &2, &2)?;
                if within {
                    tx.put(table, &1, &i64::MAX)?;
                }
                tx.add(table, &1, 1)
            });
            assert!(matches!(ended, Err(Error::Overflow { .. })), "{ended:?}");
        }
        let seen = db.transact(|tx| {
            tx.add(table, &1, 1)?;
            // Whatever the body does with the error.
            let seen = tx.get(table, &1);
            assert!(matches!(seen, Err(Error::Overflow { .. })), "{seen:?}");
            tx.put(table, &2, &2)
        });
        assert!(matches!(seen, Err(Error::Overflow { .. })), "{seen:?}");
        let all = db.transact(|tx| tx.scan(table, ..)).unwrap();
        assert_eq!(all, [(1, i64::MAX)]);
    });
}

/// Two transactions that read and write would conflict. Two increments do not, even if one commits
/// inside the other.
#[test]
fn increments_of_one_key_do_not_conflict() {
    each_spec(|db, table| {
        db.transact(|tx| tx.put(table, &1, &0)).unwrap();
        let [mut outer, mut inner] = [(); 2].map(|()| db.session().unwrap());
        let mut ten = || {
            on_another_thread(|| inner.try_transact_async(|tx| tx.add(table, &1, 10)))?;
            inner.flush()
        };
        // Where increments are applied at once, the other one would wait.
        let at_once = db.spec().logs_operations();
        outer
            .try_transact_async(|tx| {
                tx.add(table, &1, 1)?;
                if at_once { Ok(()) } else { ten() }
            })
            .unwrap();
        outer.flush().unwrap();
        if at_once {
            ten().unwrap();
        }
        assert_eq!(total(db, table, 1), Some(11));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    let mut session = db.session().unwrap();
                    for round in 0..100 {
                        let tickets = session.transact_async(|tx| {
                            tx.add(table, &1, 1)?;
                            tx.add(table, &(2 + (thread + round) % 3), -1)
                        });
                        tickets.unwrap();
                    }
                    session.flush().unwrap();
                });
            }
        });
        let all = db.transact(|tx| tx.scan(table, ..)).unwrap();
        assert_eq!(all[0], (1, 411));
        assert_eq!(all[1..].iter().map(|(_, value)| value).sum::<i64>(), -400);
    });
}

#[test]
fn sums_come_back_after_a_crash() {
    for spec in ProtocolSpec::tested() {
        let disk = SimDisk::new();
        let (db, table) = open(spec, &disk);
        for _ in 0..20 {
            db.transact(|tx| {
                tx.add(&table, &1, 1)?;
                tx.add(&table, &2, -1)
            })
            .unwrap();
        }
        drop((db, table));
        let (db, table) = open(spec, &disk);
        let all = db.transact(|tx| tx.scan(&table, ..)).unwrap();
        assert_eq!(all, [(1, 20), (2, -20)], "{spec}");
    }
}

/// Where increments are applied at the commit, an intermediate sum may overflow if it is no longer
/// needed.
#[test]
fn a_sum_that_is_taken_back_or_overwritten_fails_nothing() {
    each_spec(|db, table| {
        if db.spec().logs_operations() {
            return;
        }
        db.transact(|tx| {
            tx.put(table, &1, &1)?;
            let savepoint = tx.savepoint();
            tx.add(table, &1, i64::MAX)?;
            tx.add(table, &1, 5)?;
            tx.rollback_to(&savepoint)?;
            tx.put(table, &2, &i64::MIN)?;
            tx.add(table, &2, -1)?;
            tx.put(table, &2, &7)
        })
        .unwrap();
        assert_eq!(
            (total(db, table, 1), total(db, table, 2)),
            (Some(1), Some(7))
        );
        let failed = db.transact(|tx| {
            tx.put(table, &1, &2)?;
            tx.put(table, &2, &i64::MIN)?;
            tx.add(table, &2, -1)?;
            tx.add(table, &2, 1)
        });
        assert!(matches!(failed, Err(Error::Overflow { .. })), "{failed:?}");
        assert_eq!(
            (total(db, table, 1), total(db, table, 2)),
            (Some(1), Some(7))
        );
    });
}
