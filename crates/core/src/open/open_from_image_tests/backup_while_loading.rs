//! Backups of a database with tables that are not loaded yet.

use std::time::Duration;

use super::held_loading::HeldLoading;
use super::*;
use crate::api::table::Table;
use crate::backup::options_and_reports::BackupOptions;

const COPY: &str = "/copy";

type Numbers = BTreeMap<u64, u64>;

fn options(sim: &SimDisk) -> BackupOptions {
    BackupOptions::default().disk(Arc::new(sim.clone()))
}

fn numbers(db: &Database, table: &Table<u64, u64>) -> Numbers {
    let rows = db.read(|view| view.scan(table, ..)).unwrap();
    rows.into_iter().collect()
}

/// The rows of a table of the backup.
fn copied(sim: &SimDisk, name: &str) -> Numbers {
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let db = Database::builder().disk(disk).open_read_only(COPY).unwrap();
    numbers(&db, &db.table(name).unwrap())
}

/// Tables of which the image has a part and the log the rest.
fn with_tables(spec: &str) -> SimDisk {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let spec = spec.parse().unwrap();
    let db = Database::builder().spec(spec).disk(disk).open(DIR).unwrap();
    for name in ["a", "b"] {
        let table = db.table::<u64, u64>(name).unwrap();
        let put = |keys: std::ops::Range<u64>, number: u64| {
            db.transact(|tx| {
                keys.clone()
                    .try_for_each(|key| tx.put(&table, &key, &number))
            })
            .unwrap();
        };
        put(0..500, 1);
        db.checkpoint().unwrap();
        put(400..600, 2);
    }
    sim.crash_image(sim.events(), Loss::All)
}

/// Takes a backup, changes the database, and takes another one: while no table is loaded, and again
/// after the loading.
#[test]
fn a_backup_while_loading_has_everything() {
    for spec in ["TT(EPOCH)+PWAL(auto)", "S2PL(ELR)+PWAL(16)+ARIES"] {
        let sim = with_tables(spec);
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let builder = Database::builder().spec(spec.parse().unwrap()).disk(disk);
        let held = HeldLoading::open(builder);
        held.gate.begun(1);
        let tables = ["a", "b"].map(|name| held.table::<u64, u64>(name).unwrap());
        let expected = numbers(&held, &tables[0]);
        assert_eq!((expected.len(), expected[&450]), (600, 2));
        let first = held.backup_with(COPY, &options(&sim)).unwrap();
        assert!(first.files_copied > 0);
        for name in ["a", "b"] {
            assert_eq!(copied(&sim, name), expected, "{spec}");
        }
        let new = held.table::<u64, u64>("new").unwrap();
        held.transact(|tx| tx.put(&new, &1, &1)).unwrap();
        held.drop_table("b").unwrap();
        let second = held.backup_with(COPY, &options(&sim)).unwrap();
        assert_eq!(second.segment_bytes, 0);
        assert!(!held.loading().is_over());
        assert_eq!(copied(&sim, "new"), BTreeMap::from([(1, 1)]), "{spec}");
        assert_eq!(copied(&sim, "a"), expected, "{spec}");

        held.gate.open();
        held.wait_until_loaded().unwrap();
        held.transact(|tx| tx.put(&tables[0], &700, &3)).unwrap();
        for checkpoint in [false, true] {
            if checkpoint {
                held.checkpoint().unwrap();
            }
            held.backup_with(COPY, &options(&sim)).unwrap();
            let now = numbers(&held, &tables[0]);
            assert_eq!((now.len(), copied(&sim, "a")), (601, now), "{spec}");
            let copy = Manifest::read(&sim, Path::new(COPY)).unwrap().unwrap();
            assert!(copy.tables.iter().all(|table| table.name != "b"), "{spec}");
        }
    }
}

/// A backup that follows the database is taken at once, and an interruption of it changes nothing.
#[test]
fn a_backup_follows_from_the_opening_on() {
    let sim = with_tables("TT(NLR)+PWAL(1)");
    let open = || {
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let builder = Database::builder()
            .spec("TT(NLR)+PWAL(1)".parse().unwrap())
            .disk(disk)
            .backup_to(COPY, Duration::MAX, options(&sim));
        HeldLoading::open(builder)
    };
    for _ in 0..2 {
        let held = open();
        std::thread::scope(|scope| {
            let closes = scope.spawn(|| held.close());
            while !held.shared.loader.is_stopped() {
                std::thread::yield_now();
            }
            held.gate.open();
            closes.join().unwrap().unwrap();
        });
        drop(held);
    }
    let held = open();
    while held.stats().backup.unwrap().taken == 0 {
        std::thread::yield_now();
    }
    assert!(!held.loading().is_over());
    let expected = numbers(&held, &held.table("a").unwrap());
    assert_eq!(expected.len(), 600);
    assert_eq!(copied(&sim, "a"), expected);
    assert_eq!(copied(&sim, "b"), expected);
}
