//! The rows of a large transaction are there: at once, after a close, and after a crash.

use std::num::NonZeroU16;

use namiki::{Builder, Database, ProtocolSpec, Table};
use namiki_platform::disk::SimDisk;
use namiki_platform::disk::sim::Loss;
use namiki_tests::small_database::{BOTH_ORDERS, builder};

/// The table of these tests.
pub(crate) type Texts = Table<u64, [u8]>;

/// A value that identifies its key and version, and repeats no block.
pub(crate) fn value(key: u64, version: u64, bytes: usize) -> Vec<u8> {
    let word = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ key << 32 ^ version;
    let mut value = Vec::with_capacity(bytes + 8);
    for at in 0..bytes.div_ceil(8) as u64 {
        value.extend_from_slice(&word(at).to_le_bytes());
    }
    value.truncate(bytes);
    value
}

#[test]
fn twenty_thousand_puts_commit_with_default_settings() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    const ROWS: u64 = 20_000;
    let db = Database::open(&path).unwrap();
    let table: Texts = db.table("texts").unwrap();
    db.transact(|tx| (0..ROWS).try_for_each(|key| tx.put(&table, &key, &value(key, 1, 1024))))
        .unwrap();
    db.transact(|tx| tx.put(&table, &ROWS, b"after")).unwrap();
    drop((table, db));
    let db = Database::open(&path).unwrap();
    let table: Texts = db.table("texts").unwrap();
    let rows = db.transact(|tx| tx.scan(&table, ..)).unwrap();
    assert_eq!(rows.len() as u64, ROWS + 1);
    for (key, found) in &rows[..ROWS as usize] {
        assert!(*found == value(*key, 1, 1024), "{key}");
    }
    assert_eq!(rows[ROWS as usize], (ROWS, b"after".to_vec()));
}

/// Files of 16 KiB, or a region of 2 MiB for each stream.
pub(crate) fn small(spec: ProtocolSpec, shared: bool, disk: &SimDisk) -> Builder {
    let builder = builder(&spec.to_string(), disk);
    if shared {
        builder.shared_device("/db/shared-log", 2 << 20)
    } else {
        builder
    }
}

/// Lengths of transactions: some fill whole log files or buffers of `builder`, others do not.
const LENGTHS: [usize; 9] = [
    9_000, 100, 40_000, 12_000, 70_000, 70_000, 300, 15_900, 200_000,
];

#[test]
fn large_transactions_come_back_in_every_layout() {
    for spec in ProtocolSpec::tested() {
        for shared in [false, true] {
            let disk = SimDisk::new();
            let db = small(spec, shared, &disk).open("/db").unwrap();
            let table: Texts = db.table("texts").unwrap();
            for (key, bytes) in (0..).zip(LENGTHS) {
                // The last of several values counts.
                db.transact(|tx| {
                    tx.put(&table, &key, &value(key, 0, bytes / 4))?;
                    tx.put(&table, &(key + 100), &value(key, 2, bytes / 2))?;
                    tx.put(&table, &key, &value(key, 1, bytes / 2))
                })
                .unwrap();
            }
            let crashed = disk.crash_image(disk.events(), Loss::All);
            db.close().unwrap();
            let closed = disk.crash_image(disk.events(), Loss::All);
            for (disk, order) in [crashed, closed].iter().zip(BOTH_ORDERS) {
                let context = format!("{spec}, shared {shared}, {order:?}");
                // Twice: the second opening reads a sealed generation.
                for _ in 0..2 {
                    let opened = small(spec, shared, disk).replay_order(order).open("/db");
                    let db = opened.unwrap_or_else(|error| panic!("{context}: {error:?}"));
                    let table: Texts = db.table("texts").unwrap();
                    let rows = db.transact(|tx| tx.scan(&table, ..)).unwrap();
                    assert_eq!(rows.len(), 2 * LENGTHS.len(), "{context}");
                    for (key, found) in rows {
                        let (of, version) = (key % 100, 1 + key / 100);
                        let bytes = LENGTHS[of as usize] / 2;
                        assert!(found == value(of, version, bytes), "{context}: {key}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_value_of_900_mib_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        let builder = Database::builder().streams(NonZeroU16::MIN);
        builder.open(dir.path().join("data")).unwrap()
    };
    let db = open();
    let table: Texts = db.table("texts").unwrap();
    const BYTES: usize = 900 << 20;
    let long = value(1, 1, BYTES);
    db.transact(|tx| tx.put(&table, &1, &long)).unwrap();
    drop((table, db));
    let db = open();
    let table: Texts = db.table("texts").unwrap();
    let found = db.transact(|tx| tx.get(&table, &1)).unwrap();
    assert!(found.is_some_and(|found| found == long));
}
