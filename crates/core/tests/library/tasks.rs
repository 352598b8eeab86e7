//! Transactions of tasks, on a runtime with several threads and on one with a single thread.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use namiki::disk::MemoryDisk;
use namiki::{Database, Error, ProtocolSpec, Session, WorkerId};
use tokio::runtime::{Builder, Runtime};

fn runtimes() -> [Runtime; 2] {
    [
        Builder::new_multi_thread()
            .worker_threads(2)
            .enable_time()
            .build()
            .unwrap(),
        Builder::new_current_thread().enable_time().build().unwrap(),
    ]
}

fn open(spec: ProtocolSpec) -> Database {
    Database::builder()
        .spec(spec)
        .disk(Arc::new(MemoryDisk::new()))
        .log_file_bytes(1 << 20)
        .buffer_bytes(64 << 10)
        .open("/db")
        .unwrap()
}

/// Tasks and threads increment the same counters.
#[test]
fn increments_of_tasks_and_threads_add_up() {
    const TASKS: u64 = 32;
    const TIMES: u64 = 20;
    for spec in ProtocolSpec::tested() {
        for runtime in runtimes() {
            let db = open(spec);
            let counters = db.table::<u64, u64>("counters").unwrap();
            let done = AtomicBool::new(false);
            let by_thread = std::thread::scope(|scope| {
                let thread = scope.spawn(|| {
                    let mut times = 0;
                    while !done.load(Ordering::Relaxed) {
                        db.transact(|tx| tx.update(&counters, &0, |n| n + 1))
                            .unwrap();
                        times += 1;
                    }
                    times
                });
                db.transact(|tx| tx.put(&counters, &0, &0)).unwrap();
                let tasks: Vec<_> = (0..TASKS)
                    .map(|_| {
                        let (db, counters) = (db.clone(), counters.clone());
                        runtime.spawn(async move {
                            for _ in 0..TIMES {
                                db.transact_in_task(|tx| {
                                    let n = tx.get(&counters, &0)?.unwrap_or(0);
                                    tx.put(&counters, &0, &(n + 1))?;
                                    tx.update(&counters, &0, |n| n + 1)?;
                                    tx.put(&counters, &1, &n)
                                })
                                .await
                                .unwrap();
                            }
                        })
                    })
                    .collect();
                runtime.block_on(async {
                    for task in tasks {
                        task.await.unwrap();
                    }
                });
                done.store(true, Ordering::Relaxed);
                thread.join().unwrap()
            });
            let sum = db.transact(|tx| tx.get(&counters, &0)).unwrap().unwrap();
            // The thread's updates before the counter was there changed nothing.
            let expected = 2 * TASKS * TIMES + by_thread;
            assert!(
                (2 * TASKS * TIMES..=expected).contains(&sum),
                "{spec}: {sum}, {expected}"
            );
        }
    }
}

