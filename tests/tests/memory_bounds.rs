//! Memory is bounded by the bytes in use, not by the number of past values, tables or keys.
//!
//! The tests run one after the other, so that every counted allocation belongs to the running test.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::borrow::Borrow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use namiki::{Database, Error, IndexKind, ReplayOrder, Value, ValueBytes};
use namiki_platform::counting_allocator::CountingAllocator;
use namiki_platform::disk::{Disk, NullDisk, SimDisk};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const KIB: isize = 1 << 10;
const MIB: isize = 1 << 20;

fn alone() -> MutexGuard<'static, ()> {
    static RUNNING: Mutex<()> = Mutex::new(());
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The allocated bytes; nothing is collected before.
fn live() -> isize {
    CountingAllocator::live()
}

/// A database with a log on a disk that discards all writes.
fn open(spec: &str, buffer_bytes: usize) -> (tempfile::TempDir, Database) {
    open_with(spec, buffer_bytes, buffer_bytes)
}

/// The same with transactions of up to `transaction_bytes_max`.
fn open_with(
    spec: &str,
    buffer_bytes: usize,
    transaction_bytes_max: usize,
) -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::builder()
        .spec(spec.parse().unwrap())
        .buffer_bytes(buffer_bytes)
        .transaction_bytes_max(transaction_bytes_max)
        .log_file_bytes(128 << 20)
        .disk(Arc::new(NullDisk::new()))
        .open(dir.path().join("data"))
        .unwrap();
    (dir, db)
}

const SPECS: [&str; 5] = [
    "TT(NLR)+NOLOG",
    "TT(EPOCH)+PWAL(1)",
    "SILO(NLR)+PWAL(1)",
    "S2PL(EPOCH)+PWAL(1)",
    "S2PL(NLR)+PWAL(1)+ARIES",
];

#[test]
fn overwritten_large_values_are_freed_while_others_are_written() {
    let _alone = alone();
    for spec in SPECS {
        let (_dir, db) = open(spec, 12 << 20);
        let table = db.table::<u64, [u8]>("values").unwrap();
        let value = vec![7; 4 << 20];
        let put = || db.transact(|tx| tx.put(&table, &1, &value[..])).unwrap();
        put();
        let start = live();
        let peak = CountingAllocator::peak_of(|| (0..50).for_each(|_| put()));
        let (more, peak) = (live() - start, peak - start);
        // At most the new value and the one it replaces; during the transaction, its copies, too.
        assert!(more <= 5 * MIB, "{spec}: {more} bytes more");
        assert!(peak <= 40 * MIB, "{spec}: {peak} bytes at the peak");
    }
}

#[test]
fn a_refused_value_is_neither_copied_nor_kept() {
    let _alone = alone();
    for spec in SPECS.into_iter().filter(|spec| !spec.contains("NOLOG")) {
        let (_dir, db) = open(spec, 256 << 10);
        let table = db.table::<u64, [u8]>("values").unwrap();
        let key = 5;
        db.transact(|tx| tx.put(&table, &key, b"short")).unwrap();
        let value = vec![7; 64 << 20];
        let refused = |ended: Result<(), Error>| {
            assert!(
                matches!(ended, Err(Error::TransactionTooLarge { len_bytes, max_bytes })
                    if len_bytes > value.len() && max_bytes == 256 << 10),
                "{spec}: {ended:?}"
            );
        };
        let start = live();
        let peak = CountingAllocator::peak_of(|| {
            refused(db.transact(|tx| tx.put(&table, &key, &value[..])));
            refused(db.transact(|tx| tx.insert(&table, &6, &value[..])));
        });
        let (more, peak) = (live() - start, peak - start);
        assert!(peak <= 256 * KIB, "{spec}: {peak} bytes at the peak");
        assert!(more <= 64 * KIB, "{spec}: {more} bytes more");
        // The caller creates the new value, and the engine makes no copy of it.
        let peak = CountingAllocator::peak_of(|| {
            refused(db.transact(|tx| tx.update(&table, &key, |_| value.clone()).map(drop)));
            let all = |_, _| value.clone();
            refused(db.transact(|tx| tx.update_many(&table, [key], all).map(drop)));
        });
        assert!(peak - start <= 65 * MIB, "{spec}: {peak} bytes");
        assert!(live() - start <= 64 * KIB, "{spec}");
        // The transaction can continue.
        db.transact(|tx| {
            refused(tx.put(&table, &key, &value[..]));
            tx.put(&table, &key, b"other")
        })
        .unwrap();
        let found = db.transact(|tx| tx.get(&table, &key)).unwrap();
        assert_eq!(found.as_deref(), Some(&b"other"[..]));
    }
}

