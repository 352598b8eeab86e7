//! A disk filled by other programs. Preallocated space lets checkpoints continue, and these free
//! the log, so that transactions continue. Until then they are refused with an error that says so.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use namiki::{Builder, Database, Error, ProtocolSpec, Table};
use namiki_platform::disk::sim::Loss;
use namiki_platform::disk::{Disk, SimDisk};
use namiki_platform::seeded_random::Random;

pub(crate) const KEYS: u64 = 300;
/// Maximum of retries of a refused transaction, at intervals of ten milliseconds.
const REFUSALS_MAX: u32 = 1000;

pub(crate) type Values = Table<u64, [u8]>;

pub(crate) fn builder(spec: ProtocolSpec, disk: &SimDisk) -> Builder {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Database::builder()
        .spec(spec)
        .streams(NonZeroU16::new(2).unwrap())
        .buffer_bytes(8 << 10)
        .log_file_bytes(32 << 10)
        .checkpoint_log_bytes(128 << 10)
        .disk(disk)
}

/// The bytes in files, and preallocated space.
fn used_bytes(db: &Database, disk: &SimDisk) -> u64 {
    let dirs = ["/db", "/db/image", "/db/wal/0000", "/db/wal/0001"];
    let files = dirs.iter().filter_map(|dir| disk.list(Path::new(dir)).ok());
    let files: u64 = files.flatten().map(|file| file.len_bytes).sum();
    files + db.stats().checkpoints.preallocated_bytes
}

/// Writes 200 bytes under a key, and retries while there is no room. Returns the number of
/// refusals.
pub(crate) fn put(db: &Database, table: &Values, key: u64, number: u64) -> u32 {
    let value = [number as u8; 200];
    for refusals in 0..REFUSALS_MAX {
        match db.transact(|tx| tx.put(table, &key, &value)) {
            Ok(()) => return refusals,
            Err(Error::DiskFull(_)) => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("there is no room any more: {}", db.stats());
}

pub(crate) fn assert_has(db: &Database, table: &Values, expected: &BTreeMap<u64, u64>) {
    let rows = db.read(|view| view.scan(table, ..)).unwrap();
    let rows = rows.into_iter().map(|(key, value)| {
        assert_eq!(value.len(), 200);
        (key, u64::from(value[0]))
    });
    assert!(rows.eq(expected.iter().map(|(key, number)| (*key, number % 256))));
}

#[test]
fn updates_go_on_after_the_disk_was_filled() {
    for spec in [
        "TT(NLR)+PWAL(1)",
        "SILO(EPOCH)+PWAL(4)",
        "S2PL(ELR)+PWAL(1)+ARIES",
    ] {
        let disk = SimDisk::new();
        let spec: ProtocolSpec = spec.parse().unwrap();
        let db = builder(spec, &disk).open("/db").unwrap();
        let table = db.table("values").unwrap();
        let mut random = Random::seeded(7);
        let mut expected = BTreeMap::new();
        for number in 0..2000 {
            let key = random.below(KEYS);
            put(&db, &table, key, number);
            expected.insert(key, number);
        }
        db.checkpoint().unwrap();
        put(&db, &table, 0, 0);
        expected.insert(0, 0);
        // Ten times a second, the checkpoint thread computes the space for the next checkpoint.
        while db.stats().checkpoints.preallocated_bytes == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        disk.set_capacity(Some(used_bytes(&db, &disk) + 4096));
        let taken = db.stats().checkpoints.taken;
        for number in 0..4000 {
            let key = random.below(KEYS);
            put(&db, &table, key, number);
            expected.insert(key, number);
        }
        let stats = db.stats();
        assert!(stats.checkpoints.taken > taken + 2, "{spec}: {stats}");
        assert_has(&db, &table, &expected);
        let image = disk.crash_image(disk.events(), Loss::All);
        drop((db, table));
        let db = builder(spec, &image).open("/db").unwrap();
        assert_has(&db, &db.table("values").unwrap(), &expected);
    }
}

#[test]
fn new_rows_are_refused_until_there_is_room() {
    let disk = SimDisk::new();
    let db = builder(ProtocolSpec::DEFAULT, &disk).open("/db").unwrap();
    let table: Values = db.table("values").unwrap();
    disk.set_capacity(Some(1 << 20));
    let value = [1; 200];
    let mut rows = 0;
    let refused = loop {
        match db.transact(|tx| tx.insert(&table, &rows, &value)) {
            Ok(_) => rows += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::DiskFull(_)), "{refused:?}");
    assert!(rows > 1000, "{rows}");
    // The existing rows are readable, and the refused row is not there.
    let count = || db.read(|view| view.count(&table, ..)).unwrap();
    assert_eq!(count() as u64, rows);
    disk.set_capacity(Some(8 << 20));
    let until = rows + 1000;
    while rows < until {
        match db.transact(|tx| tx.insert(&table, &rows, &value)) {
            Ok(_) => rows += 1,
            Err(Error::DiskFull(_)) => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(count() as u64, rows);
    db.close().unwrap();
    let db = builder(ProtocolSpec::DEFAULT, &disk).open("/db").unwrap();
    let table: Values = db.table("values").unwrap();
    let count = db.read(|view| view.count(&table, ..)).unwrap();
    assert_eq!(count as u64, rows);
}
