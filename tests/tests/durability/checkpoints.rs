//! Checkpoints: a database under writes takes them in the background, and its directory stays
//! bounded. After a crash it opens from its image and the rest of the log, with everything
//! acknowledged.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use namiki::{Builder, Database, IndexKind, ProtocolSpec, Table};
use namiki_platform::disk::sim::Loss;
use namiki_platform::disk::{Disk, SimDisk};
use namiki_platform::seeded_random::Random;

type Values = Table<u64, [u8]>;
type Contents = BTreeMap<u64, Vec<u8>>;

fn builder(spec: ProtocolSpec, disk: &SimDisk) -> Builder {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Database::builder()
        .spec(spec)
        .streams(NonZeroU16::new(2).unwrap())
        .buffer_bytes(8 << 10)
        .log_file_bytes(32 << 10)
        .table_index("unordered", IndexKind::Hash)
        .disk(disk)
}

fn table(db: &Database) -> Values {
    db.table("values").unwrap()
}

fn contents(db: &Database) -> Contents {
    let table = table(db);
    db.read(|view| view.scan(&table, ..))
        .unwrap()
        .into_iter()
        .collect()
}

/// The total bytes of the directory.
fn bytes(disk: &SimDisk) -> u64 {
    let dirs = ["/db", "/db/image", "/db/wal/0000", "/db/wal/0001"];
    let files = dirs.iter().filter_map(|dir| disk.list(Path::new(dir)).ok());
    files.flatten().map(|file| file.len_bytes).sum()
}

/// Puts and deletes several keys in a transaction.
fn write_some(db: &Database, table: &Values, random: &mut Random, expected: &mut Contents) {
    let changes: BTreeMap<u64, Option<Vec<u8>>> = (0..1 + random.below(3))
        .map(|_| {
            let value = random.chance(0.8).then(|| {
                let len = random.below(300) as usize;
                vec![random.below(256) as u8; len]
            });
            (random.below(200), value)
        })
        .collect();
    db.transact(|tx| {
        for (key, value) in &changes {
            match value {
                Some(value) => tx.put(table, key, value)?,
                None => drop(tx.delete(table, key)?),
            }
        }
        Ok(())
    })
    .unwrap();
    for (key, value) in changes {
        match value {
            Some(value) => drop(expected.insert(key, value)),
            None => drop(expected.remove(&key)),
        }
    }
}

#[test]
fn after_a_crash_image_and_log_have_everything() {
    for (seed, spec) in (0..).zip(ProtocolSpec::tested()) {
        let disk = SimDisk::new();
        let mut random = Random::seeded(seed);
        let mut expected = Contents::new();
        let mut image = disk.clone();
        for life in 0..4 {
            let db = builder(spec, &image).open("/db").unwrap();
            let table = table(&db);
            assert_eq!(contents(&db), expected, "{spec}, life {life}");
            for at in 0..120 {
                write_some(&db, &table, &mut random, &mut expected);
                if at % 50 == 20 {
                    let report = db.checkpoint().unwrap();
                    assert_eq!(report.tables, 1, "{spec}");
                }
            }
            // The rest of the log is enough, and the truncated part is deleted.
            image = image.crash_image(image.events(), Loss::All);
        }
        let db = builder(spec, &image).open("/db").unwrap();
        assert_eq!(contents(&db), expected, "{spec}");
        assert!(db.recovery().image_rows > 0, "{spec}");
        db.close().unwrap();
    }
}

#[test]
fn an_unchanged_key_range_is_not_written_again() {
    let disk = SimDisk::new();
    let db = builder(ProtocolSpec::DEFAULT, &disk).open("/db").unwrap();
    let table = table(&db);
    db.transact(|tx| (0..500).try_for_each(|key| tx.put(&table, &key, &[1; 100])))
        .unwrap();
    assert_eq!(db.checkpoint().unwrap().rows, 500);
    let again = db.checkpoint().unwrap();
    assert_eq!((again.rows, again.files_kept), (0, 1));
    db.transact(|tx| tx.delete(&table, &7)).unwrap();
    assert_eq!(db.checkpoint().unwrap().rows, 499);
}

