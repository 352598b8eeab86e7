//! A log on a shared device of any size never ends: checkpoints free its regions while transactions
//! run. A commit without room is refused until then, with an error that says so.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;

use namiki::files::Manifest;
use namiki::{Builder, Database, Error, LogError, ProtocolSpec};
use namiki_platform::disk::sim::Loss;
use namiki_platform::disk::{Disk, SimDisk};
use namiki_platform::seeded_random::Random;

use crate::full_disks::{KEYS, Values, assert_has, builder, put};

const DEVICE: &str = "/db/device";
const REGION: u64 = 64 << 10;

/// Only full regions trigger checkpoints.
fn shared(spec: ProtocolSpec, disk: &SimDisk) -> Builder {
    let builder = builder(spec, disk).checkpoint_log_bytes(1 << 30);
    builder.shared_device(DEVICE, REGION)
}

/// Only explicit checkpoints.
fn by_hand(spec: &str, disk: &SimDisk) -> Builder {
    let builder = shared(spec.parse().unwrap(), disk);
    builder.checkpoint_log_bytes(u64::MAX)
}

/// Number of times the streams have wrapped around, according to the manifest.
fn laps(disk: &SimDisk) -> u64 {
    let manifest = Manifest::read(disk, Path::new("/db")).unwrap().unwrap();
    let starts = &manifest.generations.last().unwrap().starts;
    starts
        .iter()
        .map(|start| start.offset / REGION)
        .max()
        .unwrap()
}

/// Updates until there is no room. Returns the number of updates.
fn fill(db: &Database, table: &Values, expected: &mut BTreeMap<u64, u64>) -> u64 {
    for number in 0.. {
        let value = [number as u8; 200];
        match db.transact(|tx| tx.put(table, &number, &value)) {
            Ok(()) => expected.insert(number, number),
            Err(Error::DiskFull(LogError::RegionFull { .. })) => return number,
            Err(error) => panic!("{error:?}"),
        };
    }
    0
}

#[test]
fn updates_go_round_the_regions_in_every_life() {
    for spec in [
        "TT(NLR)+PWAL(1)",
        "TT(ELR)+SWAL(4)",
        "SILO(EPOCH)+PWAL(4)",
        "S2PL(ELR)+PWAL(1)+ARIES",
        "S2PL(NLR)+PWAL(4)+ARIES",
    ] {
        let mut disk = SimDisk::new();
        let spec: ProtocolSpec = spec.parse().unwrap();
        let mut random = Random::seeded(5);
        let mut expected = BTreeMap::new();
        for life in 0..4 {
            let db = shared(spec, &disk).open("/db").unwrap();
            let table = db.table("values").unwrap();
            assert_has(&db, &table, &expected);
            for number in 0..1000 {
                let key = random.below(KEYS);
                put(&db, &table, key, number);
                expected.insert(key, number);
            }
            assert_has(&db, &table, &expected);
            assert!(db.stats().checkpoints.taken > 1, "{spec}: {}", db.stats());
            match life % 2 {
                0 => db.close().unwrap(),
                _ => disk = disk.crash_image(disk.events(), Loss::All),
            }
        }
        assert!(laps(&disk) >= 4, "{spec}: {}", laps(&disk));
        let device = disk.open(Path::new(DEVICE)).unwrap();
        assert!(device.len_bytes() <= 2 * REGION);
        // In files from then on. The device is no longer needed once an image has its contents.
        let db = builder(spec, &disk).open("/db").unwrap();
        assert_has(&db, &db.table("values").unwrap(), &expected);
        db.checkpoint().unwrap();
        disk.remove(Path::new(DEVICE)).unwrap();
        drop(db);
        let db = builder(spec, &disk).open("/db").unwrap();
        assert_has(&db, &db.table("values").unwrap(), &expected);
    }
}

#[test]
fn a_full_region_has_room_after_a_checkpoint() {
    for spec in ["TT(NLR)+PWAL(1)", "TT(ELR)+SWAL(1)", "SILO(EPOCH)+PWAL(1)"] {
        let disk = SimDisk::new();
        let mut expected = BTreeMap::new();
        let mut counts = Vec::new();
        for life in 0..3 {
            let db = by_hand(spec, &disk).open("/db").unwrap();
            let table = db.table("values").unwrap();
            assert_has(&db, &table, &expected);
            for round in 0..4 {
                counts.push(fill(&db, &table, &mut expected));
                // Reads and views continue to work, however many: without commits, they write
                // nothing.
                for _ in 0..50 {
                    assert_has(&db, &table, &expected);
                }
                if round < 3 || life == 1 {
                    db.checkpoint().unwrap();
                }
            }
        }
        // A refusal after an opening, for which the previous life left no room, ends with a
        // checkpoint.
        assert_eq!(counts[4], 0, "{spec}: {counts:?}");
        let full = counts.iter().filter(|count| **count > 40);
        assert_eq!(full.count(), 11, "{spec}: {counts:?}");
        assert!(laps(&disk) >= 4, "{spec}: {}", laps(&disk));
        let image = disk.crash_image(disk.events(), Loss::All);
        let db = by_hand(spec, &image).open("/db").unwrap();
        assert_has(&db, &db.table("values").unwrap(), &expected);
    }
}

