//! Tests: a transaction releases all its resources however it ends: its locks, permit, commit
//! priority, slot and changes. They inspect the engine, because other transactions wait for most of
//! these only for a limited time.

use std::future::pending;
use std::num::{NonZeroU16, NonZeroU32};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};
use std::time::Duration;

use namiki_platform::WorkerId;
use namiki_platform::disk::{Disk, DiskCall, HookedDisk, SimDisk};
use parking_lot::Mutex;

use crate::api::database::Database;
use crate::api::session::Session;
use crate::api::table::Table;
use crate::concurrency::contention::policy::PRIORITY_AFTER;
use crate::error::{Conflict, Error};
use crate::protocol_spec::WaitPolicy;
use crate::txn::Transaction;

type Numbers = Table<u64, u64>;

const SPECS: [&str; 11] = [
    "TT(NLR)+NOLOG",
    "TT(NLR)+PWAL(16)",
    "TT(EPOCH)+PWAL(auto)",
    "SILO(ELR)+PWAL(1)",
    "S2PL(NLR)+NOLOG",
    "S2PL(NLR)+PWAL(16)",
    "S2PL(ELR)+PWAL(1)",
    "S2PL(ELR)+SWAL(1)",
    "S2PL(EPOCH)+PWAL(auto)",
    "S2PL(NLR)+PWAL(16)+ARIES",
    "S2PL(ELR)+PWAL(auto)+ARIES",
];

/// Two existing keys, and an absent one.
const READ: u64 = 1;
const WRITTEN: u64 = 2;
const NEW: u64 = 3;
/// The initial value of every key.
const OLD: u64 = 10;

fn open(spec: &str, disk: Arc<dyn Disk>) -> (Database, Numbers) {
    let db = Database::builder()
        .spec(spec.parse().unwrap())
        .streams(NonZeroU16::new(2).unwrap())
        .attempts_max(NonZeroU32::new(1).unwrap())
        .wait_policy(WaitPolicy::NoWait)
        .group_wait_max(Duration::MAX)
        .disk(disk)
        .open("/db")
        .unwrap();
    let table = db.table("numbers").unwrap();
    db.transact(|tx| {
        tx.put(&table, &READ, &OLD)?;
        tx.put(&table, &WRITTEN, &OLD)
    })
    .unwrap();
    (db, table)
}

/// Acquires one resource of every kind.
fn hold(tx: &mut Transaction, table: &Numbers) -> Result<(), Error> {
    for _ in 0..PRIORITY_AFTER {
        tx.note_conflict();
    }
    tx.request_priority();
    assert!(tx.engine().priority.is_taken());
    // Otherwise it would wait for itself.
    tx.engine().admission.note_wound();
    tx.get(table, &READ)?;
    tx.put(table, &WRITTEN, &(OLD + 1))?;
    tx.put(table, &NEW, &OLD)
}

/// A way to end a transaction that holds something.
type Ending = fn(&Database, &mut Session, &Numbers);

fn panicking(run: impl FnOnce()) {
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
}

fn panic_on_purpose() -> Result<(), Error> {
    resume_unwind(Box::new("on purpose"))
}

/// The endings that leave the database unchanged.
const WITHOUT_A_TRACE: [(&str, Ending); 9] = [
    ("a refusal", |_, session, table| {
        let ended = session.transact(|tx| {
            hold(tx, table)?;
            tx.abort::<()>("on purpose")
        });
        assert!(matches!(ended, Err(Error::Aborted(_))), "{ended:?}");
    }),
    ("an error of the caller", |_, session, table| {
        #[derive(Debug)]
        struct Refused;
        impl From<Error> for Refused {
            fn from(error: Error) -> Self {
                unreachable!("{error}")
            }
        }
        let ended = session.transact_with(|tx| {
            hold(tx, table)?;
            Err::<(), _>(Refused)
        });
        assert!(ended.is_err());
    }),
    ("a conflict", |_, session, table| {
        let ended = session.transact(|tx| {
            hold(tx, table)?;
            Err::<(), _>(Error::Conflict(Conflict::ReadChanged))
        });
        let gave_up = matches!(ended, Err(Error::TooManyConflicts { .. }));
        assert!(gave_up, "{ended:?}");
    }),
    ("a commit that fails", |_, session, table| {
        let ended = session.transact(|tx| {
            hold(tx, table)?;
            tx.add(table, &READ, u64::MAX)
        });
        assert!(matches!(ended, Err(Error::Overflow { .. })), "{ended:?}");
    }),
    ("a panic in a session", |_, session, table| {
        panicking(|| {
            let ended = session.transact(|tx| {
                hold(tx, table)?;
                panic_on_purpose()
            });
            ended.unwrap();
        });
    }),
    ("a panic in a pooled session", |db, _, table| {
        panicking(|| {
            let ended = db.transact(|tx| {
                hold(tx, table)?;
                panic_on_purpose()
            });
            ended.unwrap();
        });
    }),
    ("a panic around an explicit one", |db, _, table| {
        panicking(|| {
            let mut tx = db.begin().unwrap();
            hold(&mut tx, table).unwrap();
            panic_on_purpose().unwrap();
        });
    }),
    ("a rollback", |db, _, table| {
        let mut tx = db.begin().unwrap();
        hold(&mut tx, table).unwrap();
        tx.rollback();
    }),
    ("a future that is dropped in its middle", |db, _, table| {
        let mut future = Box::pin(async {
            let mut tx = db.begin().unwrap();
            hold(&mut tx, table).unwrap();
            pending::<()>().await;
            tx.commit().unwrap();
        });
        let mut context = Context::from_waker(Waker::noop());
        assert!(future.as_mut().poll(&mut context).is_pending());
        assert!(db.begin().unwrap().engine().priority.is_taken());
        drop(future);
    }),
];

