//! Errors in a transaction's body: its own error is returned only if its reads are valid, and a
//! conflict ends the attempt whatever the body returns.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use namiki::{Database, Error, ProtocolSpec, Transaction, WorkerId};
use namiki_platform::disk::SimDisk;
use namiki_platform::disk::sim::Loss;
use namiki_tests::on_another_thread::on_another_thread;
use namiki_tests::small_database::{Numbers, builder, in_memory, keys, numbers};
use namiki_tests::tested_specs::optimistic;

const X: u64 = 1;
const Y: u64 = 2;

/// A balance of 100 on X, and 0 on Y.
fn two_accounts(db: &Database) -> Numbers {
    let table = numbers(db);
    db.transact(|tx| {
        tx.put(&table, &X, &100)?;
        tx.put(&table, &Y, &0)
    })
    .unwrap();
    table
}

#[test]
fn a_body_failing_on_inconsistent_reads_is_run_again() {
    for spec in optimistic() {
        let db = in_memory(&spec.to_string());
        let table = two_accounts(&db);
        let mut runs = 0;
        let audited = db.transact(|tx| {
            runs += 1;
            let x = tx.get(&table, &X)?.unwrap();
            if runs == 1 {
                // Another transaction transfers in between.
                on_another_thread(|| {
                    db.transact(|tx| {
                        tx.put(&table, &X, &0)?;
                        tx.put(&table, &Y, &100)
                    })
                })?;
            }
            let y = tx.get(&table, &Y)?.unwrap();
            match x + y {
                100 => tx.abort::<()>("sum is 100"),
                sum => tx.abort(format!("sum is {sum}")),
            }
        });
        assert!(
            matches!(&audited, Err(Error::Aborted(why)) if why == "sum is 100"),
            "{spec}: {audited:?}"
        );
        assert_eq!(runs, 2, "{spec}");
    }
}

/// The same for an absent row: its gap must be unchanged, too.
#[test]
fn a_body_failing_on_a_new_row_is_run_again() {
    for spec in optimistic() {
        let db = in_memory(&spec.to_string());
        let table = numbers(&db);
        let mut session = db.session().unwrap();
        let missed = session.try_transact_async(|tx| {
            assert_eq!(tx.get(&table, &X)?, None);
            on_another_thread(|| db.transact(|tx| tx.put(&table, &X, &1)))?;
            tx.abort::<()>("no such account")
        });
        assert!(
            matches!(missed, Err(Error::Conflict(_))),
            "{spec}: {missed:?}"
        );
    }
}

/// Pending writes of the failed transaction make no difference.
#[test]
fn a_failure_after_inconsistent_reads_is_not_reported() {
    for updates in [false, true] {
        let db = in_memory("TT(NLR)+PWAL(1)");
        let table = two_accounts(&db);
        let mut session = db.session().unwrap();
        let ended = session.try_transact_async(|tx| {
            if updates {
                tx.update(&table, &X, |old| old + 1)?;
            } else {
                tx.get(&table, &X)?;
                tx.put(&table, &X, &1)?;
            }
            on_another_thread(|| {
                db.transact(|tx| {
                    tx.put(&table, &X, &50)?;
                    tx.put(&table, &Y, &50)
                })
            })?;
            let y = tx.get(&table, &Y)?;
            tx.abort::<()>(format!("{y:?}"))
        });
        assert!(
            matches!(ended, Err(Error::Conflict(_))),
            "{updates}: {ended:?}"
        );
    }
}

#[test]
fn a_failure_is_reported_after_its_reads_are_durable() {
    for spec in ["TT(ELR)+PWAL(16)", "TT(ELR)+SWAL(16)"] {
        let disk = SimDisk::new();
        let db = builder(spec, &disk).open("/db").unwrap();
        let table = numbers(&db);
        let survivors = || {
            let image = disk.crash_image(disk.events(), Loss::All);
            keys(&builder(spec, &image).open("/db").unwrap())
        };
        let mut writer = db.session_on(WorkerId(0)).unwrap();
        let mut reader = db.session_on(WorkerId(1)).unwrap();
        let ((), ticket) = writer.transact_async(|tx| tx.put(&table, &X, &7)).unwrap();
        assert!(!db.is_acknowledged(&ticket));
        assert!(survivors().is_empty());
        let told = reader.transact(|tx| {
            let seen = tx.get(&table, &X)?;
            tx.abort::<()>(format!("{seen:?}"))
        });
        assert!(
            matches!(&told, Err(Error::Aborted(why)) if why == "Some(7)"),
            "{told:?}"
        );
        assert_eq!(survivors(), [X], "{spec}");
    }
}

