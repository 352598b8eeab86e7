//! Batches of keys: read, updated, and prefetched.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its specs"
)]

use std::fmt::Debug;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use namiki::{Conflict, Database, Error, ProtocolSpec, Table};
use namiki_platform::disk::{Disk, SimDisk};
use namiki_tests::on_another_thread::on_another_thread;
use namiki_tests::tested_specs::optimistic;

/// Every protocol; the interface behaves the same under all of them.
fn each_spec(check: impl Fn(&Database, Table<u64, i64>)) {
    each_of(ProtocolSpec::tested(), check);
}

/// The protocols under which others can change versions that were read.
fn each_optimistic(check: impl Fn(&Database, Table<u64, i64>)) {
    each_of(optimistic(), check);
}

fn each_of(mut specs: Vec<ProtocolSpec>, check: impl Fn(&Database, Table<u64, i64>)) {
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

fn assert_conflict<T: Debug>(ended: Result<T, Error>, expected: Conflict) {
    assert!(
        matches!(ended, Err(Error::Conflict(conflict)) if conflict == expected),
        "{ended:?} and not {expected:?}"
    );
}

/// More keys than one batch looks up: present, absent, deleted, written by the transaction, and
/// duplicates.
#[test]
fn many_keys_are_read_as_one_by_one() {
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

/// A present and an absent key. With each, the conflict of a transaction that has read both when
/// another one writes that key.
const CHANGED: [(u64, Conflict); 2] = [(2, Conflict::ReadChanged), (3, Conflict::Phantom)];

/// Each of two transactions reads a value or a gap that the other writes, so one of them must fail.
#[test]
fn keys_read_in_a_batch_are_protected() {
    for (changed, conflict) in CHANGED {
        each_optimistic(|db, table| {
            db.transact(|tx| {
                (0..40)
                    .step_by(2)
                    .try_for_each(|key| tx.put(&table, &key, &1))
            })
            .unwrap();
            let [mut outer, mut inner] = [(); 2].map(|()| db.session().unwrap());
            let ended = outer.try_transact_async(|tx| {
                tx.get_many(&table, 0..40, &mut Vec::new())?;
                let other = on_another_thread(|| {
                    inner.try_transact_async(|other| {
                        other.get_many(&table, [100], &mut Vec::new())?;
                        other.put(&table, &changed, &2)
                    })
                });
                assert!(other.is_ok());
                // Otherwise its group holds its locks, and those conflict.
                inner.flush().unwrap();
                tx.put(&table, &100, &2)
            });
            assert_conflict(ended, conflict);
        });
    }
}

#[test]
fn many_keys_are_updated_as_one_by_one() {
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

/// Each of two transactions updates or misses a key that the other changes, so one of them must
/// fail.
#[test]
fn keys_updated_in_a_batch_are_protected() {
    for (changed, conflict) in CHANGED {
        each_optimistic(|db, table| {
            let evens = (0..40).step_by(2);
            db.transact(|tx| evens.clone().try_for_each(|key| tx.put(&table, &key, &1)))
                .unwrap();
            let [mut outer, mut inner] = [(); 2].map(|()| db.session().unwrap());
            let ended = outer.try_transact_async(|tx| {
                assert_eq!(tx.update_many(&table, 0..40, |_, old| old + 1)?, 20);
                let other = on_another_thread(|| {
                    inner.try_transact_async(|other| {
                        other.get(&table, &100)?;
                        other.put(&table, &changed, &2)
                    })
                });
                assert!(other.is_ok());
                // Otherwise its group holds its locks, and those conflict.
                inner.flush().unwrap();
                tx.put(&table, &100, &2)
            });
            assert_conflict(ended, conflict);
        });
    }
}

#[test]
fn an_update_that_is_taken_back_has_been_a_read() {
    each_optimistic(|db, table| {
        db.transact(|tx| (0..3).try_for_each(|key| tx.put(&table, &key, &1)))
            .unwrap();
        let [mut outer, mut inner] = [(); 2].map(|()| db.session().unwrap());
        let ended = outer.try_transact_async(|tx| {
            tx.update_many(&table, [0], |_, old| old + 1)?;
            let savepoint = tx.savepoint();
            tx.update_many(&table, [1], |_, old| old + 1)?;
            tx.rollback_to(&savepoint)?;
            let other = on_another_thread(|| {
                inner.try_transact_async(|other| {
                    other.get(&table, &2)?;
                    other.put(&table, &1, &5)
                })
            });
            assert!(other.is_ok());
            inner.flush().unwrap();
            tx.put(&table, &2, &5)
        });
        assert_conflict(ended, Conflict::ReadChanged);
    });
}

/// Positions among the first sixteen keys, which are looked up together, and among the later ones.
#[test]
fn keys_before_an_impossible_one_are_processed() {
    each_spec(|db, _| {
        let names: Table<str, i64> = db.table("names").unwrap();
        let key = |at: usize| format!("{at:03}");
        let too_long = "x".repeat(1 << 20);
        // Every third key is absent.
        let there = |at: usize| at % 3 != 2;
        db.transact(|tx| {
            let mut present = (0..40).filter(|at| there(*at));
            present.try_for_each(|at| tx.put(&names, &key(at), &(at as i64)))
        })
        .unwrap();
        for bad in [0, 1, 15, 16, 17, 31, 32, 39] {
            let mut keys: Vec<String> = (0..40).map(key).collect();
            keys[bad].clone_from(&too_long);
            // A second bad key changes nothing.
            keys[39].clone_from(&too_long);
            let mut found = vec![Some(5)];
            let updated = db
                .transact(|tx| {
                    let keys = || keys.iter().map(String::as_str);
                    let read = tx.get_many(&names, keys(), &mut found);
                    assert!(is_too_long(&read), "{bad}: {read:?}");
                    let mut changed = Vec::new();
                    let updated = tx.update_many(&names, keys(), |at, old| {
                        changed.push(at);
                        old + 100
                    });
                    assert!(is_too_long(&updated), "{bad}: {updated:?}");
                    let rows = tx.scan(&names, ..)?;
                    let new = rows.into_iter().filter(|(_, value)| *value >= 100);
                    assert!(
                        new.map(|(key, _)| key)
                            .eq(changed.iter().map(|at| key(*at)))
                    );
                    // Restores the values for the next round.
                    tx.update_many(&names, changed.iter().map(|at| key(*at)), |_, old| {
                        old - 100
                    })?;
                    Ok(changed)
                })
                .unwrap();
            let expected: Vec<usize> = (0..bad).filter(|at| there(*at)).collect();
            assert_eq!(updated, expected, "{bad}");
            let expected = (0..bad).map(|at| there(at).then_some(at as i64));
            assert!(found.iter().copied().eq(expected), "{bad}: {found:?}");
        }
    });
}

fn is_too_long<T>(ended: &Result<T, Error>) -> bool {
    matches!(ended, Err(Error::KeyTooLong { table, .. }) if table == "names")
}

/// A batch that misses a key before the bad one has read its gap, as if it had read that key alone.
#[test]
fn keys_before_one_that_no_table_can_hold_are_protected() {
    each_optimistic(|db, numbers| {
        let names: Table<str, i64> = db.table("names").unwrap();
        db.transact(|tx| tx.put(&names, "there", &1)).unwrap();
        let too_long = "x".repeat(1 << 20);
        for (changed, conflict) in [
            ("there", Conflict::ReadChanged),
            ("missing", Conflict::Phantom),
        ] {
            let [mut outer, mut inner] = [(); 2].map(|()| db.session().unwrap());
            let ended = outer.try_transact_async(|tx| {
                let read = tx.get_many(&names, ["there", "missing", &too_long], &mut Vec::new());
                assert!(is_too_long(&read), "{read:?}");
                let other = on_another_thread(|| {
                    inner.try_transact_async(|other| {
                        other.get(&numbers, &1)?;
                        other.put(&names, changed, &2)
                    })
                });
                assert!(other.is_ok());
                inner.flush().unwrap();
                tx.put(&numbers, &1, &2)
            });
            assert_conflict(ended, conflict);
        }
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
            // If the prefetch had read the other's key, and the gap at 50, this transaction could
            // not commit.
            let other = on_another_thread(|| {
                inner.try_transact_async(|other| {
                    other.get(&table, &100)?;
                    other.put(&table, &3, &2)?;
                    other.put(&table, &50, &2)
                })
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
