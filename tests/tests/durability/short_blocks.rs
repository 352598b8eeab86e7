//! A directory written on memory in blocks of 64 bytes is read, continued and backed up on a device
//! with blocks of a disk.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;

use namiki::{BackupOptions, Builder, Database, ProtocolSpec};
use namiki_platform::disk::sim::Loss;
use namiki_platform::disk::{Disk, HookedDisk, SimDisk};

const SPECS: [&str; 3] = [
    "TT(NLR)+PWAL(1)",
    "TT(ELR)+PWAL(16)",
    "SILO(EPOCH)+PWAL(auto)",
];
/// As long as a log file: a transaction with this value has an oversize one.
const LARGE: usize = 16 << 10;

type Rows = BTreeMap<u64, Vec<u8>>;

fn builder(spec: &str, disk: Arc<dyn Disk>) -> Builder {
    let spec: ProtocolSpec = spec.parse().unwrap();
    Database::builder()
        .spec(spec)
        .disk(disk)
        .streams(2.try_into().unwrap())
        .buffer_bytes(8 << 10)
        .log_file_bytes(LARGE as u64)
}

/// The same bytes on a device with blocks of this length.
fn in_blocks(disk: &SimDisk, block_bytes: usize) -> Arc<dyn Disk> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Arc::new(HookedDisk::with_blocks(disk, block_bytes))
}

fn put(db: &Database, rows: &mut Rows, keys: std::ops::Range<u64>) {
    let table = db.table::<u64, [u8]>("rows").unwrap();
    for key in keys {
        let len = if key % 10 == 9 {
            LARGE
        } else {
            7 * key as usize
        };
        let value = vec![key as u8; len];
        db.transact(|tx| tx.put(&table, &key, &value)).unwrap();
        rows.insert(key, value);
    }
}

fn rows(db: &Database) -> Rows {
    let table = db.table::<u64, [u8]>("rows").unwrap();
    let rows = db.read(|view| view.scan(&table, ..)).unwrap();
    rows.into_iter().collect()
}

#[test]
fn acknowledged_commits_in_short_blocks_open_on_a_disk() {
    for spec in SPECS {
        for block_bytes in [512, 4096] {
            let disk = SimDisk::new().with_blocks(64);
            let mut expected = Rows::new();
            let db = builder(spec, Arc::new(disk.clone())).open("/db").unwrap();
            put(&db, &mut expected, 0..25);
            // Without an end: the seal is the next opening's.
            let crashed = disk.crash_image(disk.events(), Loss::All);
            drop(db);

            let device = in_blocks(&crashed, block_bytes);
            let db = builder(spec, device).open("/db").unwrap();
            assert_eq!(rows(&db), expected, "{spec}, {block_bytes}");
            put(&db, &mut expected, 25..45);
            db.close().unwrap();
            // Both generations, once more in short blocks.
            let db = builder(spec, Arc::new(crashed)).open("/db").unwrap();
            assert_eq!(rows(&db), expected, "{spec}, {block_bytes}");
        }
    }
}

/// The second backup writes behind frames of the first, which end amid a block of the device.
#[test]
fn logs_in_short_blocks_are_backed_up_to_disks() {
    for spec in SPECS {
        for block_bytes in [64, 512, 4096] {
            let disk = SimDisk::new().with_blocks(64);
            let copies = SimDisk::new();
            let to = in_blocks(&copies, block_bytes);
            let options = BackupOptions::default().disk(Arc::clone(&to));
            let db = builder(spec, Arc::new(disk.clone())).open("/db").unwrap();
            let mut expected = Rows::new();
            for round in 0..4 {
                put(&db, &mut expected, 7 * round..7 * (round + 1));
                db.backup_with("/copy", &options).unwrap();
                let copy = builder(spec, Arc::clone(&to))
                    .open_read_only("/copy")
                    .unwrap();
                assert_eq!(
                    rows(&copy),
                    expected,
                    "{spec}, {block_bytes}, round {round}"
                );
            }
        }
    }
}
