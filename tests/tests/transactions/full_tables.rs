//! Tables with indexes that have no room for another key: operations without a new key continue,
//! and a transaction that needs a new key fails as a whole.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use namiki::{Conflict, Database, Error, IndexKind, Savepoint, Transaction, TreeKind};
use namiki_platform::disk::SimDisk;
use namiki_platform::disk::sim::Loss;
use namiki_tests::on_another_thread::on_another_thread;
use namiki_tests::small_database::{Numbers, builder, numbers};

/// A database with a table that has no room for the key [`Full::refused`].
struct Full {
    disk: SimDisk,
    db: Database,
    table: Numbers,
    refused: u64,
    /// The table has the keys below this one, far more than one batch looks up.
    there: u64,
    name: String,
}

/// Allows one transaction to write all the keys of the smallest such table.
fn open(disk: &SimDisk, index: IndexKind) -> Database {
    builder("TT(NLR)+PWAL(1)", disk)
        .buffer_bytes(256 << 10)
        .log_file_bytes(1 << 20)
        .index(index)
        .open("/db")
        .unwrap()
}

/// Without Bw-trees: their pages grow when they cannot be split.
fn each_full_table(check: impl Fn(&Full)) {
    let refusing = TreeKind::ALL.iter().filter(|tree| {
        let name = tree.to_string();
        !name.starts_with("bwtree") && name != "openbw"
    });
    let kinds: Vec<_> = refusing
        .flat_map(|tree| [IndexKind::Ordered(*tree), IndexKind::OrderedAndHash(*tree)])
        .collect();
    assert!(kinds.len() >= 10);
    for kind in kinds {
        let disk = SimDisk::new();
        let db = open(&disk, kind);
        let table = numbers(&db);
        db.transact(|tx| (0..100).try_for_each(|key| tx.put(&table, &key, &1)))
            .unwrap();
        table.use_up();
        let mut there = 100;
        let error = loop {
            match db.transact(|tx| tx.insert(&table, &there, &1)) {
                Ok(()) => there += 1,
                Err(error) => break error,
            }
            assert!(there < 10_000, "{kind} is never full");
        };
        assert_is_full(&error, &kind.to_string());
        check(&Full {
            disk,
            db,
            table,
            refused: there,
            there,
            name: kind.to_string(),
        });
    }
}

fn assert_is_full(error: &Error, name: &str) {
    assert!(
        matches!(error, Error::TableFull { table } if table == "numbers"),
        "{name}: {error:?}"
    );
    assert!(!error.is_retryable(), "{name}");
}

impl Full {
    fn rows(&self) -> Vec<(u64, u64)> {
        self.db.transact(|tx| tx.scan(&self.table, ..)).unwrap()
    }

    /// Asserts that all keys of the table can still be read and written.
    fn assert_works(&self, with: u64) {
        self.db
            .transact(|tx| {
                let keys: Vec<u64> = (0..self.there).collect();
                let updated = tx.update_many(&self.table, &keys, |_, _| with)?;
                assert_eq!(updated as u64, self.there, "{}", self.name);
                assert!(tx.delete(&self.table, &7)?);
                assert_eq!(tx.get(&self.table, &self.refused)?, None);
                tx.insert(&self.table, &7, &with)
            })
            .unwrap();
        let expected: Vec<_> = (0..self.there).map(|key| (key, with)).collect();
        assert_eq!(self.rows(), expected, "{}", self.name);
    }
}

#[test]
fn an_insert_without_room_ends_nothing() {
    each_full_table(|full| {
        let (table, name) = (&full.table, &full.name);
        full.db
            .transact(|tx| {
                tx.put(table, &0, &2)?;
                for _ in 0..3 {
                    let refused = tx.insert(table, &full.refused, &2).unwrap_err();
                    assert_is_full(&refused, name);
                    assert_eq!(tx.get(table, &full.refused)?, None, "{name}");
                }
                tx.put(table, &1, &2)
            })
            .unwrap();
        let changed = full.rows().into_iter().filter(|(_, value)| *value == 2);
        assert_eq!(changed.collect::<Vec<_>>(), [(0, 2), (1, 2)], "{name}");
        full.assert_works(3);
    });
}

/// The operation at which a transaction may get the error of a deferred write that found no room.
type Learns = fn(&mut Transaction, &Numbers) -> Result<(), Error>;