/// A value that does not report its length.
struct Secretive(usize);

impl Borrow<Secretive> for Vec<u8> {
    fn borrow(&self) -> &Secretive {
        unreachable!("it is written only")
    }
}

impl Value for Secretive {
    type Owned = Vec<u8>;
    const NAME: &'static str = "secretive";

    fn encode(&self, into: &mut ValueBytes) {
        into.resize(self.0, 7);
    }
    fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }
}

#[test]
fn a_large_transaction_leaves_no_large_buffer_behind() {
    let _alone = alone();
    for spec in SPECS {
        let has_log = !spec.contains("NOLOG");
        let (_dir, db) = open(spec, 64 << 20);
        let table = db.table::<u64, Secretive>("values").unwrap();
        let start = live();
        for turn in 0..3 {
            // With a log, refused after it has been encoded; without one, read and deleted later.
            let bytes = if has_log { 100 << 20 } else { 50 << 20 };
            let put = db.transact(|tx| tx.put(&table, &1, &Secretive(bytes)));
            assert_eq!(put.is_err(), has_log, "{spec}");
            db.transact(|tx| tx.put(&table, &1, &Secretive(20 << 20)))
                .unwrap();
            db.transact(|tx| {
                assert!(tx.get(&table, &1)?.is_some());
                tx.delete(&table, &1)
            })
            .unwrap();
            // Many small values.
            let many = (2..30_000_u64).map(|key| (turn + 1) * 1_000_000 + key % 8_000);
            db.transact(|tx| {
                many.clone()
                    .try_for_each(|key| tx.put(&table, &key, &Secretive(8)))
            })
            .unwrap();
            db.transact(|tx| {
                many.clone()
                    .try_for_each(|key| tx.delete(&table, &key).map(drop))
            })
            .unwrap();
        }
        let records = db
            .transact(|_| Ok(()))
            .map(|()| table.memory_bytes())
            .unwrap() as isize;
        // The keys that still wait to leave the index are counted.
        assert_eq!(db.take_out_deleted_keys().unwrap(), 0, "{spec}");
        let more = live() - start - records;
        assert!(more <= 6 * MIB, "{spec}: {more} bytes more");
    }
}

/// A record longer than a log buffer is encoded in memory of its own, and may be written from
/// there.
#[test]
fn a_large_transactions_memory_is_returned() {
    let _alone = alone();
    for spec in SPECS {
        for bytes in [3 << 20, 200 << 20] {
            let (_dir, db) = open_with(spec, 256 << 10, 1 << 30);
            let table = db.table::<u64, [u8]>("values").unwrap();
            const ROWS: u64 = 1000;
            let value = vec![7; bytes / ROWS as usize];
            let put = || {
                db.transact(|tx| (0..ROWS).try_for_each(|key| tx.put(&table, &key, &value[..])))
                    .unwrap();
            };
            put();
            let start = live();
            let peak = CountingAllocator::peak_of(put);
            let (more, peak) = (live() - start, peak - start);
            assert!(more <= 6 * MIB, "{spec}, {bytes}: {more} bytes more");
            // The written bytes, in a buffer that grew to twice their length; the record; and the
            // new rows next to the old ones.
            let most = 4 * bytes as isize + 8 * MIB;
            assert!(peak <= most, "{spec}, {bytes}: {peak} bytes at the peak");
        }
    }
}

/// The bytes for each of many tables without rows.
fn bytes_of_an_empty_table(index: IndexKind) -> isize {
    const TABLES: isize = 200;
    let dir = tempfile::tempdir().unwrap();
    let db = Database::builder()
        .spec("TT(NLR)+NOLOG".parse().unwrap())
        .index(index)
        .disk(Arc::new(NullDisk::new()))
        .open(dir.path().join("data"))
        .unwrap();
    let create = |from: isize| {
        for table in from..from + TABLES {
            // Every other table has keys of any length.
            match table % 2 {
                0 => drop(db.table::<u64, u64>(&format!("table {table}")).unwrap()),
                _ => drop(db.table::<str, u64>(&format!("table {table}")).unwrap()),
            }
        }
    };
    create(0);
    let start = live();
    create(TABLES);
    (live() - start) / TABLES
}

