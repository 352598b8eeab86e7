//! Tests of held transactions. They inspect the priority token and the locks of records.

use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use namiki_platform::disk::SimDisk;

use crate::api::database::Database;
use crate::api::session::Session;
use crate::api::table::Table;
use crate::api::task_waits::tests::Calls;
use crate::commit::late_changes::ChangeRefused;
use crate::concurrency::cc::{CcProtocol, Silo};
use crate::concurrency::contention::policy::PRIORITY_AFTER;
use crate::error::Error;
use crate::storage::free_large_buffers::LARGE_WHILE_IDLE_BYTES;
use crate::tables::untyped::UntypedTable;

fn open(disk: &SimDisk, group_wait_max: Duration) -> (Database, Table<u64, u64>) {
    let db = Database::builder()
        .disk(Arc::new(disk.clone()))
        .group_wait_max(group_wait_max)
        .open("/db")
        .unwrap();
    let table = db.table("numbers").unwrap();
    db.transact(|tx| (1..4).try_for_each(|key| tx.put(&table, &key, &0)))
        .unwrap();
    (db, table)
}

fn add(session: &mut Session, table: &Table<u64, u64>, key: u64) -> Result<(), Error> {
    session.statement(|tx| {
        let value = tx.get(table, &key)?.unwrap_or(0);
        tx.put(table, &key, &(value + 1))
    })
}

fn is_send<T: Send>(it: T) -> T {
    it
}

/// The transaction of the session conflicts at its commit.
fn conflict(db: &Database, session: &mut Session, table: &Table<u64, u64>) {
    session.begin().unwrap();
    add(session, table, 1).unwrap();
    db.transact(|tx| tx.update(table, &1, |n| n + 1)).unwrap();
    let commit = pin!(session.commit());
    let waker = Arc::new(Calls::default()).into();
    let context = &mut Context::from_waker(&waker);
    let ended = commit.poll(context);
    let is_conflict = matches!(ended, Poll::Ready(Err(Error::Conflict(_))));
    assert!(is_conflict, "{ended:?}");
}

#[test]
fn statements_run_on_any_thread_and_commit_together() {
    let (db, table) = open(&SimDisk::new(), Duration::from_millis(1));
    let mut session = is_send(db.session().unwrap());
    let ended = add(&mut session, &table, 1);
    assert!(matches!(ended, Err(Error::NoTransaction)), "{ended:?}");
    session.begin().unwrap();
    for key in 1..4 {
        session = std::thread::scope(|scope| {
            let (mut session, table) = (session, &table);
            let statement = scope.spawn(move || {
                add(&mut session, table, key).unwrap();
                session
            });
            statement.join().unwrap()
        });
        let committed = db.transact(|tx| tx.get(&table, &key)).unwrap();
        assert_eq!(committed, Some(0));
    }
    assert!(session.is_running());
    let waker = Arc::new(Calls::default()).into();
    let context = &mut Context::from_waker(&waker);
    let Poll::Ready(Ok(ticket)) = pin!(is_send(session.commit())).poll(context) else {
        panic!("it has nothing to wait for");
    };
    assert!(!session.is_running());
    db.wait(&ticket).unwrap();
    let all = db.transact(|tx| tx.scan(&table, ..)).unwrap();
    assert_eq!(all, [(1, 1), (2, 1), (3, 1)]);
}

#[test]
fn a_rollback_and_a_panic_leave_nothing() {
    let (db, table) = open(&SimDisk::new(), Duration::from_millis(1));
    let mut session = db.session().unwrap();
    session.begin().unwrap();
    add(&mut session, &table, 1).unwrap();
    session.rollback();
    session.begin().unwrap();
    add(&mut session, &table, 2).unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        session.statement(|_| -> Result<(), Error> { panic!("in a statement") })
    }));
    assert!(panicked.is_err() && !session.is_running());
    // One that is begun within another one takes its place.
    session.begin().unwrap();
    add(&mut session, &table, 3).unwrap();
    session.begin().unwrap();
    let waker = Arc::new(Calls::default()).into();
    let context = &mut Context::from_waker(&waker);
    assert!(pin!(session.commit()).poll(context).is_ready());
    let all = db.transact(|tx| tx.scan(&table, ..)).unwrap();
    assert_eq!(all, [(1, 0), (2, 0), (3, 0)]);
}

