//! The programming interface: transactions, tables, tickets.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its seeds"
)]

use std::collections::BTreeMap;
use std::num::{NonZeroU16, NonZeroU32};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use namiki::{ConcurrencyControl, Conflict, Database, Error, ProtocolSpec, Table, WorkerId};
use namiki_platform::disk::{Disk, SimDisk};
use namiki_platform::seeded_random::Random;

fn open_with(spec: ProtocolSpec, disk: &SimDisk, wait: Duration) -> Database {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Database::builder()
        .spec(spec)
        .streams(NonZeroU16::new(2).unwrap())
        .group_wait_max(wait)
        .disk(disk)
        .open("/db")
        .unwrap()
}

fn open(disk: &SimDisk) -> Database {
    open_with(ProtocolSpec::DEFAULT, disk, Duration::from_millis(1))
}

/// Every protocol; the interface behaves the same under all of them.
fn each_spec(check: impl Fn(&Database, Table<u64, i64>)) {
    let mut specs = ProtocolSpec::tested();
    specs.push("TT(NLR)+NOLOG".parse().unwrap());
    for spec in specs {
        println!("{spec}");
        let db = open_with(spec, &SimDisk::new(), Duration::from_millis(1));
        let table = db.table("numbers").unwrap();
        check(&db, table);
    }
}

/// Writes are deferred until their records are needed, which must not be observable: two tables are
/// compared with two maps.
#[test]
fn whatever_comes_between_writes_sees_them_all() {
    const KEYS: u64 = 40;
    each_spec(|db, numbers| {
        let names: Table<str, u64> = db.table("names").unwrap();
        let mut random = Random::seeded(0x0b11_d000);
        let (mut model_numbers, mut model_names) = (BTreeMap::new(), BTreeMap::new());
        for transaction in 0..60_u64 {
            let (mut a, mut b) = (model_numbers.clone(), model_names.clone());
            let gives_up = random.below(5) == 0;
            let ended = db.transact(|tx| {
                let mut savepoint = None;
                for step in 0..random.below(60) {
                    let key = random.below(KEYS);
                    let name = format!("a name that is too long to be remembered {key}");
                    let value = transaction * 1000 + step;
                    match random.below(18) {
                        16 => {
                            let keys = key..key + 20;
                            let done = tx.update_many(&numbers, keys.clone(), |at, _| {
                                value as i64 + at as i64
                            })?;
                            let there = a.range_mut(keys);
                            let new = |(k, v): (&u64, &mut i64)| *v = (value + k - key) as i64;
                            assert_eq!(there.map(new).count(), done);
                        }
                        17 => tx.prefetch(&numbers, key..key + 20),
                        0..7 => {
                            tx.put(&numbers, &key, &(value as i64))?;
                            a.insert(key, value as i64);
                        }
                        7..10 => {
                            tx.put(&names, &name, &value)?;
                            b.insert(name, value);
                        }
                        10 => assert_eq!(tx.get(&numbers, &key)?, a.get(&key).copied()),
                        11 => assert_eq!(tx.get(&names, &name)?, b.get(&name).copied()),
                        12 => match tx.insert(&names, &name, &value) {
                            Ok(()) => assert_eq!(b.insert(name, value), None),
                            Err(Error::Duplicate { .. }) => assert!(b.contains_key(&name)),
                            Err(error) => return Err(error),
                        },
                        13 => {
                            let was = tx.delete(&numbers, &key)?;
                            assert_eq!(was, a.remove(&key).is_some());
                        }
                        14 => {
                            let there: Vec<_> = a.iter().map(|(k, v)| (*k, *v)).collect();
                            assert_eq!(tx.scan(&numbers, ..)?, there);
                        }
                        _ => match savepoint.take() {
                            None => savepoint = Some((tx.savepoint(), a.clone(), b.clone())),
                            Some((at, a_then, b_then)) => {
                                tx.rollback_to(&at)?;
                                (a, b) = (a_then, b_then);
                            }
                        },
                    }
                }
                if gives_up {
                    return tx.abort("no");
                }
                Ok(())
            });
            if gives_up {
                assert!(matches!(ended, Err(Error::Aborted(_))), "{ended:?}");
            } else {
                ended.unwrap();
                (model_numbers, model_names) = (a, b);
            }
        }
        let (a, b) = db
            .transact(|tx| Ok((tx.scan(&numbers, ..)?, tx.scan(&names, ..)?)))
            .unwrap();
        assert_eq!(a, model_numbers.into_iter().collect::<Vec<_>>());
        assert_eq!(b, model_names.into_iter().collect::<Vec<_>>());
        assert!(a.len() > 10 && b.len() > 10);
    });
}

