//! One process at a time has a database open. The lock file may be removed, the process may fork, and
//! another program may have written the manifest all the same: nothing acknowledged is lost to that.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::Future;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Wake};
use std::time::Duration;

use namiki::{Database, Error, Generation, OpenError, Prepare, ProtocolSpec};
use namiki_log::{Log, LogConfig, Placement};
use namiki_platform::disk::sim::Loss;
use namiki_platform::disk::{Disk, SimDisk};
use namiki_tests::forked::in_forked_child;
use namiki_tests::numbers::{builder, keys, numbers, put};

/// Whether another process finds the directory in use.
fn is_in_use_for_another_process(dir: &Path) -> bool {
    in_forked_child(|| matches!(Database::open(dir), Err(OpenError::InUse { .. })))
}

/// All files below a directory and what they hold.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            found.insert(path, bytes);
        }
    }
    found
}

/// A database on the operating system's disk, with a log that is written only for waiting commits.
fn open(dir: &Path, spec: &str) -> Database {
    Database::builder()
        .spec(spec.parse().unwrap())
        .streams(2.try_into().unwrap())
        .prepare(Prepare::Inline)
        .group_wait_max(Duration::MAX)
        .buffer_bytes(16 << 10)
        .segment_bytes(64 << 10)
        .open(dir)
        .unwrap()
}

#[test]
fn removing_the_lock_file_lets_no_second_process_in() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    put(&db, 1).unwrap();
    std::fs::remove_file(dir.path().join("LOCK")).unwrap();
    assert!(is_in_use_for_another_process(dir.path()));
    put(&db, 2).unwrap();
    drop(db);
    let db = Database::open(dir.path()).unwrap();
    assert_eq!(keys(&db), [1, 2]);
}

#[test]
fn a_forked_child_drops_its_copy_and_changes_nothing() {
    for spec in ProtocolSpec::all_durable() {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path(), &spec.to_string());
        put(&db, 1).unwrap();
        let mut session = db.session().unwrap();
        let table = numbers(&db);
        let waiting = session.transact_async(|tx| tx.put(&table, &2, &2)).unwrap();
        let mut begun = db.begin().unwrap();
        begun.put(&table, &3, &3).unwrap();
        let before = contents(dir.path());
        // The child drops copies of what this process goes on with.
        let mine = Cell::new(Some((db, session, begun)));
        let dropped = in_forked_child(|| {
            drop(mine.take());
            true
        });
        assert!(dropped, "{spec}");
        let (db, session, begun) = mine.take().unwrap();
        assert!(contents(dir.path()) == before, "{spec}");
        assert!(is_in_use_for_another_process(dir.path()), "{spec}");
        begun.commit().unwrap();
        session.flush().unwrap();
        db.wait(&waiting.1).unwrap();
        put(&db, 4).unwrap();
        drop(session);
        db.close().unwrap();
        assert!(!is_in_use_for_another_process(dir.path()), "{spec}");
        let db = open(dir.path(), &spec.to_string());
        assert_eq!(keys(&db), [1, 2, 3, 4], "{spec}");
    }
}

/// The threads of the log are not there in the child, and a write may be under way.
#[test]
fn a_forked_child_does_not_wait_for_threads_or_writes() {
    for round in 0..8 {
        let dir = tempfile::tempdir().unwrap();
        let builder = Database::builder().async_flush_min_commits(NonZeroU32::MIN);
        let spec = "TT(NLR)+PWAL(4)".parse().unwrap();
        let db = builder.spec(spec).open(dir.path()).unwrap();
        let table = numbers(&db);
        let mut session = db.session().unwrap();
        for key in 0..=round * 4 {
            let _ = session
                .transact_async(|tx| tx.put(&table, &key, &key))
                .unwrap();
        }
        let mine = Cell::new(Some((db, session)));
        assert!(in_forked_child(|| {
            drop(mine.take());
            true
        }));
        let (db, session) = mine.take().unwrap();
        drop(session);
        drop(db);
        let db = Database::open(dir.path()).unwrap();
        assert_eq!(keys(&db), (0..=round * 4).collect::<Vec<_>>());
    }
}

