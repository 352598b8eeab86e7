//! A system that allows few threads, such as a container: the database opens with the available
//! threads, and has all its functions.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::Future;
use std::num::NonZeroU16;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use namiki::{Builder, Database, Isolation, Prepare, ProtocolChoice, ProtocolSpec};
use namiki_platform::threads::with_limit;
use namiki_tests::forked_child::{allow_no_threads, give_to_unprivileged, in_forked_child};
use namiki_tests::small_database::{keys, numbers, put};
use namiki_tests::watchdog::on_threads;

fn many_threads(protocol: impl Into<ProtocolChoice>) -> Builder {
    let four = NonZeroU16::new(4).unwrap();
    Database::builder()
        .protocol(protocol)
        .streams(four)
        .recovery_threads(four)
        .prepare(Prepare::Background)
        .buffer_bytes(16 << 10)
        .log_file_bytes(64 << 10)
}

/// Opens the database, which has keys below `before`, and writes a few more, over several log
/// files.
fn open_and_write(dir: &Path, protocol: impl Into<ProtocolChoice>, before: u64) -> u64 {
    let db = many_threads(protocol).open(dir).unwrap();
    assert_eq!(keys(&db), (0..before).collect::<Vec<_>>());
    let (table, bytes) = (numbers(&db), db.table::<u64, [u8]>("bytes").unwrap());
    let mut session = db.session().unwrap();
    for key in before..before + 20 {
        let large = vec![7; 8 << 10];
        session
            .transact(|tx| {
                tx.put(&bytes, &key, &large)?;
                tx.put(&table, &key, &key)
            })
            .unwrap();
    }
    before + 20
}

#[test]
fn a_database_opens_with_as_many_threads_as_there_are() {
    let auto = ProtocolChoice::Auto(Isolation::Serializable);
    let specs = [
        "TT(EPOCH)+PWAL(auto)",
        "TT(NLR)+PWAL(16)",
        "TT(ELR)+SWAL(16)",
        "S2PL(NLR)+PWAL(16)+ARIES",
    ];
    let specs = specs.map(|spec| ProtocolChoice::from(spec.parse::<ProtocolSpec>().unwrap()));
    for protocol in specs.into_iter().chain([auto]) {
        let dir = tempfile::tempdir().unwrap();
        let mut count = 0;
        for limit in 0..5 {
            count = with_limit(limit, || open_and_write(dir.path(), protocol, count));
        }
        let db = Database::open(dir.path()).unwrap();
        assert_eq!(keys(&db), (0..count).collect::<Vec<_>>());
    }
}

/// No thread of the log flushes for the task, so it must not wait for one.
#[test]
fn a_task_is_acknowledged_where_no_thread_flushes() {
    for spec in ["TT(NLR)+PWAL(16)", "TT(ELR)+PWAL(16)", "TT(EPOCH)+PWAL(16)"] {
        let dir = tempfile::tempdir().unwrap();
        let spec: ProtocolSpec = spec.parse().unwrap();
        let db = with_limit(0, || many_threads(spec).open(dir.path()).unwrap());
        let table = numbers(&db);
        let mut session = db.session().unwrap();
        let ((), ticket) = session.transact_async(|tx| tx.put(&table, &1, &1)).unwrap();
        let mut acknowledged = pin!(db.acknowledged(ticket));
        let mut context = Context::from_waker(Waker::noop());
        match acknowledged.as_mut().poll(&mut context) {
            Poll::Ready(outcome) => outcome.unwrap(),
            Poll::Pending => panic!("{spec}: nothing will wake it"),
        }
    }
}

/// Where no thread of the log flushes, a loop that polls the tickets does.
#[test]
fn polls_flush_what_is_overdue_where_no_thread_flushes() {
    let specs = [
        "TT(NLR)+PWAL(16)",
        "TT(ELR)+PWAL(16)",
        "TT(EPOCH)+PWAL(16)",
        "TT(EPOCH)+PWAL(auto)",
        "TT(ELR)+SWAL(16)",
        "S2PL(NLR)+PWAL(16)+ARIES",
    ];
    for spec in specs {
        let dir = tempfile::tempdir().unwrap();
        let spec: ProtocolSpec = spec.parse().unwrap();
        let db = with_limit(0, || many_threads(spec).open(dir.path()).unwrap());
        let table = numbers(&db);
        on_threads(1, |_| {
            for round in 0..3 {
                let mut writer = db.session().unwrap();
                let ((), written) = writer
                    .transact_async(|tx| tx.put(&table, &1, &round))
                    .unwrap();
                // A session of another stream. Under early release it reads versions that are not
                // durable; under normal release it waits for the locks of a group.
                let mut reader = db.session().unwrap();
                let read = reader.transact_async(|tx| {
                    let read = tx.get(&table, &1)?;
                    tx.put(&table, &2, &round).map(|()| read)
                });
                let (value, depends) = read.unwrap();
                assert_eq!(value, Some(round), "{spec}");
                let ((), only_read) = reader
                    .transact_async(|tx| tx.get(&table, &2).map(drop))
                    .unwrap();
                for ticket in [only_read, depends, written] {
                    while !db.is_acknowledged(&ticket) {
                        std::thread::yield_now();
                    }
                }
            }
        });
        assert!(db.counters().log.flushes > 0);
    }
}

/// The system's own limit, which also applies to threads that this crate does not start.
#[test]
fn a_database_opens_where_the_system_allows_no_thread() {
    let dir = tempfile::tempdir().unwrap();
    let auto = ProtocolChoice::Auto(Isolation::Serializable);
    for protocol in [ProtocolChoice::from(ProtocolSpec::DEFAULT), auto] {
        let dir = dir.path().join(format!("{}", u8::from(protocol == auto)));
        let db = many_threads(protocol).open(&dir).unwrap();
        (0..100).for_each(|key| put(&db, key).unwrap());
        db.close().unwrap();
        drop(db);
        give_to_unprivileged(dir.parent().unwrap()).unwrap();
        assert!(in_forked_child(|| {
            allow_no_threads();
            open_and_write(&dir, protocol, 100) == 120
        }));
        let db = Database::open(&dir).unwrap();
        assert_eq!(keys(&db), (0..120).collect::<Vec<_>>());
    }
}
