//! A transaction in the body of another one: refused at once on the same thread and database, and
//! allowed everywhere else.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use namiki::query::{Column, ColumnType, Datum, Schema};
use namiki::{BatchLoadStop, Database, Error, NewTable, Session};
use namiki_tests::block_on::block_on;
use namiki_tests::on_another_thread::on_another_thread;
use namiki_tests::small_database::{Numbers, in_memory, numbers};

const SPECS: [&str; 4] = [
    "SILO(EPOCH)+PWAL(auto)",
    "TT(NLR)+PWAL(1)",
    "S2PL(ELR)+PWAL(16)",
    "S2PL(NLR)+PWAL(1)+ARIES",
];

fn open(spec: &str) -> (Database, Numbers) {
    let db = in_memory(spec);
    let table = numbers(&db);
    (db, table)
}

fn assert_nested<T: std::fmt::Debug>(refused: Result<T, Error>, what: &str) {
    assert!(
        matches!(refused, Err(Error::NestedTransaction)),
        "{what}: {refused:?}"
    );
}

/// Every call that runs a transaction, each putting a number under key 1. Every call is refused.
fn each_call(db: &Database, session: &mut Session, table: &Numbers, mut visit: impl FnMut(&str)) {
    let key = 1;
    let mut refused = |what: &str, done: Result<(), Error>| {
        assert_nested(done, what);
        visit(what);
    };
    refused("transact", db.transact(|tx| tx.put(table, &key, &7)));
    let with = db.transact_with::<_, Error>(|tx| tx.put(table, &key, &7));
    refused("transact_with", with);
    let of_session = session.transact(|tx| tx.put(table, &key, &7));
    refused("session", of_session);
    let of_session = session.transact_with::<_, Error>(|tx| tx.put(table, &key, &7));
    refused("session, with", of_session);
    let not_waited = session.transact_async(|tx| tx.put(table, &key, &7));
    refused("async", not_waited.map(|_| ()));
    let not_waited = session.transact_async_with::<_, Error>(|tx| tx.put(table, &key, &7));
    refused("async, with", not_waited.map(|_| ()));
    let once = session.try_transact_async(|tx| tx.put(table, &key, &7));
    refused("once", once.map(|_| ()));
    let once = session.try_transact_async_with::<_, Error>(|tx| tx.put(table, &key, &7));
    refused("once, with", once.map(|_| ()));
    let task = db.transact_in_task(|tx| tx.put(table, &key, &7));
    refused("task", block_on(task));
    let task = db.transact_in_task_with::<_, Error>(|tx| tx.put(table, &key, &7));
    refused("task, with", block_on(task));
    let loaded = db.load(table, [(key, 7)]).unwrap_err();
    let stop = match loaded.stop {
        BatchLoadStop::Transaction(error) => Err(error),
        other => panic!("{other:?}"),
    };
    refused("load", stop);
}

#[test]
fn a_nested_transaction_is_refused_at_once() {
    for spec in SPECS {
        let (db, table) = open(spec);
        let mut session = db.session().unwrap();
        let (mut runs, mut calls) = (0, 0);
        db.transact(|tx| {
            runs += 1;
            tx.put(&table, &2, &2)?;
            each_call(&db, &mut session, &table, |_| calls += 1);
            Ok(())
        })
        .unwrap();
        assert_eq!((runs, calls), (1, 11), "{spec}");
        let found = db.transact(|tx| tx.scan(&table, ..)).unwrap();
        assert_eq!(found, [(2, 2)], "{spec}");
        // The same for every way to run the outer transaction.
        let mut outer = db.session().unwrap();
        let once = outer.try_transact_async(|_| {
            each_call(&db, &mut session, &table, |_| {});
            Ok(())
        });
        once.unwrap();
        let task = db.transact_in_task(|_| {
            each_call(&db, &mut session, &table, |_| {});
            Ok(())
        });
        block_on(task).unwrap();
        assert_eq!(db.transact(|tx| tx.scan(&table, ..)).unwrap(), [(2, 2)]);
    }
}

