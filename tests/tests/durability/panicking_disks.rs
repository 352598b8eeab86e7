//! A disk with a bug: a call panics instead of failing. The calling thread unwinds, all others get
//! an error, none waits for ever, and the next opening has every acknowledged commit.
//!
//! The disk panics at every such step from then on. A panic during another's unwinding aborts the
//! process, so clean-up must not touch the disk.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use namiki::{
    Database, Error, LogError, Prepare, ProtocolSpec, Session, Table, Transaction, WorkerId,
};
use namiki_platform::disk::SimDisk;
use namiki_platform::disk::sim::{Fault, Loss, Step};
use namiki_tests::small_database::{Numbers, builder, numbers};
use namiki_tests::watchdog::on_threads;

type Texts = Table<u64, str>;

fn plan_panics(disk: &SimDisk, step: Step, after: u64) {
    let fault = Fault::once(step, after, ErrorKind::Other);
    disk.inject(fault.and_ever_after().panicking());
}

/// Whether the error is that of a log that a panic has ended.
fn tells_of_a_panic(error: &Error) -> bool {
    matches!(
        error,
        Error::LogFailed(LogError::Panicked { .. })
            | Error::OutcomeUnknown(LogError::Panicked { .. })
    )
}

/// Closes and drops the database. Then shows its state on the disk, and the state after a power
/// cut.
fn shown_afterwards(db: Database, disk: &SimDisk, show: impl Fn(&Database, &str)) {
    let spec = db.spec().to_string();
    on_threads(1, |_| {
        let closed = db.close().unwrap_err();
        assert!(
            matches!(
                closed,
                Error::NotClosed {
                    is_durable: false,
                    ..
                }
            ),
            "{spec}: {closed:?}"
        );
        let again = db.close().unwrap_err();
        assert_eq!(format!("{again:?}"), format!("{closed:?}"));
    });
    drop(db);
    let crashed = [Loss::None, Loss::All].map(|loss| disk.crash_image(disk.events(), loss));
    disk.heal();
    for disk in crashed.iter().chain([disk]) {
        show(&builder(&spec, disk).open("/db").unwrap(), &spec);
    }
}

#[test]
fn a_panic_while_closing_is_reported_at_every_close() {
    let disk = SimDisk::new();
    let db = builder("TT(EPOCH)+PWAL(auto)", &disk).open("/db").unwrap();
    let table = numbers(&db);
    db.transact(|tx| tx.put(&table, &1, &1)).unwrap();
    plan_panics(&disk, Step::Rename, 0);
    on_threads(1, |_| {
        assert!(catch_unwind(AssertUnwindSafe(|| db.close())).is_err());
        for _ in 0..2 {
            let closed = db.close().unwrap_err();
            assert!(matches!(closed, Error::NotClosed { .. }), "{closed:?}");
        }
    });
    drop((table, db));
    disk.heal();
    let db = builder("TT(EPOCH)+PWAL(auto)", &disk).open("/db").unwrap();
    let table = numbers(&db);
    assert_eq!(db.transact(|tx| tx.get(&table, &1)).unwrap(), Some(1));
}

const THREADS: u64 = 3;
/// The key of a thread's number. Each transaction writes it in two places, so that a partial
/// transaction would show.
const OWN: u64 = 10;
const MIRROR: u64 = 20;
/// The key of the sum over all threads.
const SUM: u64 = 0;

fn count(tx: &mut Transaction, table: &Numbers, thread: u64) -> Result<u64, Error> {
    let number = 1 + tx.get(table, &(OWN + thread))?.unwrap_or(0);
    tx.put(table, &(OWN + thread), &number)?;
    let sum = 1 + tx.get_for_update(table, &SUM)?.unwrap_or(0);
    tx.put(table, &SUM, &sum)?;
    tx.put(table, &(MIRROR + thread), &number)?;
    Ok(number)
}

