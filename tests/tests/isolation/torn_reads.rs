//! A reader never sees half a value, however many writers race with it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use namiki::{Database, Error, ProtocolSpec};
use namiki_platform::disk::{Disk, SimDisk};
use namiki_platform::seeded_random::Random;

/// A self-describing value: its length, and bytes derived from its seed.
fn value(seed: u64, len: usize) -> Vec<u8> {
    let mut value = vec![0; 16 + len];
    Random::seeded(seed).fill(&mut value[16..]);
    value[..8].copy_from_slice(&seed.to_le_bytes());
    value[8..16].copy_from_slice(&(len as u64).to_le_bytes());
    value
}

#[track_caller]
fn assert_whole(read: &[u8]) {
    let (numbers, _) = read.as_chunks::<8>();
    let [seed, len] = [0, 1].map(|at| u64::from_le_bytes(numbers[at]));
    assert!(read == value(seed, len as usize), "a torn value: {read:x?}");
}

/// Some values fit into their record, some do not; keys come and go. A transaction reads whole
/// values even if it cannot commit.
#[test]
fn a_value_is_read_whole_or_not() {
    const KEYS: u64 = 3;
    for (seed, spec) in (1..).zip(ProtocolSpec::tested()) {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let db = Database::builder()
            .spec(spec)
            .disk(disk)
            .open("/db")
            .unwrap();
        let table = db.table_with_room::<u64, [u8]>("values", 64).unwrap();
        db.transact(|tx| (0..KEYS).try_for_each(|key| tx.put(&table, &key, &value(key, 0)[..])))
            .unwrap();
        let writing = AtomicBool::new(true);
        let reads = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut session = db.session().unwrap();
                    while writing.load(Ordering::Relaxed) {
                        let ended = session.try_transact_async(|tx| {
                            for key in 0..KEYS {
                                if let Some(read) = tx.get(&table, &key)? {
                                    assert_whole(&read);
                                    reads.fetch_add(1, Ordering::Relaxed);
                                }
                            }
                            tx.scan(&table, ..)?
                                .iter()
                                .for_each(|(_, read)| assert_whole(read));
                            Ok(())
                        });
                        if !matches!(ended, Ok(_) | Err(Error::Conflict(_))) {
                            ended.unwrap();
                        }
                    }
                });
            }
            let writers: Vec<_> = (0..2_u64)
                .map(|writer| {
                    let (db, table) = (&db, &table);
                    scope.spawn(move || {
                        let mut session = db.session().unwrap();
                        let mut random = Random::stream(seed, writer);
                        for _ in 0..2500 {
                            let key = random.below(KEYS);
                            let len = [0, 8, 40, 48, 49, 300, 5000][random.index(7)];
                            let new = value(random.next_u64(), len);
                            let delete = random.chance(0.1);
                            session
                                .transact_async(|tx| {
                                    if delete {
                                        tx.delete(table, &key).map(drop)
                                    } else {
                                        tx.put(table, &key, &new[..])
                                    }
                                })
                                .unwrap();
                        }
                    })
                })
                .collect();
            let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
            writing.store(false, Ordering::Relaxed);
            assert!(ended.iter().all(Result::is_ok));
        });
        assert!(reads.into_inner() > 0, "{spec}");
        let rows = db.transact(|tx| tx.scan(&table, ..)).unwrap();
        rows.iter().for_each(|(_, read)| assert_whole(read));
    }
}
