//! Deleted keys leave the index in the background. A held transaction that has met such keys, and
//! beside which no other one runs, commits nevertheless; and one whose keys others have changed does
//! not.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use namiki::{Database, Error, IndexKind, ProtocolSpec, Table, Transaction};
use namiki_platform::disk::NullDisk;
use namiki_tests::block_on::block_on;
use namiki_tests::on_another_thread::on_another_thread;
use namiki_tests::tested_specs::{optimistic, with_and_without_log};

type Numbers = Table<u64, u64>;

/// Keys that are absent, and have records.
const ABSENT: std::ops::Range<u64> = 100..110;
/// Another one of them.
const KEY: u64 = 104;
const INDEXES: [&str; 3] = ["art", "hash", "art+hash"];

struct World {
    db: Database,
    table: Numbers,
    context: String,
    is_ordered: bool,
    /// The keys are absent because they were deleted, and not because their insertion was rolled
    /// back.
    are_deleted: bool,
    _dir: tempfile::TempDir,
}

/// A database in which keys with even numbers below 1,000 are there, except for those of [`ABSENT`].
fn world(spec: ProtocolSpec, index: &str, are_deleted: bool) -> World {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::builder()
        .spec(spec)
        .index(index.parse::<IndexKind>().unwrap())
        .epoch_length(Duration::ZERO)
        .disk(std::sync::Arc::new(NullDisk::new()))
        .open(dir.path().join("data"))
        .unwrap();
    let table = db.table("numbers").unwrap();
    db.transact(|tx| {
        (0..500)
            .map(|n| 2 * n)
            .filter(|n| !ABSENT.contains(n))
            .try_for_each(|n| tx.put(&table, &n, &n))
    })
    .unwrap();
    db.take_out_deleted_keys().unwrap();
    World {
        db,
        table,
        context: format!("{spec} {index}, deleted: {are_deleted}"),
        is_ordered: index != "hash",
        are_deleted,
        _dir: dir,
    }
}

fn delete(db: &Database, table: &Numbers, keys: std::ops::Range<u64>) {
    db.transact(|tx| {
        keys.clone()
            .try_for_each(|key| tx.delete(table, &key).map(drop))
    })
    .unwrap();
}

impl World {
    /// Leaves records of absent keys.
    fn leave_absent(&self) {
        let (db, table, are_deleted) = (&self.db, &self.table, self.are_deleted);
        let refused = db.transact(|tx| {
            for key in ABSENT {
                tx.insert(table, &key, &1)?;
            }
            if are_deleted {
                Ok(())
            } else {
                tx.abort("rolled back")
            }
        });
        assert_eq!(refused.is_ok(), are_deleted, "{refused:?}");
        if are_deleted {
            delete(db, table, ABSENT);
        }
    }

    /// Begins a transaction when there are absent keys with records.
    fn begin(&self) -> Transaction {
        // So that the database does not remove them before the transaction begins.
        let held = self.db.begin().unwrap();
        self.leave_absent();
        let tx = self.db.begin().unwrap();
        drop(held);
        tx
    }

    fn value(&self, key: u64) -> Option<u64> {
        self.db.transact(|tx| tx.get(&self.table, &key)).unwrap()
    }

    /// Has the database remove what it may.
    fn remove(&self) -> usize {
        self.db.take_out_deleted_keys().unwrap()
    }
}

/// Every kind of world under the default protocol, and one under each of the others.
fn worlds(specs: Vec<ProtocolSpec>) -> impl Iterator<Item = World> {
    let kinds = INDEXES.map(|index| [(index, true), (index, false)]);
    let kinds = kinds.concat();
    let of_default = kinds.clone().into_iter();
    let of_default = of_default.map(|kind| (ProtocolSpec::default(), kind));
    let of_others = specs.into_iter().zip(kinds.into_iter().cycle());
    of_default
        .chain(of_others)
        .map(|(spec, (index, are_deleted))| world(spec, index, are_deleted))
}

type Step = fn(&mut Transaction, &Numbers) -> Result<(), Error>;