/// Threads that need the same record and each other's flushes, until the disk panics. If each
/// commit makes its own writes, the panic happens in one of these threads.
fn threads_meet_a_panic(spec: &str, prepare: Prepare, step: Step, after: u64) {
    let disk = SimDisk::new();
    let db = builder(spec, &disk).prepare(prepare).open("/db").unwrap();
    let table = numbers(&db);
    plan_panics(&disk, step, after);
    let acknowledged = [(); THREADS as usize].map(|()| AtomicU64::new(0));
    let panics = AtomicU64::new(0);
    on_threads(THREADS, |thread| {
        let until_the_end = || loop {
            match db.transact(|tx| count(tx, &table, thread)) {
                Ok(number) => acknowledged[thread as usize].store(number, Ordering::SeqCst),
                Err(error) => break error,
            }
        };
        match catch_unwind(AssertUnwindSafe(until_the_end)) {
            Ok(error) => assert!(tells_of_a_panic(&error), "{spec}: {error:?}"),
            Err(_) => drop(panics.fetch_add(1, Ordering::SeqCst)),
        }
        // A later caller gets the error immediately.
        let read = db.transact(|tx| tx.get(&table, &SUM)).unwrap_err();
        assert!(tells_of_a_panic(&read), "{spec}: {read:?}");
        let begun = db.begin().unwrap_err();
        assert!(tells_of_a_panic(&begun), "{spec}: {begun:?}");
    });
    if prepare == Prepare::Inline {
        assert!(panics.into_inner() > 0, "{spec}: no thread met the panic");
    }
    drop(table);
    let acknowledged = acknowledged.map(AtomicU64::into_inner);
    shown_afterwards(db, &disk, |db, spec| {
        let table = numbers(db);
        let rows = db.transact(|tx| tx.scan(&table, ..)).unwrap();
        let rows: BTreeMap<_, _> = rows.into_iter().collect();
        let at = |key: u64| rows.get(&key).copied().unwrap_or(0);
        for (thread, acknowledged) in (0..).zip(acknowledged) {
            let found = at(OWN + thread);
            assert_eq!(found, at(MIRROR + thread), "{spec}: half a transaction");
            // The outcome of the last commit is unknown.
            let may_be = acknowledged..=acknowledged + 1;
            assert!(may_be.contains(&found), "{spec}: {found} of {acknowledged}");
        }
        let sum: u64 = (0..THREADS).map(|thread| at(OWN + thread)).sum();
        assert_eq!(at(SUM), sum, "{spec}");
        db.transact(|tx| count(tx, &table, 0)).unwrap();
    });
}

/// The protocols in turn, so that each is combined with several of the steps that the number of the
/// run selects.
fn runs() -> impl Iterator<Item = (u64, ProtocolSpec)> {
    let specs = ProtocolSpec::tested();
    let count = specs.len().max(40);
    (0..).zip(specs.into_iter().cycle().take(count))
}

#[test]
fn a_panic_in_a_flush_reaches_every_caller() {
    for (run, spec) in runs() {
        // The first writes create the streams' files.
        threads_meet_a_panic(
            &spec.to_string(),
            Prepare::Inline,
            Step::Write,
            5 + run % 20,
        );
    }
}

#[test]
fn a_panic_making_a_log_file_reaches_every_caller() {
    for (run, spec) in runs() {
        let step = [Step::Create, Step::SyncDir][run as usize % 2];
        for prepare in [Prepare::Inline, Prepare::Background] {
            threads_meet_a_panic(&spec.to_string(), prepare, step, run / 2 % 3);
        }
    }
}