const COMMITS: [(&str, Ending); 3] = [
    ("a commit", |_, session, table| {
        session.transact(|tx| hold(tx, table)).unwrap();
    }),
    ("a commit of an explicit one", |db, _, table| {
        let mut tx = db.begin().unwrap();
        hold(&mut tx, table).unwrap();
        tx.commit().unwrap();
    }),
    ("a commit that is not waited for", |db, _, table| {
        let mut tx = db.begin().unwrap();
        hold(&mut tx, table).unwrap();
        let ticket = tx.commit_async().unwrap();
        // Until this call, its group holds the locks.
        db.wait(&ticket).unwrap();
    }),
];

/// The number of the slot that the next committer would get: the lowest that is free.
fn next_slot(db: &Database) -> usize {
    let tx = db.begin().unwrap();
    let epochs = &tx.engine().epochs;
    let slot = epochs.acquire().unwrap();
    epochs.release(slot);
    let slot = format!("{slot:?}");
    let number = slot.trim_matches(|it: char| !it.is_ascii_digit());
    number.parse().unwrap()
}

fn check_token(db: &Database, context: &str) {
    let observer = db.begin().unwrap();
    let is_taken = observer.engine().priority.is_taken();
    assert!(!is_taken, "{context}: commit priority");
}

fn check_permits(db: &Database, context: &str) {
    let observer = db.begin().unwrap();
    let engine = observer.engine();
    if observer.locks_reads() {
        let count = std::thread::available_parallelism().unwrap().get();
        assert!(engine.admission.is_limited(), "{context}");
        let permits: Vec<_> = (0..count).map(|_| engine.admission.acquire()).collect();
        assert_eq!(engine.admission.admission_waits(), 0, "{context}: a permit");
        drop(permits);
    }
}

/// Runs `end`, and checks that all resources are released and that the keys have these values.
fn check(spec: &str, (how, end): (&str, Ending), expected: [Option<u64>; 3]) {
    let context = format!("{spec}, {how}");
    let (db, table) = open(spec, Arc::new(SimDisk::new()));
    let mut session = db.session_on(WorkerId(0)).unwrap();
    let slot = next_slot(&db);
    end(&db, &mut session, &table);
    // A session that was not put back into its pool has left its own.
    assert!(next_slot(&db) <= slot, "{context}: a slot");
    check_token(&db, &context);
    check_permits(&db, &context);
    // By another session: a lock that is still held is a conflict.
    let mut other = db.session_on(WorkerId(1)).unwrap();
    let keys = [READ, WRITTEN, NEW];
    let found = other.try_transact_async(|tx| {
        let found = keys.map(|key| tx.get(&table, &key));
        let found = found.into_iter().collect::<Result<Vec<_>, _>>()?;
        keys.iter().try_for_each(|key| tx.put(&table, key, &0))?;
        Ok(found)
    });
    let (found, ticket) = found.unwrap_or_else(|error| panic!("{context}: {error}"));
    other.wait(&ticket).unwrap();
    assert_eq!(found, expected, "{context}");
    // And its session is still usable.
    let again = session.transact(|tx| tx.get(&table, &WRITTEN));
    assert_eq!(again.unwrap(), Some(0), "{context}");
}

#[test]
fn an_ended_transaction_holds_nothing() {
    for spec in SPECS {
        for ending in WITHOUT_A_TRACE {
            check(spec, ending, [Some(OLD), Some(OLD), None]);
        }
        for ending in COMMITS {
            check(spec, ending, [Some(OLD), Some(OLD + 1), Some(OLD)]);
        }
    }
}

