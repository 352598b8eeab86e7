//! The two rules that prevent deadlocks of groups under normal lock release, each with the proof
//! that nothing moves without it.
//!
//! Two workers each hold locks of a group that is not full and that no other thread flushes, and
//! each wants the other's locks. The engine bounds its waits, so a deadlock shows as a conflict in
//! every attempt, not as a hanging thread.
//!
//! Paper: tictoc-pwal §3.2.2
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its seeds"
)]

use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use namiki::faults::{self, Checks, NoFaults};
use namiki::{Conflict, Database, Error, Session, Table, Ticket, WorkerId};
use namiki_platform::disk::{Disk, SimDisk};
use namiki_tests::on_another_thread::on_another_thread;

type Numbers = Table<u64, u64>;

/// The rules are for protocols that lock at the commit and hold the locks until their group is
/// durable.
const SPECS: [&str; 2] = ["TT(NLR)+PWAL(1000)", "SILO(NLR)+PWAL(1000)"];

/// The key that each worker's group holds.
const HELD: [u64; 2] = [1, 2];
/// The key that each worker writes when it only wants to read the other's.
const OWN: [u64; 2] = [11, 12];

/// How a worker uses the key that the other one holds.
#[derive(Clone, Copy, PartialEq)]
enum Wants {
    ToWrite,
    ToRead,
}

fn open(spec: &str) -> (Database, Numbers) {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let db = Database::builder()
        .spec(spec.parse().unwrap())
        .streams(NonZeroU16::new(2).unwrap())
        .group_wait_max(Duration::MAX)
        .disk(disk)
        .open("/db")
        .unwrap();
    let table = db.table("numbers").unwrap();
    db.transact(|tx| {
        HELD.iter()
            .chain(&OWN)
            .try_for_each(|key| tx.put(&table, key, &0))
    })
    .unwrap();
    (db, table)
}

/// Puts a lock into the worker's group.
fn hold(session: &mut Session, table: &Numbers, worker: usize) -> Ticket {
    let held = session.try_transact_async(|tx| tx.put(table, &HELD[worker], &1));
    let ((), ticket) = held.unwrap();
    assert!(!session.is_acknowledged(&ticket), "its group is not full");
    ticket
}

/// One attempt of the transaction that wants the other worker's key.
fn attempt<C: Checks>(
    session: &mut Session,
    table: &Numbers,
    worker: usize,
    wants: Wants,
) -> Result<(), Conflict> {
    let other = HELD[1 - worker];
    let ended = session.try_faulty::<C, _>(|tx| match wants {
        Wants::ToWrite => tx.put(table, &other, &2),
        Wants::ToRead => {
            tx.get(table, &other)?;
            tx.put(table, &OWN[worker], &2)
        }
    });
    match ended {
        Ok(_) => Ok(()),
        Err(Error::Conflict(conflict)) => Err(conflict),
        Err(error) => panic!("{error}"),
    }
}

/// The attempts of both workers in turn, on one thread. A worker that is done flushes and stops.
/// Returns whether both succeeded.
fn in_turn<C: Checks>(spec: &str, wants: Wants, rounds: u32) -> bool {
    let (db, table) = open(spec);
    let mut sessions = [0, 1].map(|worker| db.session_on(WorkerId(worker)).unwrap());
    for worker in [0, 1] {
        hold(&mut sessions[worker], &table, worker);
    }
    let flushes = db.counters().log.flushes;
    let mut done = [false; 2];
    for _ in 0..rounds {
        for worker in [0, 1] {
            if done[worker] {
                continue;
            }
            match attempt::<C>(&mut sessions[worker], &table, worker, wants) {
                Ok(()) => {
                    done[worker] = true;
                    sessions[worker].flush().unwrap();
                }
                Err(conflict) => assert_eq!(
                    conflict,
                    match wants {
                        Wants::ToWrite => Conflict::WriteLocked,
                        Wants::ToRead => Conflict::ReadLocked,
                    }
                ),
            }
        }
        if done == [true; 2] {
            return true;
        }
    }
    assert_eq!(done, [false; 2], "a deadlock holds both");
    assert_eq!(db.counters().log.flushes, flushes, "no flush happened");
    false
}