#[test]
fn a_body_that_swallows_a_conflict_does_not_commit() {
    for spec in ["TT(NLR)+PWAL(16)", "TT(NLR)+PWAL(auto)"] {
        let db = in_memory(spec);
        let table = two_accounts(&db);
        let mut holder = db.session_on(WorkerId(0)).unwrap();
        let mut other = db.session_on(WorkerId(1)).unwrap();
        // Its group keeps the lock.
        holder.transact_async(|tx| tx.put(&table, &X, &1)).unwrap();
        let mut met = false;
        let ended = other.try_transact_async(|tx| {
            met = matches!(tx.get(&table, &X), Err(Error::Conflict(_)));
            tx.put(&table, &Y, &9)
        });
        assert!(met, "{spec}: the lock was free");
        assert!(
            matches!(ended, Err(Error::Conflict(_))),
            "{spec}: {ended:?}"
        );
        // No other error replaces it, either.
        let ended = other.try_transact_async(|tx| match tx.get(&table, &X) {
            Err(_) => tx.abort::<()>("cannot read"),
            Ok(_) => panic!("the lock was free"),
        });
        assert!(
            matches!(ended, Err(Error::Conflict(_))),
            "{spec}: {ended:?}"
        );
        holder.flush().unwrap();
        let rows = db.transact(|tx| tx.scan(&table, ..)).unwrap();
        assert_eq!(rows, [(X, 1), (Y, 0)], "{spec}");
        // The next transaction of the session is not affected.
        other.transact(|tx| tx.put(&table, &Y, &3)).unwrap();
    }
}

/// An error that does not come from the engine.
#[derive(Debug)]
enum Refusal {
    Refused(Option<u64>),
    Engine(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

#[test]
fn an_own_error_rolls_back_what_was_written_before_it() {
    for spec in ProtocolSpec::tested() {
        let db = in_memory(&spec.to_string());
        let table = two_accounts(&db);
        let refuse = |tx: &mut Transaction| {
            tx.put(&table, &X, &1)?;
            tx.insert(&table, &7, &1)?;
            Err::<(), _>(Refusal::Refused(tx.get(&table, &X)?))
        };
        let mut session = db.session().unwrap();
        let refused = [
            db.transact_with(refuse),
            session.transact_with(refuse),
            session.transact_async_with(refuse).map(|_| ()),
            session.try_transact_async_with(refuse).map(|_| ()),
        ];
        for refused in refused {
            assert!(
                matches!(refused, Err(Refusal::Refused(Some(1)))),
                "{spec}: {refused:?}"
            );
            let rows = session.transact(|tx| tx.scan(&table, ..)).unwrap();
            assert_eq!(rows, [(X, 100), (Y, 0)], "{spec}");
        }
        // A body without a refusal commits, and its ticket is valid.
        let pay = |tx: &mut Transaction| {
            tx.update(&table, &X, |old| old - 10)?;
            Ok::<_, Refusal>(tx.update(&table, &Y, |old| old + 10)?)
        };
        assert!(db.transact_with(pay).unwrap());
        let (paid, ticket) = session.transact_async_with(pay).unwrap();
        session.wait(&ticket).unwrap();
        assert!(paid && db.is_acknowledged(&ticket), "{spec}");
        let rows = db.transact(|tx| tx.scan(&table, ..)).unwrap();
        assert_eq!(rows, [(X, 80), (Y, 20)], "{spec}");
    }
}

/// The engine's errors are converted to the caller's type; the body may return a duplicate.
#[test]
fn errors_of_the_engine_arrive_as_the_callers_type() {
    let db = in_memory("TT(EPOCH)+PWAL(16)");
    let table = two_accounts(&db);
    let doubled = db.transact_with(|tx| Ok::<_, Refusal>(tx.insert(&table, &X, &1)?));
    assert!(
        matches!(doubled, Err(Refusal::Engine(Error::Duplicate { .. }))),
        "{doubled:?}"
    );
    db.close().unwrap();
    let closed = db.transact_with(|tx| Ok::<_, Refusal>(tx.get(&table, &X)?));
    assert!(
        matches!(closed, Err(Refusal::Engine(Error::Closed))),
        "{closed:?}"
    );
}

/// The reaction of a body to the conflict of its read.
#[derive(Clone, Copy, Debug)]
enum Makes {
    /// Continues as if nothing had happened.
    Nothing,
    /// Returns an error of its own.
    AnOwnError,
}

/// A conflict is retried whatever the body returns: the lock is free at the second attempt.
#[test]
fn a_conflict_is_retried_whatever_the_body_returns() {
    for spec in ["TT(NLR)+PWAL(16)", "TT(NLR)+PWAL(auto)"] {
        for makes in [Makes::Nothing, Makes::AnOwnError] {
            let db = in_memory(spec);
            let table = two_accounts(&db);
            let mut holder = db.session_on(WorkerId(0)).unwrap();
            let mut other = db.session_on(WorkerId(1)).unwrap();
            // The holder's group keeps the lock.
            holder.transact_async(|tx| tx.put(&table, &X, &1)).unwrap();
            let mut runs = 0;
            let mut body = |tx: &mut Transaction, lets_go: bool| {
                runs += 1;
                if lets_go {
                    holder.flush()?;
                }
                match (tx.get(&table, &X), makes) {
                    (Err(Error::Conflict(_)), Makes::AnOwnError) => Err(Refusal::Refused(None)),
                    (Err(Error::Conflict(_)), Makes::Nothing) => Ok(None),
                    (read, _) => Ok(read?),
                }
            };
            // A session that runs the body once returns the conflict, not the body's result.
            let once = other.try_transact_async_with(|tx| body(tx, false));
            assert!(
                matches!(once, Err(Refusal::Engine(Error::Conflict(_)))),
                "{spec}, {makes:?}: {once:?}"
            );
            let mut is_second = false;
            let read = other.transact_with(|tx| body(tx, std::mem::replace(&mut is_second, true)));
            assert!(matches!(read, Ok(Some(1))), "{spec}, {makes:?}: {read:?}");
            assert_eq!(runs, 3, "{spec}, {makes:?}");
        }
    }
}

/// A refusal based on inconsistent reads is not returned.
#[test]
fn an_own_error_over_stale_reads_is_retried() {
    for spec in optimistic() {
        let db = in_memory(&spec.to_string());
        let table = two_accounts(&db);
        let mut runs = 0;
        let refused = db.transact_with(|tx| {
            runs += 1;
            let x = tx.get(&table, &X)?.unwrap();
            if runs == 1 {
                on_another_thread(|| {
                    db.transact(|tx| {
                        tx.put(&table, &X, &0)?;
                        tx.put(&table, &Y, &100)
                    })
                })?;
            }
            let y = tx.get(&table, &Y)?.unwrap();
            Err::<(), _>(Refusal::Refused(Some(x + y)))
        });
        assert!(
            matches!(refused, Err(Refusal::Refused(Some(100)))),
            "{spec}: {refused:?}"
        );
        assert_eq!(runs, 2, "{spec}");
    }
}

/// Starvation avoidance: one transaction reads all rows, while others continuously change them one
/// by one. Without commit priority, each of its attempts would be too late.
#[test]
fn a_long_transaction_gets_through_many_short_ones() {
    for spec in [
        "TT(NLR)+NOLOG",
        "SILO(NLR)+NOLOG",
        "TT(ELR)+PWAL(16)",
        "SILO(NLR)+PWAL(1)",
    ] {
        const ROWS: u64 = 300;
        let db = builder(spec, &SimDisk::new())
            .attempts_max(NonZeroU32::new(2000).unwrap())
            .open("/db")
            .unwrap();
        let table = numbers(&db);
        db.transact(|tx| (0..ROWS).try_for_each(|row| tx.put(&table, &row, &0)))
            .unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (db, table, over) = (&db, &table, &over);
                scope.spawn(move || {
                    let mut row = thread;
                    while !over.load(Ordering::Relaxed) {
                        row = (row + 1) % ROWS;
                        db.transact(|tx| tx.update(table, &row, |it| it + 1))
                            .unwrap();
                    }
                });
            }
            for _ in 0..3 {
                let summed = db.transact(|tx| {
                    let mut sum = 0;
                    for row in 0..ROWS {
                        sum += tx.get(&table, &row)?.unwrap();
                        if row % 50 == 0 {
                            // Lets the other threads run in between, even on few processors.
                            std::thread::yield_now();
                        }
                    }
                    tx.put(&table, &u64::MAX, &sum)
                });
                let ended = summed.map_err(|error| format!("{spec}: {error}"));
                over.store(ended.is_err(), Ordering::Relaxed);
                ended.unwrap();
            }
            over.store(true, Ordering::Relaxed);
        });
    }
}

