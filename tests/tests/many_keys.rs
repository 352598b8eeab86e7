//! Many keys at once: read, updated, and asked for ahead.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its specs"
)]

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use namiki::{Database, Error, Spec, Table};
use namiki_platform::disk::{Disk, SimDisk};

/// Every protocol; what a program sees is the same under all of them.
fn each_spec(check: impl Fn(&Database, Table<u64, i64>)) {
    let mut specs = Spec::all_durable();
    specs.push("TT(NLR)+NOLOG".parse().unwrap());
    for spec in specs {
        println!("{spec}");
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let db = Database::builder()
            .spec(spec)
            .streams(NonZeroU16::new(2).unwrap())
            .group_wait_max(Duration::from_millis(1))
            .disk(disk)
            .open("/db")
            .unwrap();
        let table = db.table("numbers").unwrap();
        check(&db, table);
    }
}

#[test]
fn many_keys_are_read_as_one_after_the_other_would_be() {
    each_spec(|db, table| {
        db.transact(|tx| {
            (0..100)
                .step_by(2)
                .try_for_each(|key| tx.put(&table, &key, &1))
        })
        .unwrap();
        db.transact(|tx| tx.delete(&table, &10).map(drop)).unwrap();
        db.transact(|tx| {
            tx.put(&table, &4, &7)?;
            tx.delete(&table, &6)?;
            tx.put(&table, &9, &8)?;
            let mut many = vec![Some(5)];
            let keys: Vec<u64> = (0..60).chain([4, 4, 9]).collect();
            tx.get_many(&table, &keys, &mut many)?;
            let mut one_by_one = Vec::new();
            for key in &keys {
                one_by_one.push(tx.get(&table, key)?);
            }
            assert_eq!(many, one_by_one);
            assert_eq!(many[3..7], [None, Some(7), None, None]);
            tx.get_many(&table, [0; 0], &mut many)?;
            assert!(many.is_empty());
            Ok(())
        })
        .unwrap();
    });
}

/// Each of two transactions reads what the other writes, a value or a gap, so one of them must fail.
#[test]
fn keys_read_together_are_protected_whether_they_are_there_or_not() {
    for changed in [2, 3] {
        each_spec(|db, table| {
            db.transact(|tx| {
                (0..40)
                    .step_by(2)
                    .try_for_each(|key| tx.put(&table, &key, &1))
            })
            .unwrap();
            let [mut outer, mut inner] = [(); 2].map(|()| db.session().unwrap());
            let ended = outer.try_transact_async(|tx| {
                tx.get_many(&table, 0..40, &mut Vec::new())?;
                let other = inner.try_transact_async(|other| {
                    other.get_many(&table, [100], &mut Vec::new())?;
                    other.put(&table, &changed, &2)
                });
                assert!(other.is_ok());
                tx.put(&table, &100, &2)
            });
            let error = ended.map(drop).unwrap_err();
            assert!(matches!(error, Error::Conflict(_)), "{changed}: {error}");
        });
    }
}

#[test]
fn many_keys_are_updated_as_one_after_the_other_would_be() {
    each_spec(|db, table| {
        let other: Table<u64, i64> = db.table("one by one").unwrap();
        let names: Table<str, String> = db.table("names").unwrap();
        for table in [&table, &other] {
            db.transact(|tx| {
                (0..100)
                    .step_by(2)
                    .try_for_each(|key| tx.put(table, &key, &(key as i64)))
            })
            .unwrap();
            db.transact(|tx| tx.delete(table, &10).map(drop)).unwrap();
        }
        let keys: Vec<u64> = (0..60).chain([4, 4, 9, 8]).collect();
        let change = |at: usize, old: i64| old * 100 + at as i64;
        db.transact(|tx| {
            let mut updated = 0;
            for table in [&table, &other] {
                tx.put(table, &4, &7)?;
                tx.delete(table, &6)?;
                tx.put(table, &9, &8)?;
            }
            for (at, key) in keys.iter().enumerate() {
                updated += usize::from(tx.update(&other, key, |old| change(at, old))?);
            }
            assert_eq!(tx.update_many(&table, &keys, change)?, updated);
            assert_eq!(updated, 28 + 1 + 4);
            assert_eq!(tx.scan(&table, ..)?, tx.scan(&other, ..)?);
            assert_eq!(tx.update_many(&table, [0; 0], change)?, 0);
            tx.put(&names, "b", &"x".to_owned())?;
            let longer = |at: usize, old: String| format!("{old} and {at}");
            assert_eq!(tx.update_many(&names, ["a", "b", "c", "b"], longer)?, 2);
            assert_eq!(tx.get(&names, "b")?.as_deref(), Some("x and 1 and 3"));
            Ok(())
        })
        .unwrap();
        let all = |of| db.transact(|tx| tx.scan(of, ..)).unwrap();
        assert_eq!(all(&table), all(&other));
    });
}