/// What a transaction does with absent keys.
const STEPS: [(&str, Step); 11] = [
    ("get", |tx, table| {
        assert_eq!(tx.get(table, &KEY)?, None);
        Ok(())
    }),
    ("get_many", |tx, table| {
        let mut found = Vec::new();
        tx.get_many(table, ABSENT, &mut found)?;
        assert!(found.iter().all(Option::is_none));
        Ok(())
    }),
    ("contains_key", |tx, table| {
        assert!(!tx.contains_key(table, &KEY)?);
        Ok(())
    }),
    ("get beside", |tx, table| {
        assert_eq!(tx.get(table, &(KEY + 1_001))?, None);
        tx.get(table, &(KEY - 1)).map(drop)
    }),
    ("insert", |tx, table| tx.insert(table, &KEY, &2)),
    ("insert again", |tx, table| {
        let savepoint = tx.savepoint();
        tx.insert(table, &KEY, &2)?;
        tx.rollback_to(&savepoint)
    }),
    ("put", |tx, table| {
        tx.put(table, &KEY, &2)?;
        // It needs the record now.
        tx.get(table, &2).map(drop)
    }),
    ("add", |tx, table| {
        tx.add(table, &KEY, 2)?;
        tx.get(table, &2).map(drop)
    }),
    ("update", |tx, table| {
        assert!(!tx.update(table, &KEY, |n| n + 1)?);
        Ok(())
    }),
    ("remove", |tx, table| {
        assert_eq!(tx.remove(table, &KEY)?, None);
        Ok(())
    }),
    ("scan", |tx, table| {
        let rows = tx.scan(table, 90..120)?;
        assert!(rows.iter().all(|(key, _)| !ABSENT.contains(key)));
        Ok(())
    }),
];

fn steps(world: &World) -> impl Iterator<Item = (&'static str, Step)> {
    let is_possible = |(name, _): &(&str, Step)| world.is_ordered || *name != "scan";
    STEPS.into_iter().filter(is_possible)
}

#[test]
fn a_lone_transaction_meets_no_conflict() {
    for world in worlds(with_and_without_log()) {
        let World { db, table, .. } = &world;
        for (name, step) in steps(&world) {
            let context = format!("{}, {name}", world.context);
            let mut tx = world.begin();
            step(&mut tx, table).unwrap();
            let waiting = world.remove();
            let ended = tx.end_statement();
            assert!(ended.is_ok(), "{context}: {ended:?}");
            tx.get(table, &2).unwrap();
            tx.put(table, &KEY, &3).unwrap();
            tx.put(table, &(KEY + 1), &4).unwrap();
            let waiting = waiting.min(world.remove());
            let committed = tx.commit();
            assert!(committed.is_ok(), "{context}: {committed:?}");
            assert!(waiting > 0, "{context}");
            assert_eq!(world.value(KEY), Some(3), "{context}");
            assert_eq!(world.value(KEY + 1), Some(4), "{context}");
            // It is over.
            assert_eq!(world.remove(), 0, "{context}");
            db.transact(|tx| {
                tx.remove(table, &KEY)?;
                tx.remove(table, &(KEY + 1)).map(drop)
            })
            .unwrap();
        }
    }
}

#[test]
fn a_lone_insert_after_a_look_up_meets_no_conflict() {
    for world in worlds(with_and_without_log()) {
        let World {
            db, table, context, ..
        } = &world;
        let mut session = db.session().unwrap();
        let first = world.begin();
        session.begin().unwrap();
        drop(first);
        let found = session.statement(|tx| tx.get(table, &KEY)).unwrap();
        assert_eq!(found, None, "{context}");
        let waiting = world.remove();
        let inserted = session.statement(|tx| tx.insert(table, &KEY, &2));
        assert!(inserted.is_ok(), "{context}: {inserted:?}");
        let waiting = waiting.min(world.remove());
        let committed = block_on(session.commit());
        assert!(committed.is_ok(), "{context}: {committed:?}");
        assert!(waiting > 0, "{context}");
        assert_eq!(world.value(KEY), Some(2), "{context}");
        assert_eq!(world.remove(), 0, "{context}");
    }
}

/// The thread removes deleted keys ten times a second, and an epoch takes less.
#[test]
fn the_background_thread_disturbs_no_lone_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path().join("data")).unwrap();
    let table: Numbers = db.table("numbers").unwrap();
    for round in 0..2 {
        db.transact(|tx| tx.insert(&table, &KEY, &1)).unwrap();
        db.transact(|tx| tx.delete(&table, &KEY)).unwrap();
        let mut tx = db.begin().unwrap();
        assert_eq!(tx.get(&table, &KEY).unwrap(), None);
        std::thread::sleep(Duration::from_millis(700));
        tx.insert(&table, &KEY, &round).unwrap();
        std::thread::sleep(Duration::from_millis(700));
        tx.commit().unwrap();
        db.transact(|tx| tx.delete(&table, &KEY)).unwrap();
    }
}

