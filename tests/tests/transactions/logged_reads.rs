//! Transactions that only read, where they are logged (`+ARIES(reads)`): they fill groups and wait as
//! those that write do, and recovery passes over them.
//!
//! Paper: pwal §6.3.1
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroU16;

use namiki::{Builder, Database, Error, ProtocolSpec, RecordFormat, WorkerId};
use namiki_platform::disk::SimDisk;
use namiki_platform::disk::sim::Loss;
use namiki_tests::small_database::{builder, keys, numbers, put};

/// Groups of two, under both layouts and both releases of locks.
const SPECS: [&str; 4] = [
    "S2PL(ELR)+PWAL(2)+ARIES(reads)",
    "S2PL(ELR)+SWAL(2)+ARIES(reads)",
    "S2PL(NLR)+PWAL(2)+ARIES(reads)",
    "S2PL(NLR)+SWAL(2)+ARIES(reads)",
];
const RECORD_BYTES: u64 = 512;

/// The paper's records.
fn settings(spec: &str, disk: &SimDisk) -> Builder {
    let bytes = NonZeroU16::new(RECORD_BYTES as u16).unwrap();
    builder(spec, disk).record_format(RecordFormat::Fixed(bytes))
}

/// A database with the rows 0 and 1, written by as many transactions.
fn filled(spec: &str) -> (SimDisk, Database) {
    let disk = SimDisk::new();
    let db = settings(spec, &disk).open("/db").unwrap();
    (0..2).for_each(|key| put(&db, key).unwrap());
    (disk, db)
}

fn flush_all(db: &Database) {
    for worker in 0..2 {
        // A single stream has one worker.
        if let Ok(session) = db.session_on(WorkerId(worker)) {
            session.flush().unwrap();
        }
    }
}

fn crashed(spec: &str, disk: &SimDisk) -> Database {
    let disk = disk.crash_image(disk.events(), Loss::All);
    settings(spec, &disk).open("/db").unwrap()
}

#[test]
fn a_read_fills_a_group_and_waits_for_it() {
    for spec in SPECS {
        let (_, db) = filled(spec);
        let table = numbers(&db);
        let mut session = db.session_on(WorkerId(0)).unwrap();
        let before = db.counters();
        let mut read = || {
            let (found, ticket) = session.transact_async(|tx| tx.get(&table, &1)).unwrap();
            assert_eq!(found, Some(1), "{spec}");
            ticket
        };
        let (first, logged) = (read(), db.counters().log);
        assert_eq!(logged.flushes, before.log.flushes, "{spec}");
        let second = read();
        let after = db.counters();
        for ticket in [&first, &second] {
            assert!(session.is_acknowledged(ticket), "{spec}");
        }
        assert_eq!(after.log.flushes, before.log.flushes + 1, "{spec}");
        // BEGIN and END of both, and the header of the frame, which is a multiple of 512 bytes long.
        let bytes = after.log.frame_bytes - before.log.frame_bytes;
        assert_eq!(bytes, 5 * RECORD_BYTES, "{spec}");
        assert_eq!(after.read_only, before.read_only + 2, "{spec}");
        assert_eq!(after.committed, before.committed, "{spec}");

        let (_, waiting) = session.transact_async(|tx| tx.get(&table, &1)).unwrap();
        assert!(!session.is_acknowledged(&waiting), "{spec}");
        session.wait(&waiting).unwrap();
        assert_eq!(db.counters().log.flushes, after.log.flushes + 1, "{spec}");
    }
}

#[test]
fn without_the_option_a_read_logs_nothing() {
    for spec in SPECS {
        let (_, db) = filled(spec.strip_suffix("(reads)").unwrap());
        let before = db.counters();
        let table = numbers(&db);
        db.transact(|tx| tx.get(&table, &1)).unwrap();
        let after = db.counters();
        assert_eq!(after.log, before.log, "{spec}");
        assert_eq!(after.read_only, before.read_only + 1, "{spec}");
    }
}

#[test]
fn recovery_passes_over_logged_reads() {
    for spec in SPECS {
        for images in [false, true] {
            let (disk, db) = filled(spec);
            for _ in 0..3 {
                assert_eq!(keys(&db), [0, 1]);
            }
            if images {
                db.checkpoint().unwrap();
            }
            put(&db, 2).unwrap();
            for _ in 0..3 {
                assert_eq!(keys(&db), [0, 1, 2]);
            }
            let recovered = crashed(spec, &disk);
            let report = recovered.recovery();
            let in_log = report.replayed + report.in_image;
            assert_eq!(report.replayed, if images { 1 } else { 3 }, "{spec}");
            assert!(in_log <= 3, "{spec}: {report:?}");
            assert_eq!((report.undone, report.dropped), (0, 0), "{spec}");
            assert_eq!(keys(&recovered), [0, 1, 2], "{spec}");
        }
    }
}

/// Its BEGIN is on the disk without an END, as that of any transaction that a crash ends.
#[test]
fn a_read_without_its_end_changes_nothing() {
    for spec in SPECS {
        let (disk, db) = filled(spec);
        let table = numbers(&db);
        let mut tx = db.begin().unwrap();
        assert_eq!(tx.get(&table, &0).unwrap(), Some(0));
        flush_all(&db);
        let recovered = crashed(spec, &disk);
        let report = recovered.recovery();
        assert_eq!((report.replayed, report.undone), (2, 1), "{spec}");
        assert_eq!(keys(&recovered), [0, 1], "{spec}");
        tx.rollback();
        let refused = db.transact(|tx| {
            tx.get(&table, &0)?;
            tx.abort::<()>("enough")
        });
        assert!(matches!(refused, Err(Error::Aborted(_))), "{spec}");
        put(&db, 2).unwrap();
        flush_all(&db);
        let recovered = crashed(spec, &disk);
        let report = recovered.recovery();
        assert_eq!((report.replayed, report.undone), (3, 0), "{spec}");
        assert_eq!(keys(&recovered), [0, 1, 2], "{spec}");
    }
}

#[test]
fn changes_that_were_taken_back_leave_a_logged_read() {
    for spec in SPECS {
        let (disk, db) = filled(spec);
        let table = numbers(&db);
        db.transact(|tx| {
            let savepoint = tx.savepoint();
            tx.put(&table, &0, &7)?;
            tx.rollback_to(&savepoint)
        })
        .unwrap();
        let recovered = crashed(spec, &disk);
        let report = recovered.recovery();
        assert_eq!((report.replayed, report.undone), (2, 0), "{spec}");
        assert_eq!(keys(&recovered), [0, 1], "{spec}");
    }
}

#[test]
fn a_database_without_a_log_is_read_as_ever() {
    for spec in SPECS {
        let (disk, db) = filled(spec);
        db.close().unwrap();
        let db = settings(spec, &disk).open_read_only("/db").unwrap();
        assert_eq!(keys(&db), [0, 1], "{spec}");
    }
}

#[test]
fn the_spelling_survives_the_manifest() {
    let (disk, db) = filled(SPECS[0]);
    let spec: ProtocolSpec = SPECS[0].parse().unwrap();
    assert_eq!(db.spec(), spec);
    db.close().unwrap();
    let db = settings("TT(NLR)+PWAL(1)", &disk).open("/db").unwrap();
    assert_eq!(keys(&db), [0, 1]);
}