#[test]
fn a_closure_that_fails_or_panics_leaves_nothing_behind() {
    each_spec(|db, table| {
        db.transact(|tx| tx.put(&table, &1, &1)).unwrap();
        let aborted = db.transact(|tx| {
            tx.put(&table, &1, &2)?;
            tx.abort::<()>("no funds")
        });
        assert!(matches!(aborted, Err(Error::Aborted(why)) if why == "no funds"));
        for _ in 0..3 {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                db.transact(|tx| -> Result<(), Error> {
                    tx.put(&table, &1, &3)?;
                    tx.put(&table, &7, &3)?;
                    panic!("on purpose")
                })
            }));
            assert!(panicked.is_err());
        }
        // Nothing stays locked, and the sessions that were cut short still work.
        db.transact(|tx| {
            assert_eq!(tx.scan(&table, ..)?, [(1, 1)]);
            tx.update(&table, &1, |old| old + 1)?;
            tx.put(&table, &7, &1)
        })
        .unwrap();
        let mut session = db.session().unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            session.transact(|tx| -> Result<(), Error> {
                tx.put(&table, &8, &3)?;
                panic!("on purpose")
            })
        }));
        assert!(panicked.is_err());
        let all = session.transact(|tx| tx.scan(&table, ..)).unwrap();
        assert_eq!(all, [(1, 2), (7, 1)]);
    });
}

#[test]
fn an_open_transaction_moves_between_threads_without_blocking() {
    each_spec(|db, table| {
        db.transact(|tx| tx.put(&table, &1, &1)).unwrap();
        let mut tx = db.begin().unwrap();
        assert_eq!(tx.get(&table, &1).unwrap(), Some(1));
        tx.put(&table, &2, &2).unwrap();
        // An idle transaction holds no locks for blind writes, unless writes are applied at once.
        if !db.spec().logs_operations() {
            db.transact(|tx| tx.put(&table, &2, &9)).unwrap();
        }
        let (moved, numbers) = (tx, table.clone());
        let stamp = std::thread::spawn(move || {
            let mut tx = moved;
            tx.put(&numbers, &3, &3).unwrap();
            tx.commit().unwrap()
        })
        .join()
        .unwrap();
        assert!(stamp.0 > 0);
        let all = db.transact(|tx| tx.scan(&table, ..)).unwrap();
        assert_eq!(all, [(1, 1), (2, 2), (3, 3)]);

        let mut rolled_back = db.begin().unwrap();
        rolled_back.put(&table, &1, &100).unwrap();
        rolled_back.rollback();
        let mut dropped = db.begin().unwrap();
        dropped.put(&table, &1, &100).unwrap();
        drop(dropped);
        assert_eq!(db.transact(|tx| tx.get(&table, &1)).unwrap(), Some(1));
    });
}

#[test]
fn a_conflict_is_told_apart_and_run_again() {
    each_spec(|db, table| {
        db.transact(|tx| tx.put(&table, &1, &1)).unwrap();
        // Where reads are locked, others wait: see `two_phase_locking.rs`.
        if db.spec().concurrency != ConcurrencyControl::TwoPhase {
            let mut tx = db.begin().unwrap();
            let before = tx.get(&table, &1).unwrap().unwrap();
            db.transact(|tx| tx.put(&table, &1, &1)).unwrap();
            tx.put(&table, &1, &(before + 1)).unwrap();
            let error = tx.commit().unwrap_err();
            assert!(error.is_retryable(), "{error}");
            assert!(matches!(error, Error::Conflict(Conflict::ReadChanged)));
        }

        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        db.transact(|tx| tx.update(&table, &1, |old| old + 1))
                            .unwrap();
                    }
                });
            }
        });
        assert_eq!(db.transact(|tx| tx.get(&table, &1)).unwrap(), Some(201));
    });
}

