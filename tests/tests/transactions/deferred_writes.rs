//! Blind writes find their records at the commit, after gaps may have been read. No phantom occurs
//! in between, and a transaction that does not commit leaves nothing.

use std::sync::Arc;

use namiki::{Database, Error, ProtocolSpec, Table, Transaction};
use namiki_platform::disk::{Disk, SimDisk};
use namiki_tests::watchdog::on_threads;

fn under(spec: &str, check: impl Fn(&Database, &Table<u64, i64>)) {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let spec: ProtocolSpec = spec.parse().expect("a spec");
    let db = Database::builder()
        .disk(disk)
        .spec(spec)
        .open("/db")
        .expect("an empty disk");
    let table = db.table("numbers").expect("a new table");
    check(&db, &table);
}

fn each_release(check: impl Fn(&Database, &Table<u64, i64>)) {
    for spec in ["TT(NLR)+PWAL(1)", "TT(ELR)+PWAL(1)"] {
        under(spec, &check);
    }
}

/// Write skew over two gaps: each transaction finds the other's key absent and writes its own.
/// Neither the order of the reads and the writes, nor the number of writes, may matter.
#[test]
fn of_two_missing_readers_at_most_one_commits() {
    let cases = (0..16_u8).map(|bits| [0, 1, 2, 3].map(|bit| bits >> bit & 1 == 1));
    for [a_looks_first, b_looks_first, scans, has_others] in cases {
        each_release(|db, table| {
            let look = |tx: &mut Transaction, key: u64| {
                let there = if scans {
                    !tx.scan(table, key..=key).unwrap().is_empty()
                } else {
                    tx.get(table, &key).unwrap().is_some()
                };
                assert!(!there);
            };
            let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
            if has_others {
                for other in 0..3 {
                    a.put(table, &(100 + other), &0).unwrap();
                    b.put(table, &(200 + other), &0).unwrap();
                }
            }
            if a_looks_first {
                look(&mut a, 1);
            }
            if b_looks_first {
                look(&mut b, 2);
            }
            a.put(table, &2, &1).unwrap();
            b.put(table, &1, &1).unwrap();
            if !a_looks_first {
                look(&mut a, 1);
            }
            if !b_looks_first {
                look(&mut b, 2);
            }
            let ended = [a.commit(), b.commit()];
            let committed = ended.iter().filter(|ended| ended.is_ok()).count();
            assert!(committed <= 1, "{a_looks_first} {b_looks_first} {scans}");
            for error in ended.into_iter().filter_map(Result::err) {
                assert!(matches!(error, Error::Conflict(_)), "{error:?}");
            }
        });
    }
}

#[test]
fn a_transaction_fills_the_gap_it_has_read_itself() {
    each_release(|db, table| {
        let mut tx = db.begin().unwrap();
        assert!(tx.scan(table, ..).unwrap().is_empty());
        for key in 0..500 {
            tx.put(table, &key, &(key as i64)).unwrap();
            if key % 97 == 0 {
                tx.put(table, &key, &-1).unwrap();
            }
        }
        tx.commit().unwrap();
        let all = db.transact(|tx| tx.scan(table, ..)).unwrap();
        assert_eq!(all.len(), 500);
        assert_eq!((all[97], all[98]), ((97, -1), (98, 98)));
    });
}

#[test]
fn writes_of_a_transaction_that_does_not_commit_leave_nothing() {
    each_release(|db, table| {
        db.transact(|tx| tx.put(table, &7, &7)).unwrap();
        let mut dropped = db.begin().unwrap();
        for key in 0..50 {
            dropped.put(table, &key, &1).unwrap();
        }
        drop(dropped);
        let aborted: Result<(), Error> = db.transact(|tx| {
            tx.put(table, &7, &9)?;
            tx.put(table, &8, &9)?;
            tx.abort("no")
        });
        assert!(matches!(aborted, Err(Error::Aborted(_))), "{aborted:?}");
        let all = db.transact(|tx| tx.scan(table, ..)).unwrap();
        assert_eq!(all, [(7, 7)]);
    });
}

/// No version that was read can change while the writes wait for locks, and early release holds
/// locks only briefly.
#[test]
fn blind_writes_wait_under_early_release() {
    const KEYS: u64 = 24;
    for spec in [
        "TT(ELR)+PWAL(auto)",
        "TT(EPOCH)+PWAL(auto)",
        "SILO(ELR)+SWAL(16)",
        "SILO(EPOCH)+PWAL(16)",
    ] {
        under(spec, |db, table| {
            on_threads(8, |thread| {
                for round in 0..3_000 {
                    let mut tx = db.begin().expect("an open database");
                    for key in 0..KEYS {
                        tx.put(table, &(key * (thread + 1) % KEYS), &round)
                            .expect("room");
                    }
                    // The ticket is not waited for, so all threads want the locks all the time.
                    tx.commit_async()
                        .map(drop)
                        .expect("without reads there are no conflicts");
                }
            });
        });
    }
}