#[test]
fn conflicts_in_a_row_end_with_a_commit() {
    let (db, table) = open(&SimDisk::new(), Duration::from_millis(1));
    let mut session = db.session().unwrap();
    for conflicts in 1..4 {
        conflict(&db, &mut session, &table);
        assert_eq!(session.conflicts_in_a_row(), conflicts);
    }
    let waker = Arc::new(Calls::default()).into();
    let context = &mut Context::from_waker(&waker);
    session.begin().unwrap();
    add(&mut session, &table, 1).unwrap();
    assert_eq!(session.conflicts_in_a_row(), 3);
    let committed = pin!(session.commit()).poll(context);
    assert!(matches!(committed, Poll::Ready(Ok(_))), "{committed:?}");
    assert_eq!(session.conflicts_in_a_row(), 0);
    conflict(&db, &mut session, &table);
    session.start_afresh();
    assert_eq!(session.conflicts_in_a_row(), 0);
}

/// A holder of the token makes all other commits wait: it is taken at the commit, in which nothing waits for a client.
#[test]
fn priority_is_held_during_the_commit_alone() {
    let (db, table) = open(&SimDisk::new(), Duration::from_millis(1));
    let token = &db.shared.engine.priority;
    let calls = Arc::new(Calls::default());
    let waker = Arc::clone(&calls).into();
    let context = &mut Context::from_waker(&waker);
    let mut session = db.session().unwrap();
    for _ in 0..PRIORITY_AFTER {
        conflict(&db, &mut session, &table);
        assert!(!token.is_taken());
    }
    session.begin().unwrap();
    add(&mut session, &table, 1).unwrap();
    assert!(!token.is_taken());
    // Another transaction has it: the commit waits, and the thread does not.
    assert!(token.request(&mut None));
    {
        let mut commit = pin!(session.commit());
        assert!(commit.as_mut().poll(context).is_pending());
        token.release();
        calls.wait();
        let number = token.number();
        let committed = commit.as_mut().poll(context);
        assert!(matches!(committed, Poll::Ready(Ok(_))), "{committed:?}");
        assert_eq!(token.number(), number + 1, "it has had the token");
    }
    assert!(!token.is_taken());
    // The next one is another transaction, which yields to a holder.
    session.begin().unwrap();
    add(&mut session, &table, 1).unwrap();
    assert!(token.request(&mut None));
    {
        let mut commit = pin!(session.commit());
        assert!(commit.as_mut().poll(context).is_pending());
        token.release();
        let committed = loop {
            calls.wait();
            if let Poll::Ready(committed) = commit.as_mut().poll(context) {
                break committed;
            }
        };
        committed.unwrap();
    }
    // A future that is dropped leaves nothing.
    session.begin().unwrap();
    add(&mut session, &table, 2).unwrap();
    assert!(token.request(&mut None));
    {
        let mut commit = pin!(session.commit());
        assert!(commit.as_mut().poll(context).is_pending());
    }
    token.release();
    assert!(!session.is_running() && !token.is_taken());
    assert_eq!(db.transact(|tx| tx.get(&table, &2)).unwrap(), Some(0));
}

#[test]
fn a_commit_waits_for_a_lock_as_a_task() {
    let (db, table) = open(&SimDisk::new(), Duration::from_millis(1));
    let calls = Arc::new(Calls::default());
    let waker = Arc::clone(&calls).into();
    let context = &mut Context::from_waker(&waker);
    let mut session = db.session().unwrap();
    session.begin().unwrap();
    add(&mut session, &table, 1).unwrap();
    let record = session.statement(|tx| {
        tx.resolve_writes()?;
        Ok::<_, Error>(tx.written_records()[0])
    });
    let record = record.unwrap();
    let before = Silo::try_lock(record).unwrap();
    let mut commit = pin!(session.commit());
    assert!(commit.as_mut().poll(context).is_pending());
    Silo::unlock(record, before);
    calls.wait();
    let committed = commit.as_mut().poll(context);
    assert!(matches!(committed, Poll::Ready(Ok(_))), "{committed:?}");
}

