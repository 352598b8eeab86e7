//! `Database::load`: each batch is a transaction; a load resumes after the last durable key.

use std::cell::Cell;
use std::error::Error as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use namiki::{
    BatchLoadError, BatchLoadOptions, BatchLoadReport, BatchLoadStop, Database, Error,
    ExistingRows, ProtocolSpec, Table, Value, ValueBytes,
};
use namiki_platform::disk::SimDisk;
use namiki_platform::disk::sim::Loss;
use namiki_tests::small_database::{builder, in_memory};

use crate::round_trips::{Texts, value};

type Rows = Vec<(u64, Vec<u8>)>;

fn rows(count: u64, bytes: usize) -> Rows {
    (0..count).map(|key| (key, value(key, 1, bytes))).collect()
}

fn infallible(rows: Rows) -> impl Iterator<Item = Result<(u64, Vec<u8>), Error>> {
    rows.into_iter().map(Ok)
}

fn found(db: &Database) -> Rows {
    let table: Texts = db.table("texts").unwrap();
    db.transact(|tx| tx.scan(&table, ..)).unwrap()
}

/// Batches of ten rows.
fn tens() -> BatchLoadOptions {
    BatchLoadOptions::default().batch_rows(10)
}

#[test]
fn loaded_rows_are_durable_under_every_protocol() {
    for spec in ProtocolSpec::tested() {
        let disk = SimDisk::new();
        let db = builder(&spec.to_string(), &disk).open("/db").unwrap();
        let table: Texts = db.table("texts").unwrap();
        let rows = rows(205, 300);
        let loaded = db
            .load_with(&table, infallible(rows.clone()), &tens())
            .unwrap();
        let BatchLoadReport { durable, last_key } = loaded;
        assert_eq!(
            (durable.rows, durable.skipped, durable.batches),
            (205, 0, 21),
            "{spec}"
        );
        assert_eq!((durable.bytes, last_key), (205 * 308, Some(204)), "{spec}");
        let image = disk.crash_image(disk.events(), Loss::All);
        assert!(
            found(&builder(&spec.to_string(), &image).open("/db").unwrap()) == rows,
            "{spec}"
        );
    }
}

#[test]
fn batches_are_cut_by_bytes_also_of_long_rows() {
    let disk = SimDisk::new();
    let db = builder("TT(EPOCH)+PWAL(16)", &disk).open("/db").unwrap();
    let table: Texts = db.table("texts").unwrap();
    let lengths = [10, 10, 50_000, 10, 990, 10, 60_000];
    let rows: Rows = (0..)
        .zip(lengths)
        .map(|(key, len)| (key, value(key, 1, len)))
        .collect();
    let options = BatchLoadOptions::default().batch_bytes(1000);
    let loaded = db
        .load_with(&table, infallible(rows.clone()), &options)
        .unwrap();
    assert_eq!(loaded.durable.batches, 3);
    assert!(found(&db) == rows);
}

#[test]
fn a_load_of_no_rows_does_nothing() {
    let db = in_memory("TT(EPOCH)+PWAL(16)");
    let table: Texts = db.table("texts").unwrap();
    let loaded = db.load(&table, Vec::<(u64, Vec<u8>)>::new()).unwrap();
    assert_eq!((loaded.durable.batches, loaded.last_key), (0, None));
}

#[test]
fn rows_that_are_there_are_overwritten_or_kept() {
    for (existing, version, skipped) in
        [(ExistingRows::Overwrite, 1, 0), (ExistingRows::Keep, 7, 4)]
    {
        let db = in_memory("TT(EPOCH)+PWAL(16)");
        let table: Texts = db.table("texts").unwrap();
        for key in [3, 4, 50, 51] {
            db.transact(|tx| tx.put(&table, &key, &value(key, 7, 20)))
                .unwrap();
        }
        let options = tens().existing(existing);
        let loaded = db
            .load_with(&table, infallible(rows(60, 20)), &options)
            .unwrap();
        assert_eq!(
            (loaded.durable.skipped, loaded.durable.rows),
            (skipped, 60 - skipped)
        );
        assert_eq!(loaded.durable.bytes, (60 - skipped) * 28);
        for (key, found) in found(&db) {
            let was_there = [3, 4, 50, 51].contains(&key);
            assert_eq!(found, value(key, if was_there { version } else { 1 }, 20));
        }
    }
}