/// A commit that gives up counts many failed rounds of locking; a commit that meets no lock counts
/// none.
#[test]
fn each_failed_round_of_locking_is_counted() {
    let db = open_with(
        "TT(NLR)+PWAL(16)".parse().unwrap(),
        &SimDisk::new(),
        Duration::MAX,
    );
    let table = db.table::<u64, i64>("numbers").unwrap();
    let mut holder = db.session_on(WorkerId(0)).unwrap();
    let mut other = db.session_on(WorkerId(1)).unwrap();
    holder.transact_async(|tx| tx.put(&table, &1, &1)).unwrap();
    other.transact_async(|tx| tx.put(&table, &2, &1)).unwrap();
    assert_eq!(db.counters().failed_locks, 0);
    // The holder's group keeps the lock.
    let ended = other.try_transact_async(|tx| tx.put(&table, &1, &2));
    assert!(matches!(ended, Err(Error::Conflict(Conflict::WriteLocked))));
    let counters = db.counters();
    assert_eq!(counters.conflicts, 1);
    assert!(counters.failed_locks > 1, "{counters:?}");
    holder.flush().unwrap();
    other.transact(|tx| tx.put(&table, &1, &2)).unwrap();
    assert_eq!(db.counters().failed_locks, counters.failed_locks);
}

#[test]
fn a_ticket_is_acknowledged_by_its_groups_flush() {
    for spec in ["TT(NLR)+PWAL(3)", "TT(ELR)+PWAL(3)", "TT(ELR)+SWAL(3)"] {
        let db = open_with(spec.parse().unwrap(), &SimDisk::new(), Duration::MAX);
        let table = db.table::<u64, i64>("numbers").unwrap();
        let mut session = db.session_on(WorkerId(0)).unwrap();
        let mut commit = |key: u64| {
            let ((), ticket) = session
                .transact_async(|tx| tx.put(&table, &key, &1))
                .unwrap();
            ticket
        };
        let tickets = [commit(1), commit(2)];
        assert!(
            tickets.iter().all(|ticket| !db.is_acknowledged(ticket)),
            "{spec}"
        );
        let third = commit(3);
        assert!(
            tickets.iter().all(|ticket| db.is_acknowledged(ticket)),
            "{spec}"
        );
        assert!(db.is_acknowledged(&third), "{spec}");
        assert!(tickets[0].stamp() <= tickets[1].stamp(), "{spec}");
        let fourth = commit(4);
        db.wait(&fourth).unwrap();
        assert!(db.is_acknowledged(&fourth), "{spec}");
        let mut tx = db.begin().unwrap();
        tx.put(&table, &5, &1).unwrap();
        let fifth = tx.commit_async().unwrap();
        assert!(!db.is_acknowledged(&fifth), "{spec}");
        db.wait(&fifth).unwrap();
        assert!(db.is_acknowledged(&fifth), "{spec}");
    }
}

/// The commits of an asynchronously flushed group are acknowledged when their tickets are polled
/// after the write.
#[test]
fn a_submitted_group_is_acknowledged_on_request() {
    for spec in ["TT(NLR)+PWAL(3)", "TT(ELR)+PWAL(3)"] {
        let disk = SimDisk::new();
        let db = Database::builder()
            .spec(spec.parse().unwrap())
            .streams(NonZeroU16::new(1).unwrap())
            .group_wait_max(Duration::MAX)
            .async_flush_min_commits(NonZeroU32::new(3).unwrap())
            .disk(Arc::new(disk.clone()))
            .open("/db")
            .unwrap();
        let table = db.table::<u64, i64>("numbers").unwrap();
        let mut session = db.session_on(WorkerId(0)).unwrap();
        let mut commit = |key: u64| {
            let put = session.transact_async(|tx| tx.put(&table, &key, &1));
            put.unwrap().1
        };
        disk.complete_after(4);
        let tickets = [1, 2, 3].map(&mut commit);
        for _ in 0..4 {
            assert!(!db.is_acknowledged(&tickets[0]), "{spec}");
        }
        assert!(
            tickets.iter().all(|ticket| db.is_acknowledged(ticket)),
            "{spec}"
        );
        // The write completes only when a waiter needs it, or a transaction that needs its records.
        disk.complete_after(u64::MAX);
        let tickets = [4, 5, 6].map(&mut commit);
        assert!(!db.is_acknowledged(&tickets[2]), "{spec}");
        db.wait(&tickets[0]).unwrap();
        assert!(
            tickets.iter().all(|ticket| db.is_acknowledged(ticket)),
            "{spec}"
        );
        let tickets = [7, 8, 9].map(&mut commit);
        assert!(!db.is_acknowledged(&tickets[0]), "{spec}");
        commit(7);
        assert_eq!(
            db.is_acknowledged(&tickets[0]),
            spec.contains("NLR"),
            "{spec}"
        );
        db.close().unwrap();
    }
}