/// The flusher flushes groups without waiters, and a panic in it would go unnoticed.
#[test]
fn a_panic_in_an_unattended_flush_reaches_every_caller() {
    for spec in [
        "TT(NLR)+PWAL(16)",
        "TT(EPOCH)+PWAL(16)",
        "S2PL(ELR)+SWAL(16)",
    ] {
        let disk = SimDisk::new();
        let opening = builder(spec, &disk).group_wait_max(Duration::from_millis(1));
        let db = opening.open("/db").unwrap();
        let table = numbers(&db);
        on_threads(1, |_| {
            let mut session = db.session().unwrap();
            // Creates the stream's file.
            session.transact(|tx| tx.put(&table, &1, &1)).unwrap();
            plan_panics(&disk, Step::Write, 0);
            // Fails if the log already had a write pending.
            let put = session.transact_async(|tx| tx.put(&table, &1, &2));
            let told = loop {
                match session.transact_async(|_| Ok(())) {
                    Ok(_) => std::thread::yield_now(),
                    Err(error) => break error,
                }
            };
            assert!(tells_of_a_panic(&told), "{spec}: {told:?}");
            let unknown = match put {
                Ok((_, ticket)) => session.wait(&ticket).unwrap_err(),
                Err(error) => error,
            };
            assert!(tells_of_a_panic(&unknown), "{spec}: {unknown:?}");
        });
        drop(table);
        shown_afterwards(db, &disk, |db, spec| {
            let table = numbers(db);
            let found = db.transact(|tx| tx.get(&table, &1)).unwrap();
            assert!(matches!(found, Some(1 | 2)), "{spec}: {found:?}");
        });
    }
}

/// Strict two-phase locking: a group holds a lock, and the waiter for it flushes the group.
#[test]
fn a_panic_in_a_lock_waiters_flush_frees_its_locks() {
    for spec in ["S2PL(NLR)+PWAL(16)", "S2PL(NLR)+PWAL(16)+ARIES"] {
        let disk = SimDisk::new();
        let db = builder(spec, &disk).open("/db").unwrap();
        let table = numbers(&db);
        db.transact(|tx| (0..3).try_for_each(|key| tx.put(&table, &key, &0)))
            .unwrap();
        let mut first = db.session_on(WorkerId(0)).unwrap();
        let ended = first.transact_async(|tx| tx.put(&table, &2, &1));
        let ticket = ended.unwrap().1;
        plan_panics(&disk, Step::Write, 0);
        let locked = AtomicBool::new(false);
        // Not on the stream of the group, which a session would flush before it waits.
        let second = Mutex::new(db.session_on(WorkerId(1)).unwrap());
        on_threads(2, |thread| match thread {
            0 => {
                let mut session = db.session_on(WorkerId(1)).unwrap();
                let body = |tx: &mut Transaction| {
                    tx.get_for_update(&table, &1)?;
                    locked.store(true, Ordering::SeqCst);
                    let_others_wait();
                    tx.get(&table, &2)
                };
                let panicked = AssertUnwindSafe(|| session.transact(body).map(drop));
                catch_unwind(panicked).expect_err("it flushes the group");
                assert_can_be_used_again(&mut session);
            }
            _ => {
                wait_for(&locked);
                let mut session = second.lock().unwrap();
                match session.transact(|tx| tx.get(&table, &1)) {
                    // It waited long enough that the other transaction yielded to it and waited
                    // again.
                    Ok(read) => assert_eq!(read, Some(0), "{spec}"),
                    Err(error) => assert!(tells_of_a_panic(&error), "{spec}: {error:?}"),
                }
            }
        });
        let unknown = first.wait(&ticket).unwrap_err();
        assert!(
            matches!(unknown, Error::OutcomeUnknown(LogError::Panicked { .. })),
            "{spec}: {unknown:?}"
        );
        assert!(!first.is_acknowledged(&ticket));
        drop((first, second, table));
        shown_afterwards(db, &disk, |db, spec| {
            let table = numbers(db);
            let found = db.transact(|tx| tx.scan(&table, ..)).unwrap();
            let may_be = [0, 1].map(|last| vec![(0, 0), (1, 0), (2, last)]);
            assert!(may_be.contains(&found), "{spec}: {found:?}");
        });
    }
}

fn wait_for(flag: &AtomicBool) {
    while !flag.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
}

/// Long enough for another thread to park; the assertions hold even if it does not.
fn let_others_wait() {
    std::thread::sleep(Duration::from_millis(5));
}

/// The panic released everything that the session's transaction held.
fn assert_can_be_used_again(session: &mut Session) {
    let again = session.transact(|_| Ok(())).unwrap_err();
    assert!(tells_of_a_panic(&again), "{again:?}");
}