/// Two transactions take longer than others wait for them at first, and another one changes their
/// reads at each attempt. They get commit priority one after the other, and the others wait longer
/// for them.
#[test]
fn transactions_longer_than_others_wait_for_them_get_through() {
    const QUICK: u32 = 64;
    const LONG: Duration = Duration::from_millis(80);
    for spec in ["TT(EPOCH)+PWAL(auto)", "SILO(ELR)+PWAL(1)"] {
        let db = builder(spec, &SimDisk::new())
            .attempts_max(NonZeroU32::new(2 * QUICK).unwrap())
            .open("/db")
            .unwrap();
        let table = two_accounts(&db);
        let (over, changed) = (AtomicBool::new(false), AtomicU64::new(0));
        let long = || {
            let mut attempts = 0;
            db.transact(|tx| {
                attempts += 1;
                let before = changed.load(Ordering::Relaxed);
                tx.update(&table, &X, |it| it + 1)?;
                match attempts {
                    ..=QUICK => {
                        // The first change may have been before the read.
                        while changed.load(Ordering::Relaxed) < before + 2 {
                            std::thread::yield_now();
                        }
                    }
                    _ => std::thread::sleep(LONG),
                }
                Ok(())
            })
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    db.transact(|tx| tx.update(&table, &X, |it| it + 1))
                        .unwrap();
                    changed.fetch_add(1, Ordering::Relaxed);
                }
            });
            let ended = [(); 2]
                .map(|()| scope.spawn(long))
                .map(|thread| thread.join().unwrap());
            over.store(true, Ordering::Relaxed);
            for ended in ended {
                ended.map_err(|error| format!("{spec}: {error}")).unwrap();
            }
        });
    }
}
