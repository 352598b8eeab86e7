//! Disks that a database fills by itself, in one life and over several. A commit is refused only if
//! a checkpoint could make no room. Deletions always succeed, and the space that they free is used
//! again.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::error::Error as _;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;

use namiki::{Builder, Database, Error, LogError, ProtocolSpec};
use namiki_platform::disk::sim::Loss;
use namiki_platform::disk::{Disk, SimDisk};
use namiki_tests::full_disk::{Filling, Rows};

const MIB: u64 = 1 << 20;
const SPECS: [&str; 6] = [
    "SILO(EPOCH)+PWAL(auto)",
    "TT(EPOCH)+PWAL(1)",
    "TT(NLR)+PWAL(1)",
    "SILO(ELR)+SWAL(4)",
    "S2PL(NLR)+PWAL(1)+ARIES",
    "S2PL(ELR)+SWAL(1)+ARIES",
];
/// Longer than a log buffer, and shorter than the log file of one stream.
const LONG: Rows = Rows::LARGE.of(45_000);
/// Longer than a log file.
const VERY_LONG: Rows = Rows::LARGE.of(90_000);

fn builder(spec: &str, streams: u16, disk: &SimDisk) -> Builder {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let spec: ProtocolSpec = spec.parse().unwrap();
    Database::builder()
        .spec(spec)
        .streams(NonZeroU16::new(streams).unwrap())
        .buffer_bytes(32 << 10)
        .disk(disk)
}

fn on_disk_of(bytes: u64) -> SimDisk {
    let disk = SimDisk::new();
    disk.set_capacity(Some(bytes));
    disk
}

/// The bytes of all files, including unlinked ones.
fn used_bytes(disk: &SimDisk) -> u64 {
    let room = disk.preallocation(Path::new("/")).unwrap().unwrap();
    disk.set_capacity(Some(u64::MAX));
    let space = room.space().unwrap().unwrap();
    space.total_bytes - space.free_bytes
}

/// Regression test, scaled down: on a disk of 150 MB, thirty megabytes of rows were refused for
/// ever after 410 MB of writes.
#[test]
fn overwriting_goes_on_for_ever() {
    for (number, spec) in SPECS.into_iter().enumerate() {
        let streams = 1 + (number % 2) as u16 * 2;
        let disk = on_disk_of(6 * MIB);
        let rows = [Rows::LARGE, LONG, VERY_LONG][number / 2 % 3];
        let mut filling = Filling::new(rows);
        let keys = 6 * MIB / 5 / filling.row_bytes();
        for life in 0..2 {
            let db = builder(spec, streams, &disk).open("/db").unwrap();
            filling.check(&db);
            // A fifth of the disk, thirty times.
            for _ in 0..15 {
                filling.put_all(&db, 0..keys).unwrap_or_else(|error| {
                    panic!(
                        "{spec}, {streams} streams, life {life}: {error:?} {}",
                        db.stats()
                    )
                });
            }
            filling.check(&db);
            assert!(db.stats().checkpoints.taken > 1, "{spec}");
            db.close().unwrap();
        }
    }
}

/// Inserts until there is no room, then deletions; the freed space is written again.
#[test]
fn a_full_disk_takes_deletions_and_then_rows() {
    for (number, spec) in SPECS.into_iter().enumerate() {
        for rows in [Rows::LARGE, Rows::SMALL, Rows::MANY, LONG, VERY_LONG] {
            let streams = 1 + (number % 2) as u16 * 2;
            let mut disk = on_disk_of(4 * MIB);
            let mut filling = Filling::new(rows);
            for life in 0..3 {
                let told = format!("{spec}, {streams} streams, {rows:?}, life {life}");
                let db = builder(spec, streams, &disk).open("/db").unwrap();
                filling.check(&db);
                filling.fill(&db, &told);
                assert!(
                    filling.bytes() > 4 * MIB / 5,
                    "{told}: {} bytes",
                    filling.bytes()
                );
                filling.check(&db);
                filling.delete_half(&db, &told);
                filling.put_a_quarter(&db, &told);
                filling.check(&db);
                match life {
                    0 => db.close().unwrap(),
                    _ => {
                        disk = disk.crash_image(disk.events(), Loss::All);
                        disk.set_capacity(Some(4 * MIB));
                    }
                }
            }
        }
    }
}