/// Changes are undone before their locks are released.
#[test]
fn no_reader_sees_what_is_undone() {
    const ROUNDS: u64 = 3000;
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let db = Database::builder()
        .spec("S2PL(ELR)+PWAL(auto)+ARIES".parse().unwrap())
        .disk(disk)
        .open("/db")
        .unwrap();
    let table: Numbers = db.table("numbers").unwrap();
    db.transact(|tx| tx.put(&table, &1, &OLD)).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..ROUNDS {
                let mut tx = db.begin().unwrap();
                // A conflict ends it, too.
                let put = tx.put(&table, &1, &(OLD + 1 + round));
                assert!(matches!(put, Ok(()) | Err(Error::Conflict(_))), "{put:?}");
                drop(tx);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let mut session = db.session().unwrap();
        while !is_over.load(Ordering::Relaxed) {
            let (found, _) = session.transact_async(|tx| tx.get(&table, &1)).unwrap();
            assert_eq!(found, Some(OLD));
        }
    });
}

/// What is done once, before a write.
type Probe = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// A failed transaction waits for the durability of its reads, and a committed one for its own;
/// neither holds any resource.
#[test]
fn nothing_is_held_while_the_device_is_waited_for() {
    for (spec, commits) in [
        ("TT(ELR)+PWAL(16)", false),
        ("TT(EPOCH)+PWAL(16)", false),
        ("S2PL(ELR)+PWAL(16)", false),
        ("S2PL(EPOCH)+PWAL(auto)", false),
        ("S2PL(ELR)+PWAL(16)+ARIES", false),
        ("TT(EPOCH)+PWAL(auto)", true),
        ("S2PL(ELR)+PWAL(16)", true),
        ("S2PL(ELR)+PWAL(1)", true),
        ("S2PL(ELR)+PWAL(1)+ARIES", true),
    ] {
        let context = format!("{spec}, commits: {commits}");
        let probe = Probe::default();
        let probed = Arc::clone(&probe);
        let disk = HookedDisk::new(Arc::new(SimDisk::new()), move |call, _| {
            if matches!(call, DiskCall::Write { .. }) {
                // Not locked while it runs, which may write.
                let probe = probed.lock().take();
                if let Some(probe) = probe {
                    probe();
                }
            }
            Ok(())
        });
        let (db, table) = open(spec, Arc::new(disk));
        let mut session = db.session_on(WorkerId(0)).unwrap();
        let before = session.transact_async(|tx| tx.put(&table, &READ, &OLD));
        before.unwrap();
        let seen = Arc::new(OnceLock::new());
        let look = {
            let (db, table, context) = (db.clone(), table.clone(), context.clone());
            let mut other = db.session_on(WorkerId(1)).unwrap();
            move || {
                // A commit that fills its group waits before its attempt has ended.
                if !context.contains("PWAL(1)") {
                    check_token(&db, &context);
                }
                check_permits(&db, &context);
                let put = other.try_transact_async(|tx| tx.put(&table, &READ, &0));
                put.map(drop)
            }
        };
        let told = Arc::clone(&seen);
        *probe.lock() = Some(Box::new(move || {
            // A panic in a write ends the log.
            let looked = catch_unwind(AssertUnwindSafe(look));
            told.set(looked.map_err(drop)).unwrap();
        }));
        let ended = session.transact(|tx| {
            hold(tx, &table)?;
            if commits {
                Ok(())
            } else {
                tx.abort("on purpose")
            }
        });
        assert_eq!(ended.is_ok(), commits, "{context}: {ended:?}");
        let seen = seen.get().unwrap_or_else(|| panic!("{context}: no write"));
        assert!(matches!(seen, Ok(Ok(()))), "{context}: {seen:?}");
    }
}

/// The record of the first write is removed, and reused by another transaction for the key of the
/// second write. A commit without reads waits for locks as long as it takes, and would wait for its
/// own for ever.
#[test]
fn a_commit_does_not_wait_for_its_own_lock() {
    for spec in ["TT(ELR)+PWAL(1)", "SILO(ELR)+PWAL(1)", "SILO(NLR)+NOLOG"] {
        let (db, table) = open(spec, Arc::new(SimDisk::new()));
        db.transact(|tx| tx.put(&table, &NEW, &OLD)).unwrap();
        db.transact(|tx| tx.delete(&table, &NEW)).unwrap();
        let mut records = Vec::new();
        let outcome = db.transact(|tx| {
            tx.put(&table, &NEW, &1)?;
            // As the commit does, one write after the other.
            tx.resolve_deferred_writes()?;
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    assert_eq!(db.take_out_deleted_keys().unwrap(), 0, "{spec}");
                    db.transact(|tx| tx.put(&table, &(NEW + 1), &OLD)).unwrap();
                });
            });
            tx.put(&table, &(NEW + 1), &2)?;
            tx.resolve_deferred_writes()?;
            records = tx.written_records();
            Ok(())
        });
        assert_eq!(records.len(), 2, "{spec}");
        assert_eq!(records[0], records[1], "{spec}");
        assert!(
            matches!(
                outcome,
                Err(Error::TooManyConflicts {
                    last: Conflict::ReadChanged,
                    ..
                })
            ),
            "{spec}: {outcome:?}"
        );
    }
}
