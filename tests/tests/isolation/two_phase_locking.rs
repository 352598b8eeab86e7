//! Strict two-phase locking: waits, wounds, and progress of all transactions. (Under every
//! concurrency control: `opposite_key_orders.rs`.)
//!
//! Paper: pwal §5.4, raft-pwal §2.1
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints what it met"
)]

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use namiki::{Conflict, Database, Direction, Error, LockSet, Transaction, WaitPolicy, WorkerId};
use namiki_platform::seeded_random::Random;
use namiki_tests::watchdog::on_threads;

use crate::ten_keys::{Numbers, builder, filled};

pub(crate) const SPECS: [&str; 8] = [
    "S2PL(NLR)+NOLOG",
    "S2PL(NLR)+PWAL(1)",
    "S2PL(NLR)+PWAL(16)",
    "S2PL(ELR)+PWAL(16)",
    "S2PL(ELR)+SWAL(16)",
    "S2PL(EPOCH)+PWAL(16)",
    "S2PL(NLR)+PWAL(16)+ARIES",
    "S2PL(ELR)+PWAL(auto)+ARIES",
];

fn unwaiting(spec: &str) -> (Database, Numbers) {
    filled(builder(spec).wait_policy(WaitPolicy::NoWait))
}

/// One attempt of a transaction in another session.
fn attempt<T>(
    db: &Database,
    body: impl FnOnce(&mut namiki::Transaction) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut session = db.session_on(WorkerId(1)).unwrap();
    let (value, ticket) = session.try_transact_async(body)?;
    session.wait(&ticket)?;
    Ok(value)
}

#[track_caller]
fn assert_locked<T: std::fmt::Debug>(ended: Result<T, Error>) {
    let locked =
        |conflict: &Conflict| matches!(conflict, Conflict::ReadLocked | Conflict::WriteLocked);
    assert!(
        matches!(&ended, Err(Error::Conflict(conflict)) if locked(conflict)),
        "{ended:?}"
    );
}

#[test]
fn a_gap_that_was_read_gets_no_key() {
    let gaps: [(&str, fn(&mut namiki::Transaction, &Numbers)); 5] = [
        ("a key that is not there", |tx, table| {
            assert_eq!(tx.get(table, &15).unwrap(), None);
        }),
        ("keys of which some are not there", |tx, table| {
            let mut found = Vec::new();
            tx.get_many(table, [10, 15, 20_u64], &mut found).unwrap();
        }),
        ("a range", |tx, table| {
            assert_eq!(tx.scan(table, 11..=19).unwrap(), []);
        }),
        ("a range backward", |tx, table| {
            let all = |_, _| std::ops::ControlFlow::Continue(());
            tx.scan_with(table, 11..=19, Direction::Backward, all)
                .unwrap();
        }),
        ("a range with keys", |tx, table| {
            assert_eq!(tx.scan(table, 10..18).unwrap(), [(10, 0)]);
        }),
    ];
    for spec in SPECS {
        for (what, read) in gaps {
            let (db, table) = unwaiting(spec);
            let mut reader = db.begin().unwrap();
            read(&mut reader, &table);
            assert_locked(attempt(&db, |tx| tx.insert(&table, &15, &1)));
            assert_locked(attempt(&db, |tx| tx.put(&table, &16, &1)));
            // Insertions into other gaps succeed.
            attempt(&db, |tx| tx.insert(&table, &25, &1)).unwrap();
            attempt(&db, |tx| tx.put(&table, &5, &1)).unwrap();
            // The reader's lock conflicts only with locks of others, and a key of its own divides
            // the gap, not the lock.
            reader.insert(&table, &15, &2).unwrap();
            assert_locked(attempt(&db, |tx| tx.put(&table, &14, &1)));
            assert_locked(attempt(&db, |tx| tx.put(&table, &16, &1)));
            reader
                .commit()
                .unwrap_or_else(|error| panic!("{spec}, {what}: {error}"));
            attempt(&db, |tx| tx.put(&table, &14, &1)).unwrap();
            attempt(&db, |tx| tx.put(&table, &16, &1)).unwrap();
        }
    }
}

/// A hash index has no next key.
#[test]
fn an_absent_hash_key_is_locked_by_itself() {
    for spec in SPECS {
        let kind: namiki::IndexKind = "hash".parse().unwrap();
        let (db, table) = filled(builder(spec).wait_policy(WaitPolicy::NoWait).index(kind));
        let mut reader = db.begin().unwrap();
        assert_eq!(reader.get(&table, &15).unwrap(), None);
        assert_locked(attempt(&db, |tx| tx.insert(&table, &15, &1)));
        attempt(&db, |tx| tx.insert(&table, &16, &1)).unwrap();
        reader.commit().unwrap();
        attempt(&db, |tx| tx.insert(&table, &15, &1)).unwrap();
    }
}