#[test]
fn a_key_inserted_by_another_transaction_is_a_conflict() {
    for world in worlds(optimistic()) {
        for (name, step) in steps(&world) {
            let others: [(&str, fn(&World)); 3] = [
                ("inserted", |world| {
                    let World { db, table, .. } = world;
                    db.transact(|tx| tx.insert(table, &KEY, &5)).unwrap();
                }),
                ("inserted and deleted", |world| {
                    let World { db, table, .. } = world;
                    db.transact(|tx| tx.insert(table, &KEY, &5)).unwrap();
                    db.transact(|tx| tx.delete(table, &KEY)).unwrap();
                }),
                ("removed and its record used again", |world| {
                    let World { db, table, .. } = world;
                    db.transact(|tx| tx.insert(table, &KEY, &5)).unwrap();
                    db.transact(|tx| tx.delete(table, &KEY)).unwrap();
                    remove_by_other_deletions(world);
                    db.transact(|tx| (5_000..5_100).try_for_each(|key| tx.insert(table, &key, &1)))
                        .unwrap();
                    delete(db, table, 5_000..5_100);
                }),
            ];
            for (other_name, other) in others {
                let context = format!("{}, {name}, {other_name}", world.context);
                let is_blind = ["put", "add", "get beside"].contains(&name);
                if is_blind {
                    continue;
                }
                world
                    .db
                    .transact(|tx| tx.remove(&world.table, &KEY))
                    .unwrap();
                assert_eq!(world.remove(), 0, "{context}");
                let mut tx = world.begin();
                step(&mut tx, &world.table).unwrap();
                on_another_thread(|| other(&world));
                // So that no order is possible in which it comes before the other.
                let rest = tx
                    .put(&world.table, &KEY, &3)
                    .and_then(|()| tx.commit().map(drop));
                assert!(
                    matches!(rest, Err(Error::Conflict(_))),
                    "{context}: {rest:?}"
                );
            }
        }
    }
}

/// Other transactions delete so many keys that they remove those that wait, although a transaction
/// is held.
fn remove_by_other_deletions(world: &World) {
    let World { db, table, .. } = world;
    const KEYS: std::ops::Range<u64> = 2_000..2_070;
    for _ in 0..3 {
        db.transact(|tx| {
            KEYS.into_iter()
                .try_for_each(|key| tx.insert(table, &key, &1))
        })
        .unwrap();
        delete(db, table, KEYS);
        // Ends the epoch.
        drop(db.view().unwrap());
    }
    let waiting = world.remove();
    // Those that were deleted last, and those that were tried before.
    let tried = if world.are_deleted { 0 } else { ABSENT.count() };
    assert!(
        waiting <= KEYS.count() + tried,
        "{}: {waiting}",
        world.context
    );
}

#[test]
fn removal_goes_on_after_each_end_of_a_transaction() {
    for world in worlds(with_and_without_log()) {
        let World {
            db, table, context, ..
        } = &world;
        let ends: [(&str, fn(&Database, Transaction)); 4] = [
            ("commit", |_, tx| _ = tx.commit().unwrap()),
            ("rollback", |_, tx| tx.rollback()),
            ("drop", |_, tx| drop(tx)),
            ("ticket", |db, tx| {
                let ticket = tx.commit_async().unwrap();
                db.wait(&ticket).unwrap();
            }),
        ];
        for (name, end) in ends {
            let mut tx = world.begin();
            tx.get(table, &KEY).unwrap();
            assert!(world.remove() > 0, "{context}, {name}");
            end(db, tx);
            assert_eq!(world.remove(), 0, "{context}, {name}");
        }
        let mut session = db.session().unwrap();
        let session_ends: [(&str, fn(&mut namiki::Session)); 5] = [
            ("commit", |session| _ = block_on(session.commit()).unwrap()),
            ("rollback", namiki::Session::rollback),
            ("begin and rollback", |session| {
                session.begin().unwrap();
                session.rollback();
            }),
            ("closure", |session| session.transact(|_| Ok(())).unwrap()),
            ("panic", |session| {
                let run = std::panic::AssertUnwindSafe(|| {
                    session.statement(|_| -> Result<(), Error> {
                        std::panic::resume_unwind(Box::new(()))
                    })
                });
                assert!(std::panic::catch_unwind(run).is_err());
            }),
        ];
        for (name, end) in session_ends {
            let first = world.begin();
            session.begin().unwrap();
            drop(first);
            session.statement(|tx| tx.get(table, &KEY)).unwrap();
            assert!(world.remove() > 0, "{context}, {name}");
            end(&mut session);
            assert_eq!(world.remove(), 0, "{context}, {name}");
        }
        let first = world.begin();
        session.begin().unwrap();
        drop(first);
        assert!(world.remove() > 0, "{context}");
        drop(session);
        assert_eq!(world.remove(), 0, "{context}");
    }
}

/// A client that does not end its transaction does not keep the memory of deleted keys for ever.
#[test]
fn commits_remove_keys_beside_an_idle_transaction() {
    for world in worlds(with_and_without_log()) {
        let World {
            db, table, context, ..
        } = &world;
        let idle = world.begin();
        let waiting = world.remove();
        assert!(waiting > 0, "{context}");
        on_another_thread(|| {
            let mut session = db.session().unwrap();
            for n in 0..64 {
                session.transact(|tx| tx.put(table, &2, &n)).unwrap();
            }
        });
        assert_eq!(world.remove(), 0, "{context}, of {waiting}");
        drop(idle);
    }
}
