//! Tasks that wait for commits without a thread of their own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::Future;
use std::io::ErrorKind;
use std::num::NonZeroU16;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use namiki::{Database, Error, LockRelease, ProtocolSpec, Session, Ticket, Transaction, WorkerId};
use namiki_platform::disk::sim::{Fault, Step};
use namiki_platform::disk::{Disk, SimDisk};
use namiki_tests::small_database::{Numbers, numbers};
use namiki_tests::watchdog::on_threads;

/// Longer than any test: the flusher exists, and flushes nothing.
const NEVER: Duration = Duration::from_secs(3600);

/// Far longer than a task needs after it is woken.
const LONGEST: Duration = Duration::from_secs(60);

/// Wakes a thread that runs one task, and counts the wake-ups.
struct ParkedTask {
    thread: Thread,
    woken: AtomicU32,
}

impl ParkedTask {
    fn here() -> Arc<Self> {
        Arc::new(Self {
            thread: thread::current(),
            woken: AtomicU32::new(0),
        })
    }

    fn woken(&self) -> u32 {
        self.woken.load(Ordering::SeqCst)
    }

    /// Parks until the task has been woken again, and returns the number of its wake-ups.
    fn sleep(&self, before: u32) -> u32 {
        let began = Instant::now();
        while self.woken() == before {
            let left = LONGEST.checked_sub(began.elapsed());
            thread::park_timeout(left.expect("nothing wakes the task"));
        }
        self.woken()
    }
}