/// Readers of an absent key in a hash index do not wait for one another, in any order; a
/// transaction that may write the key waits.
#[test]
fn an_absent_hash_key_has_several_readers() {
    for spec in SPECS {
        let kind: namiki::IndexKind = "hash".parse().unwrap();
        let (db, table) = filled(builder(spec).wait_policy(WaitPolicy::NoWait).index(kind));
        let mut reader = db.begin().unwrap();
        assert_eq!(reader.get(&table, &15).unwrap(), None);
        let mut found = Vec::new();
        reader.get_many(&table, [25], &mut found).unwrap();
        assert_eq!(found, [None]);
        for key in [15, 25] {
            assert_eq!(attempt(&db, |tx| tx.get(&table, &key)).unwrap(), None);
            assert_locked(attempt(&db, |tx| tx.get_for_update(&table, &key)));
            assert_locked(attempt(&db, |tx| tx.put(&table, &key, &1)));
        }
        reader.commit().unwrap();
        // A transaction that wants to write the key does not begin as a reader either.
        let mut writer = db.begin().unwrap();
        assert_eq!(writer.get_for_update(&table, &35).unwrap(), None);
        assert!(!writer.update(&table, &45, |it| it).unwrap());
        assert!(!writer.delete(&table, &55).unwrap());
        for key in [35, 45, 55] {
            assert_locked(attempt(&db, |tx| tx.get(&table, &key)));
        }
        writer.commit().unwrap();
    }
}

#[test]
fn a_lock_wait_times_out() {
    for spec in SPECS {
        let (db, table) = filled(builder(spec).lock_wait_max(Duration::from_millis(20)));
        let mut idle = db.begin().unwrap();
        idle.get(&table, &10).unwrap();
        let waited = db.transact(|tx| tx.put(&table, &10, &1));
        assert!(
            matches!(waited, Err(Error::LockTimeout { .. })),
            "{waited:?}"
        );
        // A body that ignores the error cannot commit.
        let waited = db.transact(|tx| {
            drop(tx.get_for_update(&table, &10));
            tx.put(&table, &20, &1)
        });
        assert!(
            matches!(waited, Err(Error::LockTimeout { .. })),
            "{waited:?}"
        );
        drop(idle);
        db.transact(|tx| tx.put(&table, &10, &1)).unwrap();
        assert_eq!(db.transact(|tx| tx.get(&table, &20)).unwrap(), Some(0));
    }
}

#[test]
fn locks_end_with_the_transaction_however_it_ends() {
    for spec in SPECS {
        let (db, table) = unwaiting(spec);
        let is_free = || attempt(&db, |tx| tx.put(&table, &10, &1)).unwrap();
        let mut session = db.session_on(WorkerId(0)).unwrap();
        let lock = |tx: &mut namiki::Transaction| tx.get_for_update(&table, &10).map(drop);
        session.transact(lock).unwrap();
        is_free();
        let aborted = session.transact(|tx| lock(tx).and_then(|()| tx.abort::<()>("no")));
        assert!(matches!(aborted, Err(Error::Aborted(_))));
        is_free();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            drop(session.transact(|tx| {
                lock(tx)?;
                std::panic::resume_unwind(Box::new("on purpose")) as Result<(), Error>
            }));
        }));
        assert!(panicked.is_err());
        is_free();
        let mut rolled_back = db.begin().unwrap();
        lock(&mut rolled_back).unwrap();
        rolled_back.rollback();
        is_free();
        session.transact(lock).unwrap();
    }
}

/// Asserts that no transaction was wounded. One exception: the scheduler delayed a transaction
/// until it was boosted above all others; then one wound for each of the keys that it locks.
fn check_no_wounds(db: &Database, keys: u64) {
    let counters = db.counters();
    assert!(
        counters.conflicts <= counters.locks.promotions * keys,
        "{}: {counters:?}",
        db.spec()
    );
}