/// Two threads that retry until both are done, or one of them has tried `attempts_max` times.
/// Returns whether both succeeded.
fn in_parallel<C: Checks>(spec: &str, wants: Wants, attempts_max: u32) -> bool {
    let (db, table) = open(spec);
    let together = Barrier::new(2);
    let gave_up = AtomicBool::new(false);
    let one = |worker: usize| {
        let mut session = db.session_on(WorkerId(worker as u16)).unwrap();
        hold(&mut session, &table, worker);
        together.wait();
        let mut attempts = 0;
        while attempt::<C>(&mut session, &table, worker, wants).is_err() {
            attempts += 1;
            if attempts == attempts_max {
                gave_up.store(true, Ordering::Relaxed);
            }
            if gave_up.load(Ordering::Relaxed) {
                // The session stays open: its end would flush the group, and unblock the other
                // worker.
                return (false, session);
            }
            std::thread::yield_now();
        }
        session.flush().unwrap();
        (true, session)
    };
    let ended = std::thread::scope(|scope| {
        let one = &one;
        let threads = [0, 1].map(|worker| scope.spawn(move || one(worker)));
        threads.map(|thread| thread.join().unwrap())
    });
    ended.iter().all(|(done, _)| *done)
}

/// Deadlock rule 1.
#[test]
fn a_failed_lock_flushes_the_group_and_frees_its_locks() {
    for spec in SPECS {
        assert!(in_turn::<NoFaults>(spec, Wants::ToWrite, 3));
        assert!(in_parallel::<NoFaults>(spec, Wants::ToWrite, 100_000));
    }
}

/// Without the rule it would hang.
#[test]
fn no_flush_on_failed_lock_deadlocks_two_groups() {
    for spec in SPECS {
        assert!(!in_turn::<faults::NoFlushOnFailedLock>(
            spec,
            Wants::ToWrite,
            50
        ));
        assert!(!in_parallel::<faults::NoFlushOnFailedLock>(
            spec,
            Wants::ToWrite,
            50
        ));
    }
}

/// Deadlock rule 2.
#[test]
fn a_read_wait_flushes_the_group() {
    for spec in SPECS {
        assert!(in_turn::<NoFaults>(spec, Wants::ToRead, 3));
        assert!(in_parallel::<NoFaults>(spec, Wants::ToRead, 100_000));
    }
}

/// Without the rule it would hang.
#[test]
fn no_flush_on_read_wait_deadlocks_two_groups() {
    for spec in SPECS {
        assert!(!in_turn::<faults::NoFlushOnReadWait>(
            spec,
            Wants::ToRead,
            50
        ));
        assert!(!in_parallel::<faults::NoFlushOnReadWait>(
            spec,
            Wants::ToRead,
            50
        ));
    }
}

/// A worker blocked by its own group flushes the group, and does not wait for ever.
#[test]
fn a_group_does_not_block_its_own_worker() {
    for spec in SPECS {
        let (db, table) = open(spec);
        let mut session = db.session_on(WorkerId(0)).unwrap();
        for value in 0..20 {
            session
                .try_transact_async(|tx| tx.put(&table, &1, &value))
                .unwrap();
            let (read, _) = session.try_transact_async(|tx| tx.get(&table, &1)).unwrap();
            assert_eq!(read, Some(value));
        }
    }
}

/// A transaction that finds a lock taken, and cannot commit because its reads have changed, aborts
/// immediately (tictoc-pwal §2.1): it need not release its group's locks for a wait.
#[test]
fn a_lost_transaction_does_not_flush_its_group() {
    for spec in SPECS {
        for lost in [false, true] {
            let (db, table) = open(spec);
            let [mut mine, mut other] =
                [0, 1].map(|worker| db.session_on(WorkerId(worker)).unwrap());
            let group = hold(&mut mine, &table, 0);
            let ended = mine.try_transact_async(|tx| {
                tx.get(&table, &OWN[0])?;
                if lost {
                    on_another_thread(|| {
                        other.try_transact_async(|tx| tx.put(&table, &OWN[0], &1))
                    })?;
                    other.flush()?;
                }
                on_another_thread(|| hold(&mut other, &table, 1));
                tx.put(&table, &HELD[1], &2)
            });
            assert!(
                matches!(ended, Err(Error::Conflict(Conflict::WriteLocked))),
                "{ended:?}"
            );
            assert_eq!(mine.is_acknowledged(&group), !lost);
        }
    }
}