/// The flusher would flush the group at once if a task called it.
#[test]
fn the_callers_flush_wakes_its_tasks() {
    let (db, table) = open(&SimDisk::new(), Duration::from_secs(3600));
    let calls = Arc::new(Calls::default());
    let waker = Arc::clone(&calls).into();
    let context = &mut Context::from_waker(&waker);
    let mut session = db.session().unwrap();
    session.begin().unwrap();
    session.statement(|tx| tx.put(&table, &1, &7)).unwrap();
    let Poll::Ready(Ok(ticket)) = pin!(session.commit()).poll(context) else {
        panic!("it has nothing to wait for");
    };
    let mut acknowledged = pin!(db.acknowledged(ticket).flushed_by_caller());
    for _ in 0..20 {
        assert!(acknowledged.as_mut().poll(context).is_pending());
        std::thread::sleep(Duration::from_millis(1));
    }
    db.flush_stream(session.worker()).unwrap();
    calls.wait();
    while acknowledged.as_mut().poll(context).is_pending() {
        calls.wait();
    }
    assert!(db.is_acknowledged(&ticket));
    // Nothing is pending now.
    db.flush_stream(session.worker()).unwrap();
}

#[test]
fn a_requested_flush_wakes_the_tasks() {
    let (db, table) = open(&SimDisk::new(), Duration::from_secs(3600));
    let calls = Arc::new(Calls::default());
    let waker = Arc::clone(&calls).into();
    let context = &mut Context::from_waker(&waker);
    let mut session = db.session().unwrap();
    // Nothing is pending.
    db.request_flush(session.worker());
    session.begin().unwrap();
    session.statement(|tx| tx.put(&table, &1, &7)).unwrap();
    let Poll::Ready(Ok(ticket)) = pin!(session.commit()).poll(context) else {
        panic!("it has nothing to wait for");
    };
    let mut acknowledged = pin!(db.acknowledged(ticket).flushed_by_caller());
    assert!(acknowledged.as_mut().poll(context).is_pending());
    db.request_flush(session.worker());
    while acknowledged.as_mut().poll(context).is_pending() {
        calls.wait();
    }
    assert!(db.is_acknowledged(&ticket));
}

/// The caller's flush may not come: the log's own thread is the last resort, and without that the poll.
#[test]
fn a_commit_without_a_callers_flush_is_flushed() {
    for group_wait_max in [Duration::from_millis(20), Duration::MAX] {
        let (db, table) = open(&SimDisk::new(), group_wait_max);
        let calls = Arc::new(Calls::default());
        let waker = Arc::clone(&calls).into();
        let context = &mut Context::from_waker(&waker);
        let mut session = db.session().unwrap();
        session.begin().unwrap();
        session.statement(|tx| tx.put(&table, &1, &7)).unwrap();
        let Poll::Ready(Ok(ticket)) = pin!(session.commit()).poll(context) else {
            panic!("it has nothing to wait for");
        };
        let mut acknowledged = pin!(db.acknowledged(ticket).flushed_by_caller());
        while acknowledged.as_mut().poll(context).is_pending() {
            assert_ne!(group_wait_max, Duration::MAX, "nothing would wake it");
            calls.wait();
        }
        assert!(db.is_acknowledged(&ticket));
    }
}

/// All other commits wait for the holder of the token: it does not wait for a table.
#[test]
fn priority_is_released_while_a_table_is_loaded() {
    let (db, table) = open(&SimDisk::new(), Duration::from_millis(1));
    let loading = db.table::<u64, u64>("loading").unwrap();
    let load_state = &loading.raw_table().load_state;
    load_state.begin(&Arc::default(), 0);
    let token = &db.shared.engine.priority;
    let calls = Arc::new(Calls::default());
    let waker = Arc::clone(&calls).into();
    let context = &mut Context::from_waker(&waker);
    let mut session = db.session().unwrap();
    let mut other = db.session().unwrap();
    let attempts = Cell::new(0);
    let had_priority = Cell::new(false);
    let mut done = pin!(session.run(|tx| {
        attempts.set(attempts.get() + 1);
        if attempts.get() > PRIORITY_AFTER {
            had_priority.set(had_priority.get() || token.is_taken());
            return tx.get(&loading, &1);
        }
        let value = tx.get(&table, &1)?;
        std::thread::scope(|scope| {
            let changed = scope.spawn(|| {
                let changed = other.try_transact_async(|tx| tx.update(&table, &1, |n| n + 1));
                changed.map(drop)
            });
            changed.join().unwrap()
        })?;
        tx.put(&table, &2, &1)?;
        Ok::<_, Error>(value)
    }));
    let ended = loop {
        if let Poll::Ready(ended) = done.as_mut().poll(context) {
            break ended;
        }
        assert!(!token.is_taken(), "it waits, and has the token");
        if attempts.get() > PRIORITY_AFTER {
            load_state.end(Ok(()));
        }
        calls.wait();
    };
    assert_eq!(ended.unwrap().0, None);
    assert!(had_priority.get() && !token.is_taken());
}