/// Paper: raft-pwal §2.1: all keys first, in one order.
#[test]
fn transactions_that_lock_all_keys_first_never_give_way() {
    for (seed, spec) in (1..).zip(SPECS) {
        let (db, table) = filled(builder(spec));
        on_threads(8, |thread| {
            let mut random = Random::stream(seed, thread);
            let mut session = db.session().unwrap();
            for _ in 0..50 {
                let mut keys = [0, 10, 20, 30, 40, 50_u64];
                random.shuffle(&mut keys);
                session
                    .transact_async(|tx| {
                        tx.lock_many(&table, &keys[..4])?;
                        std::thread::yield_now();
                        for key in &keys[..4] {
                            let value = tx.get(&table, key)?.unwrap();
                            tx.put(&table, key, &(value + 1))?;
                        }
                        Ok(())
                    })
                    .unwrap();
            }
            session.flush().unwrap();
        });
        let all = db.transact(|tx| tx.scan(&table, ..)).unwrap();
        assert_eq!(all.iter().map(|(_, value)| value).sum::<u64>(), 8 * 50 * 4);
        check_no_wounds(&db, 4);
    }
}

/// This also holds where the records must be created first: each round's keys are new to the first
/// transaction.
#[test]
fn locking_all_keys_first_never_wounds() {
    for spec in SPECS {
        let (db, table) = filled(builder(spec));
        on_threads(4, |thread| {
            let mut random = Random::seeded(thread);
            let mut session = db.session().unwrap();
            for round in 0..100 {
                let mut keys: Vec<u64> = (0..6).map(|n| 1000 + 10 * round + n).collect();
                random.shuffle(&mut keys);
                session
                    .transact_async(|tx| {
                        tx.lock_many(&table, &keys)?;
                        std::thread::yield_now();
                        for key in &keys {
                            let value = tx.get(&table, key)?.unwrap_or(0);
                            tx.put(&table, key, &(value + 1))?;
                        }
                        Ok(())
                    })
                    .unwrap();
            }
            session.flush().unwrap();
        });
        let all = db.transact(|tx| tx.scan(&table, 1000..)).unwrap();
        assert_eq!(all.len(), 600);
        assert!(all.iter().all(|(_, value)| *value == 4), "{spec}");
        check_no_wounds(&db, 6);
    }
}

/// Keys of two tables, locked in opposite orders.
#[test]
fn keys_of_several_tables_are_locked_in_one_order_too() {
    for spec in SPECS {
        let (db, table) = filled(builder(spec));
        let names = db.table::<str, u64>("names").unwrap();
        let stranger = filled(builder(spec)).1;
        let foreign = db.transact(|tx| tx.lock_all(&LockSet::new().with(&stranger, [1])));
        assert!(
            matches!(foreign, Err(Error::ForeignTable { .. })),
            "{foreign:?}"
        );
        on_threads(4, |thread| {
            let mut session = db.session().unwrap();
            for round in 0..100 {
                let (number, name) = (10 * (round % 3), ["one", "two"][round as usize % 2]);
                let keys = match thread % 2 {
                    0 => LockSet::new().with(&table, [number]).with(&names, [name]),
                    _ => LockSet::new().with(&names, [name]).with(&table, [number]),
                };
                session
                    .transact_async(|tx| {
                        tx.lock_all(&keys)?;
                        std::thread::yield_now();
                        tx.update(&table, &number, |it| it + 1)?;
                        let value = tx.get(&names, name)?.unwrap_or(0);
                        tx.put(&names, name, &(value + 1))
                    })
                    .unwrap();
            }
            session.flush().unwrap();
        });
        let all = db.transact(|tx| tx.scan(&names, ..)).unwrap();
        assert_eq!(
            all.iter().map(|(_, value)| value).sum::<u64>(),
            400,
            "{spec}"
        );
        check_no_wounds(&db, 2);
    }
}

/// The only transaction out of order: it has locked another record first, and comes to a hot one
/// last.
#[test]
fn a_transaction_out_of_order_gets_a_hot_key() {
    for spec in ["S2PL(NLR)+NOLOG", "S2PL(ELR)+PWAL(16)"] {
        // The order of the records of consecutive keys is unknown, so both orders are tried.
        for [cold, hot] in [[0, 90], [90, 0]] {
            let (db, table) = filled(builder(spec));
            let over = AtomicBool::new(false);
            on_threads(4, |thread| {
                let mut session = db.session().unwrap();
                if thread > 0 {
                    while !over.load(Ordering::Relaxed) {
                        let update = session.transact_async(|tx| {
                            tx.update(&table, &hot, |it| it + 1)?;
                            std::thread::yield_now();
                            Ok(())
                        });
                        update.unwrap();
                    }
                } else {
                    for _ in 0..5 {
                        let update = session.transact_async(|tx| {
                            tx.update(&table, &cold, |it| it + 1)?;
                            tx.update(&table, &hot, |it| it + 1)
                        });
                        update.unwrap();
                    }
                    over.store(true, Ordering::Relaxed);
                }
                session.flush().unwrap();
            });
            assert_eq!(db.transact(|tx| tx.get(&table, &cold)).unwrap(), Some(5));
        }
    }
}

