//! Late changes after a crash, and what their transactions have read without reading it: that a row is there, and why a
//! program refuses it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use namiki::{Database, Error, ProtocolSpec, WorkerId};
use namiki_platform::disk::SimDisk;
use namiki_platform::disk::sim::Loss;
use namiki_tests::block_on::block_on;
use namiki_tests::row_changes::{OVERFLOW, change, double, get, open, put, value};

const LOSSES: [Loss; 2] = [Loss::All, Loss::None];

fn epoch() -> ProtocolSpec {
    "SILO(EPOCH)+PWAL(16)".parse().unwrap()
}

/// Rows that were changed by programs that do not commute come back as they were after some commit, the last
/// acknowledged one or a later one. Every other commit is acknowledged only with the one after it, of another stream.
#[test]
fn late_changes_come_back_after_a_crash() {
    for spec in ProtocolSpec::tested() {
        let disk = SimDisk::new();
        let (db, table) = open(spec, &disk, Duration::MAX);
        db.transact(|tx| {
            put(tx, &table, b"a", 1)?;
            put(tx, &table, b"b", 0)
        })
        .unwrap();
        let mut states = vec![(None, None), (Some(1), Some(0))];
        disk.mark(1);
        let [mut first, mut second] = [0, 1].map(|worker| db.session_on(WorkerId(worker)).unwrap());
        let (mut a, mut b) = (1, 0);
        for round in 0..4 {
            let changed = first.transact_async(|tx| {
                assert!(tx.change_later(&table, b"a", double, b"")?);
                assert!(change(tx, &table, b"a", round)?);
                change(tx, &table, b"b", -1)
            });
            assert!(changed.unwrap().0);
            (a, b) = (2 * a + round, b - 1);
            states.push((Some(a), Some(b)));
            let changed = second.transact(|tx| {
                assert!(change(tx, &table, b"a", 5)?);
                tx.change_later(&table, b"a", double, b"")
            });
            assert!(changed.unwrap());
            a = 2 * (a + 5);
            states.push((Some(a), Some(b)));
            disk.mark(states.len() as u64 - 1);
        }
        for at in 0..=disk.events() {
            for loss in LOSSES {
                let image = disk.crash_image(at, loss);
                let (db, table) = open(spec, &image, Duration::from_millis(1));
                let found = (value(&db, &table, b"a"), value(&db, &table, b"b"));
                let acknowledged = disk.marks_before(at).last().copied().unwrap_or(0);
                let possible = &states[acknowledged as usize..];
                assert!(possible.contains(&found), "{spec}, event {at}: {found:?}");
            }
        }
    }
}

/// The transaction was told that the row is there; its change was rolled back. It must not outlive the row.
#[test]
fn a_commit_that_relied_on_a_row_needs_it() {
    let disk = SimDisk::new();
    let (db, table) = open(epoch(), &disk, Duration::MAX);
    let mut writer = db.session_on(WorkerId(0)).unwrap();
    let inserted = writer.try_transact_async(|tx| put(tx, &table, b"row", 1));
    let (_, inserted) = inserted.unwrap();
    let mut reader = db.session_on(WorkerId(1)).unwrap();
    let relied = reader.try_transact_async(|tx| {
        let savepoint = tx.savepoint();
        assert!(change(tx, &table, b"row", 1)?);
        tx.rollback_to(&savepoint)?;
        put(tx, &table, b"other", 1)
    });
    let (_, relied) = relied.unwrap();
    reader.flush().unwrap();
    assert!(!db.is_acknowledged(&inserted) && !db.is_acknowledged(&relied));
    for loss in LOSSES {
        let image = disk.crash_image(disk.events(), loss);
        let (db, table) = open(epoch(), &image, Duration::MAX);
        let [row, other] = [b"row", &b"other"[..]].map(|key| value(&db, &table, key));
        assert!(row.is_some() || other.is_none(), "{row:?}, {other:?}");
    }
    db.wait(&relied).unwrap();
    let image = disk.crash_image(disk.events(), Loss::All);
    let (db, table) = open(epoch(), &image, Duration::MAX);
    assert_eq!(value(&db, &table, b"row"), Some(1));
    assert_eq!(value(&db, &table, b"other"), Some(1));
}

/// A crash could lose the version for which a program refuses a row, and with it the reason.
#[test]
fn a_refusal_is_told_once_its_reason_is_durable() {
    type Commit = fn(&Database, &namiki::ByteTable) -> Result<(), Error>;
    let commits: [Commit; 3] = [
        |db, table| {
            let mut session = db.session_on(WorkerId(1))?;
            session.begin()?;
            assert!(session.statement(|tx| change(tx, table, b"row", 1))?);
            block_on(session.commit()).map(drop)
        },
        |db, table| {
            let mut tx = db.begin()?;
            assert!(change(&mut tx, table, b"row", 1)?);
            tx.commit_async().map(drop)
        },
        |db, table| {
            let mut session = db.session_on(WorkerId(1))?;
            let changed = session.try_transact_async(|tx| change(tx, table, b"row", 1));
            changed.map(drop)
        },
    ];
    for commit in commits {
        let disk = SimDisk::new();
        let (db, table) = open(epoch(), &disk, Duration::MAX);
        db.transact(|tx| put(tx, &table, b"row", 1)).unwrap();
        let mut writer = db.session_on(WorkerId(0)).unwrap();
        let written = writer.try_transact_async(|tx| put(tx, &table, b"row", i64::MAX));
        let (_, written) = written.unwrap();
        assert!(!db.is_acknowledged(&written));
        let refused = commit(&db, &table);
        let is_refused = matches!(refused, Err(Error::ChangeRefused { code: OVERFLOW, .. }));
        assert!(is_refused, "{refused:?}");
        assert!(db.is_acknowledged(&written));
        let image = disk.crash_image(disk.events(), Loss::All);
        let (db, table) = open(epoch(), &image, Duration::MAX);
        let found = db.transact(|tx| get(tx, &table, b"row")).unwrap();
        assert_eq!(found, Some(i64::MAX));
    }
}