#[test]
fn a_source_that_fails_is_resumed_behind_the_last_key() {
    let disk = SimDisk::new();
    let db = builder("TT(EPOCH)+PWAL(16)", &disk).open("/db").unwrap();
    let table: Texts = db.table("texts").unwrap();
    let all = rows(100, 30);
    let failing = all.iter().cloned().map(|(key, value)| match key {
        57 => Err("the file ends in the middle of a row"),
        _ => Ok((key, value)),
    });
    let stopped = db.load_with(&table, failing, &tens()).unwrap_err();
    assert!(matches!(&stopped.stop, BatchLoadStop::Source(source)
        if source.to_string().contains("middle of a row")));
    assert_eq!(
        (stopped.report.durable.rows, stopped.report.last_key),
        (57, Some(56))
    );
    assert!(stopped.to_string().contains("57 rows") && stopped.source().is_some());
    let image = disk.crash_image(disk.events(), Loss::All);
    let db = builder("TT(EPOCH)+PWAL(16)", &image).open("/db").unwrap();
    let table: Texts = db.table("texts").unwrap();
    assert!(found(&db) == all[..57]);
    let last = stopped.report.last_key.unwrap();
    let rest = all.iter().filter(|(key, _)| *key > last).cloned();
    assert_eq!(db.load(&table, rest).unwrap().last_key, Some(99));
    assert!(found(&db) == all);
}

#[test]
fn a_full_disk_stops_a_load_behind_a_key() {
    for spec in ProtocolSpec::tested() {
        let disk = SimDisk::new();
        let open = |disk: &SimDisk| builder(&spec.to_string(), disk).open("/db").unwrap();
        let db = open(&disk);
        let table: Texts = db.table("texts").unwrap();
        disk.set_capacity(Some(600 << 10));
        let all = rows(1000, 400);
        let stopped = db
            .load_with(&table, infallible(all.clone()), &tens())
            .unwrap_err();
        let BatchLoadError { stop, report } = stopped;
        assert!(
            matches!(stop, BatchLoadStop::Transaction(Error::DiskFull(_))),
            "{stop:?}"
        );
        let last = report.last_key.unwrap();
        assert_eq!(report.durable.rows, last + 1, "{spec}");
        assert!((10..1000).contains(&last), "{spec}: {last}");
        // The rows reported as durable are durable.
        let image = disk.crash_image(disk.events(), Loss::All);
        let there = found(&open(&image));
        assert!(there[..=last as usize] == all[..=last as usize], "{spec}");
        disk.set_capacity(None);
        let rest = all.iter().filter(|(key, _)| *key > last).cloned();
        db.load(&table, rest).unwrap();
        assert!(found(&db) == all, "{spec}");
    }
}

#[test]
fn progress_is_told_and_an_interrupt_stops_the_load() {
    let db = in_memory("TT(EPOCH)+PWAL(16)");
    let table: Texts = db.table("texts").unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::new(AtomicBool::new(false));
    let into = Arc::clone(&told);
    let options = tens()
        .interrupt(Arc::clone(&asked))
        .on_progress(Arc::new(move |progress| {
            into.lock().unwrap().push(*progress);
        }));
    let pulled = Cell::new(0);
    let endless = (0_u64..).map(|key| {
        pulled.set(key);
        asked.store(key >= 500, Ordering::Relaxed);
        Ok::<_, Error>((key, value(key, 1, 10)))
    });
    let stopped = db.load_with(&table, endless, &options).unwrap_err();
    assert!(matches!(stopped.stop, BatchLoadStop::Interrupted));
    assert!(pulled.get() < 520, "{}", pulled.get());
    assert_eq!(stopped.report.durable.rows, 500);
    let told = told.lock().unwrap();
    // The last report is the final one.
    assert_eq!(told.last(), Some(&stopped.report.durable));
    assert!(told.is_sorted_by_key(|progress| progress.rows));
    assert!(stopped.report.durable.rows_per_second() > 0.0);
}

/// A value that cannot be encoded.
struct Unsayable;

impl Value for Unsayable {
    type Owned = Self;
    const NAME: &'static str = "unsayable";

    fn encode(&self, into: &mut ValueBytes) {
        into.refuse("it has no bytes");
    }
    fn decode(_: &[u8]) -> Option<Self> {
        None
    }
}

#[test]
fn a_row_that_cannot_be_written_stops_the_load() {
    let db = builder("TT(EPOCH)+PWAL(16)", &SimDisk::new())
        .transaction_bytes_max(20_000)
        .open("/db")
        .unwrap();
    let table: Table<u64, Unsayable> = db.table("unsayable").unwrap();
    let stopped = db.load(&table, [(1_u64, Unsayable)]).unwrap_err();
    assert!(matches!(
        stopped.stop,
        BatchLoadStop::Transaction(Error::Unencodable { .. })
    ));
    let table: Texts = db.table("texts").unwrap();
    let mut all = rows(30, 10);
    all[25].1 = value(25, 1, 30_000);
    let stopped = db.load_with(&table, infallible(all), &tens()).unwrap_err();
    assert!(matches!(
        stopped.stop,
        BatchLoadStop::Transaction(Error::TransactionTooLarge { .. })
    ));
    assert_eq!(stopped.report.last_key, Some(24));
    // A table of another database.
    let other = in_memory("TT(EPOCH)+PWAL(16)");
    let stopped = other.load(&table, rows(1, 1)).unwrap_err();
    assert!(matches!(
        stopped.stop,
        BatchLoadStop::Transaction(Error::ForeignTable { .. })
    ));
}