/// A thread that commits yields to the holder of the token; a task waits before, and not in a commit.
#[test]
fn a_session_is_in_a_task_until_its_transaction_ends() {
    let (db, table) = open(&SimDisk::new(), Duration::from_millis(1));
    let mut session = db.session().unwrap();
    session.begin().unwrap();
    add(&mut session, &table, 1).unwrap();
    assert!(session.transaction_mut().retry_state().is_in_task());
    session.transact(|tx| tx.put(&table, &2, &5)).unwrap();
    assert!(!session.is_running() && !session.transaction_mut().retry_state().is_in_task());
    session.begin().unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        session.statement(|_| -> Result<(), Error> { panic!("in a statement") })
    }));
    assert!(panicked.is_err() && !session.transaction_mut().retry_state().is_in_task());
    let all = db.transact(|tx| tx.scan(&table, ..)).unwrap();
    assert_eq!(all, [(1, 0), (2, 5), (3, 0)]);
}

fn append(row: &[u8], argument: &[u8], into: &mut Vec<u8>) -> Result<(), ChangeRefused> {
    into.extend([row, argument].concat());
    Ok(())
}

/// The holder of a hot row's lock may have lost its processor. That the row is there is seen without the lock.
#[test]
fn a_late_change_of_a_locked_row_does_not_wait() {
    let (db, _) = open(&SimDisk::new(), Duration::from_millis(1));
    let new = UntypedTable {
        name: "rows",
        key_type: "key",
        value_type: "row",
        ..UntypedTable::default()
    };
    let rows = db.create_untyped_table(&new).unwrap();
    let mut session = db.session().unwrap();
    session.begin().unwrap();
    let record = session.statement(|tx| {
        tx.put_row(&rows, b"hot", b"a")?;
        tx.resolve_writes()?;
        Ok::<_, Error>(tx.written_records()[0])
    });
    let record = record.unwrap();
    let waker = Arc::new(Calls::default()).into();
    let context = &mut Context::from_waker(&waker);
    assert!(pin!(session.commit()).poll(context).is_ready());
    let before = Silo::try_lock(record).unwrap();
    session.begin().unwrap();
    for argument in [b"b", b"c"] {
        let changed = session.statement(|tx| tx.change_later(&rows, b"hot", append, argument));
        assert!(changed.unwrap());
    }
    Silo::unlock(record, before);
    let committed = pin!(session.commit()).poll(context);
    assert!(matches!(committed, Poll::Ready(Ok(_))), "{committed:?}");
    let row = db.transact(|tx| Ok(tx.row(&rows, b"hot")?.map(<[u8]>::to_vec)));
    assert_eq!(row.unwrap().as_deref(), Some(&b"abc"[..]));
}

/// A server has a session for each client, and most of them are idle.
#[test]
fn an_idle_session_keeps_no_large_buffers() {
    let (db, table) = open(&SimDisk::new(), Duration::from_millis(1));
    let waker = Arc::new(Calls::default()).into();
    let context = &mut Context::from_waker(&waker);
    let mut session = db.session().unwrap();
    let long = db.table::<u64, Vec<u8>>("long").unwrap();
    for rolls_back in [false, true] {
        session.begin().unwrap();
        session
            .statement(|tx| {
                for key in 0..1_000 {
                    tx.get(&table, &(key + 10))?;
                    tx.put(&table, &(key + 10), &key)?;
                    let savepoint = tx.savepoint();
                    tx.put(&table, &key, &key)?;
                    tx.rollback_to(&savepoint)?;
                }
                tx.put(&long, &1, &vec![7; 100_000])?;
                tx.get(&long, &1).map(drop)
            })
            .unwrap();
        assert!(session.transaction().kept_buffers_reach(1 << 14));
        if rolls_back {
            session.rollback();
        } else {
            assert!(pin!(session.commit()).poll(context).is_ready());
        }
        let most = LARGE_WHILE_IDLE_BYTES;
        assert!(!session.transaction().kept_buffers_reach(most));
    }
    assert!(size_of::<Session>() < 4 << 10);
}
