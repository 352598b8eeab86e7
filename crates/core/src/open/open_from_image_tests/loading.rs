//! Concurrent operations while tables are loaded: transactions wait, tables are dropped, and
//! databases are closed.

use std::num::NonZeroU16;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::held_loading::HeldLoading;
use super::*;
use crate::error::Error;

/// Three tables of one row each, in the image alone: keys of eight bytes, values too.
fn with_tables(names: &[&str]) -> SimDisk {
    let sim = SimDisk::new();
    let db = open(&sim);
    for name in names {
        let table = db.table::<u64, u64>(name).unwrap();
        db.transact(|tx| tx.put(&table, &1, &10)).unwrap();
    }
    db.checkpoint().unwrap();
    db.close().unwrap();
    sim
}

#[test]
fn tables_that_are_waited_for_are_loaded_first() {
    let sim = with_tables(&["a", "b", "c", "d"]);
    let held = HeldLoading::on_one_thread(&sim);
    assert_eq!(held.gate.begun(1), ["a"]);
    let tables = ["c", "b"].map(|name| held.table::<u64, u64>(name).unwrap());
    let tasks = tables.each_ref().map(|table| {
        let mut task = Box::pin(held.transact_in_task(|tx| tx.get(table, &1)));
        let context = &mut Context::from_waker(Waker::noop());
        assert!(task.as_mut().poll(context).is_pending());
        task
    });
    held.gate.open();
    held.wait_until_loaded().unwrap();
    assert_eq!(held.gate.begun(4), ["a", "c", "b", "d"]);
    for mut task in tasks {
        let context = &mut Context::from_waker(Waker::noop());
        // It may have to wait for the log; there is nothing to be made durable.
        while task.as_mut().poll(context).is_pending() {
            std::thread::yield_now();
        }
    }
}

#[test]
fn transactions_wait_and_then_see_everything() {
    let sim = with_tables(&["a"]);
    let held = HeldLoading::on_one_thread(&sim);
    let table = held.table::<u64, u64>("a").unwrap();
    let mut attempts = 0;
    let (db, table) = (&*held, &table);
    let tried = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        let waiters = [
            scope.spawn(|| {
                db.transact(|tx| {
                    attempts += 1;
                    // Whatever the body does with the error.
                    Ok(tx.get(table, &1).unwrap_or(None))
                })
            }),
            scope.spawn(|| db.transact(|tx| tx.scan(table, ..).map(|rows| Some(rows[0].1)))),
            // A transaction that its owner ends waits in place.
            scope.spawn(|| {
                let mut tx = db.begin()?;
                let found = tx.get(table, &1)?;
                tx.commit()?;
                Ok(found)
            }),
            scope.spawn(|| {
                let mut session = db.session()?;
                let error = session
                    .try_transact_async(|tx| {
                        let found = tx.get(table, &1);
                        tried.wait();
                        found
                    })
                    .unwrap_err();
                assert!(matches!(error, Error::TableLoading { .. }) && error.is_retryable());
                Ok(session.try_transact_async(|tx| tx.get(table, &1))?.0)
            }),
        ];
        tried.wait();
        held.gate.open();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap().unwrap(), Some(10));
        }
    });
    assert!(attempts <= 2);
    assert_eq!(held.loading().tables, 1);
    assert!(held.loading().is_over());
}

#[test]
fn a_task_goes_on_when_its_table_is_loaded() {
    let sim = with_tables(&["a"]);
    let held = HeldLoading::on_one_thread(&sim);
    let table = held.table::<u64, u64>("a").unwrap();
    let context = &mut Context::from_waker(Waker::noop());
    let mut task = pin!(held.transact_in_task(|tx| tx.update(&table, &1, |value| value + 1)));
    for _ in 0..3 {
        assert!(task.as_mut().poll(context).is_pending());
    }
    held.gate.open();
    held.wait_until_loaded().unwrap();
    let done = loop {
        if let Poll::Ready(done) = task.as_mut().poll(context) {
            break done;
        }
        std::thread::yield_now();
    };
    assert!(done.unwrap());
    assert_eq!(held.read(|view| view.get(&table, &1)).unwrap(), Some(11));
}

#[test]
fn other_tables_are_used_while_one_is_loaded() {
    let sim = with_tables(&["a"]);
    let held = HeldLoading::on_one_thread(&sim);
    let other = held.table::<u64, u64>("new").unwrap();
    held.transact(|tx| tx.put(&other, &1, &2)).unwrap();
    let a = held.table::<u64, u64>("a").unwrap();
    let read = held.read(|view| Ok((view.get(&a, &1)?, view.get(&other, &1)?)));
    assert_eq!(read.unwrap(), (Some(10), Some(2)));
    assert!(!held.loading().is_over());
}

