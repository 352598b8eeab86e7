//! A database at rest holds the memory of its records and nothing of its past operations.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::thread;

use namiki::{Database, Error};
use namiki_platform::counting_allocator::CountingAllocator;
use namiki_platform::disk::{Disk, SimDisk};

use crate::alone;

/// Lets the collector free all retired memory, and returns the bytes that remain.
fn live_after_collection() -> isize {
    CountingAllocator::live_after(|| crossbeam_epoch::pin().flush())
}

fn open() -> Database {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    // Without a log: the simulated disk keeps everything ever written.
    let spec = "TT(NLR)+NOLOG".parse().unwrap();
    Database::builder()
        .spec(spec)
        .disk(disk)
        .open("/db")
        .unwrap()
}

const KEYS: u64 = 2_000;

/// Inserts, overwrites, conflicts, deletions and reads of values, some boxed and some inline. At
/// the end every key has a value of 500 bytes.
fn work(db: &Database) {
    let table = db.table_with_room::<u64, [u8]>("values", 16).unwrap();
    thread::scope(|scope| {
        let one = |thread: u64| {
            let mut session = db.session().unwrap();
            for n in 0..6 * KEYS {
                let key = (n * (thread * 2 + 1)) % KEYS;
                let long = vec![n as u8; (n % 7 * 100) as usize];
                let ended = session.transact(|tx| {
                    if n % 5 == 0 {
                        tx.delete(&table, &key)?;
                        return Ok(());
                    }
                    if n % 11 == 0 {
                        tx.get(&table, &key)?;
                        tx.put(&table, &((key + 1) % KEYS), &long[..])?;
                        return tx.abort("not this time");
                    }
                    tx.get(&table, &key)?;
                    tx.put(&table, &key, &long[..])
                });
                assert!(
                    matches!(ended, Ok(()) | Err(Error::Aborted(_))),
                    "{ended:?}"
                );
            }
            crossbeam_epoch::pin().flush();
        };
        let threads = [0, 1].map(|thread| scope.spawn(move || one(thread)));
        for thread in threads {
            thread.join().unwrap();
        }
    });
    for key in 0..KEYS {
        db.transact(|tx| tx.put(&table, &key, &[7; 500][..]))
            .unwrap();
    }
}

#[test]
fn old_versions_and_dropped_databases_are_freed() {
    let _alone = alone();
    // Warm-up: memory that the runtime and the collector keep for themselves is allocated before
    // the count begins.
    work(&open());
    let start = live_after_collection();
    let db = open();
    work(&db);
    let first = live_after_collection();
    // The values alone.
    assert!(first - start > (KEYS * 500) as isize);
    for round in 0..4 {
        work(&db);
        let more = live_after_collection() - first;
        // A value has 500 bytes: fewer than 1 in 20 of the overwritten values may remain.
        assert!(
            more < (KEYS * 500 / 20) as isize,
            "round {round}: {more} bytes more"
        );
    }
    drop(db);
    let left = live_after_collection() - start;
    assert!(left.abs() < 50_000, "{left} bytes are left");
}