#[test]
fn a_database_that_was_closed_opens_without_a_log() {
    for spec in ProtocolSpec::tested() {
        let disk = SimDisk::new();
        let open = || {
            builder(spec, &disk)
                .checkpoint_at_close(Some(1))
                .open("/db")
        };
        let mut expected = Contents::new();
        for life in 0..3_u64 {
            let db = open().unwrap();
            assert_eq!(contents(&db), expected, "{spec}");
            assert_eq!(db.recovery().bytes, 0, "{spec}: log was read");
            let table = table(&db);
            let mut random = Random::seeded(life);
            for _ in 0..30 {
                write_some(&db, &table, &mut random, &mut expected);
            }
            db.close().unwrap();
        }
    }
}

#[test]
fn the_directory_stays_bounded_under_updates() {
    for spec in [
        "TT(EPOCH)+PWAL(auto)",
        "SILO(NLR)+PWAL(4)",
        "S2PL(ELR)+SWAL(1)",
    ] {
        let disk = SimDisk::new();
        let db = builder(spec.parse().unwrap(), &disk)
            .checkpoint_log_bytes(256 << 10)
            .open("/db")
            .unwrap();
        let table = table(&db);
        let mut largest = 0;
        let mut written = 0_u64;
        // The data has 100,000 bytes, and the log 8 million.
        for round in 0..400_u64 {
            for key in (0..100).map(|at| (at * 7 + round) % 100).take(20) {
                db.transact(|tx| tx.put(&table, &key, &[round as u8; 1000]))
                    .unwrap();
                written += 1000;
            }
            largest = largest.max(bytes(&disk));
            if round % 40 == 39 {
                // Gives the checkpoint thread the time that a real device would take.
                std::thread::sleep(Duration::from_millis(150));
            }
        }
        assert!(written >= 8_000_000);
        assert!(db.stats().checkpoints.taken >= 3, "{spec}");
        assert!(
            largest < 3_000_000,
            "{spec}: {largest} bytes in the directory"
        );
        db.close().unwrap();
    }
}

#[test]
fn tables_without_an_order_are_in_the_image() {
    let disk = SimDisk::new();
    let open = || builder(ProtocolSpec::DEFAULT, &disk).checkpoint_at_close(Some(1));
    let db = open().open("/db").unwrap();
    let table = db.table::<str, u64>("unordered").unwrap();
    for key in 0..300_u64 {
        db.transact(|tx| tx.put(&table, &*format!("key {key}"), &key))
            .unwrap();
    }
    db.checkpoint().unwrap();
    db.transact(|tx| tx.delete(&table, "key 7")).unwrap();
    db.transact(|tx| tx.put(&table, "key 8", &88)).unwrap();
    db.close().unwrap();
    let db = open().open("/db").unwrap();
    assert_eq!(db.recovery().image_rows, 299);
    let table = db.table::<str, u64>("unordered").unwrap();
    for key in 0..300_u64 {
        let expected = match key {
            7 => None,
            8 => Some(88),
            other => Some(other),
        };
        let found = db.read(|view| view.get(&table, &*format!("key {key}")));
        assert_eq!(found.unwrap(), expected);
    }
}

#[test]
fn a_view_reads_on_while_checkpoints_are_taken() {
    let disk = SimDisk::new();
    let db = builder(ProtocolSpec::DEFAULT, &disk).open("/db").unwrap();
    let table = table(&db);
    let put_all = |byte: u8| {
        for key in 0..50_u64 {
            db.transact(|tx| tx.put(&table, &key, &[byte; 40])).unwrap();
        }
    };
    put_all(1);
    let view = db.view().unwrap();
    for byte in 2..5 {
        put_all(byte);
        db.checkpoint().unwrap();
    }
    let rows = view.scan(&table, ..).unwrap();
    assert!(rows.len() == 50 && rows.iter().all(|(_, value)| *value == [1; 40]));
}

#[test]
fn many_openings_leave_few_generations() {
    let disk = SimDisk::new();
    for round in 0..40_u64 {
        let db = builder(ProtocolSpec::DEFAULT, &disk).open("/db").unwrap();
        assert!(db.recovery().generations <= 10, "round {round}");
        let table = table(&db);
        db.transact(|tx| tx.put(&table, &round, &[7])).unwrap();
        assert_eq!(contents(&db).len() as u64, round + 1);
        db.close().unwrap();
    }
}