/// Closed in the middle, by a call or by the last handle, and killed.
#[test]
fn an_end_in_the_middle_of_loading_changes_nothing() {
    for kill in [false, true] {
        let mut now = with_tables(&["a", "b"]);
        let before = files(&now);
        for round in 0..3 {
            let held = HeldLoading::on_one_thread(&now);
            held.gate.begun(1);
            let a = held.table::<u64, u64>("a").unwrap();
            // A table that is in no image, and only in the log from the next opening on.
            let new = held.table::<u64, u64>(&format!("new {round}")).unwrap();
            held.transact(|tx| tx.put(&new, &round, &round)).unwrap();
            if kill {
                now = now.crash_image(now.events(), Loss::All);
                continue;
            }
            std::thread::scope(|scope| {
                let closes = scope.spawn(|| held.close());
                let waits = scope.spawn(|| held.wait_until_loaded());
                let uses = scope.spawn(|| held.transact(|tx| tx.get(&a, &1)));
                let checkpoints = scope.spawn(|| held.checkpoint());
                // Waiters for a table fail once its loader has ended.
                while !held.shared.loader.is_stopped() {
                    std::thread::yield_now();
                }
                held.gate.open();
                closes.join().unwrap().unwrap();
                assert!(matches!(waits.join().unwrap(), Err(Error::Closed)));
                assert!(matches!(uses.join().unwrap(), Err(Error::Closed)));
                assert!(matches!(checkpoints.join().unwrap(), Err(Error::Closed)));
            });
            assert!(matches!(
                held.read(|view| view.get(&a, &1)),
                Err(Error::Closed)
            ));
        }
        assert_eq!(files(&now), before, "killed: {kill}");
        let db = open(&now);
        for name in ["a", "b"] {
            let table = db.table::<u64, u64>(name).unwrap();
            let found = db.transact(|tx| tx.scan(&table, ..)).unwrap();
            assert_eq!(found, [(1, 10)]);
        }
        for round in 0..3 {
            let new = db.table::<u64, u64>(&format!("new {round}")).unwrap();
            let found = db.transact(|tx| tx.scan(&new, ..)).unwrap();
            assert_eq!(found, [(round, round)], "killed: {kill}");
        }
    }
}

#[test]
fn tables_change_while_they_are_loaded() {
    let sim = with_tables(&["cleared", "dropped", "renamed", "kept"]);
    let held = HeldLoading::on_one_thread(&sim);
    assert_eq!(held.gate.begun(1), ["cleared"]);
    let dropped = held.table::<u64, u64>("dropped").unwrap();
    let view = held.view().unwrap();
    assert_eq!(view.get(&dropped, &1).unwrap(), Some(10));
    let context = &mut Context::from_waker(Waker::noop());
    let mut task = pin!(held.transact_in_task(|tx| tx.get(&dropped, &1)));
    assert!(task.as_mut().poll(context).is_pending());
    held.drop_table("dropped").unwrap();
    let Poll::Ready(ended) = task.as_mut().poll(context) else {
        panic!("it waits for a table that is gone");
    };
    assert!(matches!(ended, Err(Error::TableDropped { .. })));
    // The view has its files open.
    assert_eq!(view.get(&dropped, &1).unwrap(), Some(10));
    let later = held.view().unwrap();
    assert!(matches!(
        later.get(&dropped, &1),
        Err(Error::TableDropped { .. })
    ));
    held.clear_table("cleared").unwrap();
    held.rename_table("renamed", "other").unwrap();
    let cleared = held.table::<u64, u64>("cleared").unwrap();
    let other = held.table::<u64, u64>("other").unwrap();
    let read = held.read(|view| Ok((view.count(&cleared, ..)?, view.get(&other, &1)?)));
    assert_eq!(read.unwrap(), (0, Some(10)));
    held.transact(|tx| tx.put(&cleared, &7, &70)).unwrap();
    held.gate.open();
    held.wait_until_loaded().unwrap();
    held.transact(|tx| tx.put(&other, &2, &20)).unwrap();
    for round in 0..2 {
        let rows = |name| {
            let table = held.table::<u64, u64>(name).unwrap();
            held.transact(|tx| tx.scan(&table, ..)).unwrap()
        };
        assert_eq!(rows("cleared"), [(7, 70)], "{round}");
        assert_eq!(rows("other"), [(1, 10), (2, 20)], "{round}");
        assert_eq!(rows("kept"), [(1, 10)], "{round}");
        held.checkpoint().unwrap();
    }
}

#[test]
fn the_memory_of_a_table_dropped_while_loading_is_freed() {
    let sim = with_tables(&["a", "b"]);
    let held = HeldLoading::on_one_thread(&sim);
    let a = held.table::<u64, u64>("a").unwrap();
    let raw_table = Arc::downgrade(a.raw_table());
    held.drop_table("a").unwrap();
    drop(a);
    held.gate.open();
    held.wait_until_loaded().unwrap();
    assert!(raw_table.upgrade().is_none());
}