#[test]
fn a_put_without_room_fails_its_transaction_as_a_whole() {
    let learns: [Learns; 9] = [
        |_, _| Ok(()),
        |tx, table| tx.get(table, &1).map(drop),
        |tx, table| tx.get_many(table, 0..40, &mut Vec::new()),
        |tx, table| tx.update(table, &1, |old| old + 1).map(drop),
        |tx, table| tx.scan(table, ..).map(drop),
        |tx, table| tx.versions(table, ..).map(drop),
        |tx, table| tx.insert(table, &1, &9),
        // The error is returned again, even if the body ignores it.
        |tx, table| {
            for _ in 0..2 {
                assert!(matches!(tx.get(table, &1), Err(Error::TableFull { .. })));
            }
            Ok(())
        },
        |tx, _| {
            let savepoint: Savepoint = tx.savepoint();
            tx.rollback_to(&savepoint)
        },
    ];
    each_full_table(|full| {
        let (table, name) = (&full.table, &full.name);
        let mut session = full.db.session().unwrap();
        for (how, learn) in learns.iter().enumerate() {
            // Alone, at the first and the last position of a batch, and further on.
            for (before, after) in [(0, 0), (0, 30), (15, 0), (16, 10), (50, 50)] {
                let put = |tx: &mut Transaction| {
                    let keys = (0..before)
                        .chain([full.refused])
                        .chain(before..before + after);
                    keys.into_iter().try_for_each(|key| tx.put(table, &key, &5))
                };
                let what = format!("{name}, {how}, {before}, {after}");
                let ended = session.try_transact_async(|tx| {
                    put(tx)?;
                    learn(tx, table)
                });
                assert_is_full(&ended.unwrap_err(), &what);
                let mut explicit = full.db.begin().unwrap();
                put(&mut explicit).unwrap();
                let _ = learn(&mut explicit, table);
                assert_is_full(&explicit.commit().unwrap_err(), &what);
                assert!(full.rows().iter().all(|(_, value)| *value == 1), "{what}");
                session.transact(|tx| tx.put(table, &0, &1)).unwrap();
            }
        }
        full.assert_works(2);
    });
}

#[test]
fn a_put_without_room_after_a_savepoint_ends_nothing() {
    each_full_table(|full| {
        let (table, name) = (&full.table, &full.name);
        full.db
            .transact(|tx| {
                tx.put(table, &0, &2)?;
                let savepoint = tx.savepoint();
                tx.put(table, &1, &2)?;
                assert_is_full(&tx.put(table, &full.refused, &2).unwrap_err(), name);
                assert_eq!(tx.get(table, &1)?, Some(2));
                tx.rollback_to(&savepoint)?;
                tx.put(table, &3, &2)
            })
            .unwrap();
        let changed = full.rows().into_iter().filter(|(_, value)| *value == 2);
        assert_eq!(changed.collect::<Vec<_>>(), [(0, 2), (3, 2)], "{name}");
    });
}

/// The inconsistent reads may be the reason that the transaction put the key.
#[test]
fn missing_room_after_inconsistent_reads_is_not_reported() {
    each_full_table(|full| {
        let (table, name) = (&full.table, &full.name);
        let mut session = full.db.session().unwrap();
        let ended = session.try_transact_async(|tx| {
            tx.get(table, &0)?;
            on_another_thread(|| {
                full.db.transact(|tx| {
                    tx.put(table, &0, &2)?;
                    tx.put(table, &1, &2)
                })
            })?;
            tx.get(table, &1)?;
            tx.put(table, &full.refused, &2)
        });
        assert!(
            matches!(ended, Err(Error::Conflict(Conflict::ReadChanged))),
            "{name}: {ended:?}"
        );
    });
}

#[test]
fn a_full_table_opened_with_another_index_has_room() {
    each_full_table(|full| {
        let put = |db: &Database| {
            db.transact(|tx| tx.put(&numbers(db), &full.refused, &8))?;
            db.transact(|tx| tx.get(&numbers(db), &full.refused))
        };
        assert_is_full(&put(&full.db).unwrap_err(), &full.name);
        let image = full.disk.crash_image(full.disk.events(), Loss::All);
        let db = open(&image, IndexKind::Hash);
        numbers(&db).use_up();
        assert_eq!(put(&db).unwrap(), Some(8), "{}", full.name);
        let there = (0..full.there)
            .filter(|key| db.transact(|tx| tx.get(&numbers(&db), key)).unwrap() == Some(1));
        assert_eq!(there.count() as u64, full.there, "{}", full.name);
    });
}