#[test]
fn a_table_that_is_dropped_or_cleared_makes_room() {
    for spec in SPECS {
        for clears in [false, true] {
            let disk = on_disk_of(4 * MIB);
            let db = builder(spec, 2, &disk).open("/db").unwrap();
            let mut filling = Filling::new(Rows::LARGE);
            filling.fill(&db, spec);
            if clears {
                db.clear_table("rows").unwrap();
            } else {
                db.drop_table("rows").unwrap();
            }
            filling = Filling::new(Rows::LARGE);
            filling.fill(&db, spec);
            assert!(
                filling.bytes() > 4 * MIB / 5,
                "{spec}: {} bytes",
                filling.bytes()
            );
            filling.check(&db);
        }
    }
}

/// Another program has taken all free space: reads work in this life and the next, and so does
/// dropping a table.
#[test]
fn a_disk_without_a_free_byte_opens() {
    for spec in SPECS {
        for is_closed in [false, true] {
            let mut disk = on_disk_of(8 * MIB);
            let mut filling = Filling::new(Rows::SMALL);
            let db = builder(spec, 2, &disk).open("/db").unwrap();
            filling.put_all(&db, 0..300).unwrap();
            if is_closed {
                db.close().unwrap();
            } else {
                disk = disk.crash_image(disk.events(), Loss::All);
            }
            for _ in 0..2 {
                disk.set_capacity(Some(used_bytes(&disk)));
                let open = builder(spec, 2, &disk).open("/db");
                let db = open.unwrap_or_else(|error| panic!("{spec}: {error:?}"));
                filling.check(&db);
                let refused = filling.put_all(&db, 0..1);
                let full = matches!(&refused, Err(Error::DiskFull(LogError::DiskFull { .. })));
                assert!(full, "{spec}: {refused:?}");
                let told = format!("{refused:?}");
                assert!(
                    told.contains("clear_table") && told.contains("drop_table"),
                    "{told}"
                );
                filling.check(&db);
                db.close().unwrap();
            }
            let db = builder(spec, 2, &disk).open("/db").unwrap();
            db.drop_table("rows").unwrap();
            drop(db);
            disk.set_capacity(Some(8 * MIB));
            let db = builder(spec, 2, &disk).open("/db").unwrap();
            assert!(db.tables().is_empty());
            Filling::new(Rows::SMALL).put_all(&db, 0..300).unwrap();
        }
    }
}

/// In one transaction, if that needs no more than the free space; in several, in any case.
#[test]
fn many_rows_are_deleted_at_once_or_in_parts() {
    for spec in SPECS {
        let disk = on_disk_of(4 * MIB);
        let db = builder(spec, 1, &disk).open("/db").unwrap();
        let mut filling = Filling::new(Rows::MANY);
        filling.fill(&db, spec);
        let table = Filling::table(&db);
        let keys = 0..filling.bytes() / filling.row_bytes();
        let delete = |keys: std::ops::Range<u64>| {
            db.transact(|tx| {
                keys.clone()
                    .try_for_each(|key| tx.delete(&table, &key).map(drop))
            })
        };
        match delete(keys.clone()) {
            Ok(()) => {}
            Err(Error::DiskFull(error)) => {
                let why = error.source().unwrap().to_string();
                let is_one_record = !spec.ends_with("ARIES");
                assert!(
                    !is_one_record || why.contains("delete fewer rows"),
                    "{spec}: {why}"
                );
                for first in keys.step_by(400) {
                    delete(first..first + 400).unwrap_or_else(|error| panic!("{spec}: {error:?}"));
                }
            }
            Err(error) => panic!("{spec}: {error:?}"),
        }
        filling = Filling::new(Rows::MANY);
        filling.check(&db);
        filling.fill(&db, spec);
        assert!(filling.bytes() > 4 * MIB / 5, "{spec}");
    }
}

/// The caller commits its transactions explicitly, and retries a refused one.
#[test]
fn a_refused_commit_passes_when_it_is_run_again() {
    let disk = on_disk_of(6 * MIB);
    let db = builder("SILO(EPOCH)+PWAL(auto)", 2, &disk)
        .open("/db")
        .unwrap();
    let table = db.table::<u64, [u8]>("rows").unwrap();
    for number in 0..1000_u64 {
        let mut tries = 0;
        loop {
            let mut tx = db.begin().unwrap();
            tx.put(&table, &(number % 50), &[number as u8; 20_000])
                .unwrap();
            match tx.commit() {
                Ok(_) => break,
                Err(Error::DiskFull(_)) => std::thread::sleep(std::time::Duration::from_millis(5)),
                Err(error) => panic!("{error:?}"),
            }
            tries += 1;
            assert!(tries < 2000, "{number}: {}", db.stats());
        }
    }
}