#[test]
fn a_checkpoint_waits_until_all_tables_are_loaded() {
    let sim = with_tables(&["a", "b"]);
    let held = HeldLoading::on_one_thread(&sim);
    let new = held.table::<u64, u64>("new").unwrap();
    held.transact(|tx| tx.put(&new, &1, &1)).unwrap();
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| held.checkpoint());
        held.gate.begun(1);
        assert_eq!(held.stats().checkpoints.taken, 0);
        held.gate.open();
        let report = checkpoint.join().unwrap().unwrap();
        assert_eq!((report.rows, report.files_kept), (1, 2));
    });
}

#[test]
fn many_tables_are_loaded_by_many_threads() {
    let names: Vec<_> = (0..150).map(|number| format!("table {number}")).collect();
    let sim = with_tables(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let threads = NonZeroU16::new(4).unwrap();
    let builder = Database::builder().disk(disk).recovery_threads(threads);
    let db = builder.open(dir()).unwrap();
    // In no order, while they are loaded in theirs.
    for name in names.iter().rev().step_by(2).chain(&names) {
        let table = db.table::<u64, u64>(name).unwrap();
        let read = db.read(|view| view.get(&table, &1)).unwrap();
        assert_eq!(
            (read, db.transact(|tx| tx.get(&table, &1)).unwrap()),
            (Some(10), Some(10))
        );
    }
    db.wait_until_loaded().unwrap();
    let loading = db.loading();
    assert_eq!((loading.tables, loading.rows), (150, 150));
    assert_eq!(loading.bytes, loading.bytes_total);
}

#[test]
fn a_system_without_threads_loads_before_the_opening_ends() {
    let sim = with_tables(&["a", "b"]);
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let builder = Database::builder().disk(disk);
    let db = namiki_platform::threads::with_limit(0, || builder.open(dir())).unwrap();
    assert_eq!(db.loading().tables, 2);
    let a = db.table::<u64, u64>("a").unwrap();
    assert_eq!(db.transact(|tx| tx.get(&a, &1)).unwrap(), Some(10));
}

#[test]
fn a_table_of_the_log_alone_is_read_and_loaded() {
    let sim = with_tables(&["a"]);
    let db = open(&sim);
    let new = db.table::<u64, u64>("new").unwrap();
    db.transact(|tx| tx.put(&new, &1, &1)).unwrap();
    db.transact(|tx| tx.put(&new, &2, &2)).unwrap();
    db.transact(|tx| tx.delete(&new, &1)).unwrap();
    let crashed = sim.crash_image(sim.events(), Loss::All);
    let held = HeldLoading::on_one_thread(&crashed);
    let new = held.table::<u64, u64>("new").unwrap();
    assert_eq!(held.read(|view| view.scan(&new, ..)).unwrap(), [(2, 2)]);
    assert_eq!(held.loading().tables_total, 2);
    held.gate.open();
    assert_eq!(held.transact(|tx| tx.scan(&new, ..)).unwrap(), [(2, 2)]);
}

/// A checkpoint at the end needs all tables; without one, each opening leaves a generation of the log.
#[test]
fn openings_that_load_nothing_leave_few_generations() {
    use std::sync::atomic::{AtomicBool, Ordering};

    let sim = with_tables(&["a"]);
    for round in 0..70_u64 {
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let is_over = Arc::new(AtomicBool::new(false));
        let before_load = {
            let is_over = Arc::clone(&is_over);
            Arc::new(move |_: &str| {
                let is_background = std::thread::current().name() == Some("namiki-load");
                while is_background && !is_over.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
            })
        };
        let builder = Database::builder().disk(disk).before_load(before_load);
        let builder = builder.log_file_bytes(1 << 20).streams(NonZeroU16::MIN);
        let db = builder.open(dir()).unwrap();
        assert!(db.recovery().generations <= 32, "round {round}");
        let other = db.table::<u64, u64>(&format!("other {round}")).unwrap();
        db.transact(|tx| tx.put(&other, &1, &1)).unwrap();
        std::thread::scope(|scope| {
            let closes = scope.spawn(|| db.close());
            while !db.shared.loader.is_stopped() {
                std::thread::yield_now();
            }
            is_over.store(true, Ordering::SeqCst);
            closes.join().unwrap().unwrap();
        });
    }
    let db = open(&sim);
    let a = db.table::<u64, u64>("a").unwrap();
    assert_eq!(db.transact(|tx| tx.scan(&a, ..)).unwrap(), [(1, 10)]);
    assert_eq!(db.tables().len(), 71);
}