#[test]
fn an_empty_table_costs_about_four_kib() {
    let _alone = alone();
    let beside = 64;
    for (index, bytes_max) in [
        ("art", 4 * KIB),
        ("hash", 4 * KIB + beside),
        ("art+hash", 8 * KIB),
    ] {
        let bytes = bytes_of_an_empty_table(index.parse().unwrap());
        assert!(bytes <= bytes_max, "{index}: {bytes} bytes");
    }
}

#[test]
fn deleted_keys_leave_nothing_behind_when_it_is_opened_again() {
    let _alone = alone();
    const KEYS: u64 = 20_000;
    for spec in [
        "TT(EPOCH)+PWAL(16)",
        "SILO(NLR)+PWAL(16)",
        "S2PL(NLR)+PWAL(16)+ARIES",
    ] {
        for order in [ReplayOrder::HighestStamp, ReplayOrder::Merge] {
            for index in ["art", "hash"] {
                let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
                let open = || {
                    Database::builder()
                        .spec(spec.parse().unwrap())
                        .index(index.parse::<IndexKind>().unwrap())
                        .replay_order(order)
                        .disk(Arc::clone(&disk))
                        .open("/db")
                        .unwrap()
                };
                let case = format!("{spec} {order:?} {index}");
                let db = open();
                let names = db.table::<u64, u64>("numbers").unwrap();
                let texts = db.table::<str, str>("texts").unwrap();
                let text = |key: u64| format!("{key:060}");
                let in_batches =
                    |change: &dyn Fn(&mut namiki::Transaction, u64) -> Result<(), Error>| {
                        for first in (0..KEYS).step_by(500) {
                            db.transact(|tx| {
                                (first..first + 500).try_for_each(|key| change(tx, key))
                            })
                            .unwrap();
                        }
                    };
                in_batches(&|tx, key| {
                    tx.put(&names, &key, &key)?;
                    tx.put(&texts, &text(key), &text(key))
                });
                in_batches(&|tx, key| {
                    tx.delete(&names, &key)?;
                    tx.delete(&texts, &text(key)).map(drop)
                });
                // Some rows stay, and one reappears.
                db.transact(|tx| {
                    tx.put(&names, &7, &70)?;
                    tx.put(&texts, &text(9), "ninety")
                })
                .unwrap();
                db.close().unwrap();
                drop((names, texts, db));

                let db = open();
                let names = db.table::<u64, u64>("numbers").unwrap();
                let texts = db.table::<str, str>("texts").unwrap();
                for bytes in [names.memory_bytes(), texts.memory_bytes()] {
                    // A hash table of one key has 16 KiB of stripes.
                    let bytes_max = if index == "hash" { 24 << 10 } else { 8 << 10 };
                    assert!(bytes <= bytes_max, "{case}: {bytes} bytes in a table");
                }
                // New writes are above all deletions, in either replay order.
                let check = |db: &Database, expected: &[(u64, Option<u64>)]| {
                    let names = db.table::<u64, u64>("numbers").unwrap();
                    for (key, value) in expected {
                        let found = db.transact(|tx| tx.get(&names, key)).unwrap();
                        assert_eq!(found, *value, "{case}: {key}");
                    }
                    let texts = db.table::<str, str>("texts").unwrap();
                    let found = db.transact(|tx| tx.get(&texts, &text(9))).unwrap();
                    assert_eq!(found.as_deref(), Some("ninety"), "{case}");
                };
                check(&db, &[(7, Some(70)), (8, None), (KEYS - 1, None)]);
                db.transact(|tx| tx.insert(&names, &8, &80)).unwrap();
                db.transact(|tx| tx.delete(&names, &7).map(drop)).unwrap();
                db.close().unwrap();
                drop((names, texts, db));
                check(&open(), &[(7, None), (8, Some(80)), (KEYS - 1, None)]);
            }
        }
    }
}