/// Generations without a checkpoint begin anywhere in a ring that has wrapped around before.
#[test]
fn lives_without_checkpoints_follow_each_other_in_a_ring() {
    for spec in [
        "TT(NLR)+PWAL(1)",
        "SILO(EPOCH)+PWAL(1)",
        "S2PL(ELR)+SWAL(1)+ARIES",
    ] {
        let mut disk = SimDisk::new();
        let mut expected = BTreeMap::new();
        let db = by_hand(spec, &disk).open("/db").unwrap();
        let table = db.table("values").unwrap();
        for _ in 0..3 {
            fill(&db, &table, &mut expected);
            db.checkpoint().unwrap();
        }
        assert!(laps(&disk) > 1, "{spec}");
        drop((table, db));
        for life in 0..5 {
            let db = by_hand(spec, &disk).open("/db").unwrap();
            let table = db.table("values").unwrap();
            assert_has(&db, &table, &expected);
            for key in 0..5 {
                put(&db, &table, key, life);
                expected.insert(key, life);
            }
            drop((table, db));
            disk = disk.crash_image(disk.events(), Loss::All);
        }
        let db = by_hand(spec, &disk).open("/db").unwrap();
        assert_has(&db, &db.table("values").unwrap(), &expected);
    }
}

/// Where operations are logged, the log is kept from the beginning of the oldest transaction.
#[test]
fn an_old_transaction_keeps_a_region_full_until_it_ends() {
    for spec in ["S2PL(ELR)+SWAL(1)+ARIES", "S2PL(NLR)+SWAL(1)+ARIES"] {
        let disk = SimDisk::new();
        let db = by_hand(spec, &disk).open("/db").unwrap();
        let table: Values = db.table("values").unwrap();
        let mut expected = BTreeMap::new();
        let mut old = db.begin().unwrap();
        old.put(&table, &u64::MAX, &[9; 200]).unwrap();
        assert!(fill(&db, &table, &mut expected) > 40);
        db.checkpoint().unwrap();
        assert_eq!(fill(&db, &table, &mut expected), 0, "{spec}");
        let image = disk.crash_image(disk.events(), Loss::All);
        let again = by_hand(spec, &image).open("/db").unwrap();
        assert_has(&again, &again.table("values").unwrap(), &expected);
        drop((again, old));
        db.checkpoint().unwrap();
        assert!(fill(&db, &table, &mut expected) > 40, "{spec}");
        drop(db);
        let db = by_hand(spec, &disk).open("/db").unwrap();
        assert_has(&db, &db.table("values").unwrap(), &expected);
    }
}

/// An image without a commit, and a log that no longer has the beginning of an earlier rollback.
#[test]
fn what_was_rolled_back_before_any_commit_is_recycled() {
    for on_device in [false, true] {
        for spec in ["S2PL(NLR)+SWAL(1)+ARIES", "S2PL(ELR)+PWAL(1)+ARIES"] {
            let disk = SimDisk::new();
            let open = |disk: &SimDisk| {
                let files = builder(spec.parse().unwrap(), disk).log_file_bytes(16 << 10);
                let builder = if on_device {
                    by_hand(spec, disk)
                } else {
                    files
                };
                builder.open("/db").unwrap()
            };
            let db = open(&disk);
            let table: Values = db.table("values").unwrap();
            let mut tx = db.begin().unwrap();
            for number in 0..60 {
                tx.put(&table, &7, &[number; 300]).unwrap();
            }
            drop(tx);
            db.checkpoint().unwrap();
            let image = disk.crash_image(disk.events(), Loss::None);
            let manifest = Manifest::read(&image, Path::new("/db")).unwrap().unwrap();
            let info = manifest.generations.last().unwrap();
            assert!(info.complete_from.0 > 1, "{spec}: {info:?}");
            let again = open(&image);
            assert_has(&again, &again.table("values").unwrap(), &BTreeMap::new());
            put(&db, &table, 1, 1);
            drop(db);
            let db = open(&disk);
            assert_has(&db, &db.table("values").unwrap(), &BTreeMap::from([(1, 1)]));
        }
    }
}
