//! One process at a time has a database open. Even if the lock file is removed, the process forks,
//! or another program writes the manifest, no acknowledged commit is lost.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::Future;
use std::io::ErrorKind;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use namiki::files::Manifest;
use namiki::{Database, Error, Generation, OpenError, Prepare, ProtocolSpec};
use namiki_log::{Log, LogConfig, Placement};
use namiki_platform::disk::sim::Loss;
use namiki_platform::disk::{Disk, DiskCall, HookedDisk, SimDisk, SyncedDisk};
use namiki_tests::forked_child::{dropped_in_forked_child, in_forked_child};
use namiki_tests::small_database::{builder, keys, numbers, put};

/// The contents of files.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Whether another process finds the directory in use. A forked child of a multi-threaded process
/// must start no threads: the list of parked threads, one for the whole process, is not usable
/// there. So the child must not open a free directory.
fn is_in_use_for_another_process(dir: &Path) -> bool {
    in_forked_child(|| {
        let locked = SyncedDisk::new().lock_dir(dir);
        locked.is_err_and(|error| error.kind() == ErrorKind::ResourceBusy)
            && matches!(Database::open(dir), Err(OpenError::InUse { .. }))
    })
}

/// All files in a directory and its subdirectories, with their contents.
fn contents(dir: &Path) -> Files {
    let mut found = Files::new();
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
        .log_file_bytes(64 << 10)
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
    for spec in ProtocolSpec::tested() {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path(), &spec.to_string());
        put(&db, 1).unwrap();
        let mut session = db.session().unwrap();
        let table = numbers(&db);
        let waiting = session.transact_async(|tx| tx.put(&table, &2, &2)).unwrap();
        let mut begun = db.begin().unwrap();
        begun.put(&table, &3, &3).unwrap();
        let before = contents(dir.path());
        // The child drops copies of values that this process continues to use.
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

/// The threads of the log do not exist in the child, and a write may be under way.
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

/// Neither the threads that would flush nor those to wait for exist in the child.
#[test]
fn a_forked_child_waits_for_no_inherited_ticket() {
    let specs = [
        "TT(NLR)+PWAL(16)",
        "TT(ELR)+PWAL(16)",
        "TT(EPOCH)+PWAL(16)",
        "TT(EPOCH)+PWAL(auto)",
    ];
    for spec in specs {
        let dir = tempfile::tempdir().unwrap();
        let builder = Database::builder().spec(spec.parse().unwrap());
        let hour = Duration::from_secs(3600);
        let db = builder.group_wait_max(hour).open(dir.path()).unwrap();
        let table = numbers(&db);
        let mut session = db.session().unwrap();
        let ((), durable) = session.transact_async(|tx| tx.put(&table, &1, &1)).unwrap();
        session.flush().unwrap();
        db.wait(&durable).unwrap();
        let ((), pending) = session.transact_async(|tx| tx.put(&table, &2, &2)).unwrap();
        let mut reader = db.session().unwrap();
        let (_, read) = reader.transact_async(|tx| tx.get(&table, &1)).unwrap();
        assert!(!db.is_acknowledged(&pending), "{spec}");
        let before = contents(dir.path());
        assert!(
            in_forked_child(|| {
                let is_refused = |result: Result<(), Error>| matches!(result, Err(Error::Forked));
                let awaited = |ticket| {
                    let mut awaited = pin!(db.acknowledged(ticket));
                    awaited
                        .as_mut()
                        .poll(&mut Context::from_waker(Waker::noop()))
                };
                let is_ready = |polled| match polled {
                    Poll::Ready(outcome) => is_refused(outcome),
                    Poll::Pending => false,
                };
                // It may answer from its own state.
                let knows = |result: Result<(), Error>| result.is_ok() || is_refused(result);
                is_ready(awaited(pending))
                    && is_refused(db.wait(&pending))
                    && is_refused(session.wait(&pending))
                    && is_refused(session.flush())
                    && !db.is_acknowledged(&pending)
                    && knows(db.wait(&durable))
                    && knows(db.wait(&read))
                    && awaited(read).is_ready()
            }),
            "{spec}"
        );
        assert!(contents(dir.path()) == before, "{spec}");
        session.flush().unwrap();
        db.wait(&pending).unwrap();
    }
}

/// Runs `check` while another thread creates a table and waits for its disk.
fn while_a_table_is_created(dir: &Path, check: impl FnOnce(&Database)) {
    let ((entered, is_entered), (go_on, may_go_on)) = (channel(), channel());
    let may_go_on = Mutex::new(may_go_on);
    let journal = dir.join("TABLES");
    let disk = HookedDisk::new(Arc::new(SyncedDisk::new()), move |call, path| {
        if matches!(call, DiskCall::Write { .. }) && path == journal {
            entered.send(()).unwrap();
            may_go_on.lock().unwrap().recv().unwrap();
        }
        Ok(())
    });
    let db = Database::builder().disk(Arc::new(disk)).open(dir).unwrap();
    let db = &db;
    // A failed check drops the sender, which ends the creation.
    thread::scope(move |scope| {
        let creation = scope.spawn(|| db.table::<u64, u64>("new").map(drop));
        is_entered.recv().unwrap();
        check(db);
        // For the header, and for the record.
        go_on.send(()).unwrap();
        go_on.send(()).unwrap();
        creation.join().unwrap().unwrap();
    });
}

#[test]
fn a_forked_child_does_not_wait_for_a_table() {
    let dir = tempfile::tempdir().unwrap();
    while_a_table_is_created(dir.path(), |db| {
        assert!(in_forked_child(|| {
            let refused = db.table::<u64, u64>("other").map(drop);
            matches!(refused, Err(Error::Forked)) && db.tables().is_empty()
        }));
    });
}

/// Files that a child keeps open stay locked after its parent is killed.
#[test]
fn a_forked_child_drops_the_directory_whatever_is_under_way() {
    let dir = tempfile::tempdir().unwrap();
    let (itself, file) = (dir.path().to_owned(), dir.path().join("LOCK"));
    let is_closed = || {
        let open = std::fs::read_dir("/proc/self/fd").unwrap();
        let mut open = open.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
        !open.any(|path| path == itself || path == file)
    };
    assert!(is_closed());
    while_a_table_is_created(dir.path(), |db| {
        assert!(!is_closed());
        assert!(dropped_in_forked_child(db, is_closed));
    });
}

/// The thread that the log's drop joins does not exist in the child.
#[test]
fn a_log_that_a_forked_child_drops_goes_on() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let config = LogConfig {
        group_wait_max: Duration::from_secs(3600),
        buffer_bytes: 16 << 10,
        placement: Placement::Files {
            log_file_bytes: 64 << 10,
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

/// A waiting task is in a list of the log, which a thread of the parent may have locked.
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

/// Asserts that a database refuses every operation that would replace this manifest of another
/// writer.
fn assert_kept_from(db: &Database, disk: &SimDisk, written: &[u8]) {
    let path = Path::new("/db/MANIFEST");
    disk.replace(path, written).unwrap();
    let error = db.table::<u64, u64>("new").unwrap_err();
    assert!(
        matches!(&error, Error::AnotherWriter { path: named } if named == path),
        "{error:?}"
    );
    let error = db.close().unwrap_err();
    assert!(matches!(error, Error::AnotherWriter { .. }), "{error:?}");
    assert_eq!(disk.read(path).unwrap(), written);
}

/// As on a file system without locks.
#[test]
fn a_manifest_of_another_writer_is_not_replaced() {
    let spec = "TT(NLR)+PWAL(1)";
    let disk = SimDisk::new();
    let db = builder(spec, &disk).open("/db").unwrap();
    put(&db, 1).unwrap();
    let elsewhere = disk.crash_image(disk.events(), Loss::All);
    drop(builder(spec, &elsewhere).open("/db").unwrap());
    let written = elsewhere.read(Path::new("/db/MANIFEST")).unwrap();
    assert_kept_from(&db, &disk, &written);
}

/// Both writers began the same generation, or have no log.
#[test]
fn writers_that_opened_at_once_are_told_apart() {
    for spec in ["TT(NLR)+PWAL(1)", "TT(NLR)+NOLOG"] {
        let (disk, written) = contested(spec);
        let db = builder(spec, &disk).open("/db").unwrap();
        assert_kept_from(&db, &disk, &written);
    }
}

/// The other opening checks and writes at the same time.
#[test]
fn an_opening_looks_once_more_after_its_write() {
    for spec in ["TT(NLR)+PWAL(1)", "TT(NLR)+NOLOG"] {
        let manifest = Path::new("/db/MANIFEST");
        let written = AtomicBool::new(false);
        let (error, [before, after]) = opened_while_another_does(spec, move |call, path| {
            let is_later = written.load(Ordering::Relaxed);
            if matches!(call, DiskCall::Replace(_)) && path == manifest {
                written.store(true, Ordering::Relaxed);
            }
            is_later && call == DiskCall::Read && path == manifest
        });
        assert_another_writer(&error);
        assert!(before[manifest] == after[manifest], "{spec}");
    }
}

/// A child continues with the random number generator of its parent.
#[test]
fn forked_children_number_their_openings_differently() {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["parent", "one", "other"].map(|name| dir.path().join(name));
    Database::open(&paths[0]).unwrap().close().unwrap();
    for path in &paths[1..] {
        // Without a log it starts no threads.
        let builder = Database::builder().spec("TT(NLR)+NOLOG".parse().unwrap());
        assert!(in_forked_child(|| {
            builder.open(path).is_ok_and(|db| db.close().is_ok())
        }));
    }
    let [_, one, other] = paths.map(|path| {
        let found = Manifest::read(&SyncedDisk::new(), &path).unwrap().unwrap();
        (found.database, found.opening)
    });
    assert_ne!(one.0, other.0);
    assert_ne!(one.1, other.1);
}

/// A database with one row, and the manifest of another program that opens it at the same time, on
/// a file system without locks.
fn contested(spec: &str) -> (SimDisk, Vec<u8>) {
    let disk = SimDisk::new();
    let db = builder(spec, &disk).open("/db").unwrap();
    put(&db, 1).unwrap();
    db.close().unwrap();
    let elsewhere = disk.crash_image(disk.events(), Loss::All);
    std::mem::forget(builder(spec, &elsewhere).open("/db").unwrap());
    let manifest = elsewhere.read(Path::new("/db/MANIFEST")).unwrap();
    (disk, manifest)
}

/// Every file of the simulated database, and every stream's directory.
fn sim_contents(disk: &SimDisk) -> Files {
    let streams = (0..4).map(|stream| PathBuf::from(format!("/db/wal/{stream:04}")));
    let mut found = Files::new();
    for dir in [PathBuf::from("/db")].into_iter().chain(streams) {
        let Ok(files) = disk.list(&dir) else { continue };
        found.insert(dir, Vec::new());
        for file in files {
            let bytes = disk.read(&file.path).unwrap();
            found.insert(file.path, bytes);
        }
    }
    found
}

/// Opens with one stream more than before, while another program replaces the manifest just before
/// the selected call. Returns the error, and all files before the opening and after it.
fn opened_while_another_does(
    spec: &str,
    when: impl Fn(DiskCall, &Path) -> bool + Send + Sync + 'static,
) -> (OpenError, [Files; 2]) {
    let (disk, other) = contested(spec);
    let path = PathBuf::from("/db/MANIFEST");
    let mut before = sim_contents(&disk);
    before.insert(path.clone(), other.clone());
    let (under, once) = (disk.clone(), Mutex::new(Some(other)));
    let hooked = HookedDisk::new(Arc::new(disk.clone()), move |call, at| {
        if when(call, at)
            && let Some(other) = once.lock().unwrap().take()
        {
            under.replace(&path, &other).unwrap();
        }
        Ok(())
    });
    let opened = builder(spec, &disk)
        .streams(3.try_into().unwrap())
        .disk(Arc::new(hooked))
        .open("/db");
    let after = sim_contents(&disk);
    (opened.unwrap_err(), [before, after])
}

fn assert_another_writer(error: &OpenError) {
    assert!(
        matches!(error, OpenError::AnotherWriter { path } if path == Path::new("/db/MANIFEST")),
        "{error:?}"
    );
}

#[test]
fn nothing_is_begun_after_another_writer_in_recovery() {
    let (error, [before, after]) = opened_while_another_does("TT(NLR)+PWAL(1)", |call, path| {
        call == DiskCall::List && path == Path::new("/db/wal/0000")
    });
    assert_another_writer(&error);
    // Not even the directory of the new stream was created.
    assert!(before == after);
}

#[test]
fn another_writer_at_the_start_of_the_log_is_refused() {
    let (error, [mut before, after]) =
        opened_while_another_does("TT(NLR)+PWAL(1)", |call, path| {
            call == DiskCall::CreateDir && path == Path::new("/db/wal/0002")
        });
    assert_another_writer(&error);
    before.insert("/db/wal/0002".into(), Vec::new());
    assert!(before == after);
}