/// The propagated error ends the outer transaction, and tells what to do.
#[test]
fn a_helper_that_just_saves_something_ends_the_transaction() {
    let (db, table) = open(SPECS[0]);
    let save = |number| db.transact(|tx| tx.put(&table, &number, &0));
    let mut runs = 0;
    let ended = db.transact(|tx| {
        runs += 1;
        let count = tx.get(&table, &1)?.unwrap_or(0);
        save(9)?;
        tx.put(&table, &1, &(count + 1))
    });
    let message = ended.as_ref().unwrap_err().to_string();
    assert!(message.contains("nested"), "{message}");
    assert_nested(ended, "the outer one");
    assert_eq!(runs, 1);
    save(9).unwrap();
    assert_eq!(db.transact(|tx| tx.scan(&table, ..)).unwrap(), [(9, 0)]);
}

#[test]
fn transactions_that_are_begun_views_and_tables_are_free() {
    let (db, table) = open(SPECS[0]);
    let columns = vec![Column::new("id", ColumnType::U64)];
    let schema = Schema::new(columns, &["id"]).unwrap();
    db.transact(|tx| {
        let mut begun = db.begin()?;
        begun.put(&table, &1, &1)?;
        begun.commit()?;
        let view = db.view()?;
        assert_eq!(view.get(&table, &1)?, Some(1));
        db.read(|view| view.count(&table, ..))?;
        db.table::<u64, u64>("another")?;
        db.drop_table("another")?;
        let row = Ok::<_, String>(vec![Datum::U64(1)]);
        db.load_sorted(&NewTable::new("loaded", schema.clone()), [row])
            .unwrap();
        tx.put(&table, &2, &2)
    })
    .unwrap();
    // An explicit transaction has no body, so there is nothing to rerun.
    let mut begun = db.begin().unwrap();
    begun.put(&table, &3, &3).unwrap();
    db.transact(|tx| tx.put(&table, &4, &4)).unwrap();
    begun.commit().unwrap();
    let all = db.transact(|tx| tx.scan(&table, ..)).unwrap();
    assert_eq!(all, [(1, 1), (2, 2), (3, 3), (4, 4)]);
}

#[test]
fn two_databases_may_nest_and_either_only_once() {
    let [(a, of_a), (b, of_b), (c, of_c)] = [SPECS[0], SPECS[1], SPECS[3]].map(open);
    a.transact(|tx| {
        tx.put(&of_a, &1, &1)?;
        b.transact(|tx| {
            tx.put(&of_b, &2, &2)?;
            assert_nested(a.transact(|tx| tx.put(&of_a, &9, &9)), "a in b in a");
            c.transact(|tx| {
                assert_nested(a.transact(|_| Ok(())), "a in c in b in a");
                assert_nested(b.transact(|_| Ok(())), "b in c in b");
                tx.put(&of_c, &3, &3)
            })
        })?;
        assert_nested(a.transact(|_| Ok(())), "a in a");
        b.transact(|tx| tx.put(&of_b, &4, &4))
    })
    .unwrap();
    let all = |db: &Database, table| db.transact(|tx| tx.scan(table, ..)).unwrap();
    assert_eq!(all(&a, &of_a), [(1, 1)]);
    assert_eq!(all(&b, &of_b), [(2, 2), (4, 4)]);
    assert_eq!(all(&c, &of_c), [(3, 3)]);
}

#[test]
fn another_thread_is_free_and_so_is_what_follows() {
    let (db, table) = open(SPECS[0]);
    let later = db.transact(|tx| {
        on_another_thread(|| db.transact(|tx| tx.put(&table, &1, &1)))?;
        tx.put(&table, &2, &2)?;
        // Created in the body, and run after it.
        Ok(db.transact_in_task(|tx| tx.put(&table, &3, &3)))
    });
    block_on(later.unwrap()).unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        db.transact::<()>(|_| panic!("as planned")).unwrap();
    }));
    assert!(panicked.is_err());
    db.transact(|tx| tx.put(&table, &4, &4)).unwrap();
    let all = db.transact(|tx| tx.scan(&table, ..)).unwrap();
    assert_eq!(all, [(1, 1), (2, 2), (3, 3), (4, 4)]);
}