/// A completed asynchronous flush delays no thread, whichever stream it is on and whichever thread
/// asks.
#[test]
fn a_submitted_group_is_visible_once_written() {
    for spec in ["TT(NLR)+PWAL(2)", "TT(ELR)+PWAL(2)"] {
        let disk = SimDisk::new();
        disk.complete_after(0);
        let db = Database::builder()
            .spec(spec.parse().unwrap())
            .streams(NonZeroU16::new(2).unwrap())
            .group_wait_max(Duration::MAX)
            .async_flush_min_commits(NonZeroU32::MIN)
            .disk(Arc::new(disk.clone()))
            .open("/db")
            .unwrap();
        let table = db.table::<u64, i64>("numbers").unwrap();
        let [mut one, mut other] = [0, 1].map(|worker| db.session_on(WorkerId(worker)).unwrap());
        let mut fill = |key: u64| {
            let mut put = |key| one.try_transact_async(|tx| tx.put(&table, &key, &1));
            put(key).unwrap();
            put(key + 1).unwrap().1
        };
        // Its group holds the lock (NLR), and no further commit follows on that stream.
        fill(1);
        let ((), overwritten) = other
            .try_transact_async(|tx| tx.put(&table, &1, &2))
            .unwrap();
        fill(3);
        let (read, reader) = other.try_transact_async(|tx| tx.get(&table, &3)).unwrap();
        assert_eq!(read, Some(1), "{spec}");
        // A reader that waits for a lock has flushed its own group; then two more commits fill one.
        let [last, _] = [5, 6].map(|key| {
            let put = other.try_transact_async(|tx| tx.put(&table, &key, &1));
            put.unwrap().1
        });
        for ticket in [overwritten, reader, last] {
            assert!(db.is_acknowledged(&ticket), "{spec}");
        }
        db.close().unwrap();
    }
}

/// Under early release a reader may have seen a version that is not durable yet.
#[test]
fn a_reader_under_early_release_waits_for_what_it_read() {
    for spec in ["TT(ELR)+PWAL(100)", "TT(ELR)+SWAL(100)"] {
        let disk = SimDisk::new();
        let db = open_with(spec.parse().unwrap(), &disk, Duration::MAX);
        let table = db.table::<u64, i64>("numbers").unwrap();
        let mut writer = db.session_on(WorkerId(0)).unwrap();
        let ((), written) = writer.transact_async(|tx| tx.put(&table, &1, &1)).unwrap();
        let mut reader = db.session_on(WorkerId(1)).unwrap();
        let (value, read) = reader.transact_async(|tx| tx.get(&table, &1)).unwrap();
        assert_eq!(value, Some(1), "{spec}: it sees what is not durable");
        assert!(!db.is_acknowledged(&written) && !db.is_acknowledged(&read));
        // Waiting for the ticket makes it durable.
        let value = reader.transact(|tx| tx.get(&table, &1)).unwrap();
        assert_eq!(value, Some(1));
        assert!(db.is_acknowledged(&written) && db.is_acknowledged(&read));
    }
}