#[test]
fn a_forked_child_is_refused_whatever_it_asks_for() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path(), "TT(NLR)+PWAL(1)");
    put(&db, 1).unwrap();
    let table = numbers(&db);
    let mut session = db.session().unwrap();
    let begun = db.begin().unwrap();
    let before = contents(dir.path());
    let begun = Cell::new(Some(begun));
    assert!(in_forked_child(|| {
        let is_refused = |result: Result<(), Error>| matches!(result, Err(Error::Forked));
        let mut inherited = begun.take().unwrap();
        inherited.put(&table, &2, &2).unwrap();
        is_refused(inherited.commit().map(drop))
            && is_refused(db.transact(|tx| tx.put(&table, &3, &3)))
            && is_refused(session.transact(|tx| tx.put(&table, &4, &4)))
            && is_refused(db.table::<u64, u64>("new").map(drop))
            && is_refused(db.session().map(drop))
            && is_refused(db.close())
    }));
    assert!(contents(dir.path()) == before);
    put(&db, 5).unwrap();
    assert_eq!(keys(&db), [1, 5]);
}

/// The thread that the log's drop joins is not there in the child.
#[test]
fn a_log_that_a_forked_child_drops_goes_on() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let config = LogConfig {
        group_wait_max: Duration::from_secs(3600),
        buffer_bytes: 16 << 10,
        placement: Placement::Segments {
            segment_bytes: 64 << 10,
        },
        ..LogConfig::new(1, Generation(1))
    };
    let log = Log::<()>::create(Arc::clone(&disk), Path::new("/db/wal"), config).unwrap();
    let log = Cell::new(Some(log));
    assert!(in_forked_child(|| {
        drop(log.take());
        true
    }));
    log.take().unwrap().close().unwrap();
}

struct WaitingTask;

impl Wake for WaitingTask {
    fn wake(self: Arc<Self>) {}
}

/// A task that waits is in a list of the log, which a thread of the parent may have had locked.
#[test]
fn a_future_that_a_forked_child_drops_leaves_no_list() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::builder()
        .spec("TT(NLR)+PWAL(16)".parse().unwrap())
        .group_wait_max(Duration::from_secs(3600))
        .open(dir.path())
        .unwrap();
    let table = numbers(&db);
    let mut session = db.session().unwrap();
    let ((), ticket) = session.transact_async(|tx| tx.put(&table, &1, &1)).unwrap();
    let task = Arc::new(WaitingTask);
    let waker = Arc::clone(&task).into();
    let mut future = Box::pin(db.acknowledged(ticket));
    let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    let entered = Arc::strong_count(&task);
    assert!(entered > 2);
    let future = Cell::new(Some(future));
    assert!(in_forked_child(|| {
        drop(future.take());
        Arc::strong_count(&task) == entered
    }));
    drop(future.take());
    assert!(Arc::strong_count(&task) < entered);
}

#[test]
fn a_forked_child_keeps_no_simulated_disk_locked_or_free() {
    let disk = SimDisk::new();
    let db = Cell::new(Some(builder("TT(NLR)+PWAL(1)", &disk).open("/db").unwrap()));
    assert!(in_forked_child(|| {
        drop(db.take());
        matches!(
            builder("TT(NLR)+PWAL(1)", &disk).open("/db"),
            Err(OpenError::InUse { .. })
        )
    }));
    put(&db.take().unwrap(), 1).unwrap();
}

/// As on a file system that does not lock.
#[test]
fn a_manifest_of_another_writer_is_not_replaced() {
    let disk = SimDisk::new();
    let db = builder("TT(NLR)+PWAL(1)", &disk).open("/db").unwrap();
    put(&db, 1).unwrap();
    let elsewhere = disk.crash_image(disk.events(), Loss::All);
    drop(builder("TT(NLR)+PWAL(1)", &elsewhere).open("/db").unwrap());
    let path = Path::new("/db/MANIFEST");
    let written = elsewhere.read(path).unwrap();
    disk.replace(path, &written).unwrap();

    let error = db.table::<u64, u64>("new").unwrap_err();
    assert!(
        matches!(&error, Error::AnotherWriter { path: named } if named == path),
        "{error:?}"
    );
    let error = db.close().unwrap_err();
    assert!(matches!(error, Error::AnotherWriter { .. }), "{error:?}");
    assert_eq!(disk.read(path).unwrap(), written);
}
