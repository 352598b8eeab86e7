//! Commits refused by a full disk wait for a checkpoint, and for nothing that could last for ever.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::{NonZeroU16, NonZeroU64};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use namiki::{BackupOptions, Builder, Database, Error};
use namiki_platform::disk::{Disk, SimDisk};
use namiki_tests::block_on::block_on;
use namiki_tests::full_disk::{Filling, Rows};

const MIB: u64 = 1 << 20;

fn builder(disk: &SimDisk, streams: u16) -> Builder {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Database::builder()
        .streams(NonZeroU16::new(streams).unwrap())
        .buffer_bytes(32 << 10)
        .disk(disk)
}

fn on_disk_of(bytes: u64) -> SimDisk {
    let disk = SimDisk::new();
    disk.set_capacity(Some(bytes));
    disk
}

/// A future waits like `transact`.
#[test]
fn a_task_waits_for_room_as_a_thread_does() {
    let disk = on_disk_of(6 * MIB);
    let db = builder(&disk, 2).open("/db").unwrap();
    let table = db.table::<u64, [u8]>("rows").unwrap();
    for number in 0..1000_u64 {
        let value = [number as u8; 20_000];
        let put = db.transact_in_task(|tx| tx.put(&table, &(number % 50), &value));
        block_on(put).unwrap_or_else(|error| panic!("{number}: {error:?} {}", db.stats()));
    }
    assert!(db.stats().checkpoints.taken > 1);
    // If a checkpoint can make no room, the commit is refused and returns.
    let mut key = 50;
    let refused = loop {
        let put = db.transact_in_task(|tx| tx.put(&table, &key, &[7; 20_000]));
        if let Err(error) = block_on(put) {
            break error;
        }
        key += 1;
    };
    assert!(matches!(refused, Error::DiskFull(_)), "{refused:?}");
}

/// A full disk on which a checkpoint could make room: half of the rows are deleted, and the log has
/// the deletions.
fn full_and_half_deleted(disk: &SimDisk) -> (Database, Filling) {
    let db = builder(disk, 1).open("/db").unwrap();
    let mut filling = Filling::new(Rows::LARGE);
    filling.fill(&db, "first");
    filling.delete_half(&db, "then");
    (db, filling)
}

/// From the backup's callback, and from other threads: the checkpoint that could make room comes
/// after the backup.
#[test]
fn commits_beside_a_backup_are_refused_and_do_not_wait() {
    let disk = on_disk_of(4 * MIB);
    let (db, mut filling) = full_and_half_deleted(&disk);
    let rows = Filling::table(&db);
    let db = Arc::new(db);
    let refused = Arc::new(Mutex::new(Vec::new()));
    let (in_callback, told) = (Arc::clone(&db), Arc::clone(&refused));
    let options = BackupOptions::default()
        .disk(Arc::new(SimDisk::new()))
        .on_progress(Arc::new(move |_| {
            let fill = |db: &Database| {
                (1 << 40..)
                    .find_map(|key| db.transact(|tx| tx.put(&rows, &key, &[7; 20_000])).err())
            };
            let mut told = told.lock().unwrap();
            if told.is_empty() {
                told.extend(fill(&in_callback));
                let other =
                    thread::scope(|scope| scope.spawn(|| fill(&in_callback)).join().unwrap());
                told.extend(other);
            }
        }));
    db.backup_with("/copy", &options).unwrap();
    let refused = refused.lock().unwrap();
    assert_eq!(refused.len(), 2);
    for refused in &*refused {
        assert!(matches!(refused, Error::DiskFull(_)), "{refused:?}");
    }
    let rows = Filling::table(&db);
    let puts = 1 << 40..1 << 40 | 100;
    db.transact(|tx| {
        puts.clone()
            .try_for_each(|key| tx.delete(&rows, &key).map(drop))
    })
    .unwrap();
    filling.put_a_quarter(&db, "after the backup");
    filling.check(&db);
}

/// The backup that follows a database is deferred: it copies one byte a second, and would delay the
/// checkpoint for days.
#[test]
fn a_following_backup_gives_way_to_refused_commits() {
    let disk = on_disk_of(6 * MIB);
    let is_copying = Arc::new(AtomicBool::new(false));
    let copies = Arc::clone(&is_copying);
    let options = BackupOptions::default()
        .disk(Arc::new(SimDisk::new()))
        .bytes_per_second(NonZeroU64::MIN)
        .on_progress(Arc::new(move |_| copies.store(true, Ordering::SeqCst)));
    let mut filling = Filling::new(Rows::LARGE);
    let db = builder(&disk, 1).open("/db").unwrap();
    filling.put_all(&db, 0..60).unwrap();
    db.close().unwrap();
    let db = builder(&disk, 1)
        .backup_to("/copy", Duration::from_millis(100), options)
        .open("/db")
        .unwrap();
    while !is_copying.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    for _ in 0..10 {
        let put = filling.put_all(&db, 0..60);
        put.unwrap_or_else(|error| panic!("{error:?} {}", db.stats()));
    }
    assert!(db.stats().backup.unwrap().failed > 0);
    filling.check(&db);
}