/// A group of commits without a flush holds a lock: a transaction that wants it flushes the group.
#[test]
fn a_groups_lock_is_waited_for_at_the_disk() {
    let (db, table) = filled(builder("S2PL(NLR)+PWAL(1000)"));
    let mut holder = db.session_on(WorkerId(0)).unwrap();
    let ((), held) = holder.transact_async(|tx| tx.put(&table, &10, &1)).unwrap();
    assert!(!db.is_acknowledged(&held), "its group is not full");
    // On the same stream and on another, for reading and for writing.
    for worker in [0, 1] {
        let mut other = db.session_on(WorkerId(worker)).unwrap();
        let (found, _) = other.transact_async(|tx| tx.get(&table, &10)).unwrap();
        assert_eq!(found, Some(1));
        assert!(db.is_acknowledged(&held));
        let (_, held) = holder
            .transact_async(|tx| tx.update(&table, &10, |_| 1))
            .unwrap();
        let (_, ticket) = other.transact_async(|tx| tx.put(&table, &10, &1)).unwrap();
        assert!(db.is_acknowledged(&held));
        other.flush().unwrap();
        assert!(db.is_acknowledged(&ticket));
    }
}

/// Two transactions each want the other's lock: one of them is wounded.
fn wound(db: &Database, table: &Numbers) {
    let wounded = AtomicU64::new(0);
    let both_have_one = Barrier::new(2);
    on_threads(2, |thread| {
        let (own, others) = (80 + 10 * thread, 90 - 10 * thread);
        let mut tx = db.begin().unwrap();
        tx.get_for_update(table, &own).unwrap();
        both_have_one.wait();
        match tx.get_for_update(table, &others) {
            Err(Error::Conflict(Conflict::Wounded)) => wounded.fetch_add(1, Ordering::Relaxed),
            other => other.unwrap().unwrap(),
        };
    });
    assert_eq!(wounded.into_inner(), 1, "{}", db.spec());
}

/// Here holders of locks wait for something other than a processor, such as user input: no
/// transaction waits for them twice.
#[test]
fn after_a_wound_processors_limit_lock_holders() {
    type Access = fn(&mut Transaction, &Numbers) -> Result<(), Error>;
    let accesses: [Access; 4] = [
        |tx, table| tx.get(table, &10).map(drop),
        |tx, table| tx.scan(table, 10..20).map(drop),
        |tx, table| tx.update(table, &20, |it| it + 1).map(drop),
        |tx, table| tx.lock_many(table, [25, 35]),
    ];
    let processors = std::thread::available_parallelism().unwrap().get();
    for spec in SPECS {
        for (number, access) in accesses.into_iter().enumerate() {
            let (db, table) = filled(builder(spec));
            let admission_waits = |access: Access| {
                let before = db.counters().locks.admission_waits;
                attempt(&db, |tx| access(tx, &table)).unwrap();
                db.counters().locks.admission_waits - before
            };
            let inside = |_| {
                let mut tx = db.begin().unwrap();
                tx.get(&table, &10).unwrap();
                tx
            };
            let before: Vec<_> = (0..processors + 1).map(inside).collect();
            assert_eq!(
                admission_waits(access),
                0,
                "{spec}: no holder was in the way"
            );
            wound(&db, &table);
            let after: Vec<_> = (0..processors).map(inside).collect();
            assert_eq!(admission_waits(access), 1, "{spec}, access {number}");
            for again in accesses {
                assert_eq!(admission_waits(again), 0, "{spec}, access {number}");
            }
            wound(&db, &table);
            assert_eq!(admission_waits(access), 0, "{spec}, access {number}");
            drop((before, after));
        }
    }
}

#[test]
fn a_waiter_learns_that_the_database_is_closed() {
    let (db, table) = filled(builder("S2PL(NLR)+PWAL(1)"));
    let mut idle = db.begin().unwrap();
    idle.get(&table, &10).unwrap();
    on_threads(2, |thread| match thread {
        0 => {
            let waited = db.transact(|tx| tx.put(&table, &10, &1));
            assert!(matches!(waited, Err(Error::Closed)), "{waited:?}");
        }
        _ => {
            // Whether it already waits or not.
            std::thread::yield_now();
            db.close().unwrap();
        }
    });
}