#[test]
fn many_tables_keep_their_rows_apart_and_come_back() {
    let disk = SimDisk::new();
    {
        let db = open(&disk);
        for number in 0..40_u64 {
            let table = db.table::<u64, u64>(&format!("table {number}")).unwrap();
            db.transact(|tx| (0..number).try_for_each(|key| tx.put(&table, &key, &number)))
                .unwrap();
        }
        let words = db.table::<str, str>("words / 単語").unwrap();
        db.transact(|tx| {
            tx.put(&words, "並木", "a row of trees")?;
            tx.put(&words, "", "the empty key")
        })
        .unwrap();
        db.close().unwrap();
    }
    let db = open(&disk);
    assert!(db.recovery().closed);
    assert_eq!(db.tables().len(), 41);
    for number in 0..40_u64 {
        let table = db.table::<u64, u64>(&format!("table {number}")).unwrap();
        let rows = db.transact(|tx| tx.scan(&table, ..)).unwrap();
        let expected: Vec<_> = (0..number).map(|key| (key, number)).collect();
        assert_eq!(rows, expected);
    }
    let words = db.table::<str, str>("words / 単語").unwrap();
    let all = db.transact(|tx| tx.scan::<str, str>(&words, ..)).unwrap();
    assert_eq!(all[0], (String::new(), "the empty key".to_owned()));
    assert_eq!(all[1].0, "並木");
}

#[test]
fn values_of_any_length_come_back() {
    let disk = SimDisk::new();
    let big_disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let open = || {
        Database::builder()
            .disk(Arc::clone(&big_disk))
            .buffer_bytes(2 << 20)
            .open("/db")
            .unwrap()
    };
    let value = |len: usize| -> Vec<u8> { (0..len).map(|at| (at * 7 % 251) as u8).collect() };
    let lengths = [0, 1, 7, 8, 9, 24, 25, 100, 511, 512, 4096, 100_000, 1 << 20];
    {
        let db = open();
        let table = db.table_with_room::<u64, [u8]>("blobs", 24).unwrap();
        for (key, len) in (0..).zip(lengths) {
            db.transact(|tx| tx.put(&table, &key, &value(len)[..]))
                .unwrap();
        }
        // Longer and shorter values in the same record.
        for len in [1 << 20, 0, 100, 24, 1 << 20, 3] {
            db.transact(|tx| tx.put(&table, &99, &value(len)[..]))
                .unwrap();
            let read = db.transact(|tx| tx.get(&table, &99)).unwrap();
            assert_eq!(read, Some(value(len)));
        }
    }
    let db = open();
    let table = db.table_with_room::<u64, [u8]>("blobs", 24).unwrap();
    for (key, len) in (0..).zip(lengths) {
        let read = db.transact(|tx| tx.get(&table, &key)).unwrap();
        assert_eq!(read, Some(value(len)), "{len} bytes");
    }
    let read = db.transact(|tx| tx.get(&table, &99)).unwrap();
    assert_eq!(read, Some(value(3)));
}

#[test]
fn keys_of_any_length_keep_their_order() {
    let disk = SimDisk::new();
    let mut keys: Vec<Vec<u8>> = vec![vec![], vec![0], vec![0, 0], vec![0, 255], vec![255; 9]];
    for len in [1, 2, 7, 8, 9, 100, 1000] {
        keys.push(vec![b'a'; len]);
        keys.push([&vec![b'a'; len][..], &[0]].concat());
    }
    {
        let db = open(&disk);
        let table = db.table::<[u8], u64>("keys").unwrap();
        for (value, key) in (0..).zip(&keys) {
            db.transact(|tx| tx.put(&table, &key[..], &value)).unwrap();
        }
    }
    let db = open(&disk);
    let table = db.table::<[u8], u64>("keys").unwrap();
    let mut expected: Vec<(Vec<u8>, u64)> = keys.into_iter().zip(0..).collect();
    expected.sort();
    let all = db.transact(|tx| tx.scan::<[u8], u64>(&table, ..)).unwrap();
    assert_eq!(all, expected);

    let pairs = db.table::<(u64, String), i64>("pairs").unwrap();
    db.transact(|tx| {
        for (number, name) in [(2, "a"), (1, "b"), (1, "a\0"), (1, "a")] {
            tx.put(&pairs, &(number, name.to_owned()), &1)?;
        }
        Ok(())
    })
    .unwrap();
    let ordered: Vec<_> = db.transact(|tx| tx.scan(&pairs, ..)).unwrap();
    let names: Vec<_> = ordered
        .iter()
        .map(|((n, name), _)| (*n, &name[..]))
        .collect();
    assert_eq!(names, [(1, "a"), (1, "a\0"), (1, "b"), (2, "a")]);
}

