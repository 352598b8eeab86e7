//! Small databases of one table, for tests of error reports.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use namiki::{Builder, Database, Error, Prepare, ReplayOrder, Table};
use namiki_platform::disk::sim::Loss;
use namiki_platform::disk::{Disk, SimDisk};

/// A table of numbers.
pub type Numbers = Table<u64, u64>;

/// Every order in which logs are replayed.
pub const BOTH_ORDERS: [ReplayOrder; 2] = [ReplayOrder::HighestStamp, ReplayOrder::Merge];

/// Settings under which each commit makes its own writes, with files that fill quickly.
#[must_use]
pub fn builder(spec: &str, disk: &SimDisk) -> Builder {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Database::builder()
        .spec(spec.parse().unwrap())
        .streams(NonZeroU16::new(2).unwrap())
        .prepare(Prepare::Inline)
        .group_wait_max(Duration::MAX)
        .buffer_bytes(8 << 10)
        .log_file_bytes(16 << 10)
        .disk(disk)
}

/// A database with these settings, in memory.
#[must_use]
pub fn in_memory(spec: &str) -> Database {
    builder(spec, &SimDisk::new()).open("/db").unwrap()
}

/// The table of these databases.
#[must_use]
pub fn numbers(db: &Database) -> Numbers {
    db.table("numbers").unwrap()
}

/// Commits one row.
///
/// # Errors
/// The error of the commit.
pub fn put(db: &Database, key: u64) -> Result<(), Error> {
    let table = numbers(db);
    db.transact(|tx| tx.put(&table, &key, &key))
}

/// The rows of the table.
#[must_use]
pub fn keys(db: &Database) -> Vec<u64> {
    let table = numbers(db);
    let rows = db.transact(|tx| tx.scan(&table, ..)).unwrap();
    rows.into_iter().map(|(key, _)| key).collect()
}

/// The log files of a stream.
#[must_use]
pub fn log_files(disk: &SimDisk, stream: u16) -> Vec<PathBuf> {
    let dir = PathBuf::from(format!("/db/wal/{stream:04}"));
    let files = disk.list(&dir).unwrap();
    files.into_iter().map(|file| file.path).collect()
}

/// A database with `count` commits in one stream, of one frame each; crashed, or closed.
#[must_use]
pub fn written(spec: &str, count: u64, closed: bool) -> SimDisk {
    let disk = SimDisk::new();
    let db = builder(spec, &disk)
        .streams(NonZeroU16::MIN)
        .open("/db")
        .unwrap();
    (0..count).for_each(|key| put(&db, key).unwrap());
    if closed {
        db.close().unwrap();
        return disk;
    }
    disk.crash_image(disk.events(), Loss::All)
}