impl Wake for ParkedTask {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// Runs a task to its end, and polls it only after a wake-up.
fn run<F: Future>(task: F) -> F::Output {
    let mut task = pin!(task);
    let parked = ParkedTask::here();
    let waker = Arc::clone(&parked).into();
    let mut seen = 0;
    loop {
        if let Poll::Ready(output) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        seen = parked.sleep(seen);
    }
}

fn open(spec: ProtocolSpec, disk: &SimDisk, wait: Duration) -> (Database, Numbers) {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let db = Database::builder()
        .spec(spec)
        .streams(NonZeroU16::new(2).unwrap())
        .group_wait_max(wait)
        .disk(disk)
        .open("/db")
        .unwrap();
    let table = numbers(&db);
    (db, table)
}

fn commit(session: &mut Session, table: &Numbers, key: u64) -> Ticket {
    let ended = session.transact_async(|tx| tx.put(table, &key, &key));
    ended.unwrap().1
}

/// Polls a task once. Returns the result, and the waker that was registered.
fn poll<F: Future>(task: Pin<&mut F>) -> (Poll<F::Output>, Arc<ParkedTask>) {
    let parked = ParkedTask::here();
    let waker = Arc::clone(&parked).into();
    (task.poll(&mut Context::from_waker(&waker)), parked)
}

#[test]
fn tasks_learn_of_every_commit_under_every_protocol() {
    let mut specs = ProtocolSpec::tested();
    specs.push("TT(NLR)+NOLOG".parse().unwrap());
    for spec in specs {
        for wait in [Duration::from_millis(1), Duration::MAX] {
            let (db, table) = open(spec, &SimDisk::new(), wait);
            thread::scope(|scope| {
                for worker in 0..3 {
                    let (db, table) = (&db, &table);
                    scope.spawn(move || {
                        let mut session = db.session_on(WorkerId(worker)).unwrap();
                        for round in 0..20 {
                            let keys = (0..u64::from(worker) + 1 + round % 5).map(|key| key * 7);
                            let tickets: Vec<_> =
                                keys.map(|key| commit(&mut session, table, key)).collect();
                            let read = session.transact_async(|tx| tx.get(table, &0)).unwrap().1;
                            for ticket in tickets.into_iter().chain([read]) {
                                run(db.acknowledged(ticket)).unwrap();
                                assert!(db.is_acknowledged(&ticket), "{spec}, {wait:?}");
                            }
                        }
                    });
                }
            });
        }
    }
}

#[test]
fn a_flush_wakes_a_task() {
    for spec in ["TT(NLR)+PWAL(16)", "TT(ELR)+PWAL(16)"] {
        let (db, table) = open(spec.parse().unwrap(), &SimDisk::new(), NEVER);
        let [mut one, mut other] = [0, 1].map(|worker| db.session_on(WorkerId(worker)).unwrap());
        commit(&mut one, &table, 1);
        let ticket = commit(&mut other, &table, 2);
        let mut first = pin!(db.acknowledged(ticket));
        let (polled, parked) = poll(first.as_mut());
        assert!(polled.is_pending());
        let task = thread::scope(|scope| {
            let task = scope.spawn(|| run(db.acknowledged(ticket)));
            // Where its own group does not acknowledge the ticket, the log's own thread flushes the
            // other stream.
            other.flush().unwrap();
            task.join().unwrap()
        });
        task.unwrap();
        // The task that polled once was woken once, by the first event.
        assert_eq!(parked.sleep(0), 1, "{spec}");
    }
}

#[test]
fn a_task_learns_of_any_streams_failure() {
    for spec in ["TT(NLR)+PWAL(16)", "TT(ELR)+PWAL(16)"] {
        for failing in [0, 1] {
            let disk = SimDisk::new();
            let (db, table) = open(spec.parse().unwrap(), &disk, NEVER);
            let mut sessions = [0, 1].map(|worker| db.session_on(WorkerId(worker)).unwrap());
            commit(&mut sessions[0], &table, 1);
            let ticket = commit(&mut sessions[1], &table, 2);
            disk.inject(Fault::once(Step::Write, 0, ErrorKind::Other));
            let mut task = pin!(db.acknowledged(ticket));
            let (polled, parked) = poll(task.as_mut());
            assert!(polled.is_pending());
            sessions[failing].flush().unwrap_err();
            // The log's own thread wakes the tasks of the other stream.
            parked.sleep(0);
            let (polled, _) = poll(task);
            db.close().unwrap_err();
            assert_eq!(parked.woken(), 1, "{spec}, stream {failing}");
            assert!(
                matches!(polled, Poll::Ready(Err(Error::OutcomeUnknown(_)))),
                "{polled:?}"
            );
        }
    }
}

#[test]
fn tasks_of_all_streams_learn_that_the_flusher_failed() {
    for (spec, wait) in [
        ("TT(NLR)+PWAL(16)", Duration::from_secs(1)),
        ("TT(ELR)+PWAL(16)", Duration::from_secs(1)),
        ("TT(NLR)+PWAL(auto)", NEVER),
        ("TT(ELR)+PWAL(auto)", NEVER),
        ("TT(EPOCH)+PWAL(auto)", NEVER),
    ] {
        let disk = SimDisk::new();
        let (db, table) = open(spec.parse().unwrap(), &disk, wait);
        let mut sessions = [0, 1].map(|worker| db.session_on(WorkerId(worker)).unwrap());
        for session in &mut sessions {
            // This commit creates the stream's file.
            commit(session, &table, 0);
            session.flush().unwrap();
        }
        disk.inject(Fault::once(Step::Write, 0, ErrorKind::Other));
        let tickets = [0, 1].map(|at| commit(&mut sessions[at], &table, at as u64));
        // The flusher visits the first stream first.
        for ticket in tickets.into_iter().rev() {
            let outcome = run(db.acknowledged(ticket));
            assert!(
                matches!(outcome, Err(Error::OutcomeUnknown(_))),
                "{spec}: {outcome:?}"
            );
        }
    }
}

/// An awaited commit is flushed at once, and so are the other stream and the epoch that it needs:
/// here the group wait is an hour.
#[test]
fn an_awaited_commit_on_an_idle_database_needs_no_tick() {
    for spec in [
        "TT(NLR)+PWAL(auto)",
        "TT(ELR)+PWAL(auto)",
        "TT(EPOCH)+PWAL(auto)",
        "TT(ELR)+SWAL(auto)",
        "SILO(EPOCH)+PWAL(auto)",
        "S2PL(NLR)+PWAL(auto)+ARIES",
        "TT(EPOCH)+PWAL(1)",
    ] {
        let (db, table) = open(spec.parse().unwrap(), &SimDisk::new(), NEVER);
        on_threads(1, |_| {
            let [mut one, mut other] =
                [0, 1].map(|worker| db.session_on(WorkerId(worker)).unwrap());
            for key in 0..20 {
                // This commit has no waiter.
                commit(&mut one, &table, key);
                let added = |tx: &mut Transaction| {
                    let sum = tx.get(&table, &key)?.unwrap_or(0) + 1;
                    tx.put(&table, &key, &sum)
                };
                let added = other.transact_async(added).unwrap().1;
                run(db.acknowledged(added)).unwrap();
                assert!(db.is_acknowledged(&added), "{spec}");
                commit(&mut one, &table, key + 100);
                let read = |tx: &mut Transaction| tx.get(&table, &(key + 100));
                let read = other.transact_async(read).unwrap().1;
                run(db.acknowledged(read)).unwrap();
                assert!(db.is_acknowledged(&read), "{spec}");
            }
        });
    }
}

/// Without other commits, the log's own thread certifies the epoch of the read.
#[test]
fn polling_a_read_ends_in_an_acknowledgement() {
    let spec = "TT(EPOCH)+PWAL(16)".parse().unwrap();
    let (db, table) = open(spec, &SimDisk::new(), Duration::from_millis(1));
    let session = Mutex::new(db.session_on(WorkerId(0)).unwrap());
    for asks_the_session in [true, false] {
        on_threads(1, |_| {
            let mut session = session.lock().unwrap();
            // It has read nothing, so it waits only for its own group, and nothing waits for its
            // epoch.
            session.transact(|tx| tx.put(&table, &1, &1)).unwrap();
            let (_, ticket) = session.transact_async(|tx| tx.get(&table, &1)).unwrap();
            let is_acknowledged = || {
                if asks_the_session {
                    session.is_acknowledged(&ticket)
                } else {
                    db.is_acknowledged(&ticket)
                }
            };
            while !is_acknowledged() {
                thread::yield_now();
            }
        });
    }
}

#[test]
fn a_task_learns_that_the_database_was_closed_in_order() {
    let (db, table) = open("TT(NLR)+PWAL(16)".parse().unwrap(), &SimDisk::new(), NEVER);
    let mut session = db.session().unwrap();
    let ticket = commit(&mut session, &table, 1);
    thread::scope(|scope| {
        let task = scope.spawn(|| run(db.acknowledged(ticket)));
        db.close().unwrap();
        task.join().unwrap().unwrap();
    });
}

/// A waker that calls a function.
struct Caller<F: Fn() + Send + Sync>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for Caller<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

#[test]
fn a_panicking_waker_harms_no_other() {
    let spec = "TT(NLR)+PWAL(16)".parse().unwrap();
    let (db, table) = open(spec, &SimDisk::new(), NEVER);
    let mut session = db.session_on(WorkerId(0)).unwrap();
    for round in 0..3 {
        let ticket = commit(&mut session, &table, round);
        let waker = Arc::new(Caller(|| panic!("as planned"))).into();
        let mut bad = pin!(db.acknowledged(ticket));
        let polled = bad.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        let mut leaving = Box::pin(db.acknowledged(ticket));
        let (_, gone) = poll(leaving.as_mut());
        let mut kept = pin!(db.acknowledged(ticket));
        let (polled, behind) = poll(kept.as_mut());
        assert!(polled.is_pending());
        // Registered before the task that stays.
        drop(leaving);
        // The last of these commits flushes the group, in the middle of the next commit.
        for key in 10..25 {
            commit(&mut session, &table, key);
        }
        assert!(db.is_acknowledged(&ticket));
        assert_eq!((behind.woken(), gone.woken()), (1, 0));
        // No lock is left held.
        let again = commit(&mut session, &table, 24);
        session.flush().unwrap();
        assert!(db.is_acknowledged(&again));
    }
    db.close().unwrap();
}

/// A task that is polled repeatedly, as one of several in a joined future, is woken once.
#[test]
fn a_task_that_asks_often_is_in_the_list_once() {
    for spec in ["TT(NLR)+PWAL(16)", "TT(ELR)+PWAL(16)"] {
        let (db, table) = open(spec.parse().unwrap(), &SimDisk::new(), NEVER);
        let mut session = db.session_on(WorkerId(0)).unwrap();
        let ticket = commit(&mut session, &table, 1);
        let mut task = pin!(db.acknowledged(ticket));
        let (mut old, mut new) = (ParkedTask::here(), ParkedTask::here());
        for _ in 0..10 {
            old = new;
            new = ParkedTask::here();
            let waker = Arc::clone(&new).into();
            let polled = task.as_mut().poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
        }
        session.flush().unwrap();
        assert_eq!((old.woken(), new.woken()), (0, 1), "{spec}");
        run(task).unwrap();
    }
}

/// The waker holds the last handle, as when the executor is gone and only the waker kept the task
/// alive.
#[test]
fn the_last_handle_may_go_where_the_log_wakes() {
    for spec in ["TT(NLR)+PWAL(16)", "TT(EPOCH)+PWAL(16)"] {
        on_threads(1, |_| the_last_handle_goes(spec.parse().unwrap()));
    }
}

fn the_last_handle_goes(spec: ProtocolSpec) {
    let disk = SimDisk::new();
    let (db, table) = open(spec, &disk, Duration::from_millis(200));
    let mut session = db.session_on(WorkerId(0)).unwrap();
    let mut ticket = commit(&mut session, &table, 1);
    if spec.release == LockRelease::EpochEarly {
        // The read waits for an epoch, which the log's own thread certifies.
        session.flush().unwrap();
        ticket = session.transact_async(|tx| tx.get(&table, &1)).unwrap().1;
    }
    let mut future = Box::pin(db.acknowledged(ticket));
    let gone = Arc::new(AtomicU32::new(0));
    let handle = Mutex::new(Some(db));
    let told = Arc::clone(&gone);
    let waker = Arc::new(Caller(move || {
        drop(handle.lock().unwrap().take());
        told.store(1, Ordering::SeqCst);
    }))
    .into();
    let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    drop(waker);
    // The log's own thread flushes, wakes, and thereby closes the database.
    while gone.load(Ordering::SeqCst) == 0 {
        thread::yield_now();
    }
    run(future).unwrap();
    drop((session, table));
    let manifest = namiki::files::Manifest::read(&disk, std::path::Path::new("/db"));
    assert!(manifest.unwrap().unwrap().closed);
}

#[test]
fn a_future_goes_to_any_thread() {
    fn is_free<T: Send + Unpin + 'static>(_: T) {}
    let spec = "TT(NLR)+NOLOG".parse().unwrap();
    let (db, table) = open(spec, &SimDisk::new(), NEVER);
    let ticket = commit(&mut db.session().unwrap(), &table, 1);
    is_free(db.acknowledged(ticket));
}

#[test]
fn a_foreign_ticket_is_told_to_a_task_too() {
    let spec = "TT(NLR)+PWAL(16)".parse().unwrap();
    let (db, table) = open(spec, &SimDisk::new(), NEVER);
    let (other, _) = open(spec, &SimDisk::new(), NEVER);
    let ticket = commit(&mut db.session().unwrap(), &table, 1);
    let outcome = run(other.acknowledged(ticket));
    assert!(matches!(outcome, Err(Error::ForeignTicket)), "{outcome:?}");
}