/// Each of two transactions updates or misses what the other changes, so one of them must fail.
#[test]
fn keys_updated_together_are_protected_whether_they_are_there_or_not() {
    for changed in [2, 3] {
        each_spec(|db, table| {
            let evens = (0..40).step_by(2);
            db.transact(|tx| evens.clone().try_for_each(|key| tx.put(&table, &key, &1)))
                .unwrap();
            let [mut outer, mut inner] = [(); 2].map(|()| db.session().unwrap());
            let ended = outer.try_transact_async(|tx| {
                assert_eq!(tx.update_many(&table, 0..40, |_, old| old + 1)?, 20);
                let other = inner.try_transact_async(|other| {
                    other.get(&table, &100)?;
                    other.put(&table, &changed, &2)
                });
                assert!(other.is_ok());
                tx.put(&table, &100, &2)
            });
            let error = ended.map(drop).unwrap_err();
            assert!(matches!(error, Error::Conflict(_)), "{changed}: {error}");
        });
    }
}

#[test]
fn an_update_that_is_taken_back_has_been_a_read() {
    each_spec(|db, table| {
        db.transact(|tx| (0..3).try_for_each(|key| tx.put(&table, &key, &1)))
            .unwrap();
        let [mut outer, mut inner] = [(); 2].map(|()| db.session().unwrap());
        let ended = outer.try_transact_async(|tx| {
            tx.update_many(&table, [0], |_, old| old + 1)?;
            let savepoint = tx.savepoint();
            tx.update_many(&table, [1], |_, old| old + 1)?;
            tx.rollback_to(&savepoint)?;
            let other = inner.try_transact_async(|other| {
                other.get(&table, &2)?;
                other.put(&table, &1, &5)
            });
            assert!(other.is_ok());
            inner.flush().unwrap();
            tx.put(&table, &2, &5)
        });
        assert!(matches!(ended, Err(Error::Conflict(_))), "{ended:?}");
    });
}

#[test]
fn asking_for_keys_ahead_reads_nothing() {
    each_spec(|db, table| {
        db.transact(|tx| (0..40).try_for_each(|key| tx.put(&table, &key, &1)))
            .unwrap();
        let names: Table<str, i64> = db.table("names").unwrap();
        let [mut outer, mut inner] = [(); 2].map(|()| db.session().unwrap());
        outer.prefetch(&table, 0..100);
        let ended = outer.try_transact_async(|tx| {
            tx.put(&table, &7, &7)?;
            tx.prefetch(&table, 0..100);
            // No table has room for such a key.
            tx.prefetch(&names, ["a", &"b".repeat(1 << 20), "c"]);
            // Had it read what the other writes, and the gap at 50, it could not commit.
            let other = inner.try_transact_async(|other| {
                other.get(&table, &100)?;
                other.put(&table, &3, &2)?;
                other.put(&table, &50, &2)
            });
            assert!(other.is_ok());
            inner.flush().unwrap();
            tx.put(&table, &100, &2)
        });
        ended.unwrap();
        outer.flush().unwrap();
        let found = db
            .transact(|tx| Ok([3, 7, 50, 100].map(|key| tx.get(&table, &key).unwrap())))
            .unwrap();
        assert_eq!(found, [Some(2), Some(7), Some(2), Some(2)]);
    });
}