#[test]
fn refusals_and_errors_arrive_as_they_are() {
    #[derive(Debug)]
    enum Refused {
        Poor,
        Database(#[expect(dead_code, reason = "for its Debug")] Error),
    }
    impl From<Error> for Refused {
        fn from(error: Error) -> Self {
            Self::Database(error)
        }
    }
    for runtime in runtimes() {
        let db = open(ProtocolSpec::DEFAULT);
        let table = db.table::<u64, u64>("t").unwrap();
        runtime.block_on(async {
            let refused = db
                .transact_in_task_with(|tx| {
                    tx.put(&table, &1, &1)?;
                    Err::<(), _>(Refused::Poor)
                })
                .await;
            assert!(matches!(refused, Err(Refused::Poor)));
            let found = db.transact_in_task(|tx| tx.get(&table, &1)).await;
            assert_eq!(found.unwrap(), None);
            db.close().unwrap();
            let closed = db.transact_in_task(|tx| tx.get(&table, &1)).await;
            assert!(matches!(closed, Err(Error::Closed)));
        });
    }
    let db = Database::builder()
        .attempts_max(NonZeroU32::new(20).unwrap())
        .disk(Arc::new(MemoryDisk::new()))
        .open("/db")
        .unwrap();
    let gave_up = runtimes()[0].block_on(
        db.transact_in_task(|_| Err::<(), _>(Error::Conflict(namiki::Conflict::ReadChanged))),
    );
    assert!(matches!(
        gave_up,
        Err(Error::TooManyConflicts { attempts: 20, .. })
    ));
}

/// Each task is dropped at some moment; its transaction is atomic, and the others continue.
#[test]
fn tasks_that_are_dropped_leave_no_half_transactions() {
    for runtime in runtimes() {
        let db = open(ProtocolSpec::DEFAULT);
        let table = db.table::<u64, u64>("t").unwrap();
        runtime.block_on(async {
            for round in 0..200_u64 {
                let task = db.transact_in_task(|tx| {
                    tx.put(&table, &(2 * round), &round)?;
                    tx.put(&table, &(2 * round + 1), &round)
                });
                let timeout = Duration::from_micros(round % 50);
                let _ = tokio::time::timeout(timeout, task).await;
            }
            let rows = db.transact_in_task(|tx| tx.scan(&table, ..)).await.unwrap();
            for pair in rows.chunks(2) {
                assert!(pair.len() == 2 && pair[0].0 + 1 == pair[1].0 && pair[0].1 == pair[1].1);
            }
        });
    }
}

/// One increment of two counters by a held session, repeated after conflicts.
async fn increment(db: &Database, session: &mut Session, counters: &namiki::Table<u64, u64>) {
    let ticket = loop {
        session.begin().unwrap();
        let mut result = Ok(());
        for key in 0..2 {
            // As if the client sent the next statement only now.
            tokio::task::yield_now().await;
            result = result.and_then(|()| {
                session.statement(|tx| {
                    let n = tx.get(counters, &key)?.unwrap_or(0);
                    tx.put(counters, &key, &(n + 1))
                })
            });
        }
        let committed = match result {
            Ok(()) => session.commit().await,
            Err(error) => Err(error),
        };
        match committed {
            Ok(ticket) => break ticket,
            Err(Error::Conflict(_)) => {
                session.rollback();
                session.back_off().await;
            }
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(session.conflicts_in_a_row(), 0);
    db.acknowledged(ticket).flushed_by_caller().await.unwrap();
}

/// As a server does: the runtime flushes its sessions' stream when it has nothing else to do.
#[test]
fn held_sessions_share_the_flushes_of_their_runtime() {
    const TASKS: u64 = 8;
    const TIMES: u64 = 20;
    for spec in [
        "SILO(EPOCH)+PWAL(auto)",
        "TT(EPOCH)+PWAL(auto)",
        "SILO(NLR)+PWAL(4)",
    ] {
        let db = open(spec.parse().unwrap());
        let counters = db.table::<u64, u64>("counters").unwrap();
        let flushed = db.clone();
        let runtime = Builder::new_current_thread()
            .enable_time()
            .on_thread_park(move || flushed.flush_stream(WorkerId(0)).unwrap())
            .build()
            .unwrap();
        let tasks = (0..TASKS).map(|_| {
            let (db, counters) = (db.clone(), counters.clone());
            runtime.spawn(async move {
                let mut session = db.session_on(WorkerId(0)).unwrap();
                for _ in 0..TIMES {
                    increment(&db, &mut session, &counters).await;
                }
            })
        });
        let tasks: Vec<_> = tasks.collect();
        runtime.block_on(async {
            for task in tasks {
                task.await.unwrap();
            }
        });
        let all = db.transact(|tx| tx.scan(&counters, ..)).unwrap();
        assert_eq!(all, [(0, TASKS * TIMES), (1, TASKS * TIMES)], "{spec}");
    }
}

/// A whole transaction in one call, on a session of the caller's: conflicts are retried inside.
#[test]
fn transactions_run_by_sessions_add_up() {
    const TASKS: u64 = 8;
    const TIMES: u64 = 50;
    for spec in ProtocolSpec::tested() {
        let runtime = &runtimes()[0];
        let db = open(spec);
        let counters = db.table::<u64, u64>("counters").unwrap();
        let tasks = (0..TASKS).map(|_| {
            let (db, counters) = (db.clone(), counters.clone());
            runtime.spawn(async move {
                let mut session = db.session().unwrap();
                for _ in 0..TIMES {
                    let done = session.run(|tx| {
                        let n = tx.get_for_update(&counters, &0)?.unwrap_or(0);
                        tx.put(&counters, &0, &(n + 1))?;
                        Ok::<_, Error>(n)
                    });
                    let (_, ticket) = done.await.unwrap();
                    db.acknowledged(ticket).await.unwrap();
                }
            })
        });
        let tasks: Vec<_> = tasks.collect();
        runtime.block_on(async {
            for task in tasks {
                task.await.unwrap();
            }
        });
        let sum = db.transact(|tx| tx.get(&counters, &0)).unwrap();
        assert_eq!(sum, Some(TASKS * TIMES), "{spec}");
    }
}