/// A transaction longer than the log buffer, during which the disk begins to panic. It has changed
/// key 0.
type Long = fn(&mut Session, &Database, &Texts, &dyn Fn());

/// Writes more than a buffer holds.
fn write_much(tx: &mut Transaction, table: &Texts) -> Result<(), Error> {
    (0..20).try_for_each(|n| tx.put(table, &(n % 10), &format!("{n:01000}")))
}

const LONG: [(&str, Long); 6] = [
    ("a change", |session, _, table, begin| {
        let ended = session.transact(|tx| {
            tx.put(table, &0, "new")?;
            begin();
            write_much(tx, table)
        });
        drop(ended);
    }),
    ("an abort", |session, _, table, begin| {
        let ended = session.transact(|tx| {
            write_much(tx, table)?;
            begin();
            tx.abort::<()>("enough")
        });
        drop(ended);
    }),
    ("a savepoint", |session, _, table, begin| {
        let ended = session.transact(|tx| {
            tx.put(table, &0, "new")?;
            let savepoint = tx.savepoint();
            write_much(tx, table)?;
            begin();
            tx.rollback_to(&savepoint)
        });
        drop(ended);
    }),
    ("a rollback", |_, db, table, begin| {
        let mut tx = db.begin().unwrap();
        write_much(&mut tx, table).unwrap();
        begin();
        tx.rollback();
    }),
    ("a change that fails", |session, _, table, begin| {
        let ended = session.transact(|tx| {
            write_much(tx, table)?;
            // The value is too long, so the transaction is undone.
            begin();
            tx.put(table, &1, &"x".repeat(10_000))
        });
        drop(ended);
    }),
    ("a panic of its own, caught", |_, db, table, begin| {
        let mut tx = db.begin().unwrap();
        write_much(&mut tx, table).unwrap();
        begin();
        // The transaction survives the panic, and ends after it.
        let undone = catch_unwind(AssertUnwindSafe(|| write_much(&mut tx, table)));
        let committed = tx.commit().unwrap_err();
        assert!(tells_of_a_panic(&committed), "{committed:?}");
        drop(undone.map_err(|panic| std::panic::resume_unwind(panic)));
    }),
];

/// Paper: pwal §5.5: a rollback logs what it undoes, and needs the disk for that.
#[test]
fn a_panic_in_a_transaction_leaves_nothing_of_it() {
    let logs_operations = |spec: &ProtocolSpec| spec.logs_operations();
    for spec in ProtocolSpec::all_durable()
        .into_iter()
        .filter(logs_operations)
    {
        for (what, run) in LONG {
            let spec = spec.to_string();
            let context = format!("{spec}, {what}");
            let disk = SimDisk::new();
            let db = builder(&spec, &disk).open("/db").unwrap();
            let table: Texts = db.table("texts").unwrap();
            let old = || (0..10).map(|key| (key, format!("{key:01000}")));
            for (key, value) in old() {
                db.transact(|tx| tx.put(&table, &key, &value)).unwrap();
            }
            let locked = AtomicBool::new(false);
            on_threads(2, |thread| match thread {
                0 => {
                    let mut session = db.session_on(WorkerId(0)).unwrap();
                    let begin = || {
                        locked.store(true, Ordering::SeqCst);
                        let_others_wait();
                        plan_panics(&disk, Step::Write, 0);
                    };
                    let panicked = AssertUnwindSafe(|| run(&mut session, &db, &table, &begin));
                    assert!(catch_unwind(panicked).is_err(), "{context}: no panic");
                    assert_can_be_used_again(&mut session);
                }
                _ => {
                    wait_for(&locked);
                    let read = db.transact(|tx| tx.get(&table, &0)).unwrap_err();
                    assert!(tells_of_a_panic(&read), "{context}: {read:?}");
                }
            });
            drop(table);
            shown_afterwards(db, &disk, |db, _| {
                let table: Texts = db.table("texts").unwrap();
                let found = db.transact(|tx| tx.scan(&table, ..)).unwrap();
                assert!(found.into_iter().eq(old()), "{context}");
                db.transact(|tx| tx.put(&table, &0, "again")).unwrap();
            });
        }
    }
}
