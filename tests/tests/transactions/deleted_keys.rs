//! Deleted keys leave nothing behind in a running database: no record, no index entry, and no
//! effect on the results of transactions, views and openings.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;

use namiki::{Builder, Database, Error, IndexKind, ProtocolSpec, Table};
use namiki_platform::disk::sim::Loss;
use namiki_platform::disk::{Disk, NullDisk, SimDisk};
use namiki_platform::seeded_random::Random;
use namiki_tests::tested_specs::with_and_without_log;

fn builder(spec: ProtocolSpec, index: &str, disk: Arc<dyn Disk>) -> Builder {
    Database::builder()
        .spec(spec)
        .index(index.parse::<IndexKind>().unwrap())
        .epoch_length(std::time::Duration::ZERO)
        .disk(disk)
}

fn bytes_of(db: &Database, table: &str) -> usize {
    let stats = db.stats();
    let table = stats.tables.iter().find(|it| it.name == table).unwrap();
    table.index_bytes + table.record_bytes
}

fn record_bytes_of(db: &Database, table: &str) -> usize {
    let stats = db.stats();
    let table = stats.tables.iter().find(|it| it.name == table).unwrap();
    table.record_bytes
}

#[test]
fn a_queue_takes_no_more_memory_the_longer_it_runs() {
    for (number, spec) in with_and_without_log().into_iter().enumerate() {
        let index = ["art", "hash", "art+hash"][number % 3];
        let dir = tempfile::tempdir().unwrap();
        let db = builder(spec, index, Arc::new(NullDisk::new())).open(dir.path().join("data"));
        let db = db.unwrap();
        let queue: Table<u64, u64> = db.table("queue").unwrap();
        let push_and_pop = |from: u64, to: u64| {
            for n in from..to {
                db.transact(|tx| {
                    tx.insert(&queue, &(n + 10), &n)?;
                    tx.delete(&queue, &n)
                })
                .unwrap();
            }
        };
        for n in 0..10 {
            db.transact(|tx| tx.put(&queue, &n, &n)).unwrap();
        }
        push_and_pop(0, 500);
        db.take_out_deleted_keys().unwrap();
        let early = bytes_of(&db, "queue");
        push_and_pop(500, 2_500);
        assert_eq!(db.take_out_deleted_keys().unwrap(), 0, "{spec}");
        let late = bytes_of(&db, "queue");
        // Less than a word for each row that was inserted and deleted. Threads of other tests may
        // delay the reclamation of the last retired memory.
        let most = early + 6 * 2_000;
        assert!(late <= most, "{spec} {index}: {early}, then {late}");
        for n in 2_500..2_510 {
            let found = db.read(|view| view.get(&queue, &n)).unwrap();
            assert_eq!(found, Some(n - 10), "{spec} {index}");
        }
    }
}

#[test]
fn keys_that_were_only_tried_leave_nothing() {
    for spec in with_and_without_log() {
        let dir = tempfile::tempdir().unwrap();
        let db = builder(spec, "hash", Arc::new(NullDisk::new())).open(dir.path().join("data"));
        let db = db.unwrap();
        let table: Table<u64, u64> = db.table("tried").unwrap();
        let try_some = |keys: std::ops::Range<u64>| {
            for key in keys {
                let refused = db.transact(|tx| {
                    tx.put(&table, &key, &1)?;
                    tx.get(&table, &(key + 1_000_000))?;
                    tx.abort::<()>("no")
                });
                assert!(matches!(refused, Err(Error::Aborted(_))));
                let rolled_back = db.transact(|tx| {
                    let savepoint = tx.savepoint();
                    tx.put(&table, &(key + 2_000_000), &1)?;
                    tx.rollback_to(&savepoint)?;
                    tx.get(&table, &(key + 3_000_000))
                });
                assert_eq!(rolled_back.unwrap(), None);
            }
            assert_eq!(db.take_out_deleted_keys().unwrap(), 0, "{spec}");
        };
        try_some(0..1_000);
        let early = record_bytes_of(&db, "tried");
        try_some(1_000..3_000);
        let late = record_bytes_of(&db, "tried");
        // Chunks of records double: without reuse they would need four times as much memory.
        assert!(late <= 2 * early + 1024, "{spec}: {early}, then {late}");
    }
}

/// Before an image, after one, and with one in between: deleted keys stay deleted, and keys
/// inserted anew are there, although memory no longer has the deletions.
#[test]
fn what_was_taken_out_stays_deleted_after_a_crash() {
    for (seed, spec) in (0..).zip(ProtocolSpec::tested()) {
        let mut sim = SimDisk::new();
        let index = ["art", "hash", "art+hash"][seed as usize % 3];
        let mut random = Random::seeded(seed);
        let mut expected = BTreeMap::new();
        for round in 0..6 {
            let disk: Arc<dyn Disk> = Arc::new(sim.clone());
            let db = builder(spec, index, disk)
                .buffer_bytes(8 << 10)
                .log_file_bytes(32 << 10)
                .open("/db")
                .unwrap();
            let table: Table<u64, u64> = db.table("values").unwrap();
            for key in 0..100_u64 {
                let found = db.transact(|tx| tx.get(&table, &key)).unwrap();
                assert_eq!(found, expected.get(&key).copied(), "{spec} {round} {key}");
            }
            for step in 0..60 {
                let key = random.below(100);
                if random.chance(0.5) {
                    db.transact(|tx| tx.put(&table, &key, &step)).unwrap();
                    expected.insert(key, step);
                } else {
                    db.transact(|tx| tx.delete(&table, &key)).unwrap();
                    expected.remove(&key);
                }
                if random.chance(0.2) {
                    assert_eq!(db.take_out_deleted_keys().unwrap(), 0);
                }
                if random.chance(0.05) {
                    db.checkpoint().unwrap();
                }
            }
            sim = sim.crash_image(sim.events(), Loss::All);
            drop(db);
        }
    }
}

#[test]
fn a_view_sees_what_is_deleted_and_inserted_anew_later() {
    for (seed, spec) in (0..).zip(with_and_without_log()) {
        let index = ["art", "art+hash"][seed as usize % 2];
        let dir = tempfile::tempdir().unwrap();
        let db = builder(spec, index, Arc::new(NullDisk::new())).open(dir.path().join("data"));
        let db = db.unwrap();
        let table: Table<u64, u64> = db.table("values").unwrap();
        let mut random = Random::seeded(seed);
        let mut expected = BTreeMap::new();
        let mut views = Vec::new();
        for step in 0..600 {
            let key = random.below(30);
            if random.chance(0.5) {
                db.transact(|tx| tx.put(&table, &key, &step)).unwrap();
                expected.insert(key, step);
            } else {
                db.transact(|tx| tx.delete(&table, &key)).unwrap();
                expected.remove(&key);
            }
            if random.chance(0.1) {
                db.take_out_deleted_keys().unwrap();
            }
            if random.chance(0.05) {
                views.push((db.view().unwrap(), expected.clone()));
            }
            if views.len() > 3 || random.chance(0.02) && !views.is_empty() {
                let (view, expected) = views.swap_remove(random.index(views.len()));
                let found: BTreeMap<u64, u64> =
                    view.scan(&table, ..).unwrap().into_iter().collect();
                assert_eq!(found, expected, "{spec} {index}");
                for key in 0..30 {
                    assert_eq!(view.get(&table, &key).unwrap(), expected.get(&key).copied());
                }
            }
        }
    }
}
