//! A table of ten numbers, on which transactions meet.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use namiki::{Builder, Database, Table};
use namiki_platform::disk::SimDisk;

pub(crate) type Numbers = Table<u64, u64>;

/// Three streams. No thread flushes a group except those that conflict.
pub(crate) fn builder(spec: &str) -> Builder {
    Database::builder()
        .spec(spec.parse().unwrap())
        .streams(NonZeroU16::new(3).unwrap())
        .group_wait_max(Duration::MAX)
        .disk(Arc::new(SimDisk::new()))
}

/// A database with the keys 0, 10, 20, … below 100, all 0.
pub(crate) fn filled(builder: Builder) -> (Database, Numbers) {
    let db = builder.open("/db").unwrap();
    let table = db.table("numbers").unwrap();
    db.transact(|tx| (0..10).try_for_each(|key| tx.put(&table, &(10 * key), &0)))
        .unwrap();
    (db, table)
}