#[test]
fn deleted_keys_stay_deleted_after_recovery_and_can_come_again() {
    let disk = SimDisk::new();
    for round in 0..4_u64 {
        let db = open(&disk);
        let table = db.table::<u64, u64>("numbers").unwrap();
        let rows = db.transact(|tx| tx.scan(&table, ..)).unwrap();
        let expected: Vec<_> = match round {
            0 => Vec::new(),
            _ => (0..300)
                .filter(|key| key % 3 == round % 3)
                .map(|key| (key, round))
                .collect(),
        };
        assert_eq!(rows, expected, "round {round}");
        db.transact(|tx| {
            for key in 0..300 {
                tx.put(&table, &key, &(round + 1))?;
            }
            Ok(())
        })
        .unwrap();
        db.transact(|tx| {
            for key in (0..300).filter(|key| key % 3 != (round + 1) % 3) {
                assert!(tx.delete(&table, &key)?);
            }
            Ok(())
        })
        .unwrap();
    }
}

/// More keys than one transaction writes, recovered by two threads in both replay orders.
#[test]
fn many_keys_come_back() {
    let count = if cfg!(debug_assertions) {
        60_000
    } else {
        2_000_000
    };
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("data");
    {
        let db = Database::builder()
            .spec("TT(ELR)+PWAL(16)".parse().unwrap())
            .open(&dir)
            .unwrap();
        let table = db.table::<u64, u64>("numbers").unwrap();
        std::thread::scope(|scope| {
            for thread in 0..2_u64 {
                let (db, table) = (&db, &table);
                scope.spawn(move || {
                    let mut session = db.session().unwrap();
                    let keys: Vec<u64> = (0..count).filter(|key| key % 2 == thread).collect();
                    for batch in keys.chunks(1000) {
                        session
                            .transact_async(|tx| {
                                batch.iter().try_for_each(|key| {
                                    tx.put(table, &key.wrapping_mul(0x9e37_79b9), key)
                                })
                            })
                            .unwrap();
                    }
                });
            }
        });
    }
    for order in [
        namiki::ReplayOrder::HighestStamp,
        namiki::ReplayOrder::Merge,
    ] {
        let db = Database::builder().replay_order(order).open(&dir).unwrap();
        let table = db.table::<u64, u64>("numbers").unwrap();
        let rows = db.transact(|tx| tx.scan(&table, ..)).unwrap();
        assert_eq!(rows.len() as u64, count);
        assert!(
            rows.iter()
                .all(|(key, value)| *key == value.wrapping_mul(0x9e37_79b9))
        );
    }
}

#[test]
fn epochs_pass_with_every_kind_of_commit() {
    let open = |length| {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let builder = Database::builder().disk(disk).epoch_length(length);
        let db = builder.open("/db").unwrap();
        let table = db.table::<u64, u64>("numbers").unwrap();
        (db, table)
    };
    let one_by_one = |db: &Database, table: &namiki::Table<u64, u64>| {
        for key in 0..200 {
            let mut tx = db.begin().unwrap();
            tx.put(table, &key, &0).unwrap();
            tx.commit_async().unwrap();
        }
    };
    let in_a_session = |db: &Database, table: &namiki::Table<u64, u64>| {
        let mut session = db.session().unwrap();
        for key in 0..200 {
            session
                .transact_async(|tx| tx.put(table, &key, &0))
                .unwrap();
        }
    };
    for commit in [&one_by_one as &dyn Fn(&Database, &_), &in_a_session] {
        for (length, closes) in [
            (Duration::ZERO, true),
            (Duration::from_nanos(1), true),
            (Duration::MAX, false),
        ] {
            let (db, table) = open(length);
            let epoch = db.counters().epoch;
            commit(&db, &table);
            assert_eq!(db.counters().epoch > epoch, closes, "{length:?}");
        }
    }
}
